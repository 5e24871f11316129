package peer

import (
	"testing"

	"weir/model"
)

func TestSDKStepByStep(t *testing.T) {
	r := NewSDK(Dice{Seed: 1})
	refused := Sample{Class: model.ClassRateLimited, Status: 429, RetryAfter: -1}
	least, most := minute, int64(0)
	for range 1000 {
		wait, _, ok := r.Again(0, 1, Group{}, &refused)
		if !ok {
			t.Fatal("no first retry")
		}
		least, most = min(least, wait), max(most, wait)
	}
	// 0.5 s less up to a quarter.
	if least < 375*millisecond || least > 380*millisecond || most > 500*millisecond || most < 495*millisecond {
		t.Errorf("first waits %d..%d, want all of 375..500 ms", least, most)
	}
	if wait, _, ok := r.Again(0, 2, Group{}, &refused); !ok || wait < 750*millisecond || wait > second {
		t.Errorf("second wait %d, %v; want 750..1000 ms", wait, ok)
	}
	if _, _, ok := r.Again(0, 3, Group{}, &refused); ok {
		t.Error("a third retry, want two")
	}
	for _, c := range []struct {
		class model.Class
		after int64
		want  int64 // exact, or -1 for none
	}{
		{model.ClassRateLimited, 7 * second, 7 * second},
		{model.ClassRateLimited, 120 * second, 120 * second},
		{model.ClassRateLimited, 120*second + 1, -1},
		{model.ClassTransport, 3 * second, 3 * second},
		{model.ClassInvalid, 3 * second, -1},
		{model.ClassAuth, 3 * second, -1},
	} {
		s := Sample{Class: c.class, RetryAfter: c.after}
		wait, _, ok := r.Again(0, 1, Group{}, &s)
		if ok != (c.want >= 0) || ok && wait != c.want {
			t.Errorf("%s, Retry-After %d: wait %d, %v; want %d", c.class, c.after, wait, ok, c.want)
		}
	}
}
