package model

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestWeightRecovers(t *testing.T) {
	p := DefaultParams()
	w := newWeight()
	if got := w.value(&p, 0); got != One {
		t.Fatalf("a new channel has weight %d", got)
	}
	_, after, changed := w.overloaded(&p, Minute, 0)
	if !changed || after != p.WeightDecay {
		t.Fatalf("a first failure leaves %d", after)
	}
	missing := One - after
	for halves := range 8 {
		at := Minute + Nanos(halves)*p.WeightHalfLife
		if got, want := w.value(&p, at), One-missing>>halves; got != want {
			t.Errorf("after %d half-lives %d, want %d", halves, got, want)
		}
	}
	if got := w.value(&p, Minute-Second); got != after {
		t.Errorf("before it failed %d, want %d", got, after)
	}
	if got := w.value(&p, math.MaxInt64); got != One {
		t.Errorf("after all time %d", got)
	}
}

// TestWeightIsAFunctionOfTime holds that weight only rises by time, stays
// above its floor and below one, and does not care how often it is read.
func TestWeightIsAFunctionOfTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParams(t)
		w := newWeight()
		now := Nanos(0)
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			now += Nanos(rapid.Int64Range(0, int64(Hour)).Draw(t, "span"))
			before := w.value(&p, now)
			state := w
			if rapid.Bool().Draw(t, "transport") {
				w.transport(&p, now, now-Nanos(rapid.Int64Range(0, int64(Hour)).Draw(t, "ago")))
			} else {
				w.overloaded(&p, now, rapid.Uint64Range(0, 5).Draw(t, "epoch"))
			}
			after := w.value(&p, now)
			if after > before || after < min(before, p.WeightFloor) || w != state && after > max(PPM(scale(int64(before), p.WeightDecay)), p.WeightFloor) {
				t.Fatalf("a failure moved %d to %d", before, after)
			}
			later := now + Nanos(rapid.Int64Range(0, int64(Minute)).Draw(t, "later"))
			state = w
			if v := w.value(&p, later); v < after || v > One {
				t.Fatalf("%d became %d by time", after, v)
			}
			if w != state {
				t.Fatalf("reading changed %+v to %+v", state, w)
			}
		}
	})
}

func TestWeightChargesAnEpochOnce(t *testing.T) {
	p := DefaultParams()
	w := newWeight()
	charged := func(epoch uint64) bool {
		_, _, changed := w.overloaded(&p, 0, epoch)
		return changed
	}
	for _, c := range []struct {
		epoch uint64
		want  bool
	}{{0, true}, {0, false}, {2, true}, {1, false}, {2, false}, {0, false}, {3, true}} {
		if got := charged(c.epoch); got != c.want {
			t.Errorf("epoch %d charged: %v, want %v", c.epoch, got, c.want)
		}
	}
}

func TestWeightOfAnOperator(t *testing.T) {
	p := DefaultParams()
	w := newWeight()
	w.Forced = 0
	if _, _, changed := w.overloaded(&p, 0, 0); changed || w.value(&p, Hour) != 0 {
		t.Errorf("an ordered weight of 0 is %d", w.value(&p, Hour))
	}
	if w.Forced = -1; w.value(&p, 0) != p.WeightDecay {
		t.Errorf("given back, the law says %d", w.value(&p, 0))
	}
}
