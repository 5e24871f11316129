package world

import (
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/provider"
	"weir/sim/workload"
)

func (w *world) build() error {
	var err error
	if w.policy, err = policyNamed(w.cfg.Policy); err != nil {
		return err
	}
	w.cfg.Params = w.policy.params(w.cfg.Params)
	if w.policy.oracle {
		w.oracle = &oracle{w: w, share: int64(w.cfg.share)}
	}
	w.requests.take() // place 0 means none
	w.attempts.take()
	w.places = newPlaces(w.inc)
	w.book = newBook(w)
	for i := range w.inc.Providers {
		p, truth := provider.New(provider.Config{Incident: w.inc.Providers[i], Seed: w.cfg.Seed, Ideal: true})
		w.providers = append(w.providers, service{Provider: p, truth: truth, wake: provider.Never})
		w.watch(i)
	}
	w.config = modelConfig(w.inc)
	if w.policy.untell != nil {
		w.policy.untell(w.config)
	}
	w.bus = bus{w: w, cut: make([]bool, w.inc.Fleet.MaxAgents())}
	if w.policy.weir {
		w.controller = newController(w)
	}
	for i := range w.inc.Fleet.MaxAgents() {
		a := &agent{w: w, index: i, name: agentName(i), pools: make([]pool, len(w.inc.Workloads))}
		w.agents = append(w.agents, a)
		if i < w.inc.Fleet.Agents {
			w.start(a)
		}
	}
	if w.sources, err = workload.New(w.inc, w.cfg.Seed, w.cfg.Traces); err != nil {
		return err
	}
	w.arriveAt = workload.Never
	w.watchSources()
	for i, c := range w.inc.Fleet.Changes {
		w.at(int64(c.At), onScript, uint64(i), 0)
		if c.For > 0 {
			w.at(int64(c.At+c.For), onScript, uint64(i), 1)
		}
	}
	for s := int64(time.Second); s <= w.end; s += int64(time.Second) {
		w.at(s, onSecond, 0, 0)
	}
	return nil
}

// start begins an agent's process.
func (w *world) start(a *agent) {
	a.up = true
	a.boot++
	switch {
	case w.policy.weir:
		a.weir = newWeirDoor(a)
		a.door = a.weir
	case w.oracle != nil:
		a.door = &oracleDoor{w.oracle}
	case w.policy.peer != nil:
		a.door = newPeerDoor(a, &w.policy)
	default:
		a.door = &directDoor{a}
	}
}

// stop ends an agent's process: what it had in hand is lost.
func (w *world) stop(a *agent) {
	a.up = false
	for i := range w.requests.used {
		if r := w.requests.at(i); r.alive && r.Agent == a.index {
			w.abandon(i)
			w.book.second.Failed++
			if w.oracle != nil {
				w.oracle.remove(i)
			}
			w.finish(i, false)
		}
	}
	for i := range a.pools {
		a.pools[i] = pool{}
	}
	a.weir = nil
}

// script makes a change of the fleet happen, or end.
func (w *world) script(i int, ends bool) {
	c := &w.inc.Fleet.Changes[i]
	switch c.Kind {
	case incident.ControllerDown:
		if w.controller != nil {
			w.controller.setDown(!ends)
		}
	case incident.Partition:
		for _, k := range c.Agents {
			w.bus.cut[k] = !ends
		}
	case incident.AgentCrash:
		for _, k := range c.Agents {
			a := w.agents[k]
			switch {
			case !ends && a.up:
				w.stop(a)
			case ends && !a.up:
				w.start(a)
			}
		}
	case incident.AgentCount:
		w.sources.SetAgents(w.now, c.Count)
		w.watchSources()
		for k, a := range w.agents {
			switch {
			case k < c.Count && !a.up:
				w.start(a)
			case k >= c.Count && a.up:
				w.leave(a)
			}
		}
	case incident.Pause:
		switch {
		case ends:
			w.resume(c)
		case c.Drop:
			w.purge()
		}
	}
}

// trickleStep is how often a trickle lets more through.
const trickleStep = time.Second

// resume lets the applications go on after a pause, more and more of them.
func (w *world) resume(c *incident.FleetChange) {
	for after := time.Duration(0); after < c.Over; after += trickleStep {
		w.at(int64(c.At+c.For+after), onTrickle, 0, 0)
	}
	w.at(int64(c.At+c.For+c.Over), onTrickle, 0, 0)
}

// leave ends an agent's process in order: it says good-bye.
func (w *world) leave(a *agent) {
	door := a.weir
	w.stop(a)
	if door == nil {
		return
	}
	door.gate.Stop(w.nanos())
	m := w.bus.report()
	door.gate.Report(w.nanos(), m)
	w.bus.publish(a, m)
}

// modelConfig is what Weir is told of an incident.
func modelConfig(inc *incident.Incident) *model.Config {
	c := &model.Config{
		Fleet: "sim",
		Retry: model.RetryConfig{
			MaxAttempts: 3, Base: model.Second, Max: 30 * model.Second, Multiplier: 2 * model.One,
			Jitter: 200_000, Budget: 100_000,
		},
		Timeouts: model.TimeoutConfig{Connect: 2 * model.Second, FirstToken: 60 * model.Second, Total: 120 * model.Second},
	}
	for i := range inc.Channels {
		ch := &inc.Channels[i]
		loss := model.OnLossSafe
		switch ch.Loss {
		case incident.LossZero:
			loss = model.OnLossZero
		case incident.LossLast:
			loss = model.OnLossLast
		case incident.LossSafe:
		}
		c.Channels = append(c.Channels, model.ChannelConfig{
			Name: ch.Name, Provider: ch.Provider, Model: ch.Name, Groups: ch.Groups,
			Limits: told(ch.Limits), ChargeMax: ch.Charge == incident.ChargeMaxTokens,
			OnLoss: loss, Alone: uint32(ch.Alone),
		})
	}
	for i := range inc.Groups {
		c.Groups = append(c.Groups, model.GroupConfig{Name: inc.Groups[i].Name, Limits: told(inc.Groups[i].Limits)})
	}
	for i := range inc.Channels {
		for _, g := range inc.Channels[i].Groups {
			if !hasGroup(c, g) {
				c.Groups = append(c.Groups, model.GroupConfig{Name: g})
			}
		}
	}
	for i := range inc.Routes {
		r := model.RouteConfig{Name: inc.Routes[i].Name, DegradeCore: -1, DegradeOther: 30 * model.Second}
		for _, t := range inc.Routes[i].Tiers {
			tier := model.TierConfig{Capability: t.Capability, Rule: t.Rule}
			for _, ch := range t.Channels {
				tier.Channels = append(tier.Channels, model.WeightedChannel{Channel: ch.Channel, Weight: uint32(max(ch.Weight/10_000, 1))})
			}
			r.Tiers = append(r.Tiers, tier)
		}
		c.Routes = append(c.Routes, r)
	}
	c.Normalize()
	return c
}

func hasGroup(c *model.Config, name string) bool {
	for i := range c.Groups {
		if c.Groups[i].Name == name {
			return true
		}
	}
	return false
}

func told(l incident.Limits) model.Limits {
	return model.Limits{
		RequestsPerMinute: max(l.RPM, 0), TokensPerMinute: model.Tokens(max(l.TPM, 0)),
		InputTokensPerMinute: model.Tokens(max(l.InputTPM, 0)), OutputTokensPerMinute: model.Tokens(max(l.OutputTPM, 0)),
		Concurrency: max(l.Concurrency, 0), RequestsPerDay: max(l.RequestsPerDay, 0), TokensPerDay: model.Tokens(max(l.TokensPerDay, 0)),
	}
}
