package controller_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"weir/controller"
	"weir/events"
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
