package model

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// dayGate returns a gate with a route of two tiers, each a channel that may be
// used without a controller.
func dayGate(t *testing.T, mode Mode) *Gate {
	t.Helper()
	g := NewGate(GateConfig{Agent: "a", Boot: 1, Rand: rand.New(rand.NewPCG(1, 2))})
	c := &Config{
		Mode: mode,
		Channels: []ChannelConfig{
			{Name: "light", Alone: 8}, {Name: "main", Alone: 8, Limits: Limits{RequestsPerDay: 100}},
		},
		Routes: []RouteConfig{
			{Name: "both", Tiers: []TierConfig{{Channels: []WeightedChannel{{"main", 1}}}, {Channels: []WeightedChannel{{"light", 1}}}}},
			{Name: "one", Tiers: []TierConfig{{Channels: []WeightedChannel{{"main", 1}}}, {Rule: "later"}}, DegradeCore: -1, DegradeOther: -1},
		},
		Tenants: []TenantConfig{{Name: "content", Share: 1, TokensPerDaySoft: 50, TokensPerDayHard: 100}},
	}
	c.Normalize()
	g.SetConfig(Second, 1, c)
	return g
}

func TestGateDay(t *testing.T) {
	g := dayGate(t, ModeEnforce)
	now := 2 * Second
	g.SetLimits(now, &LimitSet{Term: 1, Seq: 5, Channels: []ChannelLimit{{Channel: "main", Revision: 5, Weight: One, Wait: Hour, Spent: true}}})
	if r := g.Ask(now, Ask{Request: 1, Route: "both"}); r.Kind != ReplyAdmitted || r.Permit.Channel != "light" || !r.Permit.Degraded {
		t.Errorf("the next tier is not used: %+v", r)
	}
	r := g.Ask(now, Ask{Request: 2, Route: "one"})
	if r.Kind != ReplyRefused || r.Class != ClassQuotaExhausted || r.Wait != Hour || !strings.Contains(r.Reason, "day's budget") {
		t.Errorf("got %+v, want a refusal for the quota that names the hour", r)
	}
	if r := g.Ask(now, Ask{Request: 3, Route: "one", Deadline: 2 * Hour}); r.Kind != ReplyQueued || r.Class != ClassQuotaExhausted {
		t.Errorf("a request with more time than that does not wait: %+v", r)
	}
	out := g.Poll(now+Hour, nil)
	if len(out) != 1 || out[0].Kind != ReplyAdmitted {
		t.Errorf("after the reset %+v, want it admitted", out)
	}
}

func TestGateTenantCeiling(t *testing.T) {
	now := 2 * Second
	say := func(g *Gate, seq uint64, stage Stage, reason string) {
		g.SetLimits(now, &LimitSet{Term: 1, Seq: seq, Quotas: []Quota{{Name: DayOfTenant("content"), Stage: stage, Reset: Hour, Reason: reason}}})
	}
	g := dayGate(t, ModeEnforce)
	say(g, 5, StageSoft, "soft")
	if r := g.Ask(now, Ask{Request: 1, Route: "one", Tenant: "content"}); r.Kind != ReplyAdmitted {
		t.Errorf("the limit that warns refuses: %+v", r)
	}
	if got := g.Warning(now, "content"); got != "soft" {
		t.Errorf("warning %q", got)
	}
	say(g, 7, StageSpent, "hard")
	say(g, 6, StageFree, "") // older news
	r := g.Ask(now, Ask{Request: 2, Route: "one", Tenant: "content", Deadline: 2 * Hour})
	if r.Kind != ReplyRefused || r.Class != ClassQuotaExhausted || r.Wait != Hour || r.Reason != "hard" {
		t.Errorf("got %+v, want a refusal with class, wait and reason", r)
	}
	if r := g.Ask(now, Ask{Request: 3, Route: "one", Tenant: "other"}); r.Kind != ReplyAdmitted {
		t.Errorf("another tenant is refused: %+v", r)
	}
	if r := g.Ask(now+Hour, Ask{Request: 4, Route: "one", Tenant: "content"}); r.Kind != ReplyAdmitted || g.Warning(now+Hour, "content") != "" {
		t.Errorf("refused when the day is over: %+v", r)
	}
	g = dayGate(t, ModeObserve)
	say(g, 7, StageSpent, "hard")
	if r := g.Ask(now, Ask{Request: 2, Route: "one", Tenant: "content"}); r.Kind != ReplyAdmitted {
		t.Errorf("observe mode refuses: %+v", r)
	}
}

// TestGateTenantCeilingInQueue looks at requests that wait when the ceiling is
// reached.
func TestGateTenantCeilingInQueue(t *testing.T) {
	g := dayGate(t, ModeEnforce)
	now := 2 * Second
	g.SetLimits(now, &LimitSet{Term: 1, Seq: 5, Channels: []ChannelLimit{{Channel: "main", Revision: 5, Weight: One, Wait: Second}}})
	if r := g.Ask(now, Ask{Request: 1, Route: "one", Tenant: "content"}); r.Kind != ReplyQueued {
		t.Fatalf("got %+v, want it to wait", r)
	}
	g.SetLimits(now, &LimitSet{Term: 1, Seq: 6, Quotas: []Quota{{Name: DayOfTenant("content"), Stage: StageSpent, Reset: Hour, Reason: "hard"}}})
	out := g.Poll(now, nil)
	if len(out) != 1 || out[0].Kind != ReplyRefused || out[0].Class != ClassQuotaExhausted || g.queue.n != 0 {
		t.Errorf("got %+v and %d that wait, want it refused", out, g.queue.n)
	}
}
