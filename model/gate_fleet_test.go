package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

const gateSeeds = 4

// TestGatesAndFleet runs several gates against one fold over a bus that
// delays, loses and cuts off, with a provider that refuses above a hidden cap.
// At every instant no gate may use more than the fold reckons it does, and no
// agent with demand may starve.
func TestGatesAndFleet(t *testing.T) {
	for seed := range uint64(gateSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newGateWorld(t, seed, 4)
			w.run(90 * Second)
			for i, a := range w.agents {
				if a.completed < 20 {
					t.Errorf("agent %d completed %d", i, a.completed)
				}
			}
			again := newGateWorld(t, seed, 4)
			again.run(90 * Second)
			if w.fleet.Digest() != again.fleet.Digest() {
				t.Errorf("the same seed gives another fold")
			}
			t.Logf("completed %d, refused %d of %d attempts, cuts %d", w.completed, w.refused, w.attempts, w.fleet.channel("a").window.Epoch)
		})
	}
}

// TestGateAloneKeepsGoing cuts every agent off: they go on at their safe
// share, which the fold reckons with, and come back.
func TestGateAloneKeepsGoing(t *testing.T) {
	w := newGateWorld(t, 7, 4)
	w.run(30 * Second)
	before := w.completed
	for i := range w.agents {
		w.agents[i].cut = 70 * Second
	}
	w.run(65 * Second)
	if alone := w.completed - before; alone < 50 {
		t.Errorf("completed %d while alone", alone)
	}
	before = w.completed
	w.run(95 * Second)
	if w.completed-before < 100 {
		t.Errorf("completed %d after coming back", w.completed-before)
	}
	if lost := w.fleet.Counters().Lost; lost != 0 {
		t.Errorf("%d attempts lost", lost)
	}
}

// TestGatesThroughOutage takes the main channel away for a while: it closes,
// is probed by one agent at a time, and comes back.
func TestGatesThroughOutage(t *testing.T) {
	for seed := range uint64(4) {
		w := newGateWorld(t, seed, 4)
		w.calm = true
		w.run(20 * Second)
		w.limit = 0
		w.run(25 * Second)
		refused := w.refused
		w.run(50 * Second)
		if n := w.refused - refused; n > 25 {
			t.Errorf("seed %d: %d refused calls in 25 s of outage", seed, n)
		}
		w.limit = 12
		w.run(115 * Second)
		before := w.served
		w.run(125 * Second)
		if n := w.served - before; n < 50 {
			t.Errorf("seed %d: %d calls in 10 s a minute after the outage; breaker %s", seed, n, w.fleet.channel("a").breaker.State)
		}
	}
}

// gateWorld is a small fleet in virtual time.
type gateWorld struct {
	t      *testing.T
	rnd    *rand.Rand
	now    Nanos
	seq    uint64
	fleet  *Fleet
	fx     Effects
	agents []*gateAgent
	events []gateEvent
	busy   int
	limit  int

	calm  bool // nobody is cut off
	whole bool // no message is lost
	// tenants ask in turn; calls sees every attempt begin and end.
	tenants []string
	calls   func(channel, tenant string, begins bool, o *Outcome)

	completed, refused, attempts int
	served                       int // completed on channel a
	request                      uint64
}

type gateAgent struct {
	g         *Gate
	i         int
	completed int
	cut       Nanos // until when nothing passes
	spool     []*Attempts
	sending   bool
}

type gateEvent struct {
	at Nanos
	n  int
	do func()
}

func newGateWorld(t *testing.T, seed uint64, n int) *gateWorld {
	w := &gateWorld{t: t, rnd: rand.New(rand.NewPCG(seed, 9)), fleet: NewFleet(), now: Second, limit: 12}
	cfg := func() *Config {
		c := &Config{
			Channels: []ChannelConfig{{Name: "a", Groups: []string{"g"}}, {Name: "b", Limits: Limits{RequestsPerMinute: 240, TokensPerMinute: 60_000}}},
			Groups:   []GroupConfig{{Name: "g", Limits: Limits{RequestsPerMinute: 900}}},
			Routes: []RouteConfig{{Name: "r", DegradeOther: 500 * Millisecond, DegradeCore: -1, Tiers: []TierConfig{
				{Channels: []WeightedChannel{{"a", 1}}}, {Channels: []WeightedChannel{{"b", 1}}},
			}}},
			Retry: RetryConfig{MaxAttempts: 3, Base: Second, Max: 10 * Second, Multiplier: 2 * One, Jitter: 200_000, Budget: 100_000, Total: 60 * Second},
		}
		c.Normalize()
		return c
	}
	w.apply(&Lead{Term: 1, Controller: "c", Laws: LawVersion})
	w.apply(cfg())
	for i := range n {
		a := &gateAgent{i: i, g: NewGate(GateConfig{Agent: fmt.Sprint("agent", i), Boot: 1, Rand: rand.New(rand.NewPCG(seed, uint64(i)))})}
		a.g.SetConfig(w.now, 1, cfg())
		w.agents = append(w.agents, a)
	}
	return w
}

func (w *gateWorld) after(d Nanos, do func()) {
	w.events = append(w.events, gateEvent{w.now + d, len(w.events), do})
}

func (w *gateWorld) delay() Nanos { return Nanos(1+w.rnd.Int64N(20)) * Millisecond }

// run steps in 5 ms until instant end.
func (w *gateWorld) run(end Nanos) {
	for ; w.now < end; w.now += 5 * Millisecond {
		var later []gateEvent
		due := w.events
		w.events = nil
		for _, e := range due {
			if e.at <= w.now {
				e.do()
			} else {
				later = append(later, e)
			}
		}
		w.events = append(later, w.events...)
		if w.fleet.NextWake() <= w.now {
			w.apply(&Tick{Term: 1, Elapsed: heartbeat})
		}
		if !w.calm && w.rnd.IntN(4000) == 0 {
			w.agents[w.rnd.IntN(len(w.agents))].cut = w.now + Nanos(w.rnd.Int64N(int64(25*Second)))
		}
		for _, a := range w.agents {
			w.step(a)
		}
		w.check()
	}
}

// step lets clients ask and the agent report.
func (w *gateWorld) step(a *gateAgent) {
	if w.rnd.IntN(25) == 0 {
		w.request++
		w.send(a, a.g.Ask(w.now, Ask{Request: w.request, Route: "r", Tenant: w.tenant(w.request), Tokens: Tokens(50 + w.rnd.IntN(400)), Core: w.rnd.IntN(3) == 0, Deadline: w.now + 20*Second}))
	}
	for _, r := range a.g.Poll(w.now, nil) {
		w.send(a, r)
	}
	if a.g.ReportDue() <= w.now {
		r := &Attempts{}
		a.g.Report(w.now, r)
		a.spool = append(a.spool, r)
	}
	if len(a.spool) > 0 && !a.sending && w.now >= a.cut {
		a.sending = true
		w.after(w.delay(), func() {
			a.sending = false
			if w.now < a.cut {
				return
			}
			r := a.spool[0]
			a.spool = a.spool[1:]
			w.apply(r)
			if w.rnd.IntN(20) == 0 {
				w.apply(r) // redelivered
			}
		})
	}
}

// send gives an admitted attempt to the provider.
func (w *gateWorld) send(a *gateAgent, r Reply) {
	if r.Kind != ReplyAdmitted {
		return
	}
	w.attempts++
	if w.calls != nil {
		w.calls(r.Permit.Channel, w.tenant(r.Request), true, nil)
	}
	o := Outcome{Class: ClassOK, UsageKnown: true, In: 50, Out: Tokens(w.rnd.IntN(300))}
	took := 1500 * Millisecond
	if r.Permit.Channel == "a" && w.busy >= w.limit {
		o = Outcome{Class: ClassOverloaded, Code: "2064"}
		took = 60 * Millisecond
		w.refused++
	} else if r.Permit.Channel == "a" {
		w.busy++
	}
	w.after(took, func() {
		if o.Class == ClassOK {
			w.completed++
			a.completed++
			if r.Permit.Channel == "a" {
				w.busy--
				w.served++
			}
		}
		a.g.Done(w.now, r.Permit.ID, o)
		if w.calls != nil {
			w.calls(r.Permit.Channel, w.tenant(r.Request), false, &o)
		}
	})
}

func (w *gateWorld) tenant(request uint64) string {
	if len(w.tenants) == 0 {
		return ""
	}
	return w.tenants[request%uint64(len(w.tenants))]
}

// apply appends a fact to the log, folds it and sends what the fold asks for.
func (w *gateWorld) apply(f Fact) {
	w.seq++
	w.fx.Reset()
	w.fleet.Apply(Record{Seq: w.seq, Time: w.now, Fact: f}, &w.fx)
	if len(w.fx.Limits) > 0 {
		set := w.fleet.LimitSet(w.fx.Limits)
		for _, a := range w.agents {
			w.deliver(a, func() { a.g.SetLimits(w.now, set) })
		}
	}
	for _, name := range w.fx.Leases {
		i := slices.IndexFunc(w.agents, func(a *gateAgent) bool { return a.g.cfg.Agent == name })
		if l := w.fleet.Lease(name); l != nil && i >= 0 {
			a := w.agents[i]
			w.deliver(a, func() { a.g.SetLease(w.now, l) })
		}
	}
}

// deliver brings a message to an agent, late, not at all or twice.
func (w *gateWorld) deliver(a *gateAgent, f func()) {
	if !w.whole && w.rnd.IntN(50) == 0 {
		return
	}
	for range 1 + w.rnd.IntN(20)/19 {
		w.after(w.delay(), func() {
			if w.now >= a.cut {
				f()
			}
		})
	}
}

// check compares what every gate may use with what the fold reckons.
func (w *gateWorld) check() {
	for _, c := range w.fleet.channels {
		for _, a := range w.agents {
			gc := a.g.byChannel[c.name]
			a.g.tick(w.now)
			share := gc.share(w.now, a.g.lost, a.g.met)
			if share == 0 {
				continue
			}
			i, ok := searchLease(c.leases, a.g.cfg.Agent)
			if !ok {
				w.t.Fatalf("%s: %s uses %d of a channel it has no lease of", w.now, a.g.cfg.Agent, share)
			}
			if claim := c.leases[i].claim(w.fleet.now); share > claim {
				w.t.Fatalf("%s: %s may use %d of %s, the fold reckons with %d (lost %v, grant %+v, lease %+v)",
					w.now, a.g.cfg.Agent, share, c.name, claim, a.g.lost, gc.grant, c.leases[i])
			}
		}
	}
}
