package peer

import (
	"slices"
	"testing"
)

func TestAIMDStepByStep(t *testing.T) {
	l := NewAIMD()
	s := &line{t: t, l: l}
	want := func(limit int64) {
		t.Helper()
		if l.limit != limit {
			t.Fatalf("limit %d, want %d", l.limit, limit)
		}
	}
	calls := s.fill()
	if len(calls) != 10 {
		t.Fatalf("%d admitted at first, want 10", len(calls))
	}
	s.ask(Wait, Never)

	// The fourth was sent as the fourth in flight, 2*4 < 10: no growth. The
	// fifth, 2*5 >= 10: one slot.
	s.ok(calls[3])
	want(10)
	s.ok(calls[4])
	want(11)
	// A burst of refusals cuts once each: int(9.9), int(8.1), 8-1, 7-1, ...
	for i, limit := range []int64{9, 8, 7, 6, 5} {
		s.refused(calls[5+i])
		want(limit)
	}
	// A random 500 is ignored.
	s.noise(calls[0])
	want(5)
	// An answer slower than 5 s counts as a drop, one of exactly 5 s does not.
	s.now = 5 * second
	s.ok(calls[1])
	want(5) // it was second in flight: 2*2 < 5
	s.now++
	s.ok(calls[2])
	want(4)
	// Never below one.
	for range 10 {
		s.refused(s.send())
	}
	want(1)
}

// TestAIMDCutsATenth checks the rounding of the cut.
func TestAIMDCutsATenth(t *testing.T) {
	var got []int64
	for _, limit := range []int64{1, 2, 9, 10, 11, 19, 20, 100, 1001} {
		l := NewAIMD()
		l.limit = limit
		s := &line{t: t, l: l}
		s.refused(s.send())
		got = append(got, l.limit)
	}
	if want := []int64{1, 1, 8, 9, 9, 17, 18, 90, 900}; !slices.Equal(got, want) {
		t.Errorf("after one drop %v, want %v", got, want)
	}
}
