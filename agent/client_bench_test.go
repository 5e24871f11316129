package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"weir/model"
)

// benchClient is a client whose only channel has room for a thousand calls.
func benchClient(tb testing.TB, set func(*Config)) *Client {
	tb.Helper()
	cfg := Config{
		Agent: "bench",
		Fleet: &model.Config{
			Channels: []model.ChannelConfig{{Name: "main", Alone: 1000}},
			Routes:   []model.RouteConfig{{Name: "route", Tiers: []model.TierConfig{{Channels: []model.WeightedChannel{{Channel: "main", Weight: 1}}}}}},
		},
	}
	if set != nil {
		set(&cfg)
	}
	client, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel() // nobody hears the goodbye
		_ = client.Close(ended)
	})
	return client
}

// admitted acquires a permit and settles it.
func admitted(ctx context.Context, c *Client) error {
	p, err := c.Acquire(ctx, Request{Route: "route", Tokens: 100})
	if err != nil {
		return err
	}
	p.Done(model.Outcome{Class: model.ClassOK, UsageKnown: true, In: 50, Out: 50})
	return nil
}

// TestAcquireAllocates holds a call through the library free of allocation where
// the permit stays in the function that acquired it.
func TestAcquireAllocates(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("counting what is covered makes Acquire too large to become part of its caller")
	}
	c := benchClient(t, nil)
	ctx := t.Context()
	call := func() {
		if err := admitted(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	for range 5000 {
		call()
	}
	if n := testing.AllocsPerRun(5000, call); n != 0 {
		t.Errorf("%v allocations per call, want 0", n)
	}
}

// BenchmarkAcquire is a call's way through the client without the call.
func BenchmarkAcquire(b *testing.B) {
	c, ctx := benchClient(b, nil), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if err := admitted(ctx, c); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAcquireShared is the same from as many goroutines as there are
// processors.
func BenchmarkAcquireShared(b *testing.B) {
	c, ctx := benchClient(b, nil), b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := admitted(ctx, c); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkRefusal is the way of a call that is refused, since the queue is full.
func BenchmarkRefusal(b *testing.B) {
	c, ctx := benchClient(b, func(cfg *Config) { cfg.Queue, cfg.Fleet.Channels[0].Alone = 1, 1 }), b.Context()
	p, err := c.Acquire(ctx, Request{Route: "route"})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Done(model.Outcome{Class: model.ClassOK})
	waiter, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = c.Acquire(waiter, Request{Route: "route", Priority: model.PriorityInteractive})
	}()
	defer func() { cancel(); <-gone }()
	var v model.GateView
	for v.Waiting == 0 {
		time.Sleep(time.Millisecond)
		c.View(&v)
	}
	b.ReportAllocs()
	var refusal *RefusedError
	for b.Loop() {
		if err := admitted(ctx, c); !errors.As(err, &refusal) {
			b.Fatal(err)
		}
	}
}
