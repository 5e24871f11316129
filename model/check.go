package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// check returns an error for a state that no log folds to, so that a decoded
// one cannot make the laws panic later.
func (f *Fleet) check() error {
	if err := f.params.Params.Check(); err != nil {
		return err
	}
	if err := f.config.Check(); err != nil {
		return err
	}
	if !slices.EqualFunc(f.channels, f.config.Channels, func(c *channel, cfg ChannelConfig) bool { return c.name == cfg.Name }) {
		return errors.New("channels and configuration differ")
	}
	if err := f.checkWatch(); err != nil {
		return err
	}
	for _, m := range f.members {
		if m.agent == "" || m.next == 0 {
			return fmt.Errorf("agent %q", m.agent)
		}
	}
	if f.wall < 0 || f.wall > maxWall || f.ahead < 0 || f.aheadBy < 0 {
		return errors.New("clock")
	}
	for _, d := range f.days {
		if !d.sound() {
			return fmt.Errorf("day of %q", d.name)
		}
	}
	for _, c := range f.channels {
		if err := f.checkChannel(c); err != nil {
			return fmt.Errorf("channel %q: %w", c.name, err)
		}
	}
	for _, p := range f.pools {
		if err := f.checkPool(p); err != nil {
			return fmt.Errorf("pool %q: %w", p.name, err)
		}
	}
	return nil
}

func (f *Fleet) checkChannel(c *channel) error {
	l, w := &c.latency, &c.weight
	switch {
	case c.window.Base <= 0 || c.window.Grown < 0 || c.window.Times < 0 || c.window.Times > latencyTimes ||
		c.window.SlowAt < 0 || c.window.Stand < 0 || c.window.Stand > standMost:
		return errors.New("window")
	case l.Samples < 0 || l.Drift < 0 || l.Mean < 0 || l.Spread < 0 || l.Recent < 0 || l.Learned < 0 || len(l.Cells) > maxCells || !slices.IsSortedFunc(l.Cells, func(a, b latencyCell) int { return cmp.Compare(a.Key, b.Key) }):
		return errors.New("latency")
	case w.Base < 0 || w.Base > One || w.Forced < -1 || w.Forced > One:
		return errors.New("weight")
	case c.breaker.State > BreakerMisconfigured:
		return errors.New("breaker")
	case c.forced < -1 || c.forced > maxSlots:
		return errors.New("limit")
	case len(c.cuts) > MaxCuts || slices.ContainsFunc(c.cuts, func(k Cut) bool { return k.Den <= 0 || k.Num < 0 || k.Num > k.Den }):
		return errors.New("cuts")
	case slices.ContainsFunc(l.Cells, func(k latencyCell) bool { return k.Base < 0 || k.Count < 0 }):
		return errors.New("latency cells")
	}
	return f.checkLeases(c)
}

func (f *Fleet) checkLeases(c *channel) error {
	var sum channel
	for i := range c.leases {
		l := &c.leases[i]
		m := f.member(l.agent)
		n := len(l.marks)
		switch {
		case i > 0 && c.leases[i-1].agent >= l.agent, m == nil, m != nil && (m.left || m.forgotten):
			return fmt.Errorf("lease of %q", l.agent)
		case l.slots < 0 || l.safe < 0 || l.safe > l.slots || l.offset < 0:
			return fmt.Errorf("grant of %q", l.agent)
		case min(l.inflight, l.held, l.accepted, l.queued, l.urgent) < 0 || max(l.inflight, l.held, l.queued) > int64(^uint32(0)):
			return fmt.Errorf("report of %q", l.agent)
		case n > maxMarks || n > 0 && l.marks[n-1].rev != l.rev || n == 0 && (l.slots > 0 || l.away):
			return fmt.Errorf("marks of %q", l.agent)
		}
		for _, k := range l.marks {
			if k.slots < 0 || k.safe < 0 || k.safe > k.slots || k.offset < unknownOffset {
				return fmt.Errorf("marks of %q", l.agent)
			}
		}
		sum.count(l, 1)
	}
	if sum.inflight != c.inflight || sum.held != c.held || sum.accepted != c.accepted || sum.queued != c.queued {
		return errors.New("sums of leases")
	}
	return nil
}

func (f *Fleet) checkPool(p *pool) error {
	for _, l := range []*limit{&p.requests, &p.tokens} {
		if least := min(l.Told, l.Hinted, l.Learned, int64(l.Grown), int64(l.Busy), int64(l.Since), l.Sum, int64(l.Over), l.Sure, int64(l.Held)); least < 0 || l.Sure > sureMost || max(l.Told, l.Hinted, l.Learned) > maxRate || l.Share < 0 || l.Share > One {
			return errors.New("limit")
		}
		if b := &l.bucket; b.Rate < 0 || b.Rate > maxRate || b.Burst < 0 || b.Burst > b.Rate || b.Rem < 0 || b.Rem >= int64(Minute) || max(b.Level, -b.Level) > maxDebt*maxRate {
			return errors.New("bucket")
		}
	}
	if p.mix.Input < 0 || p.mix.Output < 0 {
		return errors.New("mix")
	}
	if h := &p.hold; h.series < 0 || h.until < 0 || h.tried < 0 {
		return errors.New("hold")
	}
	for i := range p.grants {
		g := &p.grants[i]
		least := min(g.requests, g.tokens, g.usedRequests, g.usedTokens, g.waitingRequests, g.waitingTokens, g.heldRequests, g.heldTokens, g.safeRequests, g.safeTokens)
		if i > 0 && p.grants[i-1].agent >= g.agent || f.member(g.agent) == nil || least < 0 {
			return fmt.Errorf("grant of %q", g.agent)
		}
	}
	return nil
}
