package model

import (
	"testing"

	"pgregory.net/rapid"
)

// passGate is a gate whose group g is granted tokens in steps.
type passGate struct {
	g       *Gate
	now     Nanos
	seq     uint64
	granted Tokens
	started map[uint64]bool
	tickets map[Ticket]uint64
}

func newPassGate() *passGate {
	x := &passGate{g: newGateAt(1 << 20), now: 2 * Second, seq: 1, started: map[uint64]bool{}, tickets: map[Ticket]uint64{}}
	x.grant(0, true)
	return x
}

// grant adds tokens, and says whether the fleet lacks them more than requests.
func (x *passGate) grant(tokens Tokens, scarce bool) {
	x.seq++
	x.granted += tokens
	x.g.SetLease(x.now, &Lease{
		Agent: "a", Boot: 1, Term: 1, Seq: x.seq, Quotes: 1, Duration: 10_000 * Hour,
		Channels: []ChannelGrant{{Channel: "a", Slots: 1 << 20, Safe: 1 << 20}, {Channel: "b", Slots: 1 << 20, Safe: 1 << 20}},
		Pools:    []PoolGrant{{Pool: PoolOfGroup("g"), Revision: x.seq, Requests: -1, Tokens: x.granted, Scarce: scarce}},
	})
	x.poll()
}

func (x *passGate) ask(id uint64, p Priority, tokens Tokens, deadline Nanos) Reply {
	r := x.g.Ask(x.now, Ask{Request: id, Route: "r", Priority: p, Tokens: tokens, Deadline: deadline})
	if r.Kind == ReplyAdmitted {
		x.started[id] = true
	}
	x.tickets[r.Ticket] = id
	x.poll()
	return r
}

func (x *passGate) poll() {
	for _, r := range x.g.Poll(x.now, nil) {
		if r.Kind == ReplyAdmitted {
			x.started[r.Request] = true
		}
	}
}

// TestPassedOnlySoFar holds that who waits for tokens is passed by no more of
// them than it needs itself, whatever comes and however they come: when as much
// again was granted it has started. What is granted is never exceeded.
func TestPassedOnlySoFar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newPassGate()
		need := Tokens(rapid.IntRange(1, 1000).Draw(t, "need"))
		if r := x.ask(1, PriorityInteractive, need, 9000*Hour); r.Position != 1 {
			t.Fatalf("the only one is at %d", r.Position)
		}
		used := x.g.pools[len(x.g.pools)-1]
		id := uint64(1)
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				id++
				priority := Priority(rapid.IntRange(0, 2).Draw(t, "priority"))
				x.ask(id, priority, Tokens(rapid.IntRange(0, 1000).Draw(t, "tokens")), 9000*Hour+Nanos(id))
			},
			"grant": func(t *rapid.T) {
				x.grant(Tokens(rapid.IntRange(0, 500).Draw(t, "more")), rapid.Bool().Draw(t, "scarce"))
			},
			"wait": func(*rapid.T) { x.now += Minute; x.poll() },
			"": func(t *rapid.T) {
				if used.usedTokens > x.granted {
					t.Fatalf("%d tokens used, %d granted", used.usedTokens, x.granted)
				}
				if x.granted >= 2*need && !x.started[1] {
					t.Fatalf("needs %d and waits, %d were granted, %d used, %v", need, x.granted, used.usedTokens, x.started)
				}
			},
		})
	})
}

// TestPassing holds who passes whom.
func TestPassing(t *testing.T) {
	x := newPassGate()
	x.ask(1, PriorityNormal, 1000, Hour)
	x.ask(2, PriorityNormal, 600, Hour)
	x.ask(3, PriorityNormal, 300, Hour)
	x.ask(4, PriorityBatch, 100, Hour)
	for _, step := range []struct {
		grant  Tokens
		starts uint64
		why    string
	}{
		{100, 0, "batch passes nobody who is more urgent"},
		{200, 3, "the first that fits passes, and as many tokens as the first needs"},
		{600, 2, "again"},
		{999, 0, "now it is passed no more"},
		{1, 1, "and all is for it"},
		{100, 4, "then comes what is less urgent"},
	} {
		before := len(x.started)
		x.grant(step.grant, true)
		if step.starts == 0 && len(x.started) != before || step.starts > 0 && (len(x.started) != before+1 || !x.started[step.starts]) {
			t.Errorf("%d more: started %v; %s", step.grant, x.started, step.why)
		}
	}
}

// TestNextIsTold holds that a report says what starts next: the smallest while
// tokens are scarce and it may pass, else the first.
func TestNextIsTold(t *testing.T) {
	x := newPassGate()
	x.ask(1, PriorityNormal, 1000, Hour)
	x.ask(2, PriorityNormal, 600, Hour)
	x.ask(3, PriorityNormal, 300, Hour)
	next := func() Tokens {
		var r Attempts
		x.now += Second
		x.g.Report(x.now, &r)
		return r.Pools[0].Next
	}
	for _, step := range []struct {
		grant  Tokens
		scarce bool
		want   Tokens
	}{
		{0, true, 300}, {0, false, 1000}, {300, true, 600}, {600, true, 1000}, {1000, true, 0},
	} {
		x.grant(step.grant, step.scarce)
		if got := next(); got != step.want {
			t.Errorf("after %d more, scarce %t: next needs %d, want %d", step.grant, step.scarce, got, step.want)
		}
	}
}
