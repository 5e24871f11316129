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
	w.newRequest() // place 0 means none
	w.attempts.take()
	w.places = newPlaces(w.inc)
	w.patience, w.uses = newDeadlines(w.inc), newDeadlines(w.inc)
	w.book = newBook(w)
	w.audit.tallies = make([]tally, len(w.inc.Providers))
	for i := range w.inc.Providers {
		p, truth := provider.New(provider.Config{Incident: w.inc.Providers[i], Seed: w.cfg.Seed, Ideal: !w.policy.oracle && !w.cfg.NoCould})
		w.providers = append(w.providers, service{Provider: p, truth: truth, wake: provider.Never})
		w.watch(i)
	}
	if w.policy.oracle {
		w.oracle = newOracle(w)
	}
	w.config = w.inc.Told("sim")
	if w.policy.configure != nil {
		w.policy.configure(w.config)
	}
	w.bus = bus{w: w, cut: make([]bool, w.inc.Fleet.MaxAgents())}
	if w.policy.weir && !w.policy.alone {
		newController(w, nil)
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
		if w.policy.alone {
			a.own = newController(w, a)
		}
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

// stop ends an agent's process: what it had in hand is lost. It returns the
// permits of the calls that were in flight.
func (w *world) stop(a *agent) (cut []uint64) {
	a.up = false
	for i := range w.requests.used {
		if r := w.requests.at(i); r.alive && r.Agent == a.index {
			if k, ok := w.abandon(i); ok {
				cut = append(cut, w.attempts.at(k).permit)
			}
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
	if a.own != nil {
		a.own.setDown(true)
	}
	return cut
}

// script makes a change of the fleet happen, or end.
func (w *world) script(i int, ends bool) {
	c := &w.inc.Fleet.Changes[i]
	switch c.Kind {
	case incident.ControllerDown:
		if w.policy.weir && !w.policy.alone {
			w.controllers[0].setDown(!ends)
		}
	case incident.Partition:
		for _, k := range c.Agents {
			w.bus.cut[k] = !ends && !w.policy.alone
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

// leave ends an agent's process in order: it cancels its calls and says
// good-bye.
func (w *world) leave(a *agent) {
	door := a.weir
	cut := w.stop(a)
	if door == nil {
		return
	}
	door.gate.Stop(w.nanos())
	for _, permit := range cut {
		door.gate.Done(w.nanos(), permit, model.Outcome{Class: model.ClassCanceled, RetryAfter: -1, Rule: "sim"})
	}
	for left := false; !left; {
		m := w.bus.report()
		door.gate.Report(w.nanos(), m)
		left = m.Leaving
		w.bus.publish(a, m)
	}
}
