package model

import "slices"

// GateView is a copy of how a gate stands, for pages and metrics. Lists are
// sorted by name.
type GateView struct {
	// Alone is set while the controller is silent: no lease is in force.
	// Met is set once one was heard.
	Alone, Met bool
	// LeaseLeft is how long the lease still holds, Term and Seq what it said.
	LeaseLeft Nanos
	Term, Seq uint64
	// ConfigSeq is the configuration in force.
	ConfigSeq uint64
	Mode      Mode
	// Waiting counts the requests in the queue, Backoff those that wait to
	// be repeated, Running the attempts in flight.
	Waiting, Backoff, Running int
	// Pending counts attempts not yet reported, Lost those that were dropped.
	Pending int
	Lost    uint64
	// Retries is the retries that may be made now, in PPM of one.
	Retries PPM
	// Counters over the boot.
	Admitted, Refused, Retried, Degraded, Ruled, Leaked uint64
	// Stale counts messages dropped as older, Ignored those for others or
	// beyond bounds.
	Stale, Ignored uint64

	Channels []ChannelView
	Pools    []PoolView
	Quotas   []QuotaView
	Queues   []QueueView
}

// ChannelView is how one channel stands at the gate.
type ChannelView struct {
	Channel string
	Mode    Mode
	Breaker BreakerState
	// Share is what may be in flight now; Granted the lease after cuts.
	Share, Granted int64
	InFlight, Held int64
	Accepted       int64
	// Queued is the requests that wait for it, as they are reported.
	Queued int64
	Weight PPM
	Epoch  uint64
	// Wait is how long nothing may start, 0 for none.
	Wait Nanos
	// Reason says why, in the controller's words or the gate's.
	Reason      string
	WouldRefuse uint64
	Retries     uint64
	Attempts    [NumClasses]uint64
}

// PoolView is how one budget stands at the gate. Left is what may still be
// started, negative where there is no limit.
type PoolView struct {
	Pool         string
	UsedRequests int64
	UsedTokens   Tokens
	LeftRequests int64
	LeftTokens   Tokens
}

// QueueView is how many requests of one route wait.
type QueueView struct {
	Route   string
	Waiting [NumPriorities]int
	// Pace is the estimated time per position, 0 when unknown.
	Pace Nanos
	// Degraded counts attempts admitted below the first tier, by tier.
	Degraded []uint64
}

// View copies how the gate stands into v, whose memory is used again.
func (g *Gate) View(now Nanos, v *GateView) {
	now = g.tick(now)
	n := &g.number
	*v = GateView{
		Alone: g.lost, Met: g.met, LeaseLeft: max(g.leaseUntil-now, 0),
		Term: g.term, Seq: g.leaseSeq, ConfigSeq: g.configSeq, Mode: g.cfg.Mode,
		Waiting: g.queue.n, Backoff: g.parked, Running: g.running,
		Pending: g.out.n, Lost: g.out.lost, Retries: PPM(g.budget.credit),
		Admitted: n.admitted, Refused: n.refused, Retried: n.retried, Degraded: n.degraded,
		Ruled: n.ruled, Leaked: n.leaked, Stale: n.stale, Ignored: n.ignored,
		Channels: v.Channels[:0], Pools: v.Pools[:0], Quotas: v.Quotas[:0], Queues: v.Queues[:0],
	}
	for _, c := range g.channels {
		v.Channels = append(v.Channels, g.viewChannel(now, c))
	}
	for _, p := range g.pools {
		if !p.rated() {
			continue
		}
		requests, tokens := p.left(g.lost, g.met)
		v.Pools = append(v.Pools, PoolView{p.name, p.usedRequests, p.usedTokens, requests, tokens})
	}
	v.Quotas = g.viewQuotas(now, v.Quotas)
	for _, t := range g.routes {
		v.Queues = append(v.Queues, QueueView{t.name, t.waiting, t.drain.pace(now), slices.Clone(t.degraded)})
	}
}

func (g *Gate) viewChannel(now Nanos, c *gateChannel) ChannelView {
	used := c.used(now)
	taken, _ := c.accepted(now)
	v := ChannelView{
		Channel: c.name, Mode: ModeEnforce, Breaker: c.told.breaker,
		Share: c.share(now, g.lost, g.met), Granted: c.grant.slots,
		InFlight: c.inflight, Held: used - c.inflight + c.probing, Accepted: taken,
		Queued: int64(c.reported.Queued), Weight: c.told.weight, Epoch: c.told.epoch,
		Reason: c.told.reason, WouldRefuse: c.wouldRefuse, Retries: c.retries, Attempts: c.attempts,
	}
	if g.observes(c) {
		v.Mode = ModeObserve
	}
	if b := g.closed(now, c); b.cause != causeNone {
		if b.until != gateNever {
			v.Wait = b.until - now
		}
		if b.cause == causeHold || c.local.closed != 0 {
			v.Reason = b.cause.String()
		}
	}
	return v
}

// Observes reports whether nothing binds on the channel of that name.
func (g *Gate) Observes(channel string) bool {
	c := g.byChannel[channel]
	return c != nil && g.observes(c)
}

// ObservesAll reports whether nothing binds on any channel.
func (g *Gate) ObservesAll() bool {
	for _, c := range g.channels {
		if !g.observes(c) {
			return false
		}
	}
	return len(g.channels) > 0 || g.cfg.Mode == ModeObserve
}

// SetMode switches the agent's own mode.
func (g *Gate) SetMode(now Nanos, m Mode) {
	now = g.tick(now)
	g.cfg.Mode = m
	g.dirty = true
	g.changed(now)
}
