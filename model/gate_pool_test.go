package model

import "testing"

// TestGateBudgetSpent holds that a refusal for a budget that is used up says
// about when there is more of it, though only news can tell exactly.
func TestGateBudgetSpent(t *testing.T) {
	for _, tt := range []struct {
		name  string
		grant PoolGrant
		want  Nanos
	}{
		{"requests", PoolGrant{Requests: 1, Tokens: -1, SafeRequests: 4_000}, 15 * Second},
		{"tokens", PoolGrant{Requests: -1, Tokens: 100, SafeTokens: 300}, 20 * Second},
		{"both", PoolGrant{Requests: 1, Tokens: 100, SafeRequests: 4_000, SafeTokens: 300}, 20 * Second},
		{"nothing comes", PoolGrant{Requests: 1, Tokens: -1}, 0},
	} {
		g := newGateAt(8)
		tt.grant.Pool = PoolOfGroup("g")
		grant := Lease{
			Agent: "a", Boot: 1, Term: 1, Seq: 2, Quotes: 1, Duration: Hour, Pools: []PoolGrant{tt.grant},
			Channels: []ChannelGrant{{Channel: "a", Slots: 8, Safe: 8}, {Channel: "b", Slots: 8, Safe: 8}},
		}
		g.SetLease(2*Second, &grant)
		ask := func(deadline Nanos) Reply {
			return g.Ask(3*Second, Ask{Request: 1, Route: "r", Tokens: 100, Deadline: deadline})
		}
		if r := ask(Hour); r.Kind != ReplyAdmitted {
			t.Fatalf("%s: the first call is %v: %s", tt.name, r.Kind, r.Reason)
		}
		if r := ask(4 * Second); r.Kind != ReplyQueued {
			t.Fatalf("%s: the second call is %v: %s", tt.name, r.Kind, r.Reason)
		}
		replies := g.Poll(4*Second, nil)
		if len(replies) != 1 || replies[0].Kind != ReplyRefused || replies[0].Class != ClassRateLimited || replies[0].Wait != tt.want {
			t.Errorf("%s: %+v, want a refusal with a wait of %v", tt.name, replies, tt.want)
		}
	}
}
