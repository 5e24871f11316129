package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// gateMachine is what the test knows of the gate.
type gateMachine struct {
	g, twin *Gate
	now     Nanos
	seq     uint64 // newest record
	request uint64
	running map[uint64]Permit // by request
	waiting map[uint64]Ticket
	ended   map[uint64]string
	first   map[uint64]bool
	probes  map[string]bool // sent, by channel and id
	old     []uint64        // permits settled
	granted map[string]PoolGrant
	told    uint64 // attempts reported or lost
	reports uint64
	retries int
	firsts  int
	share   PPM
}

func newGateMachine(t *rapid.T) *gateMachine {
	m := &gateMachine{
		running: map[uint64]Permit{}, waiting: map[uint64]Ticket{}, ended: map[uint64]string{}, first: map[uint64]bool{},
		probes: map[string]bool{}, granted: map[string]PoolGrant{}, now: Second, share: 200_000,
	}
	seed := rapid.Uint64().Draw(t, "seed")
	gate := func() *Gate {
		return NewGate(GateConfig{Agent: "a", Boot: 3, QueueLimit: 8, PendingLimit: 20, Rand: rand.New(rand.NewPCG(seed, 1))})
	}
	m.g, m.twin = gate(), gate()
	m.setConfig(t, false)
	return m
}

func (m *gateMachine) setConfig(t *rapid.T, change bool) {
	cfg := func() *Config {
		c := &Config{
			Channels: []ChannelConfig{
				{Name: "a", Groups: []string{"g"}, Alone: 1, Limits: Limits{TokensPerMinute: 1000}},
				{Name: "b", Groups: []string{"g"}, OnLoss: OnLossLast},
				{Name: "c", OnLoss: OnLossZero},
			},
			Groups: []GroupConfig{{Name: "g", Limits: Limits{RequestsPerMinute: 120}}},
			Routes: []RouteConfig{
				{Name: "r", DegradeCore: -1, DegradeOther: 5 * Second, Tiers: []TierConfig{
					{Channels: []WeightedChannel{{"a", 3}, {"b", 1}}},
					{Channels: []WeightedChannel{{"c", 1}}, Capability: "light"},
				}},
				{Name: "s", DegradeCore: 0, DegradeOther: 0, Tiers: []TierConfig{
					{Channels: []WeightedChannel{{"b", 1}}}, {Rule: "busy"},
				}},
			},
			Retry:    RetryConfig{MaxAttempts: 3, Base: 100 * Millisecond, Max: 2 * Second, Multiplier: 2 * One, Jitter: 200_000, Budget: m.share, Total: 60 * Second},
			Timeouts: TimeoutConfig{Total: 30 * Second},
		}
		if change {
			c.Routes = c.Routes[:1]
			c.Channels[1].Groups = nil
			c.Channels[2].Groups = []string{"g"}
			if m.seq%2 == 0 {
				c.Channels = c.Channels[:2]
			}
			c.Routes[0].Tiers = c.Routes[0].Tiers[:1]
		}
		c.Normalize()
		return c
	}
	m.seq++
	m.g.SetConfig(m.now, m.seq, cfg())
	m.twin.SetConfig(m.now, m.seq, cfg())
}

// both runs the same on the gate and its twin and compares.
func (m *gateMachine) both(t *rapid.T, what string, f func(*Gate) any) any {
	got, twin := f(m.g), f(m.twin)
	if d := cmp.Diff(got, twin); d != "" {
		t.Fatalf("%s differs on the twin: %s", what, d)
	}
	return got
}

func (m *gateMachine) poll(t *rapid.T) {
	out := m.both(t, "poll", func(g *Gate) any { return g.Poll(m.now, nil) }).([]Reply)
	for _, r := range out {
		ticket, ok := m.waiting[r.Request]
		if !ok || ticket != r.Ticket {
			t.Fatalf("reply to request %d with ticket %d, waiting with %d (%v)", r.Request, r.Ticket, ticket, ok)
		}
		delete(m.waiting, r.Request)
		m.reply(t, r)
	}
}

func (m *gateMachine) reply(t *rapid.T, r Reply) {
	if end, ok := m.ended[r.Request]; ok {
		t.Fatalf("request %d: %s after %s", r.Request, r.Kind, end)
	}
	switch r.Kind {
	case ReplyAdmitted:
		if _, ok := m.running[r.Request]; ok {
			t.Fatalf("request %d admitted twice", r.Request)
		}
		m.running[r.Request] = r.Permit
		if !m.first[r.Request] {
			m.first[r.Request] = true
			m.firsts++
		}
		if p := r.Permit.Probe; p != 0 {
			key := fmt.Sprint(r.Permit.Channel, p)
			if m.probes[key] {
				t.Fatalf("probe %s sent twice", key)
			}
			m.probes[key] = true
		}
	case ReplyQueued:
		m.waiting[r.Request] = r.Ticket
	case ReplyRefused, ReplyRule:
		m.ended[r.Request] = r.Kind.String()
		if r.Kind == ReplyRefused && r.Reason == "" {
			t.Fatalf("request %d refused without a reason", r.Request)
		}
	}
}

func (m *gateMachine) ask(t *rapid.T) {
	m.request++
	a := Ask{
		Request: m.request, Route: rapid.SampledFrom([]string{"r", "r", "s", "?"}).Draw(t, "route"),
		Core: rapid.Bool().Draw(t, "core"), Priority: Priority(rapid.IntRange(0, 3).Draw(t, "priority")),
		Capability: rapid.SampledFrom([]string{"", "light", "heavy"}).Draw(t, "need"),
		Tokens:     Tokens(rapid.SampledFrom([]int64{0, 10, 300, 5000, -1, maxInt64}).Draw(t, "tokens")),
	}
	if d := rapid.IntRange(-1, 40).Draw(t, "deadline"); d != 0 {
		a.Deadline = m.now + Nanos(d)*Second
	}
	m.reply(t, m.both(t, "ask", func(g *Gate) any { return g.Ask(m.now, a) }).(Reply))
	m.poll(t)
}

// pick returns a running request.
func (m *gateMachine) pick(t *rapid.T) uint64 {
	var ids []uint64
	for id := range m.running {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		t.Skip("nothing is running")
	}
	slices.Sort(ids)
	return rapid.SampledFrom(ids).Draw(t, "request")
}

func (m *gateMachine) outcome(t *rapid.T) Outcome {
	o := Outcome{
		Class:      Class(rapid.IntRange(0, NumClasses).Draw(t, "class")),
		Dimension:  Dimension(rapid.IntRange(0, 5).Draw(t, "dimension")),
		Scope:      Scope(rapid.IntRange(0, 2).Draw(t, "scope")),
		RetryAfter: Nanos(rapid.SampledFrom([]int64{0, -1, int64(Second), int64(20 * Second), maxInt64}).Draw(t, "after")),
		UsageKnown: rapid.Bool().Draw(t, "known"), Exposed: rapid.IntRange(0, 4).Draw(t, "exposed") == 0,
		In: Tokens(rapid.Int64Range(-5, 500).Draw(t, "in")), Unsent: rapid.IntRange(0, 6).Draw(t, "unsent") == 0,
	}
	return o
}

func (m *gateMachine) done(t *rapid.T) {
	m.settle(t, m.pick(t), m.outcome(t))
}

func (m *gateMachine) settle(t *rapid.T, id uint64, o Outcome) {
	p := m.running[id]
	before := m.g.number.settled
	n := m.both(t, "done", func(g *Gate) any { return g.Done(m.now, p.ID, o) }).(Next)
	delete(m.running, id)
	m.old = append(m.old, p.ID)
	if want := before + 1; o.Unsent {
		if m.g.number.settled != before {
			t.Fatalf("an attempt that was never sent was counted")
		}
		if p.Probe != 0 {
			m.probes[fmt.Sprint(p.Channel, p.Probe)] = false
		}
	} else if m.g.number.settled != want {
		t.Fatalf("settled %d attempts, want %d", m.g.number.settled, want)
	}
	switch n.Kind {
	case NextRetry:
		if o.Exposed || o.Class == ClassOK || o.Class == ClassInvalid || o.Class == ClassCanceled {
			t.Fatalf("%s (exposed %v) is tried again", o.Class, o.Exposed)
		}
		if a := m.g.waitOf(&o); n.After < a && !n.Elsewhere && o.Class.Refused() {
			t.Fatalf("tried again after %s, asked for %s", n.After, a)
		}
		m.retries++
		m.waiting[id] = n.Ticket
	case NextFinished, NextGiveUp, NextRule:
		m.ended[id] = n.Kind.String()
	}
	m.poll(t)
}

func (m *gateMachine) doneAgain(t *rapid.T) {
	if len(m.old) == 0 {
		t.Skip("nothing was settled")
	}
	id := rapid.SampledFrom(m.old).Draw(t, "permit")
	o := m.outcome(t)
	m.unchanged(t, "a permit settled before", func(g *Gate) {
		if n := g.Done(m.now, id, o); n.Kind != NextFinished {
			t.Fatalf("settled again: %s", n.Kind)
		}
	})
}

// neutral settles with a caller's mistake or cancel: no share may change.
func (m *gateMachine) neutral(t *rapid.T) {
	id := m.pick(t)
	if m.g.now >= m.g.leaseUntil && !m.g.lost {
		t.Skip("the lease ends now")
	}
	o := Outcome{Class: rapid.SampledFrom([]Class{ClassInvalid, ClassCanceled}).Draw(t, "class"), RetryAfter: 5 * Second}
	before := m.shares()
	m.settle(t, id, o)
	if d := cmp.Diff(before, m.shares()); d != "" {
		t.Fatalf("%s changed a channel: %s", o.Class, d)
	}
}

func (m *gateMachine) shares() map[string][3]int64 {
	s := map[string][3]int64{}
	for _, c := range m.g.channels {
		s[c.name] = [3]int64{c.share(m.now, m.g.lost, m.g.met), int64(c.local.hold), int64(c.local.closedUntil)}
	}
	return s
}

func (m *gateMachine) leave(t *rapid.T) {
	var ids []uint64
	for id := range m.waiting {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		t.Skip("nothing waits")
	}
	slices.Sort(ids)
	id := rapid.SampledFrom(ids).Draw(t, "request")
	// Something may have been decided for it that was not polled yet.
	if rapid.Bool().Draw(t, "late") {
		l := m.newLease(t)
		m.both(t, "lease", func(g *Gate) any { g.SetLease(m.now, l); return nil })
		m.request++
		a := Ask{Request: m.request, Route: "r", Deadline: m.now + 5*Second}
		m.reply(t, m.both(t, "ask", func(g *Gate) any { return g.Ask(m.now, a) }).(Reply))
	}
	m.both(t, "leave", func(g *Gate) any { g.Leave(m.now, m.waiting[id]); return nil })
	delete(m.waiting, id)
	m.ended[id] = "left"
	m.poll(t)
}

func (m *gateMachine) wait(t *rapid.T) {
	d := Nanos(rapid.Int64Range(0, int64(20*Second)).Draw(t, "for"))
	m.pass(t, m.now+d)
}

// pass lets time pass to end, polling when the gate asks for it.
func (m *gateMachine) pass(t *rapid.T, end Nanos) {
	for range 10_000 {
		wake := max(m.g.NextWake(), m.now)
		if wake >= end {
			m.now = end
			m.poll(t)
			return
		}
		m.now = wake
		m.poll(t)
		m.check(t)
	}
	t.Fatalf("the gate asks to be woken again and again")
}

// channel returns what the gate knows of a channel.
func (m *gateMachine) channel(name string) *gateChannel {
	if c := m.g.byChannel[name]; c != nil {
		return c
	}
	return newGateChannel(name)
}

func (m *gateMachine) newLease(t *rapid.T) *Lease {
	m.seq++
	l := &Lease{Agent: "a", Boot: 3, Term: 1, Seq: m.seq, Quotes: m.g.out.seq, Duration: 15 * Second}
	if rapid.IntRange(0, 3).Draw(t, "old") == 0 && l.Quotes > 0 {
		l.Quotes--
	}
	for _, name := range []string{"a", "b", "c"} {
		g := ChannelGrant{Channel: name, Revision: m.seq, Slots: rapid.Int64Range(-1, 5).Draw(t, name), Offset: rapid.Int64Range(0, 3).Draw(t, "offset"), Epoch: m.channel(name).told.epoch}
		g.Safe = max(g.Slots-1, 0)
		if rapid.IntRange(0, 3).Draw(t, "probe") == 0 {
			g.Probe, g.ProbeWithin = m.seq, 10*Second
		}
		l.Channels = append(l.Channels, g)
	}
	clear(m.granted)
	add := func(name string, p PoolGrant) {
		if rapid.Bool().Draw(t, name) {
			p.Pool, p.Revision = name, m.seq
			l.Pools = append(l.Pools, p)
			m.granted[name] = p
		}
	}
	used := func(name string) (int64, Tokens) {
		if p := m.g.byPool[name]; p != nil {
			return p.usedRequests, p.usedTokens
		}
		return 0, 0
	}
	r, _ := used("group/g")
	add("group/g", PoolGrant{Requests: r + rapid.Int64Range(-1, 4).Draw(t, "requests"), Tokens: -1, SafeRequests: 30_000})
	_, k := used("channel/a")
	add("channel/a", PoolGrant{Requests: -1, Tokens: k + Tokens(rapid.Int64Range(-1, 1000).Draw(t, "tokens")), SafeTokens: 300})
	return l
}

func (m *gateMachine) lease(t *rapid.T) {
	l := m.newLease(t)
	m.both(t, "lease", func(g *Gate) any { g.SetLease(m.now, l); return nil })
	m.poll(t)
}

func (m *gateMachine) newLimits(t *rapid.T) *LimitSet {
	m.seq++
	l := &LimitSet{Term: 1, Seq: m.seq}
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "channel")
	c := ChannelLimit{
		Channel: name, Revision: m.seq, Epoch: m.channel(name).told.epoch, Weight: PPM(rapid.SampledFrom([]int64{0, 50_000, int64(One)}).Draw(t, "weight")),
		Breaker: BreakerState(rapid.IntRange(0, 3).Draw(t, "breaker")),
		Wait:    Nanos(rapid.SampledFrom([]int64{0, 0, int64(3 * Second), maxInt64}).Draw(t, "wait")),
		Cuts:    slices.Clone(m.channel(name).told.cuts),
	}
	if rapid.IntRange(0, 3).Draw(t, "observe") == 0 {
		c.Mode = ModeObserve
	}
	if rapid.Bool().Draw(t, "cut") {
		c.Epoch++
		c.Cuts = append(c.Cuts, Cut{Revision: m.seq, Num: rapid.Int64Range(0, 4).Draw(t, "num"), Den: 4})
	}
	l.Channels = append(l.Channels, c)
	return l
}

func (m *gateMachine) limits(t *rapid.T) {
	l := m.newLimits(t)
	m.both(t, "limits", func(g *Gate) any { g.SetLimits(m.now, l); return nil })
	m.poll(t)
}

// unchanged runs f on both and checks that nothing that decides has changed.
func (m *gateMachine) unchanged(t *rapid.T, what string, f func(*Gate)) {
	m.poll(t)
	see := func() string {
		var v GateView
		m.g.View(m.now, &v)
		v.Stale, v.Ignored = 0, 0
		return fmt.Sprintf("%+v %d", v, m.g.NextWake())
	}
	before := see()
	f(m.g)
	f(m.twin)
	if after := see(); after != before {
		t.Fatalf("%s changed the gate:\n%s\n%s", what, before, after)
	}
}

// stale sends what must change nothing: older terms and sequences, other boots.
func (m *gateMachine) stale(t *rapid.T) {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	saved := m.seq
	granted := maps.Clone(m.granted)
	l, s := m.newLease(t), m.newLimits(t)
	m.seq, m.granted = saved, granted
	switch kind {
	case 0:
		l.Boot = 2
	case 1:
		l.Agent = "b"
	case 2:
		l.Term = 0
	case 3:
		if !m.g.met {
			t.Skip("no lease yet")
		}
		l.Seq = m.g.leaseSeq
	case 4:
		l.Quotes = m.g.out.seq + 1
	}
	m.g.SetTerm(m.now, &TermNotice{Term: 1})
	m.twin.SetTerm(m.now, &TermNotice{Term: 1})
	m.unchanged(t, "a stale lease", func(g *Gate) {
		if kind < 5 {
			g.SetLease(m.now, l)
			return
		}
		s.Term = 0
		g.SetLimits(m.now, s)
	})
}

func (m *gateMachine) report(t *rapid.T) {
	r := m.both(t, "report", func(g *Gate) any { var a Attempts; g.Report(m.now, &a); return a }).(Attempts)
	m.reports++
	if r.Seq != m.reports {
		t.Fatalf("report %d, want %d", r.Seq, m.reports)
	}
	if lost := r.Base - m.told; r.Base < m.told || m.told+lost != m.g.number.settled-uint64(len(r.Attempts))-uint64(m.g.out.n) {
		t.Fatalf("base %d after %d told, %d settled, %d in the report, %d pending", r.Base, m.told, m.g.number.settled, len(r.Attempts), m.g.out.n)
	}
	m.told = r.Base + uint64(len(r.Attempts))
	if len(r.Attempts) > gateBatch {
		t.Fatalf("%d attempts in one report", len(r.Attempts))
	}
	for _, a := range r.Attempts {
		if int(a.Channel) >= len(r.Channels) {
			t.Fatalf("attempt on channel %d of %d", a.Channel, len(r.Channels))
		}
		if a.Class == 0 || int(a.Class) >= NumClasses || a.Took < 0 || a.Age < 0 || a.Reserved < 0 || a.In < 0 {
			t.Fatalf("malformed attempt %+v", a)
		}
	}
	if due := m.g.ReportDue(); due < m.now+gateSoonest || due > m.now+m.g.span {
		t.Fatalf("next report due in %s", due-m.now)
	}
}

func (m *gateMachine) configure(t *rapid.T) {
	m.setConfig(t, rapid.IntRange(0, 2).Draw(t, "smaller") == 0)
	m.poll(t)
}

func (m *gateMachine) mode(t *rapid.T) {
	mode := ModeEnforce
	if rapid.IntRange(0, 3).Draw(t, "observe") == 0 {
		mode = ModeObserve
	}
	m.both(t, "mode", func(g *Gate) any { g.SetMode(m.now, mode); return nil })
	m.poll(t)
}

// check is what must always hold.
func (m *gateMachine) check(t *rapid.T) {
	g := m.g
	if g.queue.n+g.parked != len(m.waiting) || len(g.timers) != len(m.waiting) {
		t.Fatalf("%d queued and %d parked with %d timers, %d wait", g.queue.n, g.parked, len(g.timers), len(m.waiting))
	}
	if g.queue.n > g.cfg.QueueLimit+m.retries {
		t.Fatalf("%d wait, at most %d may", g.queue.n, g.cfg.QueueLimit)
	}
	if g.out.n > g.cfg.PendingLimit {
		t.Fatalf("%d attempts pending", g.out.n)
	}
	var inflight int64
	for _, c := range g.channels {
		var n, probes int64
		for r := c.first; r != nil; r = r.at.next {
			n++
			if r.at.probe != 0 {
				probes++
			}
		}
		if n != c.inflight || probes != c.probing {
			t.Fatalf("%s: %d in flight with %d probes, %d linked with %d", c.name, c.inflight, c.probing, n, probes)
		}
		inflight += n
		if e := c.grant; e.slots < 0 || e.safe < 0 || e.safe > e.slots {
			t.Fatalf("%s: grant %+v", c.name, e)
		}
	}
	for _, p := range g.pools {
		if p.usedRequests < 0 || p.usedTokens < 0 {
			t.Fatalf("%s: used %d requests and %d tokens", p.name, p.usedRequests, p.usedTokens)
		}
	}
	if int(inflight) != g.running {
		t.Fatalf("%d in flight, %d running", inflight, g.running)
	}
	// What the gate gave up on by itself is not running any more.
	for id, p := range m.running {
		if g.requests.running(p.ID) == nil {
			delete(m.running, id)
			m.ended[id] = "reclaimed"
			m.old = append(m.old, p.ID)
		}
	}
	if g.running != len(m.running) {
		t.Fatalf("%d running, the test knows %d", g.running, len(m.running))
	}
	for id, tk := range m.waiting {
		r := g.requests.waiting(tk)
		if r == nil || r.id != id {
			t.Fatalf("request %d waits with a ticket of nobody", id)
		}
		if r.deadline <= m.now {
			t.Fatalf("request %d waits past its deadline", id)
		}
		if g.NextWake() > r.deadline {
			t.Fatalf("the gate sleeps over the deadline of request %d", id)
		}
	}
	if limit := int(scale(int64(m.firsts), m.share)) + 1; m.retries > limit {
		t.Fatalf("%d retries after %d first attempts", m.retries, m.firsts)
	}
	if live := g.running + len(m.waiting); len(g.requests.all)-len(g.requests.free) != live {
		t.Fatalf("%d requests kept, %d live", len(g.requests.all)-len(g.requests.free), live)
	}
}

// drain ends everything: the controller is gone, no channel answers, and every
// request must still end by its deadline.
func (m *gateMachine) drain(t *rapid.T) {
	m.pass(t, m.now+41*Second)
	for range 100 {
		if len(m.running) == 0 {
			break
		}
		var ids []uint64
		for id := range m.running {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			m.settle(t, id, Outcome{Class: ClassOverloaded})
		}
		m.pass(t, m.now+61*Second)
		m.check(t)
	}
	m.pass(t, m.now+5*Minute)
	m.check(t)
	if len(m.waiting) > 0 || len(m.running) > 0 {
		t.Fatalf("%d wait and %d run at the end", len(m.waiting), len(m.running))
	}
	for id := uint64(1); id <= m.request; id++ {
		if m.ended[id] == "" {
			t.Fatalf("request %d was forgotten", id)
		}
	}
}
