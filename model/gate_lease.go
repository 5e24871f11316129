package model

// gateLeastSpan and gateMostSpan bound the lease duration by which idle agents
// time their reports, against absurd messages.
const (
	gateLeastSpan = Second
	gateMostSpan  = 5 * Minute
)

// SetLease takes a lease. It holds for its duration less 1 %, counted from
// before the report that it quotes was built: whatever the messages took, it
// ends here before it ends at the controller. The gate does not keep l.
func (g *Gate) SetLease(now Nanos, l *Lease) {
	now = g.tick(now)
	if l.Agent != g.cfg.Agent || l.Boot != g.cfg.Boot || l.Quotes > g.out.seq {
		g.number.ignored++
		return
	}
	if !g.fresh(l.Term) {
		return
	}
	if g.met && (l.Term < g.leaseTerm || l.Term == g.leaseTerm && l.Seq <= g.leaseSeq) {
		g.number.stale++
		return
	}
	for _, c := range g.channels {
		c.before, c.listed = c.share(now, g.lost, g.met), false
	}
	sent, wasLost, hadMet := g.out.quoted(l.Quotes), g.lost, g.met
	g.leaseTerm, g.leaseSeq, g.met = l.Term, l.Seq, true
	g.span = min(max(l.Duration, gateLeastSpan), gateMostSpan)
	g.leaseUntil = gateLater(sent.built, l.Duration-l.Duration/100)
	g.lost = now >= g.leaseUntil
	g.setGrants(now, l)
	g.setPools(now, l)
	switch {
	case g.lost && (!wasLost || !hadMet):
		g.lose(now)
	case !g.lost && wasLost && hadMet:
		g.comeBack(now)
	}
	if !g.lost {
		for _, c := range g.channels {
			c.local.alone, c.local.good, c.local.bad = -1, 0, 0
		}
	}
	g.covered(now, sent.settled, l.Seq)
	g.dirty = true
}

// setGrants takes a lease's channels. One that it does not name has none.
func (g *Gate) setGrants(now Nanos, l *Lease) {
	for i := range l.Channels {
		if c := g.heard(l.Channels[i].Channel); c != nil {
			c.listed = true
			g.setGrant(now, c, l, &l.Channels[i])
		}
	}
	for _, c := range g.channels {
		if !c.listed {
			c.grant.slots, c.grant.safe, c.grant.offset, c.grant.probe = 0, 0, 0, 0
		}
	}
}

func (g *Gate) setGrant(now Nanos, c *gateChannel, l *Lease, n *ChannelGrant) {
	e := &c.grant
	before, applied := e.slots, e.applied
	e.revision, e.applied = n.Revision, n.Revision
	e.slots = min(max(n.Slots, 0), gateMaxSlots)
	e.safe = min(max(n.Safe, 0), e.slots)
	e.offset = min(max(n.Offset, 0), gateMaxSlots)
	c.told.epoch = max(c.told.epoch, n.Epoch)
	c.recut()
	if e.slots < before {
		g.wantReport(now) // the controller waits for the slots
	} else if e.applied != applied {
		g.changed(now)
	}
	switch {
	case n.Probe == 0 || n.Probe == e.used || g.lost:
		e.probe = 0
	case n.Probe != e.probe:
		e.probe, e.probeUntil = n.Probe, gateLater(now, n.ProbeWithin)
		if l.Seq >= c.told.seq {
			c.told.breaker = BreakerHalfOpen // its broadcast may still be on its way
		}
	}
}

// setPools takes a lease's budgets. One that it does not name has no limit.
func (g *Gate) setPools(now Nanos, l *Lease) {
	for _, p := range g.pools {
		p.seen = false
	}
	for i := range l.Pools {
		n := &l.Pools[i]
		if g.byPool[n.Pool] == nil && len(g.pools) >= gateMaxChannels {
			g.number.ignored++
			continue
		}
		p := g.pool(now, n.Pool)
		if p.granted && (n.Requests < p.requests || n.Tokens < p.tokens) {
			g.wantReport(now) // what is taken back is debited until it is acknowledged
		}
		p.seen, p.granted, p.revision = true, true, n.Revision
		p.requests, p.tokens, p.scarce = n.Requests, n.Tokens, n.Scarce
		p.safeRequests, p.safeTokens = n.SafeRequests, n.SafeTokens
	}
	for _, p := range g.pools {
		if !p.seen {
			p.granted, p.requests, p.tokens = false, -1, -1
		}
	}
}

// lose begins the time alone: the lease has run out.
func (g *Gate) lose(now Nanos) {
	for _, c := range g.channels {
		level := c.share(now, false, g.met)
		c.local.cap, c.local.capMark = -1, 0
		c.local.alone, c.local.good, c.local.bad = -1, 0, 0
		if most := c.lost(g.met); level < most {
			c.local.alone = max(level, min(most, 1))
		}
		c.grant.probe = 0
	}
	for _, p := range g.pools {
		p.lose(now)
	}
	g.lost, g.dirty = true, true
}

// comeBack begins the way from a share used alone to a grant: it doubles every
// gateDouble, so that many agents that come back do not arrive at once.
func (g *Gate) comeBack(now Nanos) {
	for _, c := range g.channels {
		c.local.cap, c.local.capMark = -1, 0
		if c.before < c.grant.slots {
			c.local.cap, c.local.capAt = max(c.before, 1), now
		}
	}
	g.out.full = true
	g.wantReport(now)
}

// gateSpoken is how long the gate waits for the broadcast that follows a lease
// which has folded what closed a channel.
const gateSpoken = 2 * Second

// covered notes that the controller has folded that many settled attempts: it
// knows of the refusals among them, and its word replaces the gate's own.
func (g *Gate) covered(now Nanos, settled, seq uint64) {
	for _, c := range g.channels {
		l := &c.local
		if l.capMark > 0 && settled >= l.capMark {
			g.uncap(c)
		}
		if l.closed == 0 || settled < l.closedMark || l.closedSeq > 0 {
			continue
		}
		if l.closedSeq = seq; c.told.known && c.told.seq >= seq {
			l.closed, l.closedSeq = 0, 0
			continue
		}
		l.closedUntil = min(l.closedUntil, gateLater(now, gateSpoken))
	}
}
