package model

import "testing"

// TestRaise holds a series of tests of more: the parts grow while nothing gets
// slower, and what makes calls slower ends it for longer each time.
func TestRaise(t *testing.T) {
	var r raise
	now := Hour
	if r.due(now, raiseSamples) || r.due(now+raiseAfter-1, raiseSamples) || r.due(now+raiseAfter, raiseSamples-1) || !r.due(now+raiseAfter, raiseSamples) {
		t.Error("due before latency was not calm for long, or on few samples")
	}
	w := r.begin(8_000, One*13/10)
	if w != 9_000 {
		t.Errorf("the first part makes %d of 8000, want 9000", w)
	}
	if got := r.verdict(w, One*13/10, One/10, raiseSamples-1); got != untold {
		t.Errorf("within the noise of few samples: %d", got)
	}
	if got := r.verdict(w, One*13/10, One/10, raiseSamples); got != same {
		t.Errorf("no slower: %d", got)
	}
	r.From = 0
	if !r.due(now, raiseSamples) {
		t.Error("the next is not due at once")
	}
	if w = r.begin(w, One*14/10); w != 11_250 {
		t.Errorf("the second part makes %d of 9000, want 11250", w)
	}
	// 40 % more than the first 8000: half of that is 1.2 times its latency.
	for ratio, want := range map[PPM]outcome{One * 155 / 100: same, One * 157 / 100: unclear} {
		if got := r.verdict(w, ratio, 0, 1); got != want {
			t.Errorf("at %d: %d, want %d", ratio, got, want)
		}
	}
	for _, wait := range []Nanos{raiseWait, 2 * raiseWait, 4 * raiseWait} {
		r.failed(now)
		if r.drop(); r.Next != now+wait || r.First != 0 || r.due(now+wait-1, raiseSamples) {
			t.Errorf("after what made calls slower: %+v, want the next %s later", r, wait)
		}
	}
}

// TestSmallWindow holds which windows are tested and not cut: those far below
// what the channel did calmly in the last minutes.
func TestSmallWindow(t *testing.T) {
	var l latency
	if l.small(1_000, One, false) {
		t.Error("nothing was proven")
	}
	l.prove(Hour, 60)
	l.prove(Hour+Minute, 20)
	for w, want := range map[Milli][2]bool{10_000: {true, true}, 11_000: {true, false}, 30_000: {true, false}, 31_000: {false, false}} {
		if calm, high := l.small(w, One*3/2, false), l.small(w, One*3/2, true); calm != want[0] || high != want[1] {
			t.Errorf("%d of 60 slots: %v, and with a high latency %v", w, calm, high)
		}
	}
	if l.small(1_000, 2*One, true) {
		t.Error("twice the baseline is no cold cache")
	}
	if l.prove(Hour+provenFor, 20); l.Proven != 20_000 {
		t.Errorf("after ten minutes %d are proven, want what is in flight", l.Proven)
	}
}
