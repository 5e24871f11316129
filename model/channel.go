package model

import (
	"fmt"
	"slices"
)

// channel is what the fold knows of one place to send a call.
type channel struct {
	name string
	// cfg points into the fleet's configuration.
	cfg *ChannelConfig

	at Nanos // how far time-driven state was advanced
	// fresh is until when the newest report says how the channel is used:
	// agents report at least every third of a lease.
	fresh    Nanos
	window   window
	latency  latency
	weight   weight
	breaker  breaker
	flow     flow
	evidence evidence
	// paced is set while calls wait for a budget: then a queue does not show
	// that the window is in use.
	paced bool

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

	// sought is the slots that agents held and waited for times the time they
	// did, in nanoseconds, up to their newest reports; it wraps around. past is
	// what it and counts were.
	sought uint64
	past   []pastSum

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
	// answer is how long it takes until an agent that gets or loses a slot
	// acknowledges it, a mean over answerGain.
	answer Nanos

	// cutFrom is the window before the first cut of the record being folded,
	// 0 for none: the leases are scaled once, when the record is done.
	cutFrom Milli

	// What follows is not state. claimed and granted are sums over the leases
	// of agents that are present, of claims and slots, obeyed of what surely
	// reached the agents; gone counts the others.
	claimed, granted, obeyed, gone int64
	// pools are what it draws on, as of the fleet's poolRound poolsFrom-1.
	pools     []*pool
	poolsFrom uint64
	// days are what its calls count in.
	days []*day
	// Scratch of the pass, and whether it is in the fleet's line.
	mark          dirtyMark
	rows          []passRow // of all leases, or empty
	touched       []int     // leases whose row is old
	moved         []int
	demands       []int64
	line          []slotRank
	kept          []keptRange
	calm          passCalm
	queuedForPass bool
}

// forever is a deadline that only an operator ends.
const forever = Nanos(maxInt64)

func newChannel(name string, p *Params, now Nanos) *channel {
	return &channel{
		name: name, at: now, forced: -1,
		window: newWindow(p), latency: newLatency(now), weight: newWeight(),
	}
}

// advance moves time-driven state to now.
func (c *channel) advance(now Nanos) {
	if now > c.at {
		c.window, c.at = c.windowAt(now), now
	}
}

// used returns how much of the time up to now the window was in use as the
// newest reports say: silence proves nothing, and neither does a closed channel.
func (c *channel) used(now Nanos) Nanos {
	if c.breaker.State != BreakerClosed {
		return 0
	}
	return min(now, c.fresh) - c.at
}

// windowAt returns the window as it is at now.
func (c *channel) windowAt(now Nanos) window {
	w := c.window
	if span := c.used(now); span > 0 {
		w.advance(span)
	}
	return w
}

// top returns the largest window that told and operator's limits allow, 0 for none.
func (c *channel) top() Milli {
	var top int64
	if c.cfg != nil && c.cfg.Limits.Concurrency > 0 {
		top = mulDiv(c.cfg.Limits.Concurrency, 1000, 1)
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
	slots := int64(c.window.value(p, c.top())) / 1000
	if left, bound := c.dayRoom(); bound {
		slots = min(slots, left)
	}
	return slots
}

// onLoss returns what an agent may use when its lease ran out.
func (c *channel) onLoss() OnLoss {
	if c.cfg == nil {
		return OnLossSafe
	}
	return c.cfg.OnLoss
}

// waitUntil returns until when nothing may start, 0 for now.
func (c *channel) waitUntil() Nanos {
	until := max(c.hold, c.pause)
	if c.breaker.State == BreakerOpen || c.breaker.State == BreakerMisconfigured {
		until = max(until, c.breaker.Until)
	}
	return until
}

// holdUntil makes the hold end no earlier than until, and reports whether it
// moved by more than least: many agents are told to wait at almost the same
// time, and each would move it by a little.
func (c *channel) holdUntil(until, least Nanos) bool {
	if until <= c.hold+least {
		return false
	}
	c.hold = until
	return true
}

// lease returns the place of agent's lease, making it when it is new. near is
// where it may be.
func (c *channel) lease(agent string, near *int) int {
	i, ok := nearLease(c.leases, agent, near)
	if !ok {
		c.leases = slices.Insert(c.leases, i, lease{agent: agent})
		c.touchAll()
	}
	return i
}

// drop forgets the lease of agent.
func (c *channel) drop(agent string) {
	if i, ok := searchLease(c.leases, agent); ok {
		c.count(&c.leases[i], -1)
		c.leases = slices.Delete(c.leases, i, i+1)
		c.touchAll()
		c.wants, c.urgent = true, true
	}
}

// count adds (sign 1) or takes (−1) a lease's report to the sums.
func (c *channel) count(l *lease, sign int64) {
	if l.away {
		c.gone += sign
		return
	}
	c.claimed += sign * l.claim(c.at)
	c.granted += sign * l.slots
	c.obeyed += sign * l.least
	c.inflight += sign * l.inflight
	c.held += sign * l.held
	c.accepted += sign * l.accepted
	c.queued += sign * l.queued
}

// derive sets what follows from the leases.
func (c *channel) derive() {
	c.claimed, c.granted, c.obeyed, c.gone = 0, 0, 0, 0
	for i := range c.leases {
		l := &c.leases[i]
		if l.derive(); l.away {
			c.gone++
			continue
		}
		c.claimed += l.claim(c.at)
		c.granted += l.slots
		c.obeyed += l.least
	}
}

// report takes how the channel stands at the agent m. seq is the newest record:
// nobody can obey what is newer. behind is set when the agent does not obey what
// it was granted or what was cut long enough ago to have reached it.
func (c *channel) report(p *Params, now Nanos, m *member, seq uint64, r *ChannelReport) (behind bool) {
	i := c.lease(m.agent, &m.near)
	c.touch(i)
	l := &c.leases[i]
	before := l.claim(now)
	had := l.demand()
	c.sought += l.soughtUntil(now)
	c.count(l, -1)
	l.inflight, l.held, l.queued = int64(r.InFlight), int64(r.Held), int64(r.Queued)
	l.accepted, l.urgent = min(int64(r.Accepted), l.inflight), min(int64(r.Urgent), l.queued)
	l.waiting, l.wouldRefuse = r.WaitingTokens, r.WouldRefuse
	if r.Applied <= seq {
		c.acknowledge(now, l, r.Applied)
	}
	c.count(l, 1)
	c.tried(now, l)
	c.fresh = max(c.fresh, now+p.LeaseDuration/3)
	c.notePace(now)
	if l.claim(now) < before || had == 0 && l.demand() > 0 {
		c.urgent = true
	}
	c.wants = true
	c.observe(p)
	return r.Applied < l.rev && now >= c.window.CutAt+tellAgain
}

// answerGain is the inverse weight of the newest in answer.
const answerGain = 16

// acknowledge takes the revision that an agent obeys.
func (c *channel) acknowledge(now Nanos, l *lease, rev uint64) {
	open := len(l.marks)
	l.acknowledge(rev)
	if took := now - l.since; len(l.marks) < open && rev >= l.rev && took <= turnMost/turnAnswers {
		if c.answer == 0 {
			c.answer = took
		}
		c.answer += (took - c.answer) / answerGain
	}
}

// usedFar is the share of a window below which refusals tell of a limit that is less,
// whoever has not heard of the last cut yet.
const usedFar PPM = 875_000

// heard reports whether every agent present that may use the channel has
// acknowledged the last cut: until then refusals tell of the window before it.
// Agents report at least every third of a lease; who has not spoken of it by
// then does not keep the others waiting.
func (c *channel) heard(p *Params) bool {
	rev := c.cutRevision()
	if c.at >= c.window.CutAt+p.LeaseDuration/3 {
		return true
	}
	for i := range c.leases {
		l := &c.leases[i]
		if !l.away && len(l.marks) > 0 && l.marks[0].rev < rev && l.claim(c.at) > 0 {
			return false
		}
	}
	return true
}

// observe takes from the sums whether the window is in use and drained, and
// from latency whether it may grow.
func (c *channel) observe(p *Params) {
	slots := int64(c.window.value(p, c.top())) / 1000
	used := max(scale(slots, p.UsedShare), 1)
	if c.answer >= slowStep {
		// Slots on their way to an agent for long cannot be used.
		used = min(used, max(scale(c.obeyed, p.UsedShare), 1))
	}
	// Slots that are held prove nothing by themselves.
	c.window.Used = c.inflight+c.held >= used && 2*c.inflight >= slots
	if c.paced {
		// The queue waits for a budget and not for the window, which need not
		// be more than what slots lie idle here while there are none there.
		c.window.Used = 2*c.inflight >= slots
	}
	c.window.Calm = c.latency.calm(p, c.at)
	c.window.took(p, c.at, c.accepted, c.inflight, c.latency.Took)
	c.window.hold(p, c.top())
	c.window.approach(p, c.top(), &c.latency)
	if w := &c.window; !w.Drained && !w.Drain && c.inflight <= slots && (c.heard(p) || scale(slots, usedFar) >= c.inflight) {
		c.window.Drained = true
	}
}

// cutLeases scales every lease by the change of the window over the record rev
// and remembers the cut for the broadcast. No lease message is needed: agents
// scale by it. Who is away hears of it when it is back, with a new grant.
func (c *channel) cutLeases(p *Params, now Nanos, rev uint64) {
	before := c.cutFrom
	after := min(c.window.value(p, c.top()), before)
	c.cutFrom = 0
	if after == before {
		return
	}
	if len(c.cuts) == MaxCuts {
		c.cuts = append(c.cuts[:0], c.cuts[1:]...)
	}
	if c.window.Drain {
		after = 0
	}
	c.cuts = append(c.cuts, Cut{Revision: rev, Num: int64(after), Den: int64(before)})
	c.touchAll()
	for i := range c.leases {
		if l := &c.leases[i]; !l.away {
			c.count(l, -1)
			l.cut(c.cuts)
			c.count(l, 1)
		}
	}
	// A grant of this record would share the cut's revision, and its
	// acknowledgement could mean either.
	c.wants, c.urgent, c.passAt = true, false, now
}

// cutRevision returns the record of the newest cut, 0 before the first.
func (c *channel) cutRevision() uint64 {
	if n := len(c.cuts); n > 0 {
		return c.cuts[n-1].Revision
	}
	return 0
}

// secure makes the safe part of every lease what parameters and configuration
// say now, and calls tell for the agents to tell.
func (c *channel) secure(p *Params, rev uint64, tell func(agent string)) {
	c.touchAll()
	for i := range c.leases {
		l := &c.leases[i]
		if safe := safeOf(l.slots, l.offset, p, c.onLoss()); !l.away && safe != l.safe {
			c.count(l, -1)
			l.grant(l.slots, safe, l.offset, rev)
			c.count(l, 1)
			tell(l.agent)
		}
	}
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
	c.latency.settle(now)
	return fmt.Sprintf("the window ramps up from %d", p.WindowFloor/1000)
}

func (c *coder) channel(ch *channel) {
	num(c, &ch.at)
	num(c, &ch.fresh)
	c.window(&ch.window)
	c.latency(&ch.latency)
	c.weight(&ch.weight)
	c.breaker(&ch.breaker)
	c.flow(&ch.flow)
	c.flag(&ch.paced)
	c.evidence(&ch.evidence)
	num(c, &ch.hold)
	num(c, &ch.pause)
	num(c, &ch.forced)
	num(c, &ch.mode)
	c.flag(&ch.hasMode)
	list(c, &ch.leases, (*coder).lease)
	for _, n := range []*int64{&ch.inflight, &ch.held, &ch.accepted, &ch.queued} {
		num(c, n)
	}
	for i := range ch.counts {
		num(c, &ch.counts[i])
	}
	num(c, &ch.tokensIn)
	num(c, &ch.cached)
	num(c, &ch.tokensOut)
	num(c, &ch.toldWindow)
	num(c, &ch.toldWeight)
	num(c, &ch.revision)
	c.str(&ch.reason)
	list(c, &ch.cuts, func(c *coder, cut *Cut) {
		num(c, &cut.Revision)
		num(c, &cut.Num)
		num(c, &cut.Den)
	})
	c.flag(&ch.wants)
	c.flag(&ch.urgent)
	num(c, &ch.passAt)
	num(c, &ch.turn)
	num(c, &ch.answer)
	num(c, &ch.sought)
}
