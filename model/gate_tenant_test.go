package model

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// shareGate returns a gate whose only channel takes slots calls at a time.
func shareGate(slots uint32, queue int) *Gate {
	g := NewGate(GateConfig{Agent: "a", Boot: 1, QueueLimit: queue, Rand: rand.New(rand.NewPCG(1, 2))})
	g.SetConfig(Second, 1, &Config{
		Channels: []ChannelConfig{{Name: "m", Alone: slots}},
		Routes:   []RouteConfig{{Name: "r", DegradeCore: -1, DegradeOther: -1, Tiers: []TierConfig{{Channels: []WeightedChannel{{"m", 1}}}}}},
		Tenants:  []TenantConfig{{Name: "big", Share: 3}, {Name: "small", Share: 1}},
	})
	return g
}

// TestGateSharesSlots lets two tenants ask for more than there is: slots go by
// share, what one leaves idle is lent, and it is back within one call's time.
func TestGateSharesSlots(t *testing.T) {
	g := shareGate(8, 10_000)
	type call struct {
		ends   Nanos
		permit uint64
		tenant string
	}
	var calls []call
	tenants := map[uint64]string{}
	started := map[string]int{}
	var id uint64
	now := 2 * Second
	begin := func(r Reply) {
		if r.Kind == ReplyAdmitted {
			who := tenants[r.Request]
			started[who]++
			calls = append(calls, call{now + Second, r.Permit.ID, who})
		}
	}
	ask := func(tenant string) {
		id++
		tenants[id] = tenant
		begin(g.Ask(now, Ask{Request: id, Route: "r", Tenant: tenant, Tokens: 10, Deadline: now + Hour}))
	}
	run := func(until Nanos) map[string]int {
		clear(started)
		for ; now < until; now += 50 * Millisecond {
			keep := calls[:0]
			for _, c := range calls {
				if c.ends > now {
					keep = append(keep, c)
					continue
				}
				g.Done(now, c.permit, Outcome{Class: ClassOK, UsageKnown: true, In: 5, Out: 5})
			}
			calls = keep
			for _, r := range g.Poll(now, nil) {
				begin(r)
			}
		}
		return started
	}
	for range 400 {
		ask("small")
	}
	if got := run(6 * Second); got["small"] < 24 {
		t.Errorf("what nobody else wants is not lent: %v", got)
	}
	for range 400 {
		ask("big")
	}
	if got := run(7*Second + 100*Millisecond); got["big"] < 6 {
		t.Errorf("the share is not back within one call's time: %v", got)
	}
	got := run(37 * Second)
	if share := got["big"] * 100 / max(got["big"]+got["small"], 1); share < 70 || share > 80 {
		t.Errorf("%v of slots shared three to one", got)
	}
}

// TestGateQueueIsShared fills the queue with one tenant's requests: another's
// find a place, and it is the first one's that go.
func TestGateQueueIsShared(t *testing.T) {
	g := shareGate(1, 40)
	now := 2 * Second
	g.Ask(now, Ask{Request: 1, Route: "r", Tenant: "big", Deadline: now + Hour})
	for i := range uint64(60) {
		g.Ask(now, Ask{Request: 100 + i, Route: "r", Tenant: "small", Priority: PriorityInteractive, Deadline: now + Minute})
	}
	if g.queue.n != 40 {
		t.Fatalf("%d wait, want a full queue", g.queue.n)
	}
	for i := range uint64(50) {
		r := g.Ask(now, Ask{Request: 1000 + i, Route: "r", Tenant: "big", Priority: PriorityBatch, Deadline: now + 2*Minute})
		if i < 30 && r.Kind != ReplyQueued {
			t.Fatalf("request %d of the other tenant: %+v", i, r)
		}
	}
	var out []string
	for _, r := range g.Poll(now, nil) {
		if r.Request >= 1000 || !strings.Contains(r.Reason, "share") {
			out = append(out, fmt.Sprintf("%d: %s", r.Request, r.Reason))
		}
	}
	if len(out) > 0 || g.queue.n != 40 || g.tenants["big"].waiting != 30 || g.tenants["small"].waiting != 10 {
		t.Errorf("%d and %d wait; %v", g.tenants["big"].waiting, g.tenants["small"].waiting, out)
	}
}

// TestGatePositionByShare does not let another tenant's queue make a request
// hopeless.
func TestGatePositionByShare(t *testing.T) {
	g := shareGate(1, 1000)
	now := 2 * Second
	for i := range uint64(300) {
		g.Ask(now, Ask{Request: 1 + i, Route: "r", Tenant: "small", Deadline: now + Minute})
	}
	r := g.Ask(now, Ask{Request: 1000, Route: "r", Tenant: "big", Deadline: now + 2*Minute})
	if r.Kind != ReplyQueued || r.Position > 3 {
		t.Errorf("got %+v, want a place near the front", r)
	}
}
