package peer

import "testing"

// trip is a call in flight as the n-th that took that long.
func trip(s *line, n Mark, took int64) Sample {
	x := Sample{Sent: s.now, Mark: n, RetryAfter: -1}
	s.now += took
	return x
}

func TestGradient2StepByStep(t *testing.T) {
	l := NewGradient2()
	s := &line{t: t, l: l}
	want := func(limit, long int64) {
		t.Helper()
		if l.limit != limit || l.long != long {
			t.Fatalf("limit %d, long %d; want %d, %d", l.limit, l.long, limit, long)
		}
	}
	if n := len(s.fill()); n != 20 {
		t.Fatalf("%d admitted at first, want 20", n)
	}
	s.ask(Wait, Never)

	// Steady 1 s: g = 1, so L moves to 0.8*20 + 0.2*24 = 20.8, then 21.6.
	s.ok(trip(s, 20, second))
	want(20_800_000, second)
	s.ok(trip(s, 20, second))
	want(21_600_000, second)
	// Fewer than half in flight: 2*10 < 21.6, no move.
	s.ok(trip(s, 10, second))
	want(21_600_000, second)
	// Eight more warm the mean up: 11 samples of 1 s.
	for range 8 {
		s.ok(trip(s, 30, second))
	}
	want(28_000_000, second)
	// 4 s: long = 1 + 3*2/601 = 1.009983361 s, g = max(0.5, 0.2525) = 0.5,
	// L = 0.8*28 + 0.2*(14+4) = 26.
	s.ok(trip(s, 30, 4*second))
	want(26_000_000, 1_009_983_361)
	// A refusal after 0.1 s is a sample too: long = 1.009983361 -
	// 0.909983361*2/601 = 1.006955131 s, more than twice 0.1 s, so it shrinks
	// by a tenth; g = 1 and L grows to 0.8*26 + 0.2*30 = 26.8.
	s.refused(trip(s, 30, second/10))
	want(26_800_000, 906_259_618)
}

func TestGradient2Bounds(t *testing.T) {
	l := NewGradient2()
	s := &line{t: t, l: l}
	for range 1000 {
		s.ok(trip(s, 1000, second))
	}
	if l.limit != 200_000_000 {
		t.Errorf("limit %d after a thousand equal samples, want 200 slots", l.limit)
	}
	// Ever slower: the floor is 20.
	took := second
	for range 60 {
		took += took / 2
		s.ok(trip(s, 1000, took))
	}
	if l.limit != 20_000_000 {
		t.Errorf("limit %d after ever slower samples, want 20 slots", l.limit)
	}
}
