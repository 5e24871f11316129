package world

import (
	"weir/model"
	"weir/sim/draw"
)

// bus carries reports to the log and outputs to the agents, with delay, jitter
// and loss. Reports are acknowledged and sent again until they are stored, so
// loss only delays them; outputs are lost for good, as on a plain subscription.
type bus struct {
	w        *world
	messages pages[message]
	spare    []*model.Attempts
	limits   []*model.LimitSet // to be used again, as spare
	leases   []*model.Lease
	sent     uint64
	cut      []bool // by agent: partitioned
}

// message is one payload on its way; fan counts the deliveries to come.
type message struct {
	fan    int
	fact   model.Fact
	agent  int
	boot   uint64
	limits *model.LimitSet
	lease  *model.Lease
}

// resend is how long an unacknowledged report waits before it is sent again.
const resend = int64(1e9)

// again takes one of those whose memory is used again, or makes one.
func again[T any](spare *[]*T) *T {
	n := len(*spare)
	if n == 0 {
		return new(T)
	}
	one := (*spare)[n-1]
	*spare = (*spare)[:n-1]
	return one
}

// report returns an empty report.
func (b *bus) report() *model.Attempts { return again(&b.spare) }

func (b *bus) add(m message) uint64 {
	i := b.messages.take()
	*b.messages.at(i) = m
	return uint64(i)
}

func (b *bus) done(i uint32) {
	m := b.messages.at(i)
	if m.fan > 1 {
		m.fan--
		return
	}
	b.keep(m)
	*m = message{}
	b.messages.put(i)
}

// keep takes what a message told, to use its memory again.
func (b *bus) keep(m *message) {
	if m.limits != nil {
		b.limits = append(b.limits, m.limits)
	}
	if m.lease != nil {
		b.leases = append(b.leases, m.lease)
	}
}

// limitSet returns a broadcast to be filled, lease a lease.
func (b *bus) limitSet() *model.LimitSet { return again(&b.limits) }
func (b *bus) lease() *model.Lease       { return again(&b.leases) }

// delay is one message's time on the way. Within a process it takes none.
func (b *bus) delay() int64 {
	b.sent++
	if b.w.policy.alone {
		return 0
	}
	l := &b.w.inc.Fleet.Bus
	if l.Jitter == 0 {
		return int64(l.Delay)
	}
	return int64(l.Delay) + b.w.seed.Below(int64(l.Jitter)+1, draw.BusDelay, 0, b.sent)
}

func (b *bus) lost() bool {
	loss := b.w.inc.Fleet.Bus.Loss
	return loss > 0 && !b.w.policy.alone && b.w.seed.Below(1_000_000, draw.BusLoss, 0, b.sent) < loss
}

// publish sends a report to the log.
func (b *bus) publish(a *agent, f model.Fact) {
	i := b.add(message{fan: 1, fact: f, agent: a.index, boot: a.boot})
	at := b.w.now + b.delay()
	for b.lost() {
		at += resend
		b.sent++
	}
	b.w.at(at, onLog, i, 0)
}

// receive is a report that reached the log.
func (b *bus) receive(i uint32) {
	m := *b.messages.at(i)
	if b.cut[m.agent] {
		// Cut off: it is sent again until it gets through.
		b.w.at(b.w.now+resend, onLog, uint64(i), 0)
		return
	}
	b.done(i)
	b.w.happened(onAck, uint64(m.agent), m.boot)
	b.w.agents[m.agent].acked(m.boot, b.w.now+b.delay())
	b.w.fold(m.agent).append(m.fact)
}

// broadcast sends limits to every agent, or to one alone.
func (b *bus) broadcast(l *model.LimitSet, to *agent) {
	i := b.add(message{limits: l})
	m := b.messages.at(uint32(i))
	for k, a := range b.w.agents {
		if a.up && a.weir != nil && (to == nil || to == a) && !b.cut[k] && !b.lost() {
			m.fan++
			b.w.at(b.w.now+b.delay(), onInbox, i, uint64(k))
		}
	}
	if m.fan == 0 {
		b.done(uint32(i))
	}
}

// unicast sends a lease to its agent.
func (b *bus) unicast(l *model.Lease, agent int) {
	d := b.delay()
	if b.cut[agent] || b.lost() {
		b.leases = append(b.leases, l)
		return
	}
	b.w.at(b.w.now+d, onInbox, b.add(message{fan: 1, lease: l}), uint64(agent))
}

func (b *bus) deliver(i uint32, agent int) {
	a := b.w.agents[agent]
	if !a.up || a.weir == nil || b.cut[agent] {
		b.done(i)
		return
	}
	switch m := b.messages.at(i); {
	case m.limits != nil:
		a.weir.gate.SetLimits(b.w.nanos(), m.limits)
	case m.lease != nil:
		a.weir.gate.SetLease(b.w.nanos(), m.lease)
	}
	b.done(i)
	a.weir.settle()
}
