package memlog_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/events"
	"weir/events/logtest"
	"weir/events/memlog"
	"weir/model"
)

func conform(b *memlog.Bus) *logtest.Bus {
	return &logtest.Bus{
		Fleet:  "test",
		Log:    b.Log(),
		Writer: b.Writer,
		Inbox:  func(agent string) events.Inbox { return b.Inbox(agent) },
		Outbox: func() events.Outbox { return b.Outbox() },
		Election: func(name string) events.Election {
			return b.Election(name, 2*time.Second)
		},
	}
}

// TestContract runs the suite in bubbles, where a goroutine that waits for
// what never comes is an error.
func TestContract(t *testing.T) {
	for _, c := range logtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.Run(t, conform(memlog.New("test", memlog.Options{})))
			})
		})
	}
}

// TestContractLate runs the suite on a slow bus.
func TestContractLate(t *testing.T) {
	for _, c := range logtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := memlog.New("test", memlog.Options{})
				b.SetFaults(memlog.Faults{Delay: 3 * time.Millisecond})
				c.Run(t, conform(b))
			})
		})
	}
}

func report(n uint64) []byte {
	return events.Encode(nil, &model.Attempts{Source: model.Source{Agent: "a1", Boot: 1, Seq: n, Span: 1}})
}

// every returns a fault that hits each n-th time.
func every(n int) func(string) bool {
	i := 0
	return func(string) bool { i++; return i%n == 0 }
}

// TestLossyWrites loses reports and acknowledgements: with what Write repeats
// by itself and what the caller repeats, every report is stored exactly once.
func TestLossyWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memlog.New("test", memlog.Options{})
		b.SetFaults(memlog.Faults{LoseWrite: every(3), LoseAck: every(2), Delay: time.Millisecond})
		w := b.Writer("a1")
		for n := uint64(1); n <= 100; n++ {
			for w.Write(t.Context(), report(n)) != nil {
				time.Sleep(time.Millisecond)
			}
		}
		l := b.Log()
		for n := uint64(1); n <= 100; n++ {
			e, err := l.At(t.Context(), n)
			if err != nil || string(e.Data) != string(report(n)) {
				t.Fatalf("entry %d: %v, %v", n, e, err)
			}
		}
		if info, err := l.Info(t.Context()); err != nil || info.Last != 100 {
			t.Errorf("Info = %+v, %v", info, err)
		}
	})
}

// TestCut cuts agent and controller off and heals them.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memlog.New("test", memlog.Options{Refresh: time.Hour})
		o := b.Outbox()
		put := func(term uint64) error {
			return o.PutTerm(t.Context(), &model.TermNotice{Term: term, Controller: "c"})
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var heard []uint64
		in := b.Inbox("a1")
		go func() {
			_ = in.Listen(ctx, "a1", events.Handler{Term: func(n *model.TermNotice) { heard = append(heard, n.Term) }})
		}()
		synctest.Wait()
		b.SetFaults(memlog.Faults{Cut: []string{"a1"}})
		if in.Connected() {
			t.Error("connected while cut off")
		}
		if err := b.Writer("a1").Write(t.Context(), report(1)); !errors.Is(err, memlog.ErrUnreachable) {
			t.Errorf("Write = %v", err)
		}
		if err := put(1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(heard) != 0 {
			t.Errorf("heard %v while cut off", heard)
		}
		b.SetFaults(memlog.Faults{Cut: []string{memlog.Controller}})
		synctest.Wait()
		if !slices.Equal(heard, []uint64{1}) || !in.Connected() {
			t.Errorf("heard %v after the cut healed", heard)
		}
		if err := put(2); !errors.Is(err, memlog.ErrUnreachable) {
			t.Errorf("PutTerm = %v", err)
		}
		if _, err := b.Log().Append(t.Context(), report(1)); !errors.Is(err, memlog.ErrUnreachable) {
			t.Errorf("Append = %v", err)
		}
	})
}

// TestRefresh loses every message: an agent still learns all of it in time.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memlog.New("test", memlog.Options{})
		b.SetFaults(memlog.Faults{LoseTell: func(string) bool { return true }})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var heard atomic.Int32
		go func() {
			_ = b.Inbox("a1").Listen(ctx, "a1", events.Handler{Term: func(*model.TermNotice) { heard.Add(1) }})
		}()
		synctest.Wait()
		if err := b.Outbox().PutTerm(t.Context(), &model.TermNotice{Term: 1}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if heard.Load() != 0 {
			t.Fatal("the lost message arrived")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if heard.Load() != 1 {
			t.Errorf("heard %d times after the refresh", heard.Load())
		}
	})
}

// TestSlowListener blocks a listener while far more is said than is kept.
func TestSlowListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memlog.New("test", memlog.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		gate := make(chan struct{})
		var last uint64
		calls := 0
		go func() {
			_ = b.Inbox("a1").Listen(ctx, "a1", events.Handler{Term: func(n *model.TermNotice) { <-gate; last = n.Term; calls++ }})
		}()
		synctest.Wait()
		o := b.Outbox()
		for term := uint64(1); term <= 5000; term++ {
			if err := o.PutTerm(t.Context(), &model.TermNotice{Term: term}); err != nil {
				t.Fatal(err)
			}
		}
		close(gate)
		synctest.Wait()
		if last != 5000 || calls > 1100 {
			t.Errorf("last heard %d after %d calls", last, calls)
		}
	})
}

func TestFull(t *testing.T) {
	b := memlog.New("test", memlog.Options{MaxBytes: 100})
	w := b.Writer("a1")
	var err error
	n := uint64(0)
	for err == nil && n < 100 {
		n++
		err = w.Write(t.Context(), report(n))
	}
	if !errors.Is(err, events.ErrFull) {
		t.Fatalf("Write %d = %v", n, err)
	}
	if err := b.Log().Trim(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), report(n)); err != nil {
		t.Errorf("after a trim: %v", err)
	}
	b.SetFaults(memlog.Faults{Full: true})
	if _, err := b.Log().Append(t.Context(), report(1)); !errors.Is(err, events.ErrFull) {
		t.Errorf("Append = %v", err)
	}
}
