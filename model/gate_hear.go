package model

import (
	"cmp"
	"slices"
)

// SetConfig takes the fleet's configuration of record seq; older ones are
// dropped. The agent's own file comes as seq 0. The gate keeps c, which must
// be normalized and must not change afterwards.
func (g *Gate) SetConfig(now Nanos, seq uint64, c *Config) {
	now = g.tick(now)
	if c == nil || g.configured && (seq < g.configSeq || seq == g.configSeq && seq > 0) {
		g.number.stale++
		return
	}
	g.configured, g.configSeq, g.config = true, seq, c
	for _, ch := range g.channels {
		ch.cfg, ch.pools = nil, nil // attempts in flight keep the list they began with
	}
	for _, p := range g.pools {
		p.seen = false
	}
	for i := range c.Channels {
		g.setChannel(now, &c.Channels[i])
	}
	for i := range c.Groups {
		g.limitPool(now, PoolOfGroup(c.Groups[i].Name), c.Groups[i].Limits)
	}
	for _, p := range g.pools {
		if !p.seen {
			p.limits = Limits{}
		}
	}
	g.setTenants()
	g.setRoutes(now)
	g.forget()
	g.forgetQuotas()
	g.out.full = true
	g.dirty = true
}

func (g *Gate) setChannel(now Nanos, cfg *ChannelConfig) {
	ch := g.channel(cfg.Name)
	ch.cfg = cfg
	ch.pools = append(ch.pools, g.limitPool(now, PoolOfChannel(cfg.Name), cfg.Limits))
	for _, name := range cfg.Groups {
		p := g.pool(now, PoolOfGroup(name))
		if !slices.Contains(ch.pools, p) {
			ch.pools = append(ch.pools, p)
		}
	}
}

// limitPool takes what the provider told of a pool. Before the first lease a
// changed limit begins with a full bucket.
func (g *Gate) limitPool(now Nanos, name string, l Limits) *gatePool {
	p := g.pool(now, name)
	p.seen = true
	requests, tokens := (&mix{}).told(&l)
	l = Limits{RequestsPerMinute: requests, TokensPerMinute: Tokens(tokens)}
	if p.limits != l {
		if p.limits = l; !g.met {
			p.fill(now)
		}
	}
	return p
}

// setRoutes compiles the routes anew and puts every request where it belongs
// now.
func (g *Gate) setRoutes(now Nanos) {
	live := g.swept[:0]
	for _, r := range g.requests.all {
		switch r.state {
		case gateQueued:
			g.queue.remove(r)
			live = append(live, r)
		case gateParked, gateRunning:
			live = append(live, r)
		case gateFree, gateAnswered:
		}
	}
	routes := map[string]*gateRoute{}
	g.routes = g.routes[:0]
	for i := range g.config.Routes {
		cfg := &g.config.Routes[i]
		t := g.byRoute[cfg.Name]
		if t == nil {
			t = &gateRoute{name: cfg.Name}
		}
		t.compile(cfg, func(name string) *gateChannel { return g.byChannel[name] })
		routes[cfg.Name] = t
		g.routes = append(g.routes, t)
	}
	g.byRoute, g.lately = routes, nil
	slices.SortFunc(live, func(a, b *gateRequest) int { return cmp.Compare(a.number, b.number) })
	for _, r := range live {
		g.resort(now, r)
	}
	clear(live)
	g.swept = live[:0]
}

// resort puts a request into its route as that is configured now.
func (g *Gate) resort(now Nanos, r *gateRequest) {
	r.tiers = 0
	if g.byRoute[r.route.name] == r.route {
		r.tiers = r.route.fits(r.capability)
	}
	switch r.state {
	case gateRunning:
		return
	case gateQueued:
		g.timers.drop(r)
		r.state = gateFree
		if r.tiers == 0 {
			break
		}
		r.level = 0
		for r.opens(now, r.level) <= now {
			r.level++
		}
		g.enqueue(now, r)
	case gateFree, gateParked, gateAnswered:
	}
	if r.tiers == 0 {
		g.refuse(now, r, gateBlock{cause: causeGone, until: gateNever}, "the route is no longer configured")
	}
}

// channel returns the channel of that name, making it if need be.
func (g *Gate) channel(name string) *gateChannel {
	c := g.byChannel[name]
	if c == nil {
		c = newGateChannel(name)
		g.byChannel[name] = c
		i, _ := slices.BinarySearchFunc(g.channels, name, func(c *gateChannel, n string) int { return compare(c.name, n) })
		g.channels = slices.Insert(g.channels, i, c)
	}
	return c
}

// heard returns the channel a message names, nil when too many are known.
func (g *Gate) heard(name string) *gateChannel {
	if c := g.byChannel[name]; c != nil {
		return c
	}
	if len(g.channels) >= gateMaxChannels {
		g.number.ignored++
		return nil
	}
	return g.channel(name)
}

func (g *Gate) pool(now Nanos, name string) *gatePool {
	p := g.byPool[name]
	if p == nil {
		p = &gatePool{name: name, requests: -1, tokens: -1}
		p.fill(now)
		g.byPool[name] = p
		i, _ := slices.BinarySearchFunc(g.pools, name, func(p *gatePool, n string) int { return compare(p.name, n) })
		g.pools = slices.Insert(g.pools, i, p)
	}
	return p
}

// forget drops channels that are not configured and have nothing going on, and
// pools that are neither configured nor granted.
func (g *Gate) forget() {
	g.pools = slices.DeleteFunc(g.pools, func(p *gatePool) bool {
		gone := !p.seen && !p.granted
		if gone {
			delete(g.byPool, p.name)
		}
		return gone
	})
	g.channels = slices.DeleteFunc(g.channels, func(c *gateChannel) bool {
		gone := c.cfg == nil && c.idle() && !g.out.mentions(c)
		if gone {
			delete(g.byChannel, c.name)
		}
		return gone
	})
}

// SetTerm takes the announcement of a leader: what older ones say is dropped
// from now on.
func (g *Gate) SetTerm(now Nanos, n *TermNotice) {
	g.tick(now)
	g.term = max(g.term, n.Term)
}

// fresh reports whether a message's term is not fenced off.
func (g *Gate) fresh(term uint64) bool {
	if term < g.term {
		g.number.stale++
		return false
	}
	g.term = term
	return true
}

// SetLimits takes a broadcast. The gate does not keep l.
func (g *Gate) SetLimits(now Nanos, l *LimitSet) {
	now = g.tick(now)
	if !g.fresh(l.Term) {
		return
	}
	for i := range l.Channels {
		if c := g.heard(l.Channels[i].Channel); c != nil {
			g.limit(now, c, l, &l.Channels[i])
		}
	}
	for i := range l.Quotas {
		g.quota(now, l, &l.Quotas[i])
	}
	g.dirty = true
}

// limit takes what a broadcast says of one channel.
func (g *Gate) limit(now Nanos, c *gateChannel, set *LimitSet, l *ChannelLimit) {
	t := &c.told
	if t.known && (set.Term < t.term || set.Term == t.term && set.Seq < t.seq) {
		g.number.stale++
		return
	}
	until := now
	if l.Wait > 0 {
		until = gateLater(now, l.Wait)
	}
	if t.known && set.Term == t.term && l.Revision == t.revision {
		// The same word again, later: its wait was counted from hearing it
		// before, which is no later.
		until = min(until, t.wait)
	}
	g.endHold(now, c, set, l, until)
	if l.Epoch > t.epoch && c.local.capMark > 0 {
		g.uncap(c) // the cut is made
	}
	shut := t.shut
	switch {
	case l.Breaker == BreakerClosed:
		shut = 0
	case shut == 0:
		shut = now
	}
	*t = gateTold{
		known: true, shut: shut, term: set.Term, seq: set.Seq, revision: l.Revision,
		breaker: l.Breaker, wait: until, spent: l.Spent, weight: min(max(l.Weight, 0), One), mode: l.Mode,
		epoch: max(t.epoch, l.Epoch), reason: l.Reason, cuts: t.cuts[:0],
	}
	for _, cut := range l.Cuts[max(len(l.Cuts)-MaxCuts, 0):] {
		if cut.Den > 0 && cut.Num >= 0 && cut.Num <= cut.Den {
			t.cuts = append(t.cuts, cut)
		}
	}
	if c.recut() {
		g.wantReport(now) // what was cut is claimed until it is acknowledged
	}
}

// endHold ends the gate's own hold or closing of c where a newer word of the
// controller, which knows of it, says otherwise.
func (g *Gate) endHold(now Nanos, c *gateChannel, set *LimitSet, l *ChannelLimit, until Nanos) {
	h := &c.local
	news := !c.told.known || set.Term > c.told.term || l.Revision > c.told.revision
	switch {
	case l.Wait > 0:
		h.confirmed = now < h.hold && gateLater(until, gateSpoken) >= h.hold
	case l.Wait == 0 && h.confirmed && news:
		h.hold, h.confirmed = 0, false
	}
	if h.closed != 0 && h.closedSeq > 0 && set.Seq >= h.closedSeq {
		h.closed, h.closedSeq = 0, 0
	}
}

// uncap lifts the local bound of a channel's share.
func (g *Gate) uncap(c *gateChannel) {
	c.local.cap, c.local.capMark = -1, 0
	g.dirty = true
}
