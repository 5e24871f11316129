package events_test

import (
	"math/rand/v2"

	"weir/model"
)

// samples holds one value of every kind of fact, with every field set where
// that is legal. The frozen bytes of v1 decode to them.
func samples() map[string]model.Fact {
	params := model.DefaultParams()
	params.CutShare = 850_000
	return map[string]model.Fact{
		"attempts": sampleAttempts(),
		"next":     sampleNext(),
		"alive":    &model.Attempts{Source: model.Source{Agent: "a1", Boot: 7, Seq: 3, Span: 1, Base: 41}},
		"summary":  sampleSummary(),
		"config":   sampleConfig(),
		"tenants":  sampleTenants(),
		"pushed":   &model.Config{Fleet: "default", By: "ops", Why: "the spare is back"},
		"params":   &model.ParamSet{Name: "spring", By: "ops", Why: "calmer cuts", Params: params},
		"guarded": &model.ParamSet{
			Name: "spring", By: "ops", Why: "calmer cuts", Params: params, Canary: "main",
			Guard: model.Guard{For: 10 * model.Minute, Goodput: -20_000, Waste: 10_000},
		},
		"command": &model.Command{
			Command: model.CommandSetLimit, Channel: "minimax-main", Agent: "a1", Value: -1,
			For: 5 * model.Minute, By: "ops", Why: "maintenance at the provider",
		},
		"lead":   &model.Lead{Term: 12, Controller: "ctl-1", Version: "0.1.0", Laws: 3},
		"tick":   &model.Tick{Term: 12, Elapsed: 250 * model.Millisecond},
		"rebase": &model.Rebase{Term: 12, Snapshot: []byte("state"), Digest: [32]byte{1, 2, 31: 9}, Reason: "log ended at 900, state is at 1000"},
	}
}

func sampleAttempts() *model.Attempts {
	return &model.Attempts{
		Source:  model.Source{Agent: "agent-0", Boot: 1_790_000_000_123_456_789, Seq: 4711, Span: 1, Base: 99_000},
		Version: "0.1.0",
		Mode:    model.ModeObserve,
		Leaving: true,
		Channels: []model.ChannelReport{
			{Channel: "minimax-main", InFlight: 28, Held: 2, Accepted: 20, Queued: 300, Urgent: 4, WaitingTokens: 1_200_000, Applied: 88_001, WouldRefuse: 5},
			{Channel: "spare"},
		},
		Pools: []model.PoolReport{
			{Pool: "channel/minimax-main", UsedRequests: 99_002, UsedTokens: 812_000_000, WaitingRequests: 300, WaitingTokens: 1_200_000, Applied: 88_000},
			{Pool: "group/acct-a"},
		},
		Attempts: []model.Attempt{
			{
				Route: "m2.7", Request: 1, Try: 1, Tenant: "content", Age: 80 * model.Millisecond, Took: 3*model.Second + 1, FirstToken: 700 * model.Millisecond,
				Class: model.ClassOK, Status: 200, Reserved: 4600, In: 4000, Cached: 1024, Out: 612, UsageKnown: true, RetryAfter: -1, Epoch: 17, Rule: "minimax.1/ok",
			},
			{
				Channel: 1, Route: "m2.7-light", Tier: 2, Request: 0xfeed_f00d_dead_beef, Try: 3, Tenant: "other", Priority: model.PriorityInteractive,
				Age: 10 * model.Millisecond, Took: 50 * model.Millisecond, Queued: model.Second, Class: model.ClassRateLimited, Scope: model.ScopeGroup,
				Code: "2064", Status: 429, Reserved: 5000, RetryAfter: 0,
				Hints: []model.LimitHint{
					{Dimension: model.DimTokens, Limit: 100_000, Remaining: 0, Reset: 42 * model.Second},
					{Dimension: model.DimRequests, Limit: -1, Remaining: 3, Reset: -1},
				},
				Epoch: 18, Probe: 5, Degraded: true, Rule: "minimax.1/2064",
			},
			{
				Channel: 1, Route: "m2.7", Request: 2, Try: 1, Age: 90 * model.Millisecond, Class: model.ClassTransport,
				RetryAfter: 90 * model.Second, Priority: model.PriorityNormal,
			},
		},
	}
}

func sampleSummary() *model.Summary {
	return &model.Summary{
		Source: model.Source{Agent: "agent-0", Boot: 9, Seq: 100, Span: 250, Base: 4000},
		Counts: []model.SummaryCount{
			{Channel: "minimax-main", Class: model.ClassOK, Attempts: 900, In: 3_600_000, Out: 500_000},
			{Channel: "minimax-main", Class: model.ClassCanceled, Attempts: 2, In: 8000},
			{Channel: "spare", Class: model.ClassOverloaded, Attempts: 7},
		},
		Pools: []model.PoolReport{{Pool: "group/acct-a", UsedRequests: 909, UsedTokens: 4_108_000, Applied: 77}},
	}
}

func sampleConfig() *model.Config {
	return &model.Config{
		Fleet: "default",
		Mode:  model.ModeObserve,
		Channels: []model.ChannelConfig{
			{
				Name: "minimax-main", Provider: "minimax", Model: "MiniMax-M2.7", Groups: []string{"acct-a", "acct-b"},
				Limits: model.Limits{
					RequestsPerMinute: 60, TokensPerMinute: 100_000, InputTokensPerMinute: 80_000, OutputTokensPerMinute: 20_000,
					ImagesPerMinute: 5, RequestsPerDay: 10_000, TokensPerDay: 5_000_000, Concurrency: 30, DayReset: 16 * model.Hour,
				},
				ChargeMax: true, Price: model.Price{Input: 300_000, Cached: 30_000, Output: 1_200_000},
				OnLoss: model.OnLossLast, Alone: 2, Mode: model.ModeObserve, HasMode: true,
			},
			{Name: "spare"},
		},
		Groups: []model.GroupConfig{{Name: "acct-a", Limits: model.Limits{TokensPerDay: 5_000_000}}, {Name: "acct-b"}},
		Routes: []model.RouteConfig{{
			Name: "m2.7",
			Tiers: []model.TierConfig{
				{Channels: []model.WeightedChannel{{Channel: "minimax-main", Weight: 3}, {Channel: "spare", Weight: 1}}},
				{Capability: "light", Rule: "busy, please try later"},
			},
			DegradeCore: -1, DegradeOther: 30 * model.Second,
		}},
		Tenants: []model.TenantConfig{{
			Name: "content", Priority: model.PriorityInteractive, Share: 2,
			TokensPerDaySoft: 400_000, TokensPerDayHard: 500_000, CostPerDaySoft: 5_000_000, CostPerDayHard: 8_000_000,
		}},
		Retry: model.RetryConfig{
			MaxAttempts: 3, Base: model.Second, Max: 30 * model.Second, Multiplier: 2 * model.One, Jitter: 200_000,
			Budget: 100_000, Total: 2 * model.Minute,
		},
		Timeouts: model.TimeoutConfig{Connect: 2 * model.Second, FirstToken: 15 * model.Second, Total: 2 * model.Minute},
	}
}

func sampleLimits() *model.LimitSet {
	return &model.LimitSet{
		Term: 12, Seq: 88_010,
		Channels: []model.ChannelLimit{
			{
				Channel: "minimax-main", Revision: 88_001, Window: 24_500, Epoch: 18, Weight: 700_000, Breaker: model.BreakerHalfOpen,
				Wait: 2 * model.Second, Mode: model.ModeObserve,
				Cuts: []model.Cut{{Revision: 87_000, Num: 24, Den: 30}, {Revision: 88_001, Num: 0, Den: 1}}, Reason: "cut to what was accepted",
			},
			{Channel: "spare", Weight: model.One},
		},
	}
}

// sampleTenants says of tenants what came later.
func sampleTenants() *model.Config {
	c := sampleConfig()
	c.Tenants = append(c.Tenants, model.TenantConfig{
		Name: "search", Share: 1, RequestsPerDaySoft: 800, RequestsPerDayHard: 1000, DayReset: 16 * model.Hour,
	})
	return c
}

// sampleDays is a broadcast with days, which came later.
func sampleDays() *model.LimitSet {
	l := sampleLimits()
	l.Channels[1].Spent, l.Channels[1].Wait = true, 9*model.Hour
	l.Quotas = []model.Quota{
		{Name: "channel/spare", Stage: model.StageSpent, Reset: 9 * model.Hour, Used: [model.NumDaily]int64{1000, 5_000_000, 0}, Hard: [model.NumDaily]int64{1000, 0, 0}, Reason: "channel spare: requests_per_day 1000 reached"},
		{Name: "tenant/content", Reset: model.Hour, Used: [model.NumDaily]int64{3, 4000, 70}, Soft: [model.NumDaily]int64{0, 9000, 1}, Hard: [model.NumDaily]int64{10, 0, 2}},
	}
	return l
}

func sampleLease() *model.Lease {
	return &model.Lease{
		Agent: "agent-0", Boot: 9, Term: 12, Seq: 88_010, Quotes: 4711, Duration: 15 * model.Second,
		Channels: []model.ChannelGrant{
			{Channel: "minimax-main", Revision: 88_001, Slots: 6, Safe: 5, Offset: 12, Epoch: 18, Probe: 5, ProbeWithin: model.Minute},
			{Channel: "spare"},
		},
		Pools: []model.PoolGrant{
			{Pool: "group/acct-a", Revision: 88_000, Requests: -1, Tokens: 900_000, SafeRequests: 1500, SafeTokens: 3000},
			{Pool: "group/acct-b", Requests: 10, Tokens: -1},
		},
	}
}

// sampleNext and sampleScarce use what the first addition brought.
func sampleNext() *model.Attempts {
	return &model.Attempts{
		Source: model.Source{Agent: "a1", Boot: 7, Seq: 4, Span: 1, Base: 41},
		Pools:  []model.PoolReport{{Pool: "channel/main", WaitingRequests: 2, WaitingTokens: 9000, Next: 700}, {Pool: "group/acct-a"}},
	}
}

func sampleScarce() *model.Lease {
	l := sampleLease()
	l.Pools[1].Scarce = true
	return l
}

func sampleTerm() *model.TermNotice {
	return &model.TermNotice{Term: 12, Seq: 88_000, Controller: "ctl-1"}
}

// typical returns a report as a busy agent sends it: n attempts of two routes,
// a few tenants, random request ids, durations to the nanosecond, some refusals.
func typical(n int) *model.Attempts {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(names ...string) string { return names[rng.IntN(len(names))] }
	a := &model.Attempts{
		Source: model.Source{Agent: "agent-0", Boot: 1_790_000_000_123_456_789, Seq: 4711, Span: 1, Base: 99_000},
		Channels: []model.ChannelReport{
			{Channel: "minimax-main", InFlight: 28, Accepted: 20, Queued: 12, WaitingTokens: 60_000, Applied: 88_001},
			{Channel: "minimax-spare", InFlight: 3, Applied: 87_500},
		},
		Pools: []model.PoolReport{{Pool: "group/acct-a", UsedRequests: 99_002, UsedTokens: 812_000_000, Applied: 88_000}},
	}
	age := 100 * int64(model.Millisecond)
	for range n {
		age -= rng.Int64N(age/20 + 1)
		t := model.Attempt{
			Channel: uint16(rng.IntN(10) / 9), Route: pick("m2.7", "m2.7", "m2.7", "light"), Request: rng.Uint64(), Try: 1,
			Tenant: pick("content", "content", "search", "chat"), Priority: model.PriorityNormal, Age: model.Nanos(age),
			Took: 2*model.Second + model.Nanos(rng.Int64N(4e9)), FirstToken: model.Nanos(4e8 + rng.Int64N(1e9)),
			Class: model.ClassOK, Status: 200, Reserved: model.Tokens(2000 + rng.IntN(8000)), In: model.Tokens(1000 + rng.IntN(8000)),
			Cached: model.Tokens(rng.IntN(2) * rng.IntN(1000)), Out: model.Tokens(400 + rng.IntN(400)), UsageKnown: true, RetryAfter: -1,
			Epoch: 17, Rule: "minimax.1/ok",
		}
		if rng.IntN(2) == 0 {
			t.Queued = model.Nanos(rng.Int64N(2e9))
		}
		if rng.IntN(25) == 0 {
			t.Class, t.Code, t.Status, t.Rule = model.ClassOverloaded, "2064", 200, "minimax.1/2064"
			t.In, t.Cached, t.Out, t.FirstToken, t.UsageKnown = 0, 0, 0, 0, false
		}
		a.Attempts = append(a.Attempts, t)
	}
	return a
}
