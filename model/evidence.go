package model

import "fmt"

// evidence says whether refusals that name no limit, or may mean any, come from
// too much at the same time or from too much per minute. What is limited is the
// same at every refusal: a limit of calls at the same time refuses at the same
// number in flight, one per minute when the same was started since the refusal
// before. A window keeps what is in flight nearly the same whatever refuses, and
// a limit that moves takes the pace with it: so it goes by which of the two
// differs less from one refusal to the next. Each votes:
//
//	nothing else in flight                         +2  (rate)
//	what was started per minute is the steadier    +2
//	what is in flight is the steadier              −2  (concurrency)
type evidence struct {
	// Score is the sum of votes, within ±scoreMost; above 0 it is the rate.
	Score int64
	// At is when the last refusal was looked at, 0 before the first.
	At Nanos
	// Taken is how many calls the provider had surely taken by then.
	Taken int64
	// InFlight is what was in flight at the last refusal that measured a pace,
	// Spread how much that differs from one to the next, Count how many are
	// known.
	InFlight int64
	Spread   PPM
	Count    int64
}

const (
	// scoreMost bounds the score, so that a change of mind takes few votes.
	scoreMost = 4
	// scorePrior is what is believed at first: a rate of what is called a rate
	// limit, concurrency of what is called overload.
	scorePrior = 2
	// voteEvery is the least time between votes: refusals of one moment are
	// one piece of evidence.
	voteEvery = Second
	// steadyLeast is the least number in flight that repeats not just by chance.
	steadyLeast = 4
)

// vote takes a refusal of a call sent at sent with so many others in flight,
// after so many calls that were surely taken, and reports whether it is one to
// be compared. Where none was taken since the last refusal the provider takes
// nothing at all, which is no limit.
func (e *evidence) vote(now, sent Nanos, inflight, taken int64, called Class) bool {
	more := taken > e.Taken
	if e.At == 0 {
		e.Score = -scorePrior
		if called == ClassRateLimited {
			e.Score = scorePrior
		}
	} else if now < e.At+voteEvery || sent < e.At {
		return false
	}
	e.At, e.Taken = now, taken
	if inflight == 0 && more {
		e.cast(2)
	}
	return more
}

// compare takes a refusal that measured a pace, with so many others in flight:
// a report is wrong by one.
func (e *evidence) compare(inflight int64, s *suspect) {
	last, most := e.InFlight, max(inflight, e.InFlight)
	if e.InFlight = inflight; most < steadyLeast {
		return
	}
	if e.Count++; e.Count == 1 {
		return
	}
	off := PPM(mulDiv(max(most-min(inflight, last)-1, 0), int64(One), most))
	spread(&e.Spread, off, e.Count-2)
	if e.Count <= spreadCount || s.Count <= spreadCount {
		return
	}
	switch pace := min(s.Spread[0], s.Spread[1]); {
	case steadier(pace, e.Spread):
		e.cast(3)
	case steadier(e.Spread, pace):
		e.cast(-3)
	}
}

// cast adds a vote. Whoever becomes the owner is believed as much as can be:
// while it paces or bounds the calls, refusals look a little like its own.
func (e *evidence) cast(vote int64) {
	before := e.Score > 0
	e.Score = max(min(e.Score+vote, scoreMost), -scoreMost)
	if after := e.Score > 0; after && !before {
		e.Score = scoreMost
	} else if before && !after {
		e.Score = -scoreMost
	}
}

// rate reports whether it is the rate, and how sure that is.
func (e *evidence) rate() (bool, string) {
	sure := "perhaps"
	switch n := max(e.Score, -e.Score); {
	case n >= scoreMost:
		sure = "surely"
	case n >= 2:
		sure = "probably"
	}
	what := "concurrency"
	if e.Score > 0 {
		what = "a rate"
	}
	return e.Score > 0, fmt.Sprintf("%s %s, by what was in flight: %+d", sure, what, e.Score)
}

// attribute says which limit a refusal met, and how that is known. DimNone
// stands for a rate of which it is not known what it counts.
func (f *Fleet) attribute(c *channel, a *Attempt, sent Nanos) (Dimension, string) {
	for i := range a.Hints {
		if h := &a.Hints[i]; h.Remaining == 0 && h.Dimension > DimNone && h.Dimension <= DimCredits {
			return h.Dimension, "said"
		}
	}
	switch {
	case a.Class == ClassOverloaded && a.Status >= 500:
		return DimConcurrency, "said"
	case a.Class == ClassRateLimited && a.RetryAfter > 0:
		return DimNone, "a wait was named"
	}
	before, _ := c.evidence.rate()
	more := c.evidence.vote(f.now, sent, c.inflight, int64(c.counts[ClassOK])+c.accepted, a.Class)
	if p := f.budgetOf(c, a.Scope, DimNone); sent >= p.hold.until {
		f.dirty.pool(p)
		if p.suspect.see(f.now) && more {
			c.evidence.compare(c.inflight, &p.suspect)
		}
	}
	rate, why := c.evidence.rate()
	if rate {
		return DimNone, why
	}
	if before {
		f.eachPool(c, func(p *pool) { p.acquit(); f.wantPool(p) })
	}
	return DimConcurrency, why
}

func (c *coder) evidence(e *evidence) {
	num(c, &e.Score)
	num(c, &e.At)
	num(c, &e.Taken)
	num(c, &e.InFlight)
	num(c, &e.Spread)
	num(c, &e.Count)
}
