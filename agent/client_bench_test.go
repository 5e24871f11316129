package agent

import (
	"testing"

	"weir/model"
)

// BenchmarkAcquire is a call's way through the client without the call.
func BenchmarkAcquire(b *testing.B) {
	client, err := New(Config{
		Agent: "bench",
		Fleet: &model.Config{
			Channels: []model.ChannelConfig{{Name: "main", Alone: 1000}},
			Routes:   []model.RouteConfig{{Name: "route", Tiers: []model.TierConfig{{Channels: []model.WeightedChannel{{Channel: "main", Weight: 1}}}}}},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = client.Close(b.Context()) }()
	b.ReportAllocs()
	for b.Loop() {
		p, err := client.Acquire(b.Context(), Request{Route: "route", Tokens: 100})
		if err != nil {
			b.Fatal(err)
		}
		p.Done(model.Outcome{Class: model.ClassOK, UsageKnown: true, In: 50, Out: 50})
	}
}
