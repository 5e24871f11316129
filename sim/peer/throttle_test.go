package peer

import (
	"testing"

	"weir/model"
)

func TestThrottleStepByStep(t *testing.T) {
	l := NewThrottle(Dice{Seed: 1, Entity: 1})
	s := &line{t: t, l: l}
	want := func(requests, accepts int64) {
		t.Helper()
		if l.requests != requests || l.accepts != accepts {
			t.Fatalf("%d requests, %d accepts; want %d, %d", l.requests, l.accepts, requests, accepts)
		}
	}
	// While everything is accepted, nothing is shed: requests <= 2*accepts.
	for range 50 {
		s.ok(s.send())
	}
	want(50, 50)
	// 50 refusals in a row bring requests to 2*accepts: none is shed yet.
	for range 50 {
		s.refused(s.send())
	}
	want(100, 50)
	// From here the probability is (requests-100)/(requests+1). Over the next
	// hundred it rises to a half; the expected number of shed ones is
	// sum over n=100..199 of (n-100)/(n+1) = 30.5.
	shed := 0
	for range 100 {
		v, _ := l.Ask(s.now, Call{})
		if v == Shed {
			shed++
		}
	}
	want(200, 50)
	if shed < 20 || shed > 42 {
		t.Errorf("%d of 100 shed, want about 30", shed)
	}
	// A random 500, a bad request and an answer were accepted; a timeout was not.
	for _, c := range []model.Class{model.ClassOverloaded, model.ClassInvalid, model.ClassOK} {
		l.Done(s.now, &Sample{Class: c, Status: 500})
	}
	l.Done(s.now, &Sample{Class: model.ClassTransport})
	want(200, 53)
}

func TestThrottleForgetsAfterTwoMinutes(t *testing.T) {
	l := NewThrottle(Dice{})
	s := &line{t: t, l: l, now: 7 * second}
	for range 10 {
		l.Ask(s.now, Call{})
	}
	s.now = 67 * second
	for range 5 {
		l.Ask(s.now, Call{})
	}
	s.now = 127*second - 1 // the first ten are 119.99 s old
	l.Ask(s.now, Call{})
	if l.requests != 16 {
		t.Fatalf("%d requests within two minutes, want 16", l.requests)
	}
	s.now = 127 * second
	l.Ask(s.now, Call{})
	if l.requests != 7 {
		t.Fatalf("%d requests once the first ten are two minutes old, want 7", l.requests)
	}
	s.now += 3600 * second
	l.Ask(s.now, Call{})
	if l.requests != 1 || l.accepts != 0 {
		t.Fatalf("%d requests, %d accepts after an hour, want 1 and 0", l.requests, l.accepts)
	}
}

// TestThrottleNeverBlocksForGood: with nothing accepted the share that goes
// out falls as 1/(requests+1) but never to none.
func TestThrottleNeverBlocksForGood(t *testing.T) {
	l := NewThrottle(Dice{Seed: 3, Entity: 9})
	sent := 0
	for i := range int64(12_000) {
		if v, _ := l.Ask(i*10*millisecond, Call{}); v == Admit {
			sent++
		}
	}
	// sum of 1/(n+1) over n=0..11999 is 10.
	if sent < 3 || sent > 22 {
		t.Errorf("%d of 12,000 went out to a dead backend, want about 10", sent)
	}
}
