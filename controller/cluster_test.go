package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"weir/controller"
	"weir/controller/store"
	"weir/events"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
	"weir/model"
)

// openOn starts a controller that is elected on servers of their own.
func openOn(t *testing.T, url, id string, replicas int) *live {
	t.Helper()
	l := &live{stateDir: filepath.Join(t.TempDir(), "state"), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	var outbox events.Outbox
	var election events.Election
	conn, err := natslog.Connect(url, natslog.Options{Name: id})
	if err == nil {
		l.conn = conn
		l.log, err = natslog.OpenLog(ctx, conn, fleet, natslog.LogOptions{Replicas: replicas})
	}
	if err == nil {
		outbox, err = natslog.OpenOutbox(ctx, conn, fleet, replicas)
	}
	if err == nil {
		election, err = natslog.OpenElection(ctx, conn, fleet, id, replicas)
	}
	logger := slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err == nil {
		l.store, err = store.Open(l.stateDir, store.Options{Logger: logger})
	}
	if err == nil {
		l.loop, err = controller.New(controller.Options{
			Fleet: fleet, Controller: id, Log: l.log, Outbox: outbox, Store: l.store, Election: election, Config: config("a", "b"), Logger: logger,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { l.done <- l.loop.Run(ctx) }()
	return l
}

// shut stops a controller that openOn started.
func (l *live) shut(t *testing.T) {
	t.Helper()
	l.cancel()
	err := errors.Join(<-l.done, l.store.Close())
	l.conn.Close()
	if err != nil {
		t.Fatal(err)
	}
}

// TestClusterLosesServersInTurn runs two controllers and four agents on three
// NATS servers that keep everything three times, and stops and starts one
// server after the other: what was acknowledged is folded once, and the fold
// goes on each time.
func TestClusterLosesServersInTurn(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for elections of servers, for the most part")
	}
	rounds := 1
	if os.Getenv("WEIR_LONG") == "1" {
		rounds = 24 // two minutes and more
	}
	servers := natstest.Cluster(t, 3)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	url := strings.Join(urls, ",")
	ready(t, url)
	first := openOn(t, url, "first", 3)
	first.leads(t)
	second := openOn(t, url, "second", 3)
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var agents []*agent
	for i := range 4 {
		a := &agent{t: t, id: fmt.Sprintf("agent-%d", i), boot: 1}
		agents = append(agents, a)
		writers.Go(func() { a.pour(ctx, strings.TrimPrefix(url, "nats://"), uint64(i)) })
	}
	for round := range rounds {
		s := servers[round%len(servers)]
		s.Stop()
		before := second.status(t).Seq
		time.Sleep(3 * time.Second)
		second.until(t, "the fold to go on", func(s controller.Status) bool { return s.Seq > before })
		s.Restart(t)
		time.Sleep(2 * time.Second) // the server catches up
	}
	stop()
	writers.Wait()

	var attempts uint64
	for _, a := range agents {
		attempts += a.base
	}
	var views []model.FleetView
	for _, l := range []*live{first, second} {
		views = append(views, l.settled(t))
	}
	for i, l := range []*live{first, second} {
		s := l.until(t, "a leader", func(s controller.Status) bool { return s.Leader != "" })
		if c := views[i].Counters; c.Attempts != attempts || c.Lost != 0 || c.Rebases != 0 || len(s.Faults) != 0 {
			t.Errorf("controller %d: %+v, faults %v, want %d attempts", i, c, s.Faults, attempts)
		}
	}
	// A starved machine ends terms as it likes: one leads when it is left alone.
	first.until(t, "one leader", func(s controller.Status) bool { return s.Leads != second.status(t).Leads })
	t.Logf("%d rounds, %d attempts in %d records, term %d", rounds, attempts, views[0].Seq, views[0].Term)
	first.shut(t)
	second.shut(t)
}

// ready waits until the cluster's JetStream works.
func ready(t *testing.T, url string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err = natslog.OpenLog(ctx, nc, "probe", natslog.LogOptions{Replicas: 3})
		cancel()
		if err == nil {
			return
		}
	}
	t.Fatal(err)
}
