package controller_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/controller"
	"weir/controller/credential"
	"weir/events"
	"weir/events/natslog"
	"weir/model"
)

// TestWaitersAreBounded has one caller more wait for a record than may.
func TestWaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		defer r.end()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const most = 1024
		for range most {
			go func() { _ = r.loop.Wait(ctx, 1<<40) }()
		}
		synctest.Wait()
		r.wantMetric(`weir_bound_used_ratio{bound="waiters"}`, "1")
		if err := r.loop.Wait(ctx, 1<<40); !errors.Is(err, controller.ErrBusy) {
			t.Errorf("one more waits: %v", err)
		}
		if err := r.loop.Wait(ctx, 1); err != nil {
			t.Errorf("what is folded need not wait: %v", err)
		}
	})
}

// TestDecisionsThatWaitAreBounded decides more than may wait while the store
// takes an hour for a commit: the rest is dropped and counted, and the fold
// goes on.
func TestDecisionsThatWaitAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("folds twenty thousand records")
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		defer r.end()
		r.store.set(func(m *memory) { m.delay = time.Hour })
		const most = 20_000
		var last uint64
		for n := range most + 500 {
			c := &model.Command{Command: model.CommandForceBreaker, Channel: "a", Value: int64(1 - n%2), By: "me"}
			var err error
			if last, err = r.log.Append(t.Context(), events.Encode(nil, c)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := r.status().Seq; got < last {
			t.Errorf("the fold is at %d of %d", got, last)
		}
		if r.metric("weir_decisions_dropped_total") == "0" {
			t.Errorf("nothing is dropped: %s committed", r.metric("weir_commit_seconds_count"))
		}
		r.store.set(func(m *memory) { m.delay = 0 })
		time.Sleep(2 * time.Hour)
		kept := 0
		r.store.set(func(m *memory) { kept = len(m.decisions) })
		if kept == 0 || kept > most+1000 {
			t.Errorf("%d decisions are kept", kept)
		}
	})
}

// TestSubscriptionsAreBounded has an agent subscribe to more than it may, each
// of which it has a right to: the server keeps no more, and ends the connection.
func TestSubscriptionsAreBounded(t *testing.T) {
	d := openDoors(t)
	nc, faults := d.connect("a1", d.add("a1", credential.Agent))
	for i := range 5000 {
		if _, err := nc.SubscribeSync("_INBOX_AGENT.a1." + strconv.Itoa(i)); err != nil {
			break // it is cut off
		}
	}
	awaitFault(t, faults, natslog.FaultServer)
}

// TestKnocksFillNoLog has a stranger be cut off many times: each writes a line,
// until there are too many.
func TestKnocksFillNoLog(t *testing.T) {
	lines := &counting{}
	n := startNATS(t, controller.NATSOptions{Listen: "127.0.0.1:0", Fleet: "f", Allowed: []credential.Credential{}, Logger: slog.New(lines)})
	const knocks = 400
	began := time.Now()
	for range knocks {
		c, err := net.Dial("tcp", n.Address())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("PUB a b 1\r\nx\r\n")); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, c) // until it is cut off
		_ = c.Close()
	}
	most := 101 + int64(time.Since(began)/(100*time.Millisecond))
	if got := lines.n.Load(); got == 0 || got > most {
		t.Errorf("%d lines for %d knocks, at most %d may be written", got, knocks, most)
	}
}

// counting is a log that counts lines.
type counting struct {
	slog.Handler
	n atomic.Int64
}

// Enabled implements slog.Handler.
func (c *counting) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements slog.Handler.
func (c *counting) Handle(context.Context, slog.Record) error {
	c.n.Add(1)
	return nil
}
