package page_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"weir/cmd/weir/pagetest"
	"weir/cmd/weir/rig"
	"weir/events"
	"weir/model"
)

const (
	manyChannels = 200
	manyAgents   = 1000
)

// large runs a controller of a large fleet whose agents report, as real ones
// do, every five seconds each, and returns its page's address.
func large(t testing.TB) string {
	t.Helper()
	config := &model.Config{Fleet: "large"}
	for i := range manyChannels {
		name := fmt.Sprintf("channel-%03d", i)
		config.Channels = append(config.Channels, model.ChannelConfig{Name: name, Provider: "openai", Limits: model.Limits{RequestsPerMinute: 60_000, TokensPerMinute: 60_000_000}})
		config.Routes = append(config.Routes, model.RouteConfig{Name: fmt.Sprintf("route-%03d", i), Tiers: []model.TierConfig{{Channels: []model.WeightedChannel{{Channel: name, Weight: 1}}}}})
	}
	config.Normalize()
	s, err := rig.Start(t.Context(), rig.Options{Dir: t.TempDir(), Config: config, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	url, err := s.Web(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, manyAgents)
	for i := range names {
		names[i] = agentName(i)
	}
	writers, err := s.Writers(names)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var agents sync.WaitGroup
	agents.Go(func() { reportAll(ctx, t, writers) })
	t.Cleanup(func() { cancel(); agents.Wait() })
	return url
}

// reportAll lets one agent after the other report until ctx ends.
func reportAll(ctx context.Context, t testing.TB, agents []events.Writer) {
	rng := rand.New(rand.NewPCG(1, 2))
	next := time.NewTicker(5 * time.Second / manyAgents)
	defer next.Stop()
	sent := make([]uint64, manyAgents) // reports by agent
	for n := 0; ctx.Err() == nil; n++ {
		i := n % manyAgents
		sent[i]++
		if err := agents[i].Write(ctx, events.Encode(nil, report(rng, i, sent[i]))); err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
		if n >= manyAgents { // the first round is as fast as it goes
			select {
			case <-ctx.Done():
			case <-next.C:
			}
		}
	}
}

func agentName(i int) string { return fmt.Sprintf("agent-%04d", i) }

// report is the n-th of agent i: five calls on a channel of its own, of which
// one in fifty is refused.
func report(rng *rand.Rand, i int, n uint64) *model.Attempts {
	const each = 5
	r := &model.Attempts{
		Source: model.Source{Agent: agentName(i), Boot: 1, Seq: n, Span: 1, Base: each * (n - 1)}, Version: "test",
		Channels: []model.ChannelReport{{Channel: fmt.Sprintf("channel-%03d", i%manyChannels), InFlight: uint32(rng.IntN(4)), Queued: uint32(rng.IntN(2))}},
	}
	for range each {
		a := model.Attempt{
			Route: fmt.Sprintf("route-%03d", i%manyChannels), Request: rng.Uint64(), Try: 1, Age: model.Nanos(rng.Int64N(int64(model.Second))), Took: model.Second,
			FirstToken: model.Second / 2, Class: model.ClassOK, Status: 200, Reserved: 500, In: 200, Out: 100, UsageKnown: true, RetryAfter: -1, Rule: "openai/ok",
		}
		if rng.IntN(50) == 0 {
			a.Class, a.Status, a.In, a.Out, a.FirstToken, a.Code = model.ClassOverloaded, 529, 0, 0, 0, "overloaded"
		}
		r.Attempts = append(r.Attempts, a)
	}
	return r
}

// TestLargeFleet opens the page of 200 channels and 1,000 agents: it shows
// them all, and goes on being told.
func TestLargeFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("another program looks at what other tests of the same parts run")
	}
	for _, v := range pagetest.Look(t, map[string]string{"URL": large(t), "TOKEN": "", "PROVIDER": "", "SECONDS": "4"}, "large") {
		if v.Fault != "" {
			t.Error(v.Fault)
		}
		t.Log(v.Figures)
	}
}

// BenchmarkLargeFleet reports how many milliseconds of each second that page's
// scripts take, and all its work in the browser's main thread.
func BenchmarkLargeFleet(b *testing.B) {
	url := large(b)
	for b.Loop() {
		v := pagetest.Look(b, map[string]string{"URL": url, "TOKEN": "", "PROVIDER": "", "SECONDS": "20"}, "large")[0]
		if v.Fault != "" {
			b.Fatal(v.Fault)
		}
		b.ReportMetric(v.Figures["script_ms_per_s"], "script-ms/s")
		b.ReportMetric(v.Figures["task_ms_per_s"], "task-ms/s")
		b.ReportMetric(v.Figures["load_ms"], "load-ms")
	}
}
