package model

import "slices"

// Poll appends what time and news decided for those that wait to out. Call it
// after every other call that may free or tell something (Ask, Done, Leave,
// Set) and at NextWake.
func (g *Gate) Poll(now Nanos, out []Reply) []Reply {
	now = g.tick(now)
	g.reclaim(now)
	g.due(now)
	if g.queue.n > 0 && (g.dirty || now >= g.stir) {
		g.pump(now)
	}
	g.dirty = false
	for i := range g.ready {
		r := g.ready[i].r
		r.unseen = false
		switch r.state {
		case gateFree: // it was left meanwhile
			g.requests.put(r)
			continue
		case gateAnswered:
			g.requests.put(r)
		case gateQueued, gateParked, gateRunning:
		}
		out = append(out, g.ready[i].reply)
	}
	clear(g.ready)
	g.ready = g.ready[:0]
	return out
}

// NextWake returns when Poll should be called if nothing else happens; an
// instant that is not after the gate's last one means now.
func (g *Gate) NextWake() Nanos {
	if len(g.ready) > 0 || g.dirty && g.queue.n > 0 {
		return g.now
	}
	at := min(g.timers.next(), g.guardAt)
	if g.queue.n > 0 {
		at = min(at, g.stir)
		if !g.lost {
			at = min(at, g.leaseUntil)
		}
	}
	return at
}

// due does what the timers of waiting requests ask for.
func (g *Gate) due(now Nanos) {
	for g.timers.next() <= now {
		r := g.timers[0].r
		switch {
		case r.deadline <= now:
			g.tooLate(now, r, "its deadline came while it waited")
		case r.state == gateParked:
			g.parked--
			g.timers.drop(r)
			r.state = gateFree
			g.enqueue(now, r)
			g.dirty = true
		case g.fades(now, r) <= now:
			g.tooLate(now, r, "a call takes longer than the deadline leaves")
		default:
			g.move(now, r)
		}
	}
}

// fades returns when r has too little time left for a good call wherever it may
// ever go, its deadline where the time of a call is not known somewhere.
func (g *Gate) fades(now Nanos, r *gateRequest) Nanos {
	least, level := gateNever, 0
	for i := nextTier(r.tiers, 0); i >= 0; i = nextTier(r.tiers, i+1) {
		for _, choice := range r.route.tiers[i].choices {
			mean, _ := choice.channel.pace.expect(now, r.tokens)
			least = min(least, mean)
		}
		if level++; level > int(r.level) && r.route.patience(r.core) < 0 {
			break
		}
	}
	if least == 0 || least == gateNever {
		return r.deadline
	}
	return r.deadline - least + 1
}

// tooLate refuses a request that waits, for what it waited for.
func (g *Gate) tooLate(now Nanos, r *gateRequest, why string) {
	b := gateBlock{cause: causeLate, until: gateNever}
	if r.state == gateQueued && r.node.lane.block.cause != causeNone {
		b = r.node.lane.block
	}
	g.refuse(now, r, b, why)
}

// move gives a queued request the rank, tiers and channels that its waiting
// has earned it.
func (g *Gate) move(now Nanos, r *gateRequest) {
	g.queue.remove(r)
	for r.rank < uint8(PriorityInteractive) && r.promotion() <= now {
		r.rank++
	}
	for r.opens(now, r.level) <= now {
		r.level++
	}
	if r.avoid != nil && r.avoidUntil <= now {
		r.avoid = nil
	}
	g.queue.push(r)
	g.timers.set(r, g.wakeOf(now, r))
	g.dirty = true
}

// pump starts what can be started, in order, and remembers when time may
// change what cannot.
func (g *Gate) pump(now Nanos) {
	g.dirty, g.stir = false, gateNever
	g.unsave()
	g.order = append(g.order[:0], g.queue.list...)
	for _, l := range g.order {
		l.next, l.tried = l.leads(), false
	}
	slices.SortFunc(g.order, func(a, b *queueLane) int {
		if g.earlier(a, b) {
			return -1
		}
		return 1
	})
	for n := 0; n < len(g.order); {
		lane := g.order[n]
		r := lane.next
		first := r == lane.first()
		done, block := g.place(now, r)
		switch {
		case done && lane.root == nil || !done && lane.tried:
			lane.next = nil
		case done && !lane.tried:
			lane.next = lane.leads()
		case first:
			g.blocked(now, lane, block)
			lane.tried, lane.next = true, g.passer(now, lane)
		case done:
			lane.next = g.passer(now, lane)
		default:
			lane.next = lane.first()
		}
		if lane.next == nil {
			n++
			continue
		}
		g.sink(n)
	}
	clear(g.order)
}

// blocked notes why the first of a lane cannot start.
func (g *Gate) blocked(now Nanos, lane *queueLane, block gateBlock) {
	lane.block = block
	g.stir = min(g.stir, block.until)
	g.save(now, lane.first())
	if block.sure && block.until > lane.swept {
		lane.swept = block.until
		g.sweep(now, lane, block.until)
	}
}

// turn is the request at whose place in the order a lane is tried: who passes
// the first before that was tried goes in its stead.
func (l *queueLane) turn() *gateRequest {
	if l.tried {
		return l.next
	}
	return l.first()
}

// sink moves the lane at n down to where its turn is.
func (g *Gate) sink(n int) {
	for ; n+1 < len(g.order) && g.earlier(g.order[n+1], g.order[n]); n++ {
		g.order[n], g.order[n+1] = g.order[n+1], g.order[n]
	}
}

// sweep looks at the requests of a closed lane that cannot wait until it
// opens: they go elsewhere or are refused now.
func (g *Gate) sweep(now Nanos, lane *queueLane, until Nanos) {
	g.swept = lane.due(until, g.swept[:0])
	for _, r := range g.swept {
		g.place(now, r)
	}
	clear(g.swept)
}

// guard is how long an attempt may be in flight before the gate settles it.
func (g *Gate) guard() Nanos {
	t := g.config.Timeouts.Total
	if t <= 0 {
		t = UsualTotal
	}
	return gateLater(t, gateGrace)
}

// reclaim settles attempts that their shell forgot, so that no slot is lost
// and no probe stays open for ever. What became of them is not known: they
// may have been accepted.
func (g *Gate) reclaim(now Nanos) {
	if now < g.guardAt {
		return
	}
	guard := g.guard()
	g.guardAt = gateNever
	for _, c := range g.channels {
		for c.first != nil && gateLater(c.first.at.started, guard) <= now {
			g.number.leaked++
			g.writeOff(now, c.first, ClassTransport, "never settled")
		}
		if c.first != nil {
			g.guardAt = min(g.guardAt, gateLater(c.first.at.started, guard))
		}
	}
}

// writeOff settles an attempt whose end nobody will tell.
func (g *Gate) writeOff(now Nanos, r *gateRequest, class Class, rule string) {
	o := Outcome{Class: class, RetryAfter: -1, Rule: rule}
	g.settle(now, r, &o, 0)
	if r.unseen {
		r.state = gateFree // its admission was never polled
		return
	}
	g.requests.put(r)
}

// Abandon settles what is in flight as given up, since the process ends before
// it does: so the agent's last report can say that it leaves. It follows Stop.
func (g *Gate) Abandon(now Nanos) {
	now = g.tick(now)
	for _, c := range g.channels {
		for c.first != nil {
			g.writeOff(now, c.first, ClassCanceled, "agent/ended@1")
		}
	}
	g.wantReport(now)
}

// Stop refuses what waits and what comes. The report that carries the last
// attempt then says that the agent leaves.
func (g *Gate) Stop(now Nanos) {
	now = g.tick(now)
	g.stopping = true
	for len(g.timers) > 0 {
		g.refuse(now, g.timers[0].r, gateBlock{cause: causeEnd, until: gateNever}, "the agent is stopping")
	}
	g.wantReport(now)
}
