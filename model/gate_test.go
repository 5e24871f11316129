package model

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// newGateAt returns a gate with one route r over channels a and b, each with
// slots, and its first report built at one second.
func newGateAt(slots int64) *Gate {
	g := NewGate(GateConfig{Agent: "a", Boot: 1, Rand: rand.New(rand.NewPCG(1, 1))})
	c := &Config{
		Channels: []ChannelConfig{{Name: "a", Groups: []string{"g"}}, {Name: "b", Groups: []string{"g"}}},
		Groups:   []GroupConfig{{Name: "g", Limits: Limits{RequestsPerMinute: 60_000, TokensPerMinute: 1 << 40}}},
		Routes:   []RouteConfig{{Name: "r", DegradeCore: -1, DegradeOther: -1, Tiers: []TierConfig{{Channels: []WeightedChannel{{"a", 3}, {"b", 1}}}}}},
		Retry:    RetryConfig{MaxAttempts: 3, Base: Second, Budget: 100_000},
		Timeouts: TimeoutConfig{Total: 60 * Second},
	}
	g.SetConfig(Second, 1, c)
	var r Attempts
	g.Report(Second, &r)
	g.SetLease(Second, &Lease{
		Agent: "a", Boot: 1, Term: 1, Seq: 1, Quotes: 1, Duration: 10_000 * Hour,
		Channels: []ChannelGrant{{Channel: "a", Slots: slots, Safe: slots}, {Channel: "b", Slots: slots, Safe: slots}},
		Pools:    []PoolGrant{{Pool: "group/g", Requests: 1 << 60, Tokens: 1 << 60}},
	})
	return g
}

// TestGateAllocates holds the admitted path free of allocation.
func TestGateAllocates(t *testing.T) {
	g := newGateAt(100)
	var r Attempts
	now, n := 2*Second, 0
	call := func() {
		now += Millisecond
		rep := g.Ask(now, Ask{Request: 1, Route: "r", Tokens: 100, Deadline: now + Minute})
		if rep.Kind != ReplyAdmitted {
			t.Fatalf("%s: %s", rep.Kind, rep.Reason)
		}
		g.Done(now, rep.Permit.ID, Outcome{Class: ClassOK, In: 50, Out: 50, UsageKnown: true})
		if n++; n%50 == 0 {
			g.Report(now, &r)
		}
	}
	for range 1000 {
		call()
	}
	if got := testing.AllocsPerRun(1000, call); got != 0 {
		t.Errorf("%v allocations per call, want 0", got)
	}
}

// TestGateQueueAllocates holds the way through the queue free of allocation.
func TestGateQueueAllocates(t *testing.T) {
	g := newGateAt(1)
	now := 2 * Second
	var live []Permit
	out := make([]Reply, 0, 16)
	ask := func() {
		rep := g.Ask(now, Ask{Request: 1, Route: "r", Deadline: now + Minute})
		if rep.Kind == ReplyAdmitted {
			live = append(live, rep.Permit)
		}
	}
	for range 20 {
		ask()
	}
	call := func() {
		now += Millisecond
		p := live[0]
		live = append(live[:0], live[1:]...)
		g.Done(now, p.ID, Outcome{Class: ClassOK})
		for _, r := range g.Poll(now, out) {
			live = append(live, r.Permit)
		}
		ask()
	}
	for range 10_000 {
		call()
	}
	if got := testing.AllocsPerRun(1000, call); got != 0 {
		t.Errorf("%v allocations per call, want 0", got)
	}
	if len(live) != 2 {
		t.Errorf("%d in flight, want 2", len(live))
	}
}

// TestGateReclaims settles an attempt that its shell forgot.
func TestGateReclaims(t *testing.T) {
	g := newGateAt(1)
	rep := g.Ask(2*Second, Ask{Request: 1, Route: "r"})
	wake := g.NextWake()
	if want := 2*Second + 60*Second + gateGrace; wake != want {
		t.Fatalf("wakes at %s, want %s", wake, want)
	}
	if g.Poll(wake-1, nil); g.running != 1 {
		t.Fatalf("%d running before its time", g.running)
	}
	if g.Poll(wake, nil); g.running != 0 {
		t.Fatalf("%d running after its time", g.running)
	}
	if n := g.Done(wake, rep.Permit.ID, Outcome{Class: ClassOK}); n.Reason != "settled before" {
		t.Errorf("a reclaimed attempt was settled again: %+v", n)
	}
	var r Attempts
	g.Report(wake, &r)
	if len(r.Attempts) != 1 || r.Attempts[0].Class != ClassTransport || r.Attempts[0].Rule != "never settled" {
		t.Errorf("reported %+v", r.Attempts)
	}
}

// TestGateAccepted counts what the provider surely took.
func TestGateAccepted(t *testing.T) {
	g := newGateAt(10)
	var ids []uint64
	for i := range 4 {
		ids = append(ids, g.Ask(2*Second, Ask{Request: uint64(i), Route: "r"}).Permit.ID)
	}
	accepted := func(now Nanos) (n int64) {
		for _, c := range g.channels {
			taken, _ := c.accepted(now)
			n += taken
		}
		return n
	}
	now := 2*Second + gateLeastRefusal/2
	if got := accepted(now); got != 0 {
		t.Errorf("%d accepted at once, want 0", got)
	}
	g.Accepted(now, ids[0])
	g.FirstToken(now, ids[1])
	g.FirstToken(now, 12345)
	if got := accepted(now); got != 2 {
		t.Errorf("%d accepted after two first bytes, want 2", got)
	}
	if got := accepted(2*Second + gateFirstRefusal); got != 4 {
		t.Errorf("%d accepted after the time of a refusal, want 4", got)
	}
	g.Done(3*Second, ids[1], Outcome{Class: ClassOK})
	var r Attempts
	g.Report(3*Second, &r)
	if got, want := r.Attempts[0].FirstToken, gateLeastRefusal/2; got != want {
		t.Errorf("first token after %s, want %s", got, want)
	}
	l := gateLocal{refusal: gateLeastRefusal}
	l.refusedAfter(Second)
	if l.refusal != 2*Second {
		t.Errorf("after a refusal of 1 s the estimate is %s", l.refusal)
	}
	for range 50 {
		l.refusedAfter(0)
	}
	if l.refusal != gateLeastRefusal {
		t.Errorf("after fifty quick refusals the estimate is %s", l.refusal)
	}
	if l.refusedAfter(10 * Minute); l.refusal != gateMostRefusal {
		t.Errorf("after a timeout the estimate is %s", l.refusal)
	}
}

// TestGateChoice draws by weight and prefers room.
func TestGateChoice(t *testing.T) {
	g := newGateAt(1000)
	count := map[string]int{}
	for i := range 1000 {
		p := g.Ask(2*Second, Ask{Request: uint64(i), Route: "r"}).Permit
		count[p.Channel]++
		g.Done(2*Second, p.ID, Outcome{Class: ClassOK})
	}
	if n := count["a"]; n < 700 || n > 980 {
		t.Errorf("weights 3:1 with equal room gave %v", count)
	}
	// Half full, a is drawn as often and loses against b whenever both are.
	clear(count)
	g.byChannel["a"].grant.slots = 2
	g.byChannel["a"].inflight = 1
	for i := range 1000 {
		p := g.Ask(2*Second, Ask{Request: uint64(i), Route: "r"}).Permit
		count[p.Channel]++
		g.Done(2*Second, p.ID, Outcome{Class: ClassOK})
	}
	if n := count["a"]; n < 450 || n > 680 {
		t.Errorf("weights 3:1 with a half full gave %v", count)
	}
}

// TestGatePending bounds the attempts that wait to be reported, and tells how
// many were dropped.
func TestGatePending(t *testing.T) {
	g := newGateAt(1000)
	g.cfg.PendingLimit = 150
	for i := range 400 {
		p := g.Ask(2*Second, Ask{Request: uint64(i), Route: "r"}).Permit
		g.Done(2*Second, p.ID, Outcome{Class: ClassOK})
	}
	var r Attempts
	g.Report(2*Second, &r)
	if r.Base != 250 || len(r.Attempts) != gateBatch || r.Attempts[0].Request != 250 {
		t.Errorf("base %d, %d attempts from request %d", r.Base, len(r.Attempts), r.Attempts[0].Request)
	}
	g.Report(2*Second, &r)
	if r.Base != 350 || len(r.Attempts) != 50 {
		t.Errorf("base %d, %d attempts", r.Base, len(r.Attempts))
	}
	var v GateView
	if g.View(2*Second, &v); v.Lost != 250 || v.Pending != 0 {
		t.Errorf("lost %d, pending %d", v.Lost, v.Pending)
	}
}

// TestGateQuotes times leases by the report they quote, also when the times of
// many reports were forgotten.
func TestGateQuotes(t *testing.T) {
	g := newGateAt(1)
	var r Attempts
	for i := range 2000 {
		g.Report(10*Second+Nanos(i)*Second, &r)
	}
	if n := len(g.out.sent); n > gateMaxSent {
		t.Errorf("%d times remembered", n)
	}
	for _, seq := range []uint64{1500, 1999} {
		s := g.out.quoted(seq)
		built := 10*Second + Nanos(seq-2)*Second
		if s.built > built || s.seq > seq {
			t.Errorf("report %d built at %s is taken as built at %s", seq, built, s.built)
		}
	}
	if s := g.out.quoted(0); s.built > -Hour {
		t.Errorf("a lease that quotes nothing counts from %s", s.built)
	}
	now := 3000 * Second
	g.SetLease(now, &Lease{Agent: "a", Boot: 1, Term: 2, Seq: 9, Quotes: 0, Duration: Hour, Channels: []ChannelGrant{{Channel: "a", Slots: 5, Safe: 1}}})
	var v GateView
	if g.View(now, &v); !v.Alone || v.Channels[0].Share != 1 {
		t.Errorf("a lease without time gives alone=%v share=%d", v.Alone, v.Channels[0].Share)
	}
}

// TestGateBounds sends messages that name more than may be remembered.
func TestGateBounds(t *testing.T) {
	g := newGateAt(1)
	l := &LimitSet{Term: 1, Seq: 5}
	for i := range 3 * gateMaxChannels {
		l.Channels = append(l.Channels, ChannelLimit{Channel: string(rune('A'+i%26)) + string(rune(i))})
	}
	g.SetLimits(2*Second, l)
	if n := len(g.channels); n > gateMaxChannels {
		t.Errorf("%d channels remembered", n)
	}
	known := len(g.tenants)
	for i := range 3 * gateMaxChannels {
		g.owner(string(rune('A'+i%26)) + string(rune(i)))
	}
	if n := len(g.tenants); n != known {
		t.Errorf("%d tenants remembered, %d are configured", n, known)
	}
	var r Attempts
	g.Summarize(nil, &Summary{}) // asks for a full report
	g.Report(2*Second, &r)
	if len(r.Channels) != 2 {
		t.Errorf("%d channels reported, want the 2 configured", len(r.Channels))
	}
	g.SetConfig(2*Second, 9, &Config{Channels: []ChannelConfig{{Name: "a"}}})
	if n := len(g.channels); n != 2 { // b still has a grant
		t.Errorf("%d channels remembered after a configuration", n)
	}
	h := gateHolds{}
	for i := range 2 * gateMaxHeld {
		h.add(Nanos(i))
	}
	if len(h) != gateMaxHeld {
		t.Errorf("%d slots held", len(h))
	}
}

// TestGateSummarize counts every attempt of unsent reports once.
func TestGateSummarize(t *testing.T) {
	g := newGateAt(1000)
	var facts []Fact
	total := map[SummaryCount]uint64{}
	for i := range 30 {
		for k := range 5 {
			p := g.Ask(2*Second, Ask{Request: uint64(i), Route: "r", Tokens: 10}).Permit
			o := Outcome{Class: Classes[(i+k)%len(Classes)], In: 1, Out: 2, UsageKnown: true}
			if o.Class.Refused() {
				o.Class = ClassInvalid
			}
			g.Done(2*Second, p.ID, o)
			total[SummaryCount{Channel: p.Channel, Class: o.Class}]++
		}
		r := &Attempts{}
		g.Report(2*Second+Nanos(i)*Second, r)
		facts = append(facts, r)
	}
	var first, all Summary
	g.Summarize(facts[:10], &first)
	g.Summarize(append([]Fact{&first}, facts[10:]...), &all)
	if all.Seq != 2 || all.Span != 30 || all.Base != 0 || all.Agent != "a" {
		t.Errorf("source %+v", all.Source)
	}
	got := map[SummaryCount]uint64{}
	for _, c := range all.Counts {
		if c.In != Tokens(c.Attempts) || c.Out != 2*Tokens(c.Attempts) {
			t.Errorf("%+v has other tokens than its attempts", c)
		}
		got[SummaryCount{Channel: c.Channel, Class: c.Class}] = c.Attempts
	}
	if d := cmp.Diff(total, got); d != "" {
		t.Errorf("counts differ: %s", d)
	}
	if len(all.Pools) != 1 || all.Pools[0].UsedRequests != 150 {
		t.Errorf("pools %+v", all.Pools)
	}
	// The fold takes it in place of the reports and loses nothing.
	f := NewFleet()
	var fx Effects
	f.Apply(Record{Seq: 1, Time: 1, Fact: &Config{Channels: []ChannelConfig{{Name: "a"}, {Name: "b"}}}}, &fx)
	f.Apply(Record{Seq: 2, Time: 2, Fact: &Attempts{Source: Source{Agent: "a", Boot: 1, Seq: 1, Span: 1}}}, &fx)
	f.Apply(Record{Seq: 3, Time: 3, Fact: &all}, &fx)
	var next Attempts
	g.Report(100*Second, &next)
	f.Apply(Record{Seq: 4, Time: 4, Fact: &next}, &fx)
	if c := f.Counters(); c.Lost != 0 || c.Repeated != 0 || c.Attempts != 150 {
		t.Errorf("the fold counts %+v", c)
	}
	if len(next.Channels) != 2 {
		t.Errorf("the report after a summary tells %d channels, want all", len(next.Channels))
	}
	a := &Attempts{Attempts: []Attempt{{Age: Second}}}
	if a.Older(2 * Second); a.Attempts[0].Age != 3*Second {
		t.Errorf("age %s after two seconds in the spool", a.Attempts[0].Age)
	}
}

// TestGateHopeless refuses at once what cannot be served in time at the pace
// the queue moves, and says how long it would take.
func TestGateHopeless(t *testing.T) {
	g := newGateAt(1)
	g.byChannel["b"].grant.slots = 0
	now := 2 * Second
	var live uint64
	for i := range 40 {
		rep := g.Ask(now, Ask{Request: uint64(i), Route: "r", Priority: PriorityNormal, Deadline: now + 10*Minute})
		if rep.Kind == ReplyAdmitted {
			live = rep.Permit.ID
		}
	}
	for range 10 { // one a second
		now += Second
		g.Done(now, live, Outcome{Class: ClassOK})
		for _, r := range g.Poll(now, nil) {
			live = r.Permit.ID
		}
	}
	rep := g.Ask(now, Ask{Request: 100, Route: "r", Priority: PriorityNormal, Deadline: now + 20*Minute})
	if rep.Kind != ReplyQueued || rep.Position != 30 || rep.Wait < 25*Second || rep.Wait > 35*Second {
		t.Errorf("patient request: %s position=%d wait=%s", rep.Kind, rep.Position, rep.Wait)
	}
	// An earlier deadline goes before the others, so it can be met.
	rep = g.Ask(now, Ask{Request: 101, Route: "r", Priority: PriorityNormal, Deadline: now + 5*Second})
	if rep.Kind != ReplyQueued || rep.Position != 1 {
		t.Errorf("urgent request: %s position=%d", rep.Kind, rep.Position)
	}
	rep = g.Ask(now, Ask{Request: 102, Route: "r", Priority: PriorityBatch, Deadline: now + 20*Second})
	if rep.Kind != ReplyRefused || rep.Position != 32 || rep.Wait < 25*Second || rep.Class != ClassOverloaded {
		t.Errorf("hopeless request: %+v", rep)
	}
}

// TestGateTellsWhoIsTooLate refuses what waits when it has less time left than a
// call takes, whatever place it has, though no slot becomes free meanwhile.
func TestGateTellsWhoIsTooLate(t *testing.T) {
	g := newGateAt(1)
	g.byChannel["b"].grant.slots = 0
	now := 2 * Second
	ask := func(id uint64, within Nanos) Reply {
		return g.Ask(now, Ask{Request: id, Route: "r", Tokens: 100, Deadline: now + within})
	}
	for id := range uint64(paceLeast) {
		rep := ask(id, Minute)
		now += 10 * Second
		g.Done(now, rep.Permit.ID, Outcome{Class: ClassOK})
		g.Poll(now, nil)
	}
	g.byChannel["b"].pace = g.byChannel["a"].pace
	began := now
	if rep := ask(10, 10*Minute); rep.Kind != ReplyAdmitted {
		t.Fatalf("%s: %s", rep.Kind, rep.Reason)
	}
	for id, within := range map[uint64]Nanos{11: 25 * Second, 12: 35 * Second, 13: 10 * Minute} {
		if rep := ask(id, within); rep.Kind != ReplyQueued {
			t.Fatalf("%d: %s: %s", id, rep.Kind, rep.Reason)
		}
	}
	for _, want := range []struct {
		request uint64
		after   Nanos
	}{{11, 15 * Second}, {12, 25 * Second}} {
		var got []Reply
		for len(got) == 0 && now < began+Minute {
			now = max(now+1, g.NextWake())
			got = g.Poll(now, nil)
		}
		if len(got) != 1 || got[0].Request != want.request || got[0].Kind != ReplyRefused || got[0].Class != ClassOverloaded || now != began+want.after+1 {
			t.Errorf("after %s: %+v, want %d refused after %s", now-began, got, want.request, want.after)
		}
	}
}

// BenchmarkGate is one call through the gate: Ask and Done, admitted, with a
// report every fifty.
func BenchmarkGate(b *testing.B) {
	g := newGateAt(100)
	var r Attempts
	now := 2 * Second
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now += Millisecond
		rep := g.Ask(now, Ask{Request: 1, Route: "r", Tokens: 100, Deadline: now + Minute})
		g.Done(now, rep.Permit.ID, Outcome{Class: ClassOK, In: 50, Out: 50, UsageKnown: true})
		if i%50 == 0 {
			g.Report(now, &r)
		}
	}
}

// BenchmarkGateQueue is one call through a queue of 500: Done, Poll, Ask.
func BenchmarkGateQueue(b *testing.B) {
	g := newGateAt(10)
	now := 2 * Second
	var live []uint64
	out := make([]Reply, 0, 16)
	var r Attempts
	for i := range 520 {
		if rep := g.Ask(now, Ask{Request: uint64(i), Route: "r", Deadline: now + 10*Minute}); rep.Kind == ReplyAdmitted {
			live = append(live, rep.Permit.ID)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now += Millisecond
		k := i % len(live)
		g.Done(now, live[k], Outcome{Class: ClassOK})
		for _, rep := range g.Poll(now, out) {
			live[k] = rep.Permit.ID
		}
		g.Ask(now, Ask{Request: 1, Route: "r", Deadline: now + 10*Minute})
		if i%50 == 0 {
			g.Report(now, &r)
		}
	}
}

// TestGateTooLateForOneTier holds that a request which has too little time left
// for the first tier, and waits for the next, keeps nobody from the first.
func TestGateTooLateForOneTier(t *testing.T) {
	g := NewGate(GateConfig{Agent: "a", Boot: 1, Rand: rand.New(rand.NewPCG(1, 1))})
	g.SetConfig(Second, 1, &Config{
		Channels: []ChannelConfig{{Name: "a"}, {Name: "b"}},
		Routes:   []RouteConfig{{Name: "r", DegradeOther: 30 * Second, Tiers: []TierConfig{{Channels: []WeightedChannel{{"a", 1}}}, {Channels: []WeightedChannel{{"b", 1}}}}}},
		Retry:    RetryConfig{MaxAttempts: 3, Base: Second, Budget: 100_000},
	})
	g.Report(Second, &Attempts{})
	g.SetLease(Second, &Lease{Agent: "a", Boot: 1, Term: 1, Seq: 1, Quotes: 1, Duration: Hour, Channels: []ChannelGrant{{Channel: "a", Slots: 1, Safe: 1}}})
	now := 2 * Second
	for range 20 {
		p := g.Ask(now, Ask{Request: 1, Route: "r", Deadline: now + Minute}).Permit
		now += 10 * Second
		g.Done(now, p.ID, Outcome{Class: ClassOK})
	}
	running := g.Ask(now, Ask{Request: 1, Route: "r", Deadline: now + Minute}).Permit
	g.Ask(now, Ask{Request: 2, Route: "r", Deadline: now + 12*Second})
	g.Ask(now, Ask{Request: 3, Route: "r", Deadline: now + 50*Second})
	now += 5 * Second
	g.Done(now, running.ID, Outcome{Class: ClassOK})
	got := g.Poll(now, nil)
	if len(got) != 1 || got[0].Kind != ReplyAdmitted || got[0].Request != 3 || got[0].Permit.Channel != "a" {
		t.Errorf("got %+v, want request 3 on a", got)
	}
}
