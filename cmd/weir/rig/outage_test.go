package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"weir/agent"
	"weir/agent/classify"
	"weir/controller"
	"weir/controller/store"
	"weir/events"
	"weir/events/memlog"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
	"weir/model"
)

// outage is a fleet whose controller and bus go away together and come back.
type outage struct {
	t      *testing.T
	bus    ground
	config *model.Config
	stop   func() // ends the controller
	loop   *controller.Loop
	agents []*agent.Client
	sets   []*metrics.Set
	main   gauge
	spare  gauge
	// What callers got: an answer of the main tier, of the next, a refusal that
	// says why, anything else.
	answered, degraded, refused, failed atomic.Int64
	settled                             atomic.Uint64 // attempts
	odd                                 atomic.Value  // one of those that failed
}

// gauge is a provider that counts what is in flight.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) call(took time.Duration) {
	n := g.now.Add(1)
	defer g.now.Add(-1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
	time.Sleep(took)
}

// ground is what a fleet stands on: its bus, and the controller's store.
type ground interface {
	agent(name string) (events.Writer, events.Inbox)
	// controller starts one with what the bus and the store hold, and returns
	// what ends it.
	controller(o controller.Options) (loop *controller.Loop, stop func())
	// lose makes the bus unreachable for all, back mends it.
	lose()
	back()
}

// crowd is what the fleet is told of its provider and who calls.
type crowd struct {
	limit, spare int64
	agents, each int
	took         time.Duration // a call
	warm, gone   time.Duration
	spool        int
	refusals     bool
}

func newOutage(t *testing.T, bus ground, c crowd) *outage {
	f := &outage{t: t, bus: bus, config: &model.Config{
		Fleet: "test",
		Channels: []model.ChannelConfig{
			{Name: "main", Limits: model.Limits{Concurrency: c.limit}},
			{Name: "spare", Limits: model.Limits{Concurrency: c.spare}},
		},
		Routes: []model.RouteConfig{{Name: "route", DegradeCore: -1, DegradeOther: model.Second, Tiers: []model.TierConfig{
			{Channels: []model.WeightedChannel{{Channel: "main", Weight: 1}}},
			{Channels: []model.WeightedChannel{{Channel: "spare", Weight: 1}}},
		}}},
		Retry: model.RetryConfig{MaxAttempts: 3, Base: model.Second, Multiplier: 2 * model.One, Budget: model.One / 10, Total: 10 * model.Second},
	}}
	f.lead()
	rules, err := classify.New()
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.agents {
		name := fmt.Sprint("agent-", i)
		writer, inbox := bus.agent(name)
		set := metrics.NewSet()
		client, err := agent.New(agent.Config{Agent: name, Version: "test", Fleet: f.config, Classifier: rules, Writer: writer, Inbox: inbox, Spool: c.spool, Metrics: set})
		if err != nil {
			t.Fatal(err)
		}
		f.agents, f.sets = append(f.agents, client), append(f.sets, set)
	}
	return f
}

// lead starts a controller.
func (f *outage) lead() {
	f.t.Helper()
	f.loop, f.stop = f.bus.controller(controller.Options{Fleet: "test", Version: "test", Config: f.config})
}

// call has every agent's callers call until ctx ends.
func (f *outage) call(ctx context.Context, c crowd) (wait func()) {
	var all sync.WaitGroup
	for _, client := range f.agents {
		for range c.each {
			all.Go(func() {
				for ctx.Err() == nil {
					f.one(ctx, client, c.took)
				}
			})
		}
	}
	return all.Wait
}

func (f *outage) one(ctx context.Context, client *agent.Client, took time.Duration) {
	tier := 0
	err := client.Do(ctx, agent.Request{Route: "route", Tokens: 10}, func(_ context.Context, p *agent.Permit) model.Outcome {
		if tier = p.Tier; tier == 0 {
			f.main.call(took)
		} else {
			f.spare.call(took)
		}
		f.settled.Add(1)
		return model.Outcome{Class: model.ClassOK, Status: 200, UsageKnown: true, In: 5, Out: 5}
	})
	var no *agent.RefusedError
	switch {
	case err == nil && tier == 0:
		f.answered.Add(1)
	case err == nil:
		f.degraded.Add(1)
	case ctx.Err() != nil:
	case errors.As(err, &no) && no.Reason != "" && no.Class != model.ClassOK:
		f.refused.Add(1)
		f.odd.CompareAndSwap(nil, err.Error())
		time.Sleep(max(no.Wait, time.Second))
	default:
		f.failed.Add(1)
		f.odd.Store(err.Error())
		time.Sleep(time.Second)
	}
}

// held is what the heap holds, in bytes.
func held() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// run takes controller and bus away while all call, and brings them back.
func (f *outage) run(c crowd) {
	t := f.t
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := f.call(ctx, c)
	time.Sleep(c.warm)
	f.told("before")
	f.refused.Store(0)
	f.bus.lose()
	f.stop()
	time.Sleep(c.gone / 4) // the leases end
	early := held()
	time.Sleep(c.gone - c.gone/4)
	late := held()
	if f.failed.Load() > 0 || !c.refusals && f.refused.Load() > 0 {
		t.Errorf("%d calls failed and %d were refused, as %v", f.failed.Load(), f.refused.Load(), f.odd.Load())
	}
	if !c.refusals && f.answered.Load() == 0 {
		t.Error("nothing was answered without them")
	}
	if c.refusals && (f.refused.Load() == 0 || f.degraded.Load() == 0) {
		t.Errorf("%d calls were refused and %d got the next tier, want some of each", f.refused.Load(), f.degraded.Load())
	}
	f.told("without")
	t.Logf("heap %d KiB in the first quarter, %d KiB at the end; a refusal: %v", early>>10, late>>10, f.odd.Load())
	if most := int64(c.agents*c.spool) + 8<<20; late > early+most {
		t.Errorf("the heap grew by %d KiB, want at most %d", (late-early)>>10, most>>10)
	}
	f.bus.back()
	f.lead()
	time.Sleep(c.warm)
	f.told("after")
	cancel()
	wait()
	f.counted()
	f.bounded(c)
	if c.each > 1 && f.summed() == 0 {
		t.Error("no spool was filled")
	}
}

// bounded wants never more calls at once than the providers take.
func (f *outage) bounded(c crowd) {
	f.t.Helper()
	if main, spare := f.main.most.Load(), f.spare.most.Load(); main > c.limit || spare > c.spare {
		f.t.Errorf("%d and %d calls at once, want at most %d and %d", main, spare, c.limit, c.spare)
	}
}

func (f *outage) told(when string) {
	f.t.Logf("%-8s %6d answered, %6d by the next tier, %6d refused, %d failed; at most %d and %d at once",
		when, f.answered.Swap(0), f.degraded.Load(), f.refused.Load(), f.failed.Load(), f.main.most.Load(), f.spare.most.Load())
}

// counted wants every attempt in the fold once, whole or in a sum.
func (f *outage) counted() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, client := range f.agents {
		if err := client.Close(ctx); err != nil {
			f.t.Fatal(err)
		}
	}
	var got model.Counters
	for range 100 {
		v, err := f.loop.View(ctx)
		if err != nil {
			f.t.Fatal(err)
		}
		if got = v.Counters; got.Attempts >= f.settled.Load() {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if got.Attempts != f.settled.Load() || got.Lost != 0 || got.Rebases != 0 {
		f.t.Errorf("the fold counted %+v, want %d attempts, none lost", got, f.settled.Load())
	}
	f.t.Logf("%d attempts", got.Attempts)
	f.stop()
}

// summed returns how many agents summed reports up.
func (f *outage) summed() (n int) {
	for _, set := range f.sets {
		var b strings.Builder
		set.WritePrometheus(&b)
		if !strings.Contains(b.String(), "weir_spool_summed_total 0\n") {
			n++
		}
	}
	return n
}

// memory is a bus in memory with the simplest store.
type memory struct {
	t     *testing.T
	bus   *memlog.Bus
	names []string
	store *shelf
	// delay is what reading an entry takes.
	delay atomic.Int64
}

func (m *memory) agent(name string) (events.Writer, events.Inbox) {
	m.names = append(m.names, name)
	return m.bus.Writer(name), m.bus.Inbox(name)
}

func (m *memory) controller(o controller.Options) (*controller.Loop, func()) {
	o.Log, o.Outbox, o.Store = &slowLog{m.bus.Log(), &m.delay}, m.bus.Outbox(), m.store
	return run(m.t, o)
}

func (m *memory) lose() { m.bus.SetFaults(memlog.Faults{Cut: append(m.names, memlog.Controller)}) }

func (m *memory) back() { m.bus.SetFaults(memlog.Faults{}) }

// run runs a controller until stop is called.
func run(t *testing.T, o controller.Options) (*controller.Loop, func()) {
	t.Helper()
	loop, err := controller.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	return loop, sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("controller: %v", err)
		}
	})
}

// grounds is a NATS server and a store on disk.
type grounds struct {
	t      *testing.T
	server *natstest.Server
	dir    string
	// url is where agents reach the server; empty means at its own.
	url string
}

func (g *grounds) agent(name string) (events.Writer, events.Inbox) {
	nc, err := natslog.Connect(cmp.Or(g.url, g.server.URL()), natslog.Options{Name: name, Agent: name})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(nc.Close)
	writer, err := natslog.NewWriter(nc, "test", name)
	if err != nil {
		g.t.Fatal(err)
	}
	inbox, err := natslog.NewInbox(nc, "test", natslog.Options{})
	if err != nil {
		g.t.Fatal(err)
	}
	return writer, inbox
}

func (g *grounds) controller(o controller.Options) (*controller.Loop, func()) {
	ctx := g.t.Context()
	nc, err := natslog.Connect(g.server.URL(), natslog.Options{Name: "controller"})
	if err != nil {
		g.t.Fatal(err)
	}
	log, err := natslog.OpenLog(ctx, nc, "test", natslog.LogOptions{})
	if err != nil {
		g.t.Fatal(err)
	}
	outbox, err := natslog.OpenOutbox(ctx, nc, "test", 1)
	if err != nil {
		g.t.Fatal(err)
	}
	state, err := store.Open(g.dir, store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		g.t.Fatal(err)
	}
	o.Log, o.Outbox, o.Store = log, outbox, state
	loop, stop := run(g.t, o)
	return loop, sync.OnceFunc(func() {
		stop()
		if err := state.Close(); err != nil {
			g.t.Errorf("close store: %v", err)
		}
		nc.Close()
	})
}

func (g *grounds) lose() { g.server.Stop() }

func (g *grounds) back() { g.server.Restart(g.t) }

// plenty and scarce are two hundred agents where the provider takes all they
// want, and where it takes a quarter of it.
var (
	plenty = crowd{limit: 1000, spare: 1000, agents: 200, each: 4, took: 2 * time.Second, warm: 25 * time.Second, gone: 2 * time.Minute, spool: 8 << 10}
	scarce = crowd{limit: 50, spare: 20, agents: 200, each: 1, took: 2 * time.Second, warm: 25 * time.Second, gone: 2 * time.Minute, spool: 8 << 10, refusals: true}
)

// TestAlone takes controller and bus away from two hundred agents: where the
// limit is above what they want no call fails for it; where it is below, what
// is used stays within it, and the others get the next tier or are told the
// truth. Memory stays what it was, and when all is back every attempt is
// counted once, by itself or in a sum. The time is that of the test alone: 45
// seconds, three leases long.
func TestAlone(t *testing.T) {
	for name, c := range map[string]crowd{"plenty": plenty, "scarce": scarce} {
		t.Run(name, func(t *testing.T) {
			c.gone, c.spool = 45*time.Second, 2<<10
			if testing.Short() {
				c.agents, c.limit, c.spare = c.agents/5, c.limit/5, c.spare/5
			}
			synctest.Test(t, func(t *testing.T) {
				bus := &memory{t: t, bus: memlog.New("test", memlog.Options{}), store: newShelf()}
				newOutage(t, bus, c).run(c)
			})
		})
	}
}

// TestAloneForTwoMinutes is the same by the clock, on a NATS server that ends
// and a store on disk.
func TestAloneForTwoMinutes(t *testing.T) {
	if os.Getenv("WEIR_LONG") != "1" {
		t.Skip("takes seven minutes; WEIR_LONG=1 runs it")
	}
	for name, c := range map[string]crowd{"plenty": plenty, "scarce": scarce} {
		t.Run(name, func(t *testing.T) {
			bus := &grounds{t: t, server: natstest.Start(t, natstest.Listen), dir: filepath.Join(t.TempDir(), "state")}
			newOutage(t, bus, c).run(c)
		})
	}
}
