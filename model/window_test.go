package model

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// drawParams draws parameters anywhere within their ranges.
func drawParams(t *rapid.T) Params {
	p := DefaultParams()
	for _, spec := range ParamSpecs() {
		if rapid.IntRange(0, 3).Draw(t, "moves") == 0 {
			*spec.field(&p) = rapid.Int64Range(spec.Min, spec.Max).Draw(t, spec.Name)
		}
	}
	return p
}

func drawWindow(t *rapid.T, p *Params) window {
	w := newWindow(p)
	w.Base = Milli(rapid.Int64Range(1, int64(p.WindowMax)).Draw(t, "base"))
	w.Grown = Nanos(rapid.Int64Range(0, int64(100*Hour)).Draw(t, "grown"))
	w.Slow, w.Used, w.Calm = rapid.Bool().Draw(t, "slow"), rapid.Bool().Draw(t, "used"), rapid.Bool().Draw(t, "calm")
	w.ByLatency, w.Drained = rapid.Bool().Draw(t, "by latency"), rapid.Bool().Draw(t, "drained")
	return w
}

func TestWindowAdvanceHoweverOften(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParams(t)
		w := drawWindow(t, &p)
		a := Nanos(rapid.Int64Range(0, int64(Hour)).Draw(t, "a"))
		b := Nanos(rapid.Int64Range(0, int64(Hour)).Draw(t, "b"))
		twice, once := w, w
		twice.advance(a)
		twice.advance(b)
		once.advance(a + b)
		if twice != once {
			t.Fatalf("advance %s and %s: %+v, at once %+v", a, b, twice, once)
		}
		if before, after := w.value(&p, 0), once.value(&p, 0); after < before {
			t.Fatalf("the window fell from %d to %d by time alone", before, after)
		}
	})
}

func TestWindowStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParams(t)
		w := drawWindow(t, &p)
		top := Milli(rapid.Int64Range(0, 2*int64(p.WindowMax)).Draw(t, "top"))
		v := w.value(&p, top)
		hi := p.WindowMax
		if top > 0 {
			hi = min(hi, top)
		}
		if v > hi || v < min(p.WindowFloor, hi) {
			t.Fatalf("window %d outside %d..%d", v, p.WindowFloor, hi)
		}
		w.Grown = math.MaxInt64
		if v := w.value(&p, top); v > hi || v < min(p.WindowFloor, hi) {
			t.Fatalf("after all time the window is %d, outside %d..%d", v, p.WindowFloor, hi)
		}
	})
}

// TestWindowCuts holds what every cut keeps: it lowers, never below the floor
// or the share it must leave, and counts one epoch.
func TestWindowCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParams(t)
		w := drawWindow(t, &p)
		was := w
		top := Milli(rapid.Int64Range(0, int64(p.WindowMax)).Draw(t, "top"))
		inflight := rapid.Int64Range(0, int64(MaxAgents)*math.MaxUint32).Draw(t, "inflight")
		accepted := rapid.Int64Range(0, inflight).Draw(t, "accepted")
		now := Nanos(rapid.Int64Range(0, int64(Hour)).Draw(t, "now"))
		var before, after, least Milli
		if rapid.Bool().Draw(t, "refused") {
			before, after, _ = w.refused(&p, now, top, inflight, accepted)
			least = Milli(scale(int64(before), p.PinFloor))
			if w.Ceiling != before || w.ByLatency {
				t.Fatalf("a refusal at %d is remembered as %+v", before, w)
			}
		} else {
			ratio := PPM(rapid.Int64Range(0, int64(maxRatio)).Draw(t, "ratio"))
			before, after = w.slowed(&p, now, top, inflight, ratio)
		}
		switch {
		case before != was.value(&p, top):
			t.Fatalf("cut from %d, the window was %d", before, was.value(&p, top))
		case after > before, after < min(before, p.WindowFloor), after < min(before, least):
			t.Fatalf("cut from %d to %d, floor %d, least %d", before, after, p.WindowFloor, least)
		case w.value(&p, top) != max(after, min(p.WindowFloor, max(top, 1))) && top == 0:
			t.Fatalf("cut to %d, the window is %d", after, w.value(&p, top))
		case w.Epoch != was.Epoch+1 || w.Slow || w.Drained || w.Grown != 0 || w.CutAt != now:
			t.Fatalf("after the cut: %+v", w)
		}
	})
}

// TestWindowCutGoesWhereItWasMeasured tells the three sizes of a cut.
func TestWindowCutGoesWhereItWasMeasured(t *testing.T) {
	p := DefaultParams()
	p.PinFloor = 100_000
	for _, c := range []struct {
		name               string
		slow               bool
		since              Nanos
		inflight, accepted int64
		want               Milli
	}{
		{"first of all: to what is in flight", true, 0, 36, 10, 36_000},
		{"after a calm time: the same", false, p.Plateau, 36, 10, 36_000},
		{"soon again: a tenth less", false, Second, 36, 10, 32_400},
		{"nothing accepted: the same", false, Second, 36, 0, 32_400},
		{"as many accepted as in flight: to those", false, Second, 36, 36, 36_000},
		{"more in flight than the window: at least one slot less", true, 0, 99, 10, 39_000},
		{"nothing in flight: the least share", true, 0, 0, 0, 4_000},
	} {
		w := window{Base: 40_000, Slow: c.slow, CutAt: Minute, Drained: true, Calm: true}
		_, got, _ := w.refused(&p, Minute+c.since, 0, c.inflight, c.accepted)
		if got != c.want {
			t.Errorf("%s: cut to %d, want %d", c.name, got, c.want)
		}
	}
}

func TestWindowHoldChangesNothingNow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParams(t)
		w := drawWindow(t, &p)
		before := w.value(&p, 0)
		w.hold(&p, 0)
		if got := w.value(&p, 0); got != before {
			t.Fatalf("held at %d, was %d", got, before)
		}
	})
}

func TestWindowSlowStart(t *testing.T) {
	p := DefaultParams()
	w := newWindow(&p)
	w.success(&p, 0)
	if w.Base != p.WindowStart {
		t.Errorf("an unused window grew to %d", w.Base)
	}
	w.Used = true
	for range 10 {
		w.success(&p, 0)
	}
	if want := p.WindowStart + 10*p.SlowStartGain; w.Base != want {
		t.Errorf("ten successes make %d, want %d", w.Base, want)
	}
	w.Base = p.WindowMax - 1
	w.success(&p, 0)
	if w.Base != p.WindowMax {
		t.Errorf("grown to %d, beyond %d", w.Base, p.WindowMax)
	}
	w.cut(9_000, 0, false)
	w.success(&p, 0)
	if w.Base != 9_000 {
		t.Errorf("after a cut a success makes %d", w.Base)
	}
}

func TestIsqrt(t *testing.T) {
	check := func(n uint64) {
		want := new(big.Int).Sqrt(new(big.Int).SetUint64(n)).Uint64()
		if got := isqrt(n); got != want {
			t.Errorf("√%d = %d, want %d", n, got, want)
		}
	}
	for n := range uint64(1000) {
		check(n)
		check(math.MaxUint64 - n)
		check(n*n + 1<<40)
	}
}
