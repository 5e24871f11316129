package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"weir/events"
	"weir/events/memlog"
	"weir/model"
)

// bench is a client on a bus in memory, with the test as its controller.
type bench struct {
	t      *testing.T
	bus    *memlog.Bus
	out    *memlog.Outbox
	client *Client
	set    *metrics.Set
	log    *sharedLog
	rev    uint64
}

// sharedLog is a log that is read while it is written.
type sharedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *sharedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newBench(t *testing.T, edit ...func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, bus: memlog.New("test", memlog.Options{}), set: metrics.NewSet(), log: &sharedLog{}}
	b.out = b.bus.Outbox()
	cfg := Config{
		Agent: "agent-1", Version: "test", Metrics: b.set, Log: slog.New(slog.NewTextHandler(b.log, nil)),
		Writer: b.bus.Writer("agent-1"), Inbox: b.bus.Inbox("agent-1"),
		Fleet: &model.Config{
			Fleet:    "test",
			Channels: []model.ChannelConfig{{Name: "spare"}, {Name: "main"}},
			Routes: []model.RouteConfig{{Name: "route", DegradeCore: -1, DegradeOther: -1, Tiers: []model.TierConfig{
				{Channels: []model.WeightedChannel{{Channel: "main", Weight: 1}}},
				{Channels: []model.WeightedChannel{{Channel: "spare", Weight: 1}}},
			}}},
			Retry: model.RetryConfig{MaxAttempts: 3, Base: model.Second, Multiplier: 2 * model.One, Budget: model.One, Total: 2 * model.Minute},
		},
	}
	for _, f := range edit {
		f(&cfg)
	}
	var err error
	if b.client, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	if err := b.out.PutTerm(t.Context(), &model.TermNotice{Term: 1, Controller: "test"}); err != nil {
		t.Fatal(err)
	}
	return b
}

// close ends the client and wants it to say goodbye.
func (b *bench) close() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.client.Close(ctx); err != nil {
		b.t.Errorf("close: %v", err)
	}
}

// facts are what the log holds.
func (b *bench) facts() (all []model.Fact) {
	b.t.Helper()
	log := b.bus.Log()
	info, err := log.Info(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for seq := info.First; seq <= info.Last; seq++ {
		e, err := log.At(b.t.Context(), seq)
		if err != nil {
			b.t.Fatal(err)
		}
		f, err := events.Decode(e.Data)
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// lease grants slots on main, as a controller that folded the last report.
func (b *bench) lease(slots, safe int64) {
	b.t.Helper()
	time.Sleep(200 * time.Millisecond) // the first report
	synctest.Wait()
	all := b.facts()
	last, ok := all[len(all)-1].(*model.Attempts)
	if !ok {
		b.t.Fatalf("the last entry is %+v", all[len(all)-1])
	}
	b.rev++
	err := b.out.PutLease(b.t.Context(), &model.Lease{
		Agent: "agent-1", Boot: last.Boot, Term: 1, Seq: uint64(len(all)), Quotes: last.Seq, Duration: 15 * model.Second,
		Channels: []model.ChannelGrant{{Channel: "main", Revision: b.rev, Slots: slots, Safe: safe}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) acquire() (*Permit, error) {
	return b.client.Acquire(b.t.Context(), Request{Route: "route", Tokens: 10})
}

func (b *bench) must(n int) (all []*Permit) {
	b.t.Helper()
	for range n {
		p, err := b.acquire()
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func (b *bench) waiting() int {
	var v model.GateView
	b.client.View(&v)
	return v.Waiting
}

func ok() model.Outcome {
	return model.Outcome{Class: model.ClassOK, Status: 200, UsageKnown: true, In: 5, Out: 5}
}

func TestLeaseBoundsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		b.lease(2, 1)
		held := b.must(2)
		var third *Permit
		go func() { third, _ = b.acquire() }()
		synctest.Wait()
		if third != nil || b.waiting() != 1 {
			t.Fatalf("a third attempt runs under a lease of two: %+v", third)
		}
		held[0].Done(ok())
		held[0].Done(ok()) // settled once
		synctest.Wait()
		if third == nil || b.waiting() != 0 {
			t.Fatal("a free slot was not used")
		}
		third.Done(ok())
		held[1].Done(ok())
	})
}

func TestLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		b.lease(4, 2)
		for _, p := range b.must(4) {
			p.Done(ok())
		}
		time.Sleep(16 * time.Second) // the controller says no more
		held := b.must(2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.client.Acquire(ctx, Request{Route: "route"}); err == nil {
			t.Error("more than the safe share runs without a controller")
		}
		var v model.GateView
		b.client.View(&v)
		if !v.Alone {
			t.Error("the agent does not know that it is alone")
		}
		for _, p := range held {
			p.Done(ok())
		}
	})
}

func TestCallerLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("no more interest")
		var err error
		go func() { _, err = b.client.Acquire(ctx, Request{Route: "route"}) }()
		synctest.Wait()
		cancel(why)
		synctest.Wait()
		if !errors.Is(err, why) || b.waiting() != 0 || len(b.client.waiting) != 0 {
			t.Errorf("error %v, %d wait", err, b.waiting())
		}
	})
}

// TestBoundsAreShown fills the queue, and wants it to be seen and kept.
func TestBoundsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Queue = 2 })
		defer b.close()
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			go func() { _, _ = b.client.Acquire(ctx, Request{Route: "route"}) }()
		}
		synctest.Wait()
		var text strings.Builder
		b.set.WritePrometheus(&text)
		if !strings.Contains(text.String(), `weir_bound_used_ratio{bound="queue"} 1`+"\n") || !strings.Contains(text.String(), `weir_bound_used_ratio{bound="spool"} `) {
			t.Errorf("the full queue is not shown: %s", &text)
		}
		var refusal *RefusedError
		if _, err := b.client.Acquire(ctx, Request{Route: "route"}); !errors.As(err, &refusal) || b.waiting() != 2 {
			t.Errorf("a third waits: %v, %d", err, b.waiting())
		}
		cancel()
		synctest.Wait()
	})
}

func TestQueuedRequestEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		began := time.Now()
		_, err := b.client.Acquire(t.Context(), Request{Route: "route", Deadline: began.Add(3 * time.Second)})
		var refusal *RefusedError
		if !errors.As(err, &refusal) || refusal.Reason == "" {
			t.Fatalf("error %v", err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it ended after %v", took)
		}
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Fleet.Channels[1].Alone = 4 })
		defer b.close()
		for range 4 { // earn retries
			b.must(1)[0].Done(ok())
		}
		var tries []int
		err := b.client.Do(t.Context(), Request{Route: "route", Tokens: 10}, func(ctx context.Context, p *Permit) model.Outcome {
			if d, has := ctx.Deadline(); !has || !d.Equal(p.Deadline) {
				t.Errorf("context ends %v, the attempt %v", d, p.Deadline)
			}
			tries = append(tries, p.Try)
			if p.Try < 3 {
				return model.Outcome{Class: model.ClassOverloaded, Status: 503}
			}
			return ok()
		})
		if err != nil || len(tries) != 3 {
			t.Errorf("tries %v, %v", tries, err)
		}
		err = b.client.Do(t.Context(), Request{Route: "route", Tokens: 10}, func(context.Context, *Permit) model.Outcome {
			return model.Outcome{Class: model.ClassInvalid, Code: "too_long"}
		})
		var failure *FailedError
		if !errors.As(err, &failure) || failure.Outcome.Code != "too_long" || failure.Channel != "main" {
			t.Errorf("error %v", err)
		}
	})
}

func TestPanicSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Fleet.Channels[1].Alone = 1 })
		func() {
			defer func() {
				if v := recover(); v != "boom" {
					t.Errorf("recovered %v", v)
				}
			}()
			_ = b.client.Do(t.Context(), Request{Route: "route"}, func(context.Context, *Permit) model.Outcome { panic("boom") })
		}()
		b.must(1)[0].Done(ok())
		b.close()
	})
}

func TestObserveNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		b.client.SetMode(model.ModeObserve)
		began := time.Now()
		held := b.must(100)
		if took := time.Since(began); took > 0 {
			t.Errorf("observed calls waited %v", took)
		}
		for _, p := range held {
			p.Done(ok())
		}
		var text bytes.Buffer
		b.set.WritePrometheus(&text)
		if !strings.Contains(text.String(), `weir_would_refuse_total{channel="main"} 100`) {
			t.Errorf("metrics:\n%s", text.String())
		}
		b.client.SetMode(model.ModeEnforce)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.client.Acquire(ctx, Request{Route: "route"}); err == nil {
			t.Error("enforcing again blocks nothing")
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Fleet.Channels[1].Alone = 1 })
		running := b.must(1)[0]
		var queued error
		go func() { _, queued = b.acquire() }()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- b.client.Close(context.Background()) }()
		synctest.Wait()
		if _, ok := errors.AsType[*RefusedError](queued); !ok {
			t.Errorf("what waited got %v", queued)
		}
		time.Sleep(5 * time.Second)
		running.Done(ok())
		if err := <-closed; err != nil {
			t.Error(err)
		}
		all := b.facts()
		last, _ := all[len(all)-1].(*model.Attempts)
		if last == nil || !last.Leaving || len(last.Attempts) != 1 {
			t.Errorf("the last report is %+v", last)
		}
		if _, err := b.acquire(); err == nil {
			t.Error("a closed client admits")
		}
	})
}

func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Fleet.Channels[1].Alone = 1 })
		b.must(1) // never settled
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.client.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		all := b.facts()
		last, _ := all[len(all)-1].(*model.Attempts)
		if last == nil || !last.Leaving || len(last.Attempts) != 1 || last.Attempts[0].Class != model.ClassCanceled || last.Channels[0].InFlight != 0 {
			t.Errorf("the last report is %+v", last)
		}
	})
}

// TestCloseWithoutBus holds that a goodbye nobody takes delays the end of the
// process by no more than a second.
func TestCloseWithoutBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Fleet.Channels[1].Alone = 1 })
		b.must(1) // never settled
		b.bus.SetFaults(memlog.Faults{Cut: []string{"agent-1"}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := b.client.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it takes %v", took)
		}
	})
}

func TestConfigFromTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) {
			c.Upstreams = map[string]Upstream{"main": {BaseURL: "http://main/v1"}}
		})
		defer b.close()
		cfg := *b.client.cfg.Fleet
		cfg.Routes = []model.RouteConfig{{Name: "other", Tiers: []model.TierConfig{{Channels: []model.WeightedChannel{{Channel: "stranger", Weight: 9}, {Channel: "main", Weight: 1}}}}}}
		cfg.Channels = []model.ChannelConfig{{Name: "main", Alone: 2}, {Name: "stranger", Alone: 2}}
		if err := b.out.PutConfig(t.Context(), 7, &cfg); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p, err := b.client.Acquire(t.Context(), Request{Route: "other"})
		if err != nil || p.Channel != "main" {
			t.Fatalf("permit %+v, %v: a channel without an upstream must not be used", p, err)
		}
		p.Done(ok())
		if _, err := b.acquire(); err == nil {
			t.Error("a route that is gone is served")
		}
		if n := len(b.client.Fleet().Channels); n != 1 {
			t.Errorf("%d channels are in force, want 1", n)
		}
	})
}

// TestManyCallers has many goroutines at one client: the lease holds, and
// everything is settled and reported once.
func TestManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Fleet.Channels[1].Alone = 7 })
		var mu sync.Mutex
		running, most := 0, 0
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				ctx := t.Context()
				if i%10 == 0 {
					short, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					ctx = short
				}
				_ = b.client.Do(ctx, Request{Route: "route", Tokens: 10}, func(context.Context, *Permit) model.Outcome {
					mu.Lock()
					running++
					most = max(most, running)
					mu.Unlock()
					time.Sleep(300 * time.Millisecond)
					mu.Lock()
					running--
					mu.Unlock()
					return ok()
				})
			})
		}
		wg.Wait()
		b.close()
		if most != 7 {
			t.Errorf("%d ran together, want 7", most)
		}
		seen := map[uint64]bool{}
		for _, f := range b.facts() {
			for _, a := range f.(*model.Attempts).Attempts {
				if seen[a.Request] {
					t.Fatalf("request %x is reported twice", a.Request)
				}
				seen[a.Request] = true
			}
		}
		if len(seen) < 270 {
			t.Errorf("%d requests are reported", len(seen))
		}
	})
}

// deaf is an inbox that nothing can be heard on, until it may.
type deaf struct {
	events.Inbox
	tries atomic.Int64
	heals int64 // the try that hears something before it fails too
}

func (d *deaf) Listen(ctx context.Context, agent string, h events.Handler) error {
	if d.tries.Add(1) == d.heals {
		h.Term(&model.TermNotice{Term: 1, Controller: "test"})
	}
	return errors.New("authorization violation")
}

// TestTroubleIsToldOnce holds that what fails every second does not fill the
// log, and is told again after it had ended.
func TestTroubleIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inbox := &deaf{heals: 12}
		b := newBench(t, func(c *Config) { c.Inbox = inbox })
		time.Sleep(9500 * time.Millisecond)
		synctest.Wait()
		if n := strings.Count(b.log.String(), "listening to the controller ended"); n != 1 || inbox.tries.Load() < 9 {
			t.Errorf("told %d times in %d tries, want once", n, inbox.tries.Load())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := strings.Count(b.log.String(), "listening to the controller ended"); n != 2 {
			t.Errorf("told %d times, want once more after it was better", n)
		}
		b.close()
	})
}
