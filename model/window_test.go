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
	w.RoundBase = Milli(rapid.Int64Range(1, int64(p.WindowMax)).Draw(t, "round"))
	w.Double = Nanos(rapid.Int64Range(0, int64(Hour)).Draw(t, "double"))
	w.Goal = Milli(rapid.Int64Range(0, int64(p.WindowMax)).Draw(t, "goal"))
	w.Series = rapid.Int64Range(0, math.MaxInt64-1).Draw(t, "series")
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
		now := Nanos(rapid.Int64Range(0, int64(Hour)).Draw(t, "now"))
		var before, after, least Milli
		if rapid.Bool().Draw(t, "refused") {
			before, after, _ = w.refused(&p, now, top, inflight, 0)
			least = Milli(scale(int64(before), p.PinFloor))
			if w.Ceiling != before || w.ByLatency {
				t.Fatalf("a refusal at %d is remembered as %+v", before, w)
			}
		} else {
			ratio := PPM(rapid.Int64Range(0, int64(maxRatio)).Draw(t, "ratio"))
			before, after = w.slowed(&p, now, top, inflight, ratio, Second)
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

// TestWindowCutGoesWhereItWasMeasured tells the sizes of a cut: a step below
// what is in flight, which doubles while nothing works.
func TestWindowCutGoesWhereItWasMeasured(t *testing.T) {
	p := DefaultParams()
	for _, c := range []struct {
		name     string
		slow     bool
		grown    Nanos
		series   int64
		inflight int64
		want     Milli
	}{
		{"first of all: a little less than in flight", true, 0, 9, 360, 358_000},
		{"one that worked: the same", false, proven, 3, 360, 358_000},
		{"again: twice the step", false, 0, 0, 360, 355_000},
		{"the fourth: eight times", false, proven - 1, 2, 360, 338_000},
		{"at last a tenth", false, 0, 40, 360, 324_000},
		{"more in flight than the window: at least one slot less", true, 0, 0, 990, 397_000},
		{"nothing in flight: the least share", true, 0, 0, 0, 160_000},
	} {
		w := window{Base: 400_000, Slow: c.slow, Grown: c.grown, Series: c.series, Drained: true, Calm: true}
		_, got, _ := w.refused(&p, Minute, 0, c.inflight, 0)
		if got != c.want {
			t.Errorf("%s: cut to %d, want %d", c.name, got, c.want)
		}
	}
}

// TestWindowClimb follows a window after a cut: back to a little under what
// was refused within the plateau, then by doubling steps.
func TestWindowClimb(t *testing.T) {
	p := DefaultParams()
	w := window{Base: 100_000, Goal: 120_000, RoundBase: 100_000, Used: true, Calm: true, Drained: true}
	for _, c := range []struct {
		after Nanos
		want  Milli
	}{
		{0, 100_000},
		{p.Plateau / 2, 117_500},
		{p.Plateau, 120_000},
		{p.Plateau + p.ClimbDouble, 121_000},
		{p.Plateau + 3*p.ClimbDouble, 127_000},
		{p.Plateau + 7*p.ClimbDouble, 247_000},
	} {
		at := w
		at.advance(c.after)
		if got := at.value(&p, 0); got != c.want {
			t.Errorf("after %s the window is %d, want %d", c.after, got, c.want)
		}
	}
}

// TestWindowClimbsByLatency holds that after a cut that latency made the window
// grows by no more than a sixth while a call takes, however long it has grown,
// doubles within six of those, and goes by what calls take once they got faster.
func TestWindowClimbsByLatency(t *testing.T) {
	p := DefaultParams()
	for _, took := range []Nanos{Second, 8 * Second} {
		w := newWindow(&p)
		w.Base, w.Slow, w.RoundBase = 100_000, false, p.WindowMax
		w.slowed(&p, 0, 0, 100, 2*One, 8*Second)
		w.Drained, w.Used, w.Calm, w.RoundBase = true, true, true, p.WindowMax
		before := w.value(&p, 0)
		w.Near = 0
		if w.quicken(&p, 0, took); w.value(&p, 0) != before {
			t.Fatalf("the window went from %d to %d at once", before, w.value(&p, 0))
		}
		w.RoundBase = p.WindowMax
		for step := range 24 {
			was := w.value(&p, 0)
			w.advance(took)
			if v := w.value(&p, 0); v <= was || v > was+was/6+1 {
				t.Errorf("calls of %s: from %d to %d in step %d", took, was, v, step)
			}
		}
		w.Grown = w.plateau(&p) + latencySteps*took
		from := w.value(&p, 0)
		w.advance(latencyTimes * took)
		if v := w.value(&p, 0); v != 2*from {
			t.Errorf("calls of %s: from %d to %d in %d calls", took, from, v, latencyTimes)
		}
	}
}

// climb lets a window approach for fifty seconds and shows each of its values; no
// change of its pace may move it at once.
func climb(t *testing.T, w *window, p *Params, l *latency, see func(v Milli)) {
	t.Helper()
	for range 1000 {
		before := w.value(p, 0)
		w.approach(p, 0, l)
		v := w.value(p, 0)
		if v != before {
			t.Fatalf("the window went from %d to %d at once", before, v)
		}
		see(v)
		w.advance(50 * Millisecond)
	}
}

// TestWindowApproaches holds that the climb is slower between four fifths of what
// latency cut and that, as fast as ever below and beyond, and jumps nowhere.
func TestWindowApproaches(t *testing.T) {
	p := DefaultParams()
	w := newWindow(&p)
	w.Base, w.Slow, w.RoundBase = 100_000, false, p.WindowMax
	w.slowed(&p, 0, 0, 100, 2*One, Second)
	w.Drained, w.Used, w.Calm, w.RoundBase = true, true, true, p.WindowMax
	w.quicken(&p, 0, Second)
	l := latency{Took: Second, Recent: One, Drift: One}
	climb(t, &w, &p, &l, func(v Milli) {
		want := Second
		if v >= 80_000 && v < 100_000 {
			want = nearSlower * Second
		}
		if w.Double != want || (w.Near == 0) != (v >= 100_000) {
			t.Fatalf("at %d the climb doubles in %s, want %s; near is %d", v, w.Double, want, w.Near)
		}
	})
	if v := w.value(&p, 0); v < 200_000 {
		t.Errorf("after all that time the window is %d", v)
	}
}

// TestWindowStands holds that a climb stands half of the way back to what latency
// cut where it cut at about the same before, the longer the more often, and that
// it goes beyond in the end; elsewhere it does not stand.
func TestWindowStands(t *testing.T) {
	p := DefaultParams()
	w := newWindow(&p)
	w.Base, w.Slow, w.RoundBase = 100_000, false, p.WindowMax
	l := latency{Took: Second, Recent: One, Drift: One}
	for i, c := range []struct {
		inflight int64
		stand    Nanos
	}{{100, 0}, {95, 2 * Second}, {100, 4 * Second}, {92, 8 * Second}, {100, 16 * Second}, {100, 20 * Second}, {60, 0}, {70, 0}} {
		w.Base, w.Goal, w.Grown = Milli(c.inflight)*1000, 0, 0 // as far as it climbed
		_, after := w.slowed(&p, 0, 0, c.inflight, 125*One/100, Second)
		w.Drained, w.Used, w.Calm, w.RoundBase = true, true, true, p.WindowMax
		if w.Stand != c.stand {
			t.Fatalf("cut %d stands for %s, want %s", i, w.Stand, c.stand)
		}
		goal := after + (Milli(c.inflight)*1000-after)/2
		stood := Nanos(0)
		for v := w.value(&p, 0); v < Milli(c.inflight)*1000; v = w.value(&p, 0) {
			w.approach(&p, 0, &l)
			w.advance(50 * Millisecond)
			if v >= goal-1000 && v <= goal+10 {
				stood += 50 * Millisecond
			}
			if stood > Minute {
				t.Fatalf("cut %d stands for ever at %d", i, v)
			}
		}
		if stood < c.stand/3 {
			t.Errorf("cut %d stood at %d for %s of %s", i, goal, stood, c.stand)
		}
	}
}

// TestWindowClimbsSwiftly holds that the window climbs twice as fast once half as
// much again as it was is no slower, up to three quarters of what once was, and
// by steps again once calls got slow.
func TestWindowClimbsSwiftly(t *testing.T) {
	p := DefaultParams()
	w := newWindow(&p)
	w.Base, w.Slow, w.RoundBase = 200_000, false, p.WindowMax
	w.slowed(&p, 0, 0, 40, 2*One, Second)
	w.Drained, w.Used, w.Calm, w.RoundBase = true, true, true, p.WindowMax
	w.quicken(&p, 0, Second)
	l := latency{Took: Second, Recent: One, Drift: One, Proven: 200_000}
	base := w.value(&p, 0)
	climb(t, &w, &p, &l, func(v Milli) {
		if swift := w.Times == swiftTimes; swift != (v >= base+base/2 && v < 150_000) {
			t.Fatalf("at %d, from %d, swift is %v", v, base, swift)
		}
	})
	w.Times, w.Calm = swiftTimes, false
	before := w.value(&p, 0)
	if w.hold(&p, 0); w.Times != 0 || w.value(&p, 0) != before {
		t.Errorf("held at %d the window is %d, swift %d", before, w.value(&p, 0), w.Times)
	}
	w.Calm, w.Base, w.Times = true, base, 0
	l.Recent = One + One/20
	for range 100 {
		w.advance(50 * Millisecond)
		w.approach(&p, 0, &l)
	}
	if w.Times != 0 {
		t.Error("it is swift though calls are slower than they were")
	}
}

// TestWindowRounds holds a window that only ends tell of: three times what it
// was when the calls were sent that have ended well since.
func TestWindowRounds(t *testing.T) {
	p := DefaultParams()
	w := window{Base: 16_000, RoundBase: 16_000, RoundAt: Second, Grown: Hour}
	if got := w.value(&p, 0); got != 48_000 {
		t.Errorf("without an end the window is %d", got)
	}
	for range 100 {
		w.success(&p, 0, Minute, Second-1, 0)
	}
	if got := w.value(&p, 0); got != 48_000 {
		t.Errorf("after ends of what was sent before the round the window is %d", got)
	}
	for range 6 {
		w.success(&p, 0, Minute, Second, 0)
	}
	if got := w.value(&p, 0); got != 48_000 || w.RoundAt != Minute || w.RoundBase != 48_000 {
		t.Errorf("after an eighth of it ended well the window is %d, the round %+v", got, w)
	}
	w.Used, w.Calm, w.Drained = true, true, true
	if w.advance(Minute); w.value(&p, 0) != 144_000 {
		t.Errorf("a minute later the window is %d", w.value(&p, 0))
	}
}

// TestWindowClimbsInRounds has a goal twenty times the base: each round that ends
// well lets it climb to three times as much, and the goal is not forgotten.
func TestWindowClimbsInRounds(t *testing.T) {
	p := DefaultParams()
	w := newWindow(&p)
	w.cut(10_000, Second, true)
	w.Goal, w.Used, w.Calm, w.Drained = 200_000, true, true, true
	for now, want := 2*Second, Milli(30_000); ; now, want = now+Second, min(3*want, 200_000) {
		w.advance(Second)
		if got := w.value(&p, 0); got != want {
			t.Fatalf("after %s: window %d, want %d", now, got, want)
		}
		if want == w.Goal {
			break
		}
		for range want / 1000 / roundShare {
			w.success(&p, 0, now, now, Second)
		}
		w.success(&p, 0, now, now, Second)
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
	w.success(&p, 0, 0, 0, 0)
	if w.Base != p.WindowStart {
		t.Errorf("an unused window grew to %d", w.Base)
	}
	w.Used = true
	now := slowStep
	for range 10 {
		w.success(&p, 0, now, 0, 0)
	}
	if want := p.WindowStart * 3 / 2; w.Base != want {
		t.Errorf("ten successes at once make %d, want half more, %d", w.Base, want)
	}
	later := func(accepted int64) Milli {
		for range 40 {
			now += slowStep
			w.took(&p, now, accepted, 0, 0)
		}
		return w.Base
	}
	w.took(&p, now, 0, 9, 0)
	now += firstRefusal - 1
	if w.took(&p, now, 0, 9, 0); w.Base != p.WindowStart*3/2 {
		t.Errorf("nine in flight that may be refused yet make %d", w.Base)
	}
	now++
	if w.took(&p, now, 0, 9, 0); w.Base <= p.WindowStart*3/2 {
		t.Errorf("nine in flight that were not refused make no more than %d", w.Base)
	}
	if got := later(14); got != 28_000 {
		t.Errorf("fourteen taken make %d, want twice that", got)
	}
	if got := later(4); got != 28_000 {
		t.Errorf("a few taken make %d of 28000", got)
	}
	if got := later(4000); got != w.RoundBase*roundMost {
		t.Errorf("many taken make %d, want what a round allows", got)
	}
	w.Base, w.RoundBase = p.WindowMax-1, p.WindowMax
	w.success(&p, 0, now+slowStep, 0, 0)
	if w.Base != p.WindowMax {
		t.Errorf("grown to %d, beyond %d", w.Base, p.WindowMax)
	}
	w.cut(9_000, 0, false)
	w.success(&p, 0, 0, 0, 0)
	w.took(&p, 0, 90, 90, 0)
	if w.Base != 9_000 {
		t.Errorf("after a cut a success makes %d", w.Base)
	}
}

// TestWindowMissed holds that what was in flight at a cut and is refused later
// does not count as taken.
func TestWindowMissed(t *testing.T) {
	p := DefaultParams()
	w := newWindow(&p)
	w.Base = 230_000
	now := Minute
	w.refused(&p, now, 0, 229, 0)
	if w.Base != 228_000 {
		t.Fatalf("refused with 229 others makes %d", w.Base)
	}
	for range 29 {
		w.missed(&p, w.Epoch-1, now-missedAge)
	}
	if w.Base != 200_000 {
		t.Errorf("29 of those refused later leave %d, want 200000", w.Base)
	}
	w.missed(&p, w.Epoch-1, now) // started after what was reported
	w.missed(&p, w.Epoch-2, now-missedAge)
	w.Drained = true
	w.missed(&p, w.Epoch-1, now-missedAge)
	if w.Base != 200_000 {
		t.Errorf("refusals that tell nothing leave %d", w.Base)
	}
	w = newWindow(&p)
	w.cut(9_000, now, true)
	if w.missed(&p, w.Epoch-1, now-missedAge); w.Base != 9_000 {
		t.Errorf("after a cut by latency a refusal leaves %d", w.Base)
	}
}

// TestWindowRose holds that what is taken where as little was refused begins slow
// start anew, which goes fast to half of what was once known.
func TestWindowRose(t *testing.T) {
	p := DefaultParams()
	w := newWindow(&p)
	w.Base, w.Slow, w.Grown = 200_000, false, proven
	now := Minute
	w.refused(&p, now, 0, 199, 0)
	w.refused(&p, now, 0, 3, 0)
	if !w.Drain || w.Known != 199_000 || w.Least != 4_000 {
		t.Fatalf("draining %t, known %d, least %d; want true, 199000, 4000", w.Drain, w.Known, w.Least)
	}
	fell := w
	if fell.found(&p, now, 3_000); fell.Drain || fell.Slow || fell.Base != 3_000 {
		t.Errorf("three taken where four were not: %+v", fell)
	}
	if w.found(&p, now, 4_000); !w.Slow {
		t.Error("four taken where four were refused say nothing")
	}
	w.Used = true
	grown := func() Milli {
		for range 5 {
			now += slowStep
			w.took(&p, now, 4000, 4000, 0)
		}
		return w.Base
	}
	if got := grown(); got != 4_000*roundMost {
		t.Errorf("five steps from 4 make %d while no call ended, want what a round allows", got)
	}
	w.success(&p, 0, now, now, 0)
	grown()
	if w.Base != 99_500 {
		t.Errorf("five steps from 4 make %d, want half of what was known", w.Base)
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
