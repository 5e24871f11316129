package model

import "fmt"

// channel is what the fold knows of one place to send a call.
type channel struct {
	name string
	// cfg points into the fleet's configuration.
	cfg *ChannelConfig

	at      Nanos // how far time-driven state was advanced
	window  window
	latency latency
	weight  weight
	breaker breaker

	// hold is until when nothing may start because the provider said so;
	// pause the same by an operator, who may also set forever.
	hold, pause Nanos
	// forced is an operator's limit in slots, negative for none.
	forced int64
	// mode overrides the configured one where hasMode is set.
	mode    Mode
	hasMode bool

	leases []lease // sorted by agent
	// Sums over the leases of agents that are present.
	inflight, held, accepted, queued int64

	counts                      [NumClasses]uint64
	tokensIn, cached, tokensOut uint64

	// told is the window, weight and mode last broadcast; a change of a few
	// percent is not worth a message.
	toldWindow Milli
	toldWeight PPM
	revision   uint64
	reason     string
	cuts       []Cut

	// wants is set when leases should be divided anew, urgent when that must
	// not wait for PassEvery; passAt is when it was last done.
	wants, urgent bool
	passAt        Nanos
	turn          uint64

	// Not state: scratch of the pass, and whether it is in the fleet's line.
	scratch       []int64
	queuedForPass bool
}

// forever is a deadline that only an operator ends.
const forever = Nanos(maxInt64)

func newChannel(name string, p *Params, now Nanos) *channel {
	return &channel{
		name: name, at: now, forced: -1,
		window: newWindow(p), latency: newLatency(), weight: newWeight(),
	}
}

// advance moves time-driven state to now.
func (c *channel) advance(now Nanos) {
	if span := now - c.at; span > 0 {
		c.window.advance(span)
		c.at = now
	}
}

// top returns the largest window that told and operator's limits allow, 0 for none.
func (c *channel) top() Milli {
	var top int64
	if c.cfg != nil && c.cfg.Limits.Concurrency > 0 {
		top = c.cfg.Limits.Concurrency * 1000
	}
	if c.forced >= 0 && (top == 0 || c.forced*1000 < top) {
		top = max(c.forced*1000, 1)
	}
	return Milli(top)
}

// limit returns the slots the fleet may use now.
func (c *channel) limit(p *Params) int64 {
	if c.forced == 0 {
		return 0
	}
	return int64(c.window.value(p, c.top())) / 1000
}

// waitUntil returns until when nothing may start, 0 for now.
func (c *channel) waitUntil() Nanos {
	until := max(c.hold, c.pause)
	if c.breaker.State == BreakerOpen || c.breaker.State == BreakerMisconfigured {
		until = max(until, c.breaker.Until)
	}
	return until
}

// holdUntil makes the hold end no earlier than until, and reports whether it moved.
func (c *channel) holdUntil(until Nanos) bool {
	if until <= c.hold {
		return false
	}
	c.hold = until
	return true
}

// lease returns the lease of agent, making it when it is new.
func (c *channel) lease(agent string) *lease {
	i, ok := searchLease(c.leases, agent)
	if !ok {
		c.leases = append(c.leases, lease{})
		copy(c.leases[i+1:], c.leases[i:])
		c.leases[i] = lease{agent: agent}
	}
	return &c.leases[i]
}

// drop forgets the lease of agent.
func (c *channel) drop(agent string) {
	i, ok := searchLease(c.leases, agent)
	if !ok {
		return
	}
	c.count(&c.leases[i], -1)
	c.leases = append(c.leases[:i], c.leases[i+1:]...)
	c.wants, c.urgent = true, true
}

// count adds (sign 1) or takes (−1) a lease's report to the sums.
func (c *channel) count(l *lease, sign int64) {
	if l.away {
		return
	}
	c.inflight += sign * l.inflight
	c.held += sign * l.held
	c.accepted += sign * l.accepted
	c.queued += sign * l.queued
}

// report takes how the channel stands at one agent.
func (c *channel) report(p *Params, now Nanos, agent string, r *ChannelReport) {
	l := c.lease(agent)
	before := l.claim(now)
	had := l.demand()
	c.count(l, -1)
	l.away = false
	l.inflight, l.held, l.accepted = int64(r.InFlight), int64(r.Held), int64(r.Accepted)
	l.queued, l.urgent, l.waiting = int64(r.Queued), int64(r.Urgent), r.WaitingTokens
	l.wouldRefuse = r.WouldRefuse
	l.acknowledge(r.Applied)
	c.count(l, 1)
	if l.claim(now) < before || had == 0 && l.demand() > 0 {
		c.urgent = true
	}
	c.wants = true
	c.observe(p)
}

// observe takes from the sums whether the window is in use and drained, and
// from latency whether it may grow.
func (c *channel) observe(p *Params) {
	slots := int64(c.window.value(p, c.top())) / 1000
	c.window.Used = c.inflight >= scale(slots, p.UsedShare) || c.queued > 0 && c.inflight+c.queued >= slots
	c.window.Calm = c.latency.calm(p)
	if !c.window.Drained && c.inflight <= slots {
		c.window.Drained = true
	}
}

// cutLeases scales every lease by the change of the window and remembers the
// cut for the broadcast. No lease message is needed: agents scale by it.
func (c *channel) cutLeases(before, after Milli, rev uint64) {
	cut := Cut{Revision: rev, Num: int64(after), Den: int64(max(before, 1))}
	if len(c.cuts) == MaxCuts {
		c.cuts = append(c.cuts[:0], c.cuts[1:]...)
	}
	c.cuts = append(c.cuts, cut)
	for i := range c.leases {
		l := &c.leases[i]
		if l.away {
			continue // it hears of the cut when it is back, with a new grant
		}
		slots, offset := cut.Apply(l.slots, l.offset)
		l.grant(slots, offset, rev, c.window.Epoch)
	}
	c.wants = true
}

// modeOr returns what binds on the channel in a fleet of the given mode.
func (c *channel) modeOr(fleet Mode) Mode {
	switch {
	case c.hasMode:
		return c.mode
	case c.cfg != nil && c.cfg.HasMode:
		return c.cfg.Mode
	}
	return fleet
}

// reopen begins the ramp after a breaker: the window climbs from its floor by
// slow start, so that a channel that just came back is not run over.
func (c *channel) reopen(p *Params, now Nanos) string {
	c.breaker.close()
	c.window.settle(p.WindowFloor, now)
	c.window.Slow, c.window.ByLatency = true, false
	c.latency.Samples = 0
	return fmt.Sprintf("a probe succeeded; ramp from %d", p.WindowFloor/1000)
}
