package model

import "slices"

// LimitSet returns the broadcast of the named channels and days, as Effects has
// them, or of all for nil. Unknown names are left out.
func (f *Fleet) LimitSet(names []string) *LimitSet {
	set := &LimitSet{}
	f.FillLimits(set, names)
	return set
}

// FillLimits makes set what LimitSet returns; its memory is used again.
func (f *Fleet) FillLimits(set *LimitSet, names []string) {
	*set = LimitSet{Term: f.term, Seq: f.seq, Channels: set.Channels[:0], Quotas: set.Quotas[:0]}
	if names == nil {
		for _, c := range f.channels {
			f.addLimit(set, c)
		}
		for _, d := range f.days {
			if d.told() && d.used != [NumDaily]int64{} { // what is not used needs no word
				set.Quotas = append(set.Quotas, f.quota(d))
			}
		}
		return
	}
	for _, name := range names {
		if c := f.channel(name); c != nil {
			f.addLimit(set, c)
		}
		if d := f.day(name); d != nil {
			set.Quotas = append(set.Quotas, f.quota(d))
		}
	}
}

// quota returns what is told of a day.
func (f *Fleet) quota(d *day) Quota {
	stage, n := d.now()
	q := Quota{
		Name: d.name, Stage: stage, Reset: max(d.ends-f.clock(), 1),
		Used: d.used, Soft: d.soft, Hard: d.hard,
	}
	if stage != StageFree {
		q.Reason = d.why(stage, n, f.clock())
	}
	return q
}

// maxWait stands for a wait without an end: a hundred years would do, and
// whoever adds it to a clock must not overflow.
const maxWait = Nanos(1) << 60

// addLimit appends what is told of a channel, in memory that was used before.
func (f *Fleet) addLimit(set *LimitSet, c *channel) {
	n := len(set.Channels)
	set.Channels = slices.Grow(set.Channels, 1)[:n+1]
	set.Channels[n] = f.channelLimit(c, set.Channels[n].Cuts[:0])
}

// channelLimit returns what is told of a channel; cuts is memory for that.
func (f *Fleet) channelLimit(c *channel, cuts []Cut) ChannelLimit {
	w := c.windowAt(f.now)
	wait, spent := max(c.waitUntil()-f.now, 0), f.spent(c)
	return ChannelLimit{
		Channel:  c.name,
		Revision: c.revision,
		Window:   w.value(f.parOf(c), c.top()),
		Epoch:    c.window.Epoch,
		Weight:   c.weight.value(f.parOf(c), f.now),
		Breaker:  c.breaker.State,
		Wait:     min(max(wait, spent), maxWait),
		Spent:    spent > 0,
		Mode:     c.modeOr(f.config.Mode),
		Cuts:     append(cuts, c.cuts...),
		Reason:   c.reason,
	}
}

// Lease returns what agent may use, or nil for an agent that is not there or
// was never granted anything. It quotes the report that was newest when Apply
// last asked for the agent to be told, whenever it is called.
func (f *Fleet) Lease(agent string) *Lease {
	l := &Lease{}
	if !f.FillLease(l, agent) {
		return nil
	}
	return l
}

// FillLease makes l what Lease returns and reports whether there is anything;
// the memory of l is used again.
func (f *Fleet) FillLease(l *Lease, agent string) bool {
	m := f.member(agent)
	if m == nil || !m.here() || m.quoted == 0 {
		return false
	}
	*l = Lease{
		Agent: agent, Boot: m.boot, Term: f.term, Seq: f.seq,
		Quotes: m.quoted, Duration: m.lasts,
		Channels: l.Channels[:0], Pools: l.Pools[:0],
	}
	for _, c := range f.channels {
		i, ok := nearLease(c.leases, agent, &m.near)
		if !ok {
			continue
		}
		e := &c.leases[i]
		g := ChannelGrant{
			Channel: c.name, Revision: e.rev, Slots: e.slots,
			Safe: e.safe, Offset: e.offset, Epoch: c.window.Epoch,
		}
		if p := &c.breaker.Probe; p.ID != 0 && p.Agent == agent {
			g.Probe, g.ProbeWithin = p.ID, max(p.Deadline-f.now, 0)
		}
		l.Channels = append(l.Channels, g)
	}
	for _, p := range f.pools {
		g := &poolGrant{} // nothing, for an agent that did not speak of it yet
		if i, ok := searchGrant(p.grants, agent); ok {
			g = &p.grants[i]
		}
		l.Pools = append(l.Pools, p.poolGrant(g))
	}
	return true
}

func (p *pool) poolGrant(g *poolGrant) PoolGrant {
	out := PoolGrant{Pool: p.name, Revision: g.rev, Requests: -1, Tokens: -1, SafeRequests: -1, SafeTokens: -1}
	if p.requests.limited() {
		out.Requests, out.SafeRequests = g.requests, Milli(g.safeRequests)
	}
	if p.tokens.limited() {
		out.Tokens, out.SafeTokens = Tokens(g.tokens), Tokens(g.safeTokens)
	}
	out.Scarce = p.scarce()
	return out
}
