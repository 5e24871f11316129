package model

import "testing"

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
