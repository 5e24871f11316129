package natslog_test

import (
	"context"
	"testing"
	"time"

	"weir/events/natslog"
	"weir/events/natslog/natstest"
)

// TestRewoundUnderAReader puts an older copy of the store in place while a
// reader is open, and goes on writing beyond what it delivered: it fails
// instead of going on with another past.
func TestRewoundUnderAReader(t *testing.T) {
	s := natstest.Start(t, nil)
	l := openLog(t, s, natslog.LogOptions{})
	appendN(t, l, 10, 100)
	s.Stop()
	saved := s.Save(t)
	l = reopen(t, s)
	appendN(t, l, 10, 100)
	r, err := l.Read(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for range 20 {
		if _, err := r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop()
	s.Restore(t, saved)
	appendN(t, reopen(t, s), 30, 100)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if e, err := r.Next(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("Next = entry %d, %v; want an error", e.Seq, err)
	}
}

// TestRestartUnderAReader only restarts the server: the reader goes on.
func TestRestartUnderAReader(t *testing.T) {
	s := natstest.Start(t, nil)
	l := openLog(t, s, natslog.LogOptions{})
	appendN(t, l, 10, 100)
	r, err := l.Read(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for want := uint64(1); want <= 20; want++ {
		if want == 11 {
			appendN(t, reopen(t, s), 10, 100)
		}
		if e, err := r.Next(t.Context()); err != nil || e.Seq != want {
			t.Fatalf("Next = entry %d, %v; want %d", e.Seq, err, want)
		}
	}
}
