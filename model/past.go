package model

import (
	"errors"
	"slices"
)

// pastEvery is how often a channel's sums are kept, pastMost how many: an hour
// of them, which is what a guard compares with.
const (
	pastEvery = 15 * Second
	pastMost  = int(GuardMost/pastEvery) + 2
)

// sums are what a channel did: answers, attempts that brought none, and the
// demand as channel.sought counts it. They wrap around; differences count.
type sums struct{ ok, bad, sought uint64 }

// pastSum is what the sums were at an instant.
type pastSum struct {
	at Nanos
	sums
}

// soughtUntil is an agent's demand from its last report to this one. It counts
// only now, together with what came of it: who falls silent wants nothing that
// is known of.
func (l *lease) soughtUntil(now Nanos) uint64 {
	span := now - l.seen
	if l.seen == 0 || span < 0 {
		span = 0
	}
	l.seen = now
	return uint64(min(l.demand(), maxSlots)) * uint64(span)
}

func (c *channel) sums() sums {
	n := &c.counts
	return sums{
		ok:     n[ClassOK],
		bad:    n[ClassRateLimited] + n[ClassOverloaded] + n[ClassQuotaExhausted] + n[ClassAuth] + n[ClassTransport],
		sought: c.sought,
	}
}

func (s sums) less(o sums) sums { return sums{s.ok - o.ok, s.bad - o.bad, s.sought - o.sought} }
func (s sums) plus(o sums) sums { return sums{s.ok + o.ok, s.bad + o.bad, s.sought + o.sought} }
func (s sums) all() uint64      { return s.ok + s.bad }

// expected returns how many answers the demand of o would have had at the pace
// of s.
func (s sums) expected(o *sums) uint64 {
	if s.sought == 0 {
		return 0
	}
	return mulDivU(s.ok, o.sought, s.sought)
}

// wasted is the share of attempts that brought no answer.
func (s sums) wasted() PPM {
	if s.all() == 0 {
		return 0
	}
	return PPM(mulDivU(s.bad, uint64(One), s.all()))
}

// wasteError is the square of the standard error of wasted, in 1e-12.
func (s sums) wasteError() uint64 {
	p := uint64(s.wasted())
	return p * (uint64(One) - p) / max(s.all(), 1)
}

// keepPast keeps every channel's sums when a new stretch of time has begun.
func (f *Fleet) keepPast() {
	cell := f.now / pastEvery
	if cell == f.cell {
		return
	}
	f.cell = cell
	for _, c := range f.channels {
		c.keepPast(f.now)
		f.dirty.mark("past/" + c.name)
	}
}

func (c *channel) keepPast(now Nanos) {
	s := c.sums()
	if n := len(c.past); n > 0 && c.past[n-1].sums == s {
		return // nothing happened
	}
	c.past = append(c.past, pastSum{now, s})
	old := 0
	for old+1 < len(c.past) && c.past[old+1].at <= now-GuardMost {
		old++
	}
	old = max(old, len(c.past)-pastMost)
	c.past = slices.Delete(c.past, 0, old)
}

// pastAt returns the newest sums that are not younger than at, the oldest if
// all are.
func (c *channel) pastAt(at Nanos) sums {
	if len(c.past) == 0 {
		return sums{}
	}
	i := 0
	for i+1 < len(c.past) && c.past[i+1].at <= at {
		i++
	}
	return c.past[i].sums
}

func (c *coder) past(p *pastSum) {
	num(c, &p.at)
	c.sums(&p.sums)
}

func (c *coder) sums(s *sums) {
	num(c, &s.ok)
	num(c, &s.bad)
	num(c, &s.sought)
}

func (c *coder) guard(g *guard) {
	c.params(&g.set)
	c.str(&g.set.Canary)
	num(c, &g.set.Guard.For)
	num(c, &g.set.Guard.Goodput)
	num(c, &g.set.Guard.Waste)
	num(c, &g.seq)
	c.params(&g.prior.set)
	num(c, &g.prior.seq)
	num(c, &g.next)
	num(c, &g.ends)
	list(c, &g.rows, func(c *coder, r *guardRow) {
		c.str(&r.channel)
		c.sums(&r.before)
		c.sums(&r.from)
	})
	g.hash = g.set.Params.Hash()
}

// checkWatch returns an error for a guard or a past that no log folds to.
func (f *Fleet) checkWatch() error {
	for _, c := range f.channels {
		if len(c.past) > pastMost || !slices.IsSortedFunc(c.past, func(a, b pastSum) int { return int(min(max(a.at-b.at, -1), 1)) }) {
			return errors.New("past of channel " + c.name)
		}
	}
	g := f.guard
	if g == nil {
		return nil
	}
	set := g.set
	if err := errors.Join(set.Params.Check(), g.prior.set.Params.Check(), f.checkGuard(&set)); err != nil {
		return err
	}
	if set.Guard.For == 0 || g.next <= 0 || g.ends < g.set.Guard.For || !slices.IsSortedFunc(g.rows, func(a, b guardRow) int { return compare(a.channel, b.channel) }) {
		return errors.New("guard")
	}
	return nil
}
