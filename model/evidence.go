package model

import "fmt"

// evidence says whether refusals that name no limit, or may mean any, come from
// too much at the same time or from too much per minute. A limit of calls at
// the same time refuses at the same number in flight, and never far below what
// it took a moment ago; a limit per minute refuses at any. So every separate
// refusal votes:
//
//	nothing else in flight                           +2  (rate)
//	as much as was taken lately and refused before   −1  (concurrency)
//	as much as was refused before                     0
//	less in flight than 85 % of the most taken lately  +1
type evidence struct {
	// Score is the sum of votes, within ±scoreMost; above 0 it is the rate.
	Score int64
	// At is when the last refusal was looked at, 0 before the first, InFlight
	// what was in flight then.
	At       Nanos
	InFlight int64
	// Taken is how many calls the provider had surely taken by then.
	Taken int64
	// Peak is the most calls that the provider had surely taken at once since
	// PeakAt, Before the same of the time before that.
	Peak, Before int64
	PeakAt       Nanos
}

const (
	// scoreMost bounds the score, so that a change of mind takes few votes.
	scoreMost = 4
	// scorePrior is what is believed at first: a rate of what is called a rate
	// limit, concurrency of what is called overload.
	scorePrior = 2
	// peakSpan is the time over which the most taken at once is known: longer
	// than a climb to a limit, shorter than a provider's day.
	peakSpan = 15 * Second
	// voteEvery is the least time between votes: refusals of one moment are
	// one piece of evidence.
	voteEvery = Second
	// peakLeast is the least number in flight that repeats not just by chance.
	peakLeast = 4
)

// saw takes how many calls the provider surely has now.
func (e *evidence) saw(now Nanos, accepted int64) {
	if now-e.PeakAt >= peakSpan {
		e.Before, e.Peak, e.PeakAt = e.Peak, 0, now
	}
	e.Peak = max(e.Peak, accepted)
}

// vote takes a refusal of a call sent at sent with so many others in flight,
// after so many calls that were surely taken. Where none was taken since the
// last refusal the provider takes nothing at all, which is no limit.
func (e *evidence) vote(now, sent Nanos, inflight, taken int64, called Class) {
	if e.At == 0 {
		e.Score = -scorePrior
		if called == ClassRateLimited {
			e.Score = scorePrior
		}
	} else if now < e.At+voteEvery || sent < e.At {
		return
	}
	last, more := e.InFlight, taken > e.Taken
	e.At, e.InFlight, e.Taken = now, inflight, taken
	peak := max(e.Peak, e.Before)
	again := inflight >= peakLeast && 20*min(inflight, last) >= 19*max(inflight, last)
	switch {
	case inflight == 0 && more:
		e.cast(2)
	case again && 20*min(inflight, last) >= 19*peak:
		e.cast(-1)
	case again: // a limit of calls fell, and was met again
	case 20*(inflight+1) <= 17*peak && more:
		e.cast(1)
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
	return e.Score > 0, fmt.Sprintf("%s, by what was in flight: %+d", sure, e.Score)
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
	c.evidence.vote(f.now, sent, c.inflight, int64(c.counts[ClassOK])+c.accepted, a.Class)
	rate, why := c.evidence.rate()
	if rate {
		return DimNone, why
	}
	if before {
		f.eachPool(c, func(p *pool) { p.acquit(); f.wantPool(p) })
	}
	return DimConcurrency, why
}

// suspect is which of a pool's limits refusals meet that do not say: the one of
// which the same is started between any two of them.
type suspect struct {
	// Tokens is set when it is tokens, not requests.
	Tokens bool
	// Guessed is set while what was learned rests on this.
	Guessed bool
	// At is the last refusal, Started what was started since: requests, tokens.
	At      Nanos
	Started [2]int64
	// Last is the pace between the last two refusals, Spread how much that
	// differs from one to the next, Count how many are known.
	Last   [2]int64
	Spread [2]PPM
	Count  int64
}

// spreadCount is how many paces must be known before one is called steadier.
const spreadCount = 3

// see takes a refusal that begins an episode, and reports whether it changed
// what is suspected.
func (s *suspect) see(now Nanos) bool {
	span, started := now-s.At, s.Started
	first := s.At == 0 || span < learnLeast
	s.At, s.Started = now, [2]int64{}
	if first {
		return false
	}
	for i := range started {
		pace, last := mulDiv(started[i], int64(Minute), int64(span)), s.Last[i]
		off := PPM(mulDiv(max(pace-last, last-pace), int64(One), max(pace, last, 1)))
		switch s.Count {
		case 0:
		case 1:
			s.Spread[i] = off
		default:
			s.Spread[i] += (off - s.Spread[i]) / 4
		}
		s.Last[i] = pace
	}
	s.Count = min(s.Count+1, 1<<20)
	was := s.Tokens
	switch requests, tokens := s.Spread[0], s.Spread[1]; {
	case s.Count < spreadCount:
	case tokens*3/2 < requests:
		s.Tokens = true
	case requests*3/2 < tokens:
		s.Tokens = false
	}
	return s.Tokens != was
}

// guess returns the limit that refusals meet which do not say. One that is told
// goes before one that is not.
func (p *pool) guess() (Dimension, string) {
	r, t := p.requests.Told+p.requests.Hinted, p.tokens.Told+p.tokens.Hinted
	switch s := &p.suspect; {
	case r > 0 && t == 0:
		return DimRequests, "the only one known"
	case t > 0 && r == 0:
		return DimTokens, "the only one known"
	case s.Tokens:
		return DimTokens, "the steadier"
	case s.Count < spreadCount:
		return DimRequests, "a guess"
	}
	return DimRequests, "the steadier"
}

// acquit drops what was learned from refusals that turned out to be of another
// limit.
func (p *pool) acquit() {
	if p.suspect.Guessed {
		p.requests.unlearn()
		p.tokens.unlearn()
		p.suspect, p.hold, p.next = suspect{}, poolHold{}, 0
	}
}
