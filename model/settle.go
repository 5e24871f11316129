package model

import (
	"fmt"
	"slices"
)

// settle does what time and the record just folded make due: leases that
// ended, breakers to probe, leases to cut and to divide anew.
func (f *Fleet) settle(fx *Effects) {
	f.keepPast()
	f.endDays(fx)
	if f.now >= f.alarm {
		f.deadlines(fx)
	}
	if len(f.pending) > 0 {
		f.passChannels(fx)
	}
	if len(f.waiting) > 0 {
		f.passPools(fx)
	}
}

// grain is how exact a deadline is met: never early, and up to so much late. All
// that fall into one grain are met together, since each time every agent is
// looked at.
const grain = 50 * Millisecond

// due reports whether a deadline is to be met now.
func (f *Fleet) due(at Nanos) bool { return at <= f.now-f.now%grain }

// setAlarm asks for the deadlines to be looked at once at is due.
func (f *Fleet) setAlarm(at Nanos) {
	if at < forever-grain {
		f.alarm = min(f.alarm, (at+grain-1)/grain*grain)
	}
}

// deadlines looks at every deadline and sets the alarm to the next.
func (f *Fleet) deadlines(fx *Effects) {
	f.alarm = forever
	switch {
	case f.noRaise == 0:
	case f.due(f.noRaise):
		f.noRaise = 0
		f.wantAll()
	default:
		f.setAlarm(f.noRaise)
	}
	for i := 0; i < len(f.members); i++ {
		if f.memberDeadline(f.members[i], fx) {
			i-- // it was dropped
		}
	}
	for _, c := range f.channels {
		f.breakerDeadline(c, fx)
	}
	f.guardDeadline(fx)
}

// memberDeadline ends an agent's lease, later forgets it, and at last drops
// its entry. It reports whether it was dropped.
func (f *Fleet) memberDeadline(m *member, fx *Effects) bool {
	forget := m.heard + f.par().ForgetAfter
	switch {
	case m.forgotten:
		drop := forget + keepForgotten
		if f.due(drop) {
			f.dropMember(m)
			return true
		}
		f.setAlarm(drop)
		return false
	case f.due(forget):
		if !m.left {
			f.counters.Forgotten++
			f.decide(fx, Decision{Agent: m.agent, Rule: RuleMember, Reason: fmt.Sprintf("silent for %s; its claims are dropped", said(f.now-m.heard))})
		}
		f.forget(m)
		f.setAlarm(forget + keepForgotten)
		return false
	}
	f.setAlarm(forget)
	switch {
	case m.left || m.until == 0:
	case m.away:
		switch {
		case m.ends == 0:
		case f.due(m.ends):
			m.ends = 0
			f.dirty.member(m)
			f.wantAll()
		default:
			f.setAlarm(m.ends)
		}
	case f.due(m.until):
		f.goneAway(m, fx)
	default:
		f.setAlarm(m.until)
	}
	return false
}

// callEnd is how long after a report what was in flight must have ended.
func (f *Fleet) callEnd() Nanos {
	if t := f.config.Timeouts.Total; t > 0 {
		return t
	}
	return 120 * Second
}

// goneAway ends the leases of an agent that was not heard. It goes on at its
// safe share, and calls that it started under the lease, until the last
// moment of it, go on until they time out.
func (f *Fleet) goneAway(m *member, fx *Effects) {
	m.away, m.ends = true, max(m.until+f.callEnd(), f.now+1)
	f.dirty.member(m)
	f.setAlarm(m.ends)
	for _, c := range f.channels {
		i, ok := searchLease(c.leases, m.agent)
		if !ok {
			continue
		}
		c.advance(f.now)
		l := &c.leases[i]
		c.count(l, -1)
		l.leave(f.seq, m.ends)
		c.count(l, 1)
		c.touch(i)
		c.observe(f.parOf(c))
		c.wants, c.urgent = true, true
		f.want(c)
		if c.breaker.Probe.ID != 0 && c.breaker.Probe.Agent == m.agent {
			f.freeProbe(c)
		}
	}
	for _, p := range f.pools {
		p.away(m.agent, f.now)
		f.wantPool(p)
	}
	f.decide(fx, Decision{Agent: m.agent, Rule: RuleMember, Reason: fmt.Sprintf("not heard for %s; its lease ended and it is at its safe share", said(f.now-m.heard))})
}

func (f *Fleet) breakerDeadline(c *channel, fx *Effects) {
	b := &c.breaker
	switch b.State {
	case BreakerOpen:
		if b.Forced || !f.due(b.Until) {
			f.setAlarm(b.Until)
			return
		}
		b.State = BreakerHalfOpen
		f.decide(fx, Decision{Channel: c.name, Rule: RuleBreakerHalf, Reason: "the wait is over; one probe for the fleet"})
		fx.Now = true
		c.wants, c.urgent = true, true
		f.want(c)
	case BreakerHalfOpen:
		switch held := max(c.hold, c.pause); {
		case b.Probe.ID == 0 && !f.due(held):
			f.setAlarm(held)
		case b.Probe.ID == 0 && held > c.passAt:
			c.wants, c.urgent = true, true // no probe was leased because of the hold
			f.want(c)
		case b.Probe.ID == 0:
		case f.due(b.Probe.Deadline):
			f.failProbe(c, "no answer within "+said(f.parOf(c).ProbeWithin).String(), fx)
		default:
			f.setAlarm(b.Probe.Deadline)
		}
	case BreakerClosed, BreakerMisconfigured:
	}
}

// passChannels scales leases by the cuts that the record made, and divides the
// leases of the channels whose turn it is: never of one just cut.
func (f *Fleet) passChannels(fx *Effects) {
	slices.SortFunc(f.pending, func(a, b *channel) int { return compare(a.name, b.name) })
	keep := f.pending[:0]
	for _, c := range f.pending {
		if c.cutFrom > 0 {
			c.cutLeases(f.parOf(c), f.now, f.seq)
		}
		switch {
		case f.channel(c.name) != c || !c.wants:
			c.queuedForPass = false
		case c.cutRevision() != f.seq && (c.urgent || f.now >= c.passAt+f.parOf(c).PassEvery):
			c.queuedForPass = false
			f.passChannel(c, fx)
		default:
			keep = append(keep, c)
		}
	}
	clear(f.pending[len(keep):])
	f.pending = keep
}

func (f *Fleet) passChannel(c *channel, fx *Effects) {
	c.advance(f.now)
	f.dirty.channel(c)
	switch c.breaker.State {
	case BreakerClosed:
		c.passed(f.parOf(c), f.now)
		c.pass(f.parOf(c), f.now, c.limit(f.parOf(c)), f.seq, f.now < f.noRaise, func(agent string) {
			f.tell(f.member(agent), fx)
		})
		f.drift(c, fx)
	case BreakerHalfOpen:
		c.wants, c.urgent, c.passAt = false, false, f.now
		f.leaseProbe(c, fx)
	case BreakerOpen, BreakerMisconfigured:
		c.wants, c.urgent, c.passAt = false, false, f.now
	}
}

// drift broadcasts a channel whose window or weight moved by more than a tenth.
func (f *Fleet) drift(c *channel, fx *Effects) {
	w, g := c.window.value(f.parOf(c), c.top()), c.weight.value(f.parOf(c), f.now)
	far := func(a, b int64) bool { return max(a-b, b-a) > b/10 }
	if far(int64(w), int64(c.toldWindow)) || far(int64(g), int64(c.toldWeight)) {
		f.announce(c, fx)
	}
}

// leaseProbe gives the one probe to the agent with demand that was served
// least recently, once nothing holds the channel.
func (f *Fleet) leaseProbe(c *channel, fx *Effects) {
	if c.breaker.Probe.ID != 0 {
		return
	}
	if held := max(c.hold, c.pause); f.now < held {
		f.setAlarm(held)
		return
	}
	if f.spent(c) > 0 {
		return
	}
	best := -1
	for i := range c.leases {
		l := &c.leases[i]
		if l.away || l.queued == 0 || best >= 0 && c.leases[best].turn <= l.turn {
			continue
		}
		best = i
	}
	if best < 0 {
		return
	}
	l := &c.leases[best]
	c.turn++
	l.turn = c.turn
	c.touch(best)
	c.breaker.Probe = probe{ID: f.seq, Agent: l.agent, Deadline: f.now + f.parOf(c).ProbeWithin}
	f.setAlarm(c.breaker.Probe.Deadline)
	f.decide(fx, Decision{Channel: c.name, Agent: l.agent, Rule: RuleProbe, Reason: fmt.Sprintf("may send one attempt within %s", said(f.parOf(c).ProbeWithin))})
	f.tell(f.member(l.agent), fx)
}

func (f *Fleet) passPools(fx *Effects) {
	slices.SortFunc(f.waiting, func(a, b *pool) int { return compare(a.name, b.name) })
	keep := f.waiting[:0]
	for _, p := range f.waiting {
		if f.pool(p.name) != p {
			p.queuedForPass = false
			continue
		}
		if f.now < max(f.noRaise, p.next) {
			keep = append(keep, p)
			continue
		}
		f.dirty.pool(p)
		requests, tokens, lacking := p.told.requests, p.told.tokens, p.lacking
		p.pass(f.parPool(p), f.now, f.seq, func(agent string) { f.tell(f.member(agent), fx) })
		if p.lacking != lacking {
			f.pace(p)
		}
		p.told.requests, p.told.tokens = p.requests.limited(), p.tokens.limited()
		if requests != p.told.requests || tokens != p.told.tokens {
			for _, m := range f.members {
				f.tell(m, fx)
			}
		}
		if p.next > 0 {
			p.wants = true
			keep = append(keep, p)
			continue
		}
		p.queuedForPass = false
	}
	clear(f.waiting[len(keep):])
	f.waiting = keep
}

// NextWake returns the instant of log time at which a record is wanted, if
// none comes before: the next deadline, and at the latest a heartbeat after
// now. The leader then appends a tick.
func (f *Fleet) NextWake() Nanos {
	wake := min(f.now+heartbeat, max(f.alarm, f.now))
	if f.dayWake < forever {
		wake = min(wake, f.now+max(f.dayWake-f.clock(), Millisecond))
	}
	for _, c := range f.pending {
		wake = min(wake, max(c.passAt+f.parOf(c).PassEvery, f.now))
	}
	for _, p := range f.waiting {
		if p.next > 0 {
			wake = min(wake, max(p.next, f.now+Millisecond))
		}
	}
	return wake
}
