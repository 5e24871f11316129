package model

import (
	"math/rand/v2"
	"testing"
)

// TestGateYields holds that long calls leave free the slots that shorter and more
// urgent ones have used lately, while none of those runs; that one of them runs
// at least; that calls as short take what is free; and that the slots are theirs
// once the urgent ones have stayed away.
func TestGateYields(t *testing.T) {
	const short, long = 100, 100_000
	start := func(tokens Tokens) (g *Gate, now Nanos, batch func() int) {
		g, now = newGateAt(4), 2*Second
		for range 60 {
			var permits []uint64
			for range 6 {
				permits = append(permits, g.Ask(now, Ask{Request: 1, Route: "r", Priority: PriorityInteractive, Tokens: short, Deadline: now + Minute}).Permit.ID)
			}
			now += Second
			for _, id := range permits {
				g.Done(now, id, Outcome{Class: ClassOK})
			}
		}
		for _, c := range g.channels {
			for range 10 {
				c.pace.add(now, Minute, long)
			}
		}
		for range 20 {
			g.Ask(now, Ask{Request: 3, Route: "r", Priority: PriorityBatch, Tokens: tokens, Deadline: now + Hour})
		}
		return g, now, func() int { g.Poll(now, nil); return g.running }
	}
	g, now, batch := start(long)
	if got := batch(); got < 2 || got > 4 {
		t.Errorf("%d of 8 slots have long calls beside 6 short ones at a time; want one for each channel and no more than 4", got)
	}
	if a := g.Ask(now, Ask{Request: 4, Route: "r", Priority: PriorityInteractive, Tokens: short, Deadline: now + Minute}); a.Kind != ReplyAdmitted {
		t.Errorf("a short call is %s: %s", a.Kind, a.Reason)
	}
	g.Poll(now+10*useHalf, nil)
	if g.running != 8 {
		t.Errorf("%d of 8 slots are used once the short calls have stayed away", g.running)
	}
	if _, _, batch := start(short); batch() != 8 {
		t.Error("short calls are kept waiting for short ones")
	}
}

// TestGateAloneNoise holds that a gate without a lease takes a server error after
// many good calls for noise, and the next one not.
func TestGateAloneNoise(t *testing.T) {
	g := NewGate(GateConfig{Agent: "a", Boot: 1, Rand: rand.New(rand.NewPCG(1, 1))})
	g.SetConfig(Second, 1, &Config{
		Channels: []ChannelConfig{{Name: "a"}},
		Routes:   []RouteConfig{{Name: "r", DegradeOther: -1, Tiers: []TierConfig{{Channels: []WeightedChannel{{"a", 1}}}}}},
		Retry:    RetryConfig{MaxAttempts: 1, Base: Second},
	})
	g.Report(Second, &Attempts{})
	g.SetLease(Second, &Lease{Agent: "a", Boot: 1, Term: 1, Seq: 1, Quotes: 1, Duration: Second, Channels: []ChannelGrant{{Channel: "a", Slots: 10, Safe: 10}}})
	now, c := Minute, g.byChannel["a"]
	call := func(o Outcome) int64 {
		p := g.Ask(now, Ask{Request: 1, Route: "r", Tokens: 1, Deadline: now + Minute}).Permit
		if p.ID == 0 {
			t.Fatal("not admitted")
		}
		now += Second
		g.Done(now, p.ID, o)
		return c.share(now, g.lost, g.met)
	}
	for range 2 * aloneNoise {
		call(Outcome{Class: ClassOK})
	}
	failed := Outcome{Class: ClassOverloaded, Status: 500}
	if got := call(failed); !g.lost || got != 10 {
		t.Errorf("lost is %t; an error after a hundred good calls leaves %d of 10 slots", g.lost, got)
	}
	if got := call(failed); got != 7 {
		t.Errorf("the second in a row leaves %d of 10 slots, want 7", got)
	}
}
