package model

// FleetView is a copy of the state for people: pages, status, metrics.
type FleetView struct {
	Now        Nanos  `json:"now"`
	Seq        uint64 `json:"seq"`
	Term       uint64 `json:"term"`
	Controller string `json:"controller"`
	Fleet      string `json:"fleet"`
	Params     string `json:"params"`
	// Guard is how the newest push is watched, nil when it is not.
	Guard    *FleetGuard    `json:"guard,omitempty"`
	Channels []FleetChannel `json:"channels"`
	Pools    []FleetPool    `json:"pools"`
	Days     []FleetDay     `json:"days"`
	Routes   []FleetRoute   `json:"routes"`
	Agents   []FleetAgent   `json:"agents"`
	Counters Counters       `json:"counters"`
}

// FleetChannel is one channel at a moment.
type FleetChannel struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Mode     string `json:"mode"`
	// Window is in milli-slots; InFlight, Held and Queued are as agents last
	// reported, Leased and Claimed the sums of grants and claims in slots.
	Window   Milli        `json:"window_milli"`
	Limit    int64        `json:"limit_slots"`
	InFlight int64        `json:"inflight"`
	Held     int64        `json:"held"`
	Queued   int64        `json:"queued"`
	Leased   int64        `json:"leased_slots"`
	Claimed  int64        `json:"claimed_slots"`
	Epoch    uint64       `json:"epoch"`
	Weight   PPM          `json:"weight_ppm"`
	Breaker  string       `json:"breaker"`
	State    BreakerState `json:"-"`
	// Wait is how long nothing may start, 0 for none.
	Wait Nanos `json:"wait_ns"`
	// Latency is the recent latency over its baseline.
	Latency     PPM                `json:"latency_ppm"`
	Counts      [NumClasses]uint64 `json:"-"`
	Attempts    map[string]uint64  `json:"attempts"`
	TokensIn    uint64             `json:"tokens_in"`
	Cached      uint64             `json:"tokens_cached"`
	TokensOut   uint64             `json:"tokens_out"`
	WouldRefuse uint64             `json:"would_refuse"`
	Reason      string             `json:"reason"`
}

// FleetPool is one budget pool at a moment. Negative numbers mean no limit.
type FleetPool struct {
	Name           string `json:"name"`
	RequestsPerMin int64  `json:"requests_per_minute"`
	RequestsLeft   int64  `json:"requests_left"`
	TokensPerMin   int64  `json:"tokens_per_minute"`
	TokensLeft     int64  `json:"tokens_left"`
	// RequestsFrom and TokensFrom say where a limit is known from: told by
	// configuration, hinted by an answer, learned from refusals, "" for none.
	RequestsFrom string `json:"requests_from"`
	TokensFrom   string `json:"tokens_from"`
	// RequestsDrift and TokensDrift are how far the ledger was above what the
	// newest answer left, 0 where no answer says.
	RequestsDrift   int64 `json:"requests_drift"`
	TokensDrift     int64 `json:"tokens_drift"`
	WaitingRequests int64 `json:"waiting_requests"`
	// Wait is how long nothing may start after a refusal, Holds how many such
	// waits were not followed by a success.
	Wait  Nanos `json:"wait_ns"`
	Holds int64 `json:"holds"`
}

// FleetRoute is a model name that clients ask for, with its tiers in order.
type FleetRoute struct {
	Name  string      `json:"name"`
	Tiers []FleetTier `json:"tiers"`
}

// FleetTier is one tier of a route: channels, or a fixed answer.
type FleetTier struct {
	Channels   []string `json:"channels"`
	Capability string   `json:"capability,omitempty"`
	Rule       bool     `json:"rule,omitempty"`
}

// FleetAgent is one agent at a moment.
type FleetAgent struct {
	Agent    string `json:"agent"`
	Boot     uint64 `json:"boot"`
	Version  string `json:"version"`
	Mode     string `json:"mode"`
	State    string `json:"state"` // here, away, left
	Silent   Nanos  `json:"silent_ns"`
	Reports  uint64 `json:"reports"`
	Lost     uint64 `json:"lost_attempts"`
	Repeated uint64 `json:"repeated_reports"`
	Slots    int64  `json:"slots"`
	InFlight int64  `json:"inflight"`
	Queued   int64  `json:"queued"`
}

// View copies the state for people.
func (f *Fleet) View() FleetView {
	v := FleetView{
		Now: f.now, Seq: f.seq, Term: f.term, Controller: f.controller,
		Fleet: f.config.Fleet, Params: f.hash, Guard: f.guardView(), Counters: f.counters,
	}
	agents := make(map[string]*FleetAgent, len(f.members))
	v.Agents = make([]FleetAgent, 0, len(f.members))
	for _, m := range f.members {
		if m.forgotten {
			continue
		}
		v.Agents = append(v.Agents, FleetAgent{
			Agent: m.agent, Boot: m.boot, Version: m.version, Mode: m.mode.String(), State: m.state(),
			Silent: f.now - m.heard, Reports: m.next - 1, Lost: m.lost, Repeated: m.repeated,
		})
		agents[m.agent] = &v.Agents[len(v.Agents)-1]
	}
	for _, c := range f.channels {
		v.Channels = append(v.Channels, f.channelView(c))
		for i := range c.leases {
			l := &c.leases[i]
			if a := agents[l.agent]; a != nil {
				a.Slots += l.slots
				a.InFlight += l.inflight
				a.Queued += l.queued
			}
		}
	}
	for _, p := range f.pools {
		v.Pools = append(v.Pools, p.view(f.parPool(p), f.now))
	}
	v.Days, v.Routes = f.dayViews(), f.routeViews()
	return v
}

func (f *Fleet) routeViews() []FleetRoute {
	routes := make([]FleetRoute, len(f.config.Routes))
	for i := range f.config.Routes {
		r := &f.config.Routes[i]
		routes[i] = FleetRoute{Name: r.Name, Tiers: make([]FleetTier, len(r.Tiers))}
		for k := range r.Tiers {
			t := FleetTier{Capability: r.Tiers[k].Capability, Rule: r.Tiers[k].Rule != "", Channels: make([]string, len(r.Tiers[k].Channels))}
			for n := range r.Tiers[k].Channels {
				t.Channels[n] = r.Tiers[k].Channels[n].Channel
			}
			routes[i].Tiers[k] = t
		}
	}
	return routes
}

// ChannelView copies the i-th channel by name for people; ok is false where
// there are no more.
func (f *Fleet) ChannelView(i int) (v FleetChannel, ok bool) {
	if i < 0 || i >= len(f.channels) {
		return v, false
	}
	return f.channelView(f.channels[i]), true
}

func (m *member) state() string {
	switch {
	case m.forgotten:
		return "forgotten"
	case m.left:
		return "left"
	case m.away:
		return "away"
	}
	return "here"
}

func (f *Fleet) channelView(c *channel) FleetChannel {
	limit := f.channelLimit(c, nil)
	v := FleetChannel{
		Name: c.name, Provider: c.cfg.Provider, Model: c.cfg.Model, Mode: limit.Mode.String(),
		Window: limit.Window, Limit: c.limit(f.parOf(c)),
		InFlight: c.inflight, Held: c.held, Queued: c.queued,
		Epoch: limit.Epoch, Weight: limit.Weight, Breaker: limit.Breaker.String(), State: limit.Breaker,
		Wait: limit.Wait, Latency: slowness(c, f.parOf(c)),
		Counts: c.counts, Attempts: map[string]uint64{},
		TokensIn: c.tokensIn, Cached: c.cached, TokensOut: c.tokensOut, Reason: c.reason,
	}
	for _, class := range Classes {
		if n := c.counts[class]; n > 0 {
			v.Attempts[class.String()] = n
		}
	}
	for i := range c.leases {
		l := &c.leases[i]
		v.Leased += l.slots
		v.Claimed += l.claim(f.now)
		v.WouldRefuse += l.wouldRefuse
	}
	return v
}

func (p *pool) view(par *Params, now Nanos) FleetPool {
	v := FleetPool{
		Name: p.name, RequestsPerMin: -1, RequestsLeft: -1, TokensPerMin: -1, TokensLeft: -1,
		RequestsFrom: p.requests.source(par), TokensFrom: p.tokens.source(par),
		RequestsDrift: p.requests.Drift, TokensDrift: p.tokens.Drift,
		Wait: max(p.hold.until-now, 0), Holds: p.hold.series,
	}
	if p.requests.limited() {
		v.RequestsPerMin, v.RequestsLeft = p.requests.Rate, p.requests.Level
	}
	if p.tokens.limited() {
		v.TokensPerMin, v.TokensLeft = p.tokens.Rate, p.tokens.Level
	}
	for i := range p.grants {
		v.WaitingRequests += p.grants[i].waitingRequests
	}
	return v
}

func slowness(c *channel, p *Params) PPM {
	ratio, _ := c.latency.slowness(p)
	return ratio
}

// Claims returns what the agents must be assumed to use of a channel, what
// they were granted and want, and what the fleet may use, in slots; zeros for
// an unknown channel.
func (f *Fleet) Claims(name string) (claimed, leased, demand, limit int64) {
	c := f.channel(name)
	if c == nil {
		return 0, 0, 0, 0
	}
	claimed, leased = c.claimed, c.granted
	for i := 0; c.gone > 0 && i < len(c.leases); i++ {
		if l := &c.leases[i]; l.away {
			claimed += l.claim(f.now)
			leased += l.slots
		}
	}
	return claimed, leased, c.inflight + c.held + c.queued, c.limit(f.parOf(c))
}
