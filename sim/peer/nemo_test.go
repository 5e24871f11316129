package peer

import (
	"testing"

	"weir/model"
)

func TestNeMoStepByStep(t *testing.T) {
	l := NewNeMo(32)
	s := &line{t: t, l: l}
	want := func(limit, ceiling int64) {
		t.Helper()
		if l.limit != limit || l.ceiling != ceiling {
			t.Fatalf("limit %d, ceiling %d; want %d, %d", l.limit, l.ceiling, limit, ceiling)
		}
	}
	succeed := func(n int) {
		t.Helper()
		for range n {
			s.ok(s.send())
		}
	}
	calls := s.fill()
	if len(calls) != 32 {
		t.Fatalf("%d admitted at first, want 32", len(calls))
	}
	s.ask(Wait, Never)

	// The first rate limit keeps 24 of 32 and remembers 32; the rest of the
	// burst changes nothing. Each stops new calls for 2 s.
	s.refused(calls[0])
	want(24, 32)
	s.now = second
	for _, x := range calls[1:10] {
		s.refused(x)
	}
	want(24, 32)
	s.ask(Wait, 3*second)
	// Another failure ends the series, so the next rate limit cuts: 18. The
	// ceiling is the lowest limit that was refused: 24.
	s.noise(calls[10])
	s.refused(calls[11])
	want(18, 24)
	for _, x := range calls[12:] {
		s.end(x, model.ClassTransport, 0)
	}
	// 25 successes in a row add one; a refusal or a new one starts over.
	s.now = 3 * second
	succeed(24)
	want(18, 24)
	succeed(1)
	want(19, 24)
	// It climbs to the ceiling and a tenth: 24 + 2 = 26.
	succeed(25 * 20)
	want(26, 24)
	// Retry-After replaces the 2 s. The ceiling does not rise again.
	x := s.send()
	x.RetryAfter = 7 * second
	s.refused(x)
	want(19, 24)
	s.ask(Wait, 10*second)
}

func TestNeMoFloors(t *testing.T) {
	l := NewNeMo(0)
	s := &line{t: t, l: l}
	s.refused(s.send())
	s.now += 2 * second
	if l.limit != 1 || l.ceiling != 0 {
		t.Errorf("limit %d, ceiling %d at the floor, want 1 and none", l.limit, l.ceiling)
	}
	for range 100 {
		s.ok(s.send())
	}
	if l.limit != 1 {
		t.Errorf("limit %d, want the allowed 1", l.limit)
	}
}
