package model

import (
	"maps"
	"slices"
)

type worldAgent struct {
	name      string
	boot, seq uint64
	settled   uint64
	sent      map[uint64]Nanos
	cutOff    bool
	met       bool
	until     Nanos // of the lease
	leaseSeq  uint64
	leaseTerm uint64
	clean     Nanos // when calls from before a forgotten agent's lease have ended
	channels  map[string]*worldGrant
	ended     []worldEnd
	spool     []*Attempts // reports on their way, oldest first
	inbox     []any       // *Lease, *LimitSet in the order sent
}

type worldGrant struct {
	slots, safe, offset int64
	applied, epoch      uint64
	probe, probed       uint64
	told                uint64 // seq of the newest broadcast
	cuts                []Cut
	calls               []worldCall
	queued              int
}

type worldCall struct {
	ends    Nanos
	started Nanos
	epoch   uint64
	probe   uint64
}

type worldEnd struct {
	channel string
	at      Nanos
	attempt Attempt
}

func (a *worldAgent) share(now Nanos, g *worldGrant) int64 {
	switch {
	case !a.met || a.boot == 0:
		return 0
	case now < a.until:
		return g.slots
	}
	return g.safe
}

func (a *worldAgent) channel(name string) *worldGrant {
	g := a.channels[name]
	if g == nil {
		g = &worldGrant{}
		a.channels[name] = g
	}
	return g
}

// take gives an agent one of its messages, in or out of order, once or again.
func (w *world) take(a *worldAgent, i int, again bool) {
	m := a.inbox[i]
	if !again {
		a.inbox = slices.Delete(a.inbox, i, i+1)
	}
	switch m := m.(type) {
	case *Lease:
		w.takeLease(a, m)
	case *LimitSet:
		w.takeLimits(a, m)
	}
	w.holdAgents()
}

func (w *world) takeLease(a *worldAgent, l *Lease) {
	if l.Boot != a.boot || l.Quotes > a.seq || a.met && (l.Term < a.leaseTerm || l.Term == a.leaseTerm && l.Seq <= a.leaseSeq) {
		return
	}
	w.note("%s takes lease %d, quoting %d", a.name, l.Seq, l.Quotes)
	if a.leaseSeq <= w.forgot[a.name] && l.Seq > w.forgot[a.name] {
		a.clean = w.now + worldTotal
	}
	a.met, a.leaseTerm, a.leaseSeq = true, l.Term, l.Seq
	a.until = a.sent[l.Quotes] + l.Duration - l.Duration/100
	for name, g := range a.channels {
		if !slices.ContainsFunc(l.Channels, func(n ChannelGrant) bool { return n.Channel == name }) {
			g.slots, g.safe, g.offset = 0, 0, 0
		}
	}
	for i := range l.Channels {
		n := &l.Channels[i]
		g := a.channel(n.Channel)
		g.slots, g.safe, g.offset, g.applied = n.Slots, n.Safe, n.Offset, n.Revision
		g.epoch = max(g.epoch, n.Epoch)
		if g.probe = 0; n.Probe != g.probed {
			g.probe = n.Probe
		}
		g.recut()
	}
}

func (w *world) takeLimits(a *worldAgent, s *LimitSet) {
	w.note("%s takes limits %d", a.name, s.Seq)
	for i := range s.Channels {
		l := &s.Channels[i]
		g := a.channel(l.Channel)
		if s.Seq < g.told {
			continue
		}
		g.told, g.cuts, g.epoch = s.Seq, l.Cuts, max(g.epoch, l.Epoch)
		g.recut()
	}
}

func (g *worldGrant) recut() {
	for _, cut := range g.cuts {
		if cut.Revision <= g.applied {
			continue
		}
		slots, offset := cut.Apply(g.slots, g.offset)
		if g.slots > 0 {
			g.safe = mulDiv(g.safe, slots, g.slots)
		}
		g.safe = min(g.safe, slots)
		g.slots, g.offset, g.applied = slots, offset, cut.Revision
	}
}

// work lets an agent end calls and start as many as it may.
func (w *world) work(a *worldAgent) {
	for _, name := range slices.Sorted(maps.Keys(a.channels)) {
		g := a.channels[name]
		for i := 0; i < len(g.calls); {
			call := &g.calls[i]
			runs := w.now < call.ends && w.draw("ends", 0, 3) > 0
			if w.peace {
				runs = w.now < call.started+3*Second
			}
			if runs {
				i++
				continue
			}
			w.end(a, name, call)
			g.calls = slices.Delete(g.calls, i, i+1)
		}
		g.queued = w.draw("queued", 0, 6)
		share := a.share(w.now, g)
		for len(g.calls) < int(share) && w.draw("starts", 0, 4) > 0 {
			g.calls = append(g.calls, worldCall{ends: w.now + worldTotal, started: w.now, epoch: g.epoch})
		}
		if g.probe != 0 && w.now < a.until {
			g.calls = append(g.calls, worldCall{ends: w.now + worldTotal, started: w.now, epoch: g.epoch, probe: g.probe})
			g.probed, g.probe = g.probe, 0
		}
	}
	w.holdAgents()
}

// end draws what became of a call.
func (w *world) end(a *worldAgent, name string, call *worldCall) {
	classes := append(slices.Repeat([]Class{ClassOK}, 2*w.calm), ClassOverloaded, ClassOverloaded, ClassOverloaded, ClassRateLimited, ClassTransport, ClassCanceled, ClassInvalid)
	if w.draw("rare", 0, 20) == 0 {
		classes = append(classes, ClassQuotaExhausted, ClassAuth)
	}
	if w.peace {
		classes = []Class{ClassOK}
	}
	at := Attempt{
		Class: classes[w.dice.IntN(len(classes))], Took: w.now - call.started, Epoch: call.epoch, Probe: call.probe,
		UsageKnown: true, In: 1000, Out: 100, RetryAfter: -1,
	}
	if at.Class.Refused() && w.draw("wait", 0, 3) == 0 {
		at.RetryAfter = Nanos(w.draw("seconds", 1, 5)) * Second
		at.Scope = ScopeGroup
	}
	a.ended = append(a.ended, worldEnd{name, w.now, at})
}

// report builds the next report of an agent.
func (w *world) report(a *worldAgent, leaving bool) {
	a.seq++
	a.sent[a.seq] = w.now
	r := &Attempts{Source: Source{Agent: a.name, Boot: a.boot, Seq: a.seq, Span: 1, Base: a.settled}, Leaving: leaving}
	index := map[string]uint16{}
	for _, name := range slices.Sorted(maps.Keys(a.channels)) {
		g := a.channels[name]
		index[name] = uint16(len(r.Channels))
		r.Channels = append(r.Channels, ChannelReport{Channel: name, InFlight: uint32(len(g.calls)), Queued: uint32(g.queued), Applied: g.applied})
	}
	for _, e := range a.ended {
		at := e.attempt
		at.Channel, at.Age = index[e.channel], w.now-e.at
		r.Attempts = append(r.Attempts, at)
	}
	a.settled += uint64(len(a.ended))
	a.ended = nil
	r.Pools = append(r.Pools, PoolReport{Pool: "group/g", UsedRequests: int64(a.settled), WaitingRequests: int64(a.channel("n").queued), WaitingTokens: 1000 * Tokens(a.channel("n").queued)})
	a.spool = append(a.spool, r)
}

// arrive brings an agent's oldest report into the log, and perhaps again.
func (w *world) arrive(a *worldAgent, again bool) {
	r := a.spool[0]
	a.spool = a.spool[1:]
	w.settled += uint64(len(r.Attempts))
	w.note("report %d of %s: m %+v", r.Seq, r.Agent, r.Channels)
	w.append(r)
	if again {
		w.append(r)
	}
	if got := w.f.Counters().Attempts; got != w.settled {
		w.fail("%d attempts counted, %d reported", got, w.settled)
	}
}

// summarize brings all of an agent's reports into the log as one summary.
func (w *world) summarize(a *worldAgent) {
	first, last := a.spool[0], a.spool[len(a.spool)-1]
	s := &Summary{Source: first.Source, Pools: last.Pools}
	s.Span = last.Seq - first.Seq + 1
	for _, r := range a.spool {
		for i := range r.Attempts {
			at := &r.Attempts[i]
			s.Counts = append(s.Counts, SummaryCount{Channel: r.Channels[at.Channel].Channel, Class: at.Class, Attempts: 1, In: at.In, Out: at.Out})
			w.settled++
		}
	}
	a.spool = nil
	w.note("summary %d+%d of %s", s.Seq, s.Span, s.Agent)
	w.append(s)
}

func (w *world) start(name string) {
	w.boots++
	a := &worldAgent{name: name, boot: w.boots, sent: map[uint64]Nanos{}, channels: map[string]*worldGrant{}}
	a.channel("m").queued, a.channel("n").queued = 3, 3
	w.agents[name] = a
	delete(w.ghosts, name)
	w.note("%s starts, boot %d", name, a.boot)
	w.report(a, false)
}

// crash leaves the agent's calls running.
func (w *world) crash(a *worldAgent) {
	w.note("%s crashes", a.name)
	delete(w.agents, a.name)
	ghost := *a
	ghost.met = false
	w.ghosts[a.name] = &ghost
}
