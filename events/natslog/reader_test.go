package natslog

import (
	"testing"

	"github.com/nats-io/nats.go"

	"weir/events"
	"weir/events/natslog/natstest"
	"weir/model"
)

// TestReaderLeavesNothingOut holds that a reader believes in a hole only where
// the log has one: a server that comes back into a cluster may deliver from the
// middle of what it has not caught up with yet.
func TestReaderLeavesNothingOut(t *testing.T) {
	s := natstest.Start(t, nil)
	nc, err := nats.Connect("", s.Option())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	l, err := OpenLog(t.Context(), nc, "default", LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 9 {
		if _, err := l.Append(t.Context(), events.Encode(nil, &model.Tick{Term: 1})); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Trim(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		next, seq uint64
		fails     bool
	}{
		{1, 4, false}, // what came before is trimmed
		{1, 9, true},
		{4, 4, false},
		{5, 4, false}, // once more
		{4, 9, true},
		{8, 10, true},
	} {
		r := &reader{log: l, next: c.next}
		if err := r.skips(c.seq); (err != nil) != c.fails || r.next != c.seq+1 {
			t.Errorf("%d after waiting for %d: %v, next %d", c.seq, c.next, err, r.next)
		}
	}
	nc.Close()
	if err := (&reader{log: l, next: 1}).skips(3); err == nil {
		t.Error("a hole is believed in without a look at the log")
	}
}
