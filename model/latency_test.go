package model

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// call returns a successful attempt of a size that takes so long.
func call(in, out Tokens, took Nanos) *Attempt {
	return &Attempt{Class: ClassOK, UsageKnown: true, In: in, Out: out, Took: took}
}

// taught returns a latency whose baseline for calls of 1000 in and 100 out is
// one second.
func taught() latency {
	l := newLatency(0)
	for range 2 * meanGain {
		l.sample(call(1000, 100, Second), 0, 0)
	}
	return l
}

func TestLatencyLearnsBeforeItJudges(t *testing.T) {
	p := DefaultParams()
	l := newLatency(Hour)
	for i := range cellSamples + learnt - 1 {
		l.sample(call(1000, 100, Second), Hour, Hour)
		if _, high := l.high(&p); high || !l.calm(&p, Hour) {
			t.Fatalf("judged after %d samples", i+1)
		}
	}
	if got := l.ratio(); got != One {
		t.Errorf("equal calls have ratio %d", got)
	}
}

func TestLatencySeesARise(t *testing.T) {
	p := DefaultParams()
	l := taught()
	for range max(p.LatencySamples, recentGain) {
		l.sample(call(1000, 100, 2*Second), Second, Second)
	}
	ratio, high := l.high(&p)
	if !high || l.calm(&p, Second) || ratio < 15*One/10 {
		t.Errorf("calls of twice the time: ratio %d, high %v", ratio, high)
	}
	// Calls that merely got longer are measured in other cells.
	l = taught()
	for range 100 {
		l.sample(call(1000, 1600, 16*Second), Second, Second)
	}
	if got := l.ratio(); got != One {
		t.Errorf("longer answers have ratio %d", got)
	}
	// Calls that end soon after a cut ran under the load before it.
	l = taught()
	l.settle(Second)
	for range 100 {
		l.sample(call(1000, 100, 2*Second), 2*Second, 2*Second)
	}
	if got := l.ratio(); got != One || l.Samples != 0 {
		t.Errorf("calls of before a cut have ratio %d", got)
	}
}

// TestLatencyBaselineDrifts holds how the baseline follows: down at once, up
// by a bounded rate, however many samples say so.
func TestLatencyBaselineDrifts(t *testing.T) {
	l := taught()
	for range 10 * meanGain {
		l.sample(call(1000, 100, Second/2), Second, Second)
	}
	if l.Drift > One*51/100 {
		t.Errorf("calls of half the time leave the baseline at %d", l.Drift)
	}
	l = taught()
	for i := range 6000 {
		l.sample(call(1000, 100, 4*Second), Nanos(i)*Minute/100, Nanos(i)*Minute/100)
	}
	if want := One + 60*driftPerMinute; l.Drift > want || l.Drift < One+50*driftPerMinute {
		t.Errorf("an hour of slow calls moves the baseline to %d, want up to %d", l.Drift, want)
	}
}

// TestLatencyTrial holds what becomes of a cut to half: nothing is said before
// enough calls have ended that were sent after it.
func TestLatencyTrial(t *testing.T) {
	p := DefaultParams()
	for _, c := range []struct {
		took Nanos
		want outcome
	}{
		{Second, faster},
		{Second * 16 / 10, faster},
		{Second * 19 / 10, unclear},
		{2 * Second, same},
		{3 * Second, unclear},
	} {
		l := taught()
		for range 8 * meanGain {
			l.sample(call(1000, 100, 2*Second), 0, 0)
		}
		l.try(0, 40_000, 20_000, l.ratio(), false)
		now := l.From
		if l.calm(&p, now) || !l.onTrial(now) || l.onTrial(l.Wary) {
			t.Fatalf("on trial: %+v", l)
		}
		for range 8 * meanGain {
			l.sample(call(1000, 100, c.took), now, -1)
		}
		if got := l.verdict(&p); got != untold {
			t.Errorf("a verdict of %d by calls sent before the cut", got)
		}
		for range 8 * meanGain {
			l.sample(call(1000, 100, c.took), now, 0)
		}
		if got := l.verdict(&p); got != c.want {
			t.Errorf("calls of %s after the cut: %d, want %d", c.took, got, c.want)
		}
		if l.rebase(now); l.ratio() != One || l.onTrial(now) || l.calm(&p, now) {
			t.Errorf("the new normal: %+v", l)
		}
	}
}

// TestLatencyFutile holds that one cut that did not help takes nothing for
// normal, a second does, and that exploring gives back at once and never does.
func TestLatencyFutile(t *testing.T) {
	l := taught()
	l.try(0, 40_000, 20_000, 2*One, false)
	if w, rebase := l.futile(); w != 0 || rebase {
		t.Errorf("after one cut %d is given back, rebase %v", w, rebase)
	}
	l.try(0, 20_000, 10_000, 2*One, false)
	if w, rebase := l.futile(); w != 40_000 || !rebase {
		t.Errorf("after two cuts %d is given back, rebase %v", w, rebase)
	}
	l = taught()
	for range 3 {
		l.try(0, 40_000, 28_000, One, true)
		if w, rebase := l.futile(); w != 40_000 || rebase || l.Futile != 0 {
			t.Errorf("after exploring %d is given back, rebase %v", w, rebase)
		}
	}
}

// TestLatencyHelped holds that a cut that helped makes no baseline of the calls
// that told so, but of the next: looked at one by one until they seem fast, they
// are faster than the rest. Until those have ended nothing grows.
func TestLatencyHelped(t *testing.T) {
	p := DefaultParams()
	for _, c := range []struct {
		next        Nanos
		least, most PPM
	}{
		{Second, One * 9 / 10, One},
		{Second * 3 / 4, One * 75 / 100, One * 80 / 100},
	} {
		l := taught()
		l.Spread = One / 3
		l.try(0, 40_000, 32_000, One, true)
		for range trialGain {
			l.sample(call(1000, 100, Second*7/10), l.From, 0)
		}
		if l.verdict(&p) != faster {
			t.Fatalf("calls of seven tenths of the time: %d", l.verdict(&p))
		}
		l.helped()
		was := l.Drift
		for range meanGain - 1 {
			if l.calm(&p, l.From) {
				t.Fatal("it grows before the baseline is known")
			}
			l.sample(call(1000, 100, c.next), l.From, 0)
		}
		if l.Drift != was {
			t.Fatalf("the baseline moved early from %d to %d", was, l.Drift)
		}
		for range 2 {
			l.sample(call(1000, 100, c.next), l.From, 0)
		}
		if l.Drift < c.least || l.Drift > c.most {
			t.Errorf("calls of %s afterwards: the baseline is %d, want %d to %d", c.next, l.Drift, c.least, c.most)
		}
	}
}

// TestLatencyHighSoon holds that calls of five times the time are judged after a
// handful, slightly slower ones after many, and that nothing is tried at less
// where latency asks for a cut.
func TestLatencyHighSoon(t *testing.T) {
	p := DefaultParams()
	refused := &window{Ceiling: 40_000, CutAt: 2*Hour - p.Plateau}
	for _, c := range []struct {
		took    Nanos
		samples int
		want    bool
	}{
		{5 * Second, highLeast - 1, false},
		{5 * Second, highLeast, true},
		{Second * 14 / 10, highLeast, false},
		{Second * 14 / 10, 4 * recentGain, true},
	} {
		l := taught()
		l.settle(0)
		l.Spread = One / 3
		for range c.samples {
			l.sample(call(1000, 100, c.took), l.From, l.From)
		}
		if ratio, got := l.high(&p); got != c.want {
			t.Errorf("%d calls of %s: ratio %d, noise %d, high %v", c.samples, c.took, ratio, l.noise(), got)
		}
		if got := l.explore(&p, 2*Hour, refused, 40_000); got == c.want {
			t.Errorf("%d calls of %s: explored %v", c.samples, c.took, got)
		}
	}
}

// TestLatencyExplores holds when a refused window is tried at less: at a limit
// that stands, once in a while, and not before anything was learned.
func TestLatencyExplores(t *testing.T) {
	p := DefaultParams()
	at := func(ceiling Milli, since Nanos) *window { return &window{Ceiling: ceiling, CutAt: 2*Hour - since} }
	l := taught()
	if !l.explore(&p, 2*Hour, at(42_000, p.Plateau), 40_000) {
		t.Error("not at a limit that stands")
	}
	if l.explore(&p, 2*Hour, at(45_000, p.Plateau), 40_000) || l.explore(&p, 2*Hour, at(40_000, p.Plateau-1), 40_000) {
		t.Error("at a limit that moves")
	}
	for since, want := range map[Nanos]bool{exploreEvery - 1: false, exploreEvery: true} {
		l.Explored = 2*Hour - since
		if got := l.explore(&p, 2*Hour, at(40_000, p.Plateau), 40_000); got != want {
			t.Errorf("%s after the last time: %v", since, got)
		}
	}
	l = newLatency(0)
	if l.explore(&p, 2*Hour, at(40_000, p.Plateau), 40_000) {
		t.Error("before anything was learned")
	}
	l = taught()
	l.try(0, 40_000, 28_000, One, true)
	if l.refused(0); l.onTrial(0) || !l.calm(&p, 0) {
		t.Errorf("after a refusal: %+v", l)
	}
}

// TestLatencyTakesAnything feeds nonsense.
func TestLatencyTakesAnything(t *testing.T) {
	p := DefaultParams()
	rapid.Check(t, func(t *rapid.T) {
		l := newLatency(0)
		now := Nanos(0)
		for range rapid.IntRange(0, 400).Draw(t, "samples") {
			a := call(Tokens(rapid.Int64().Draw(t, "in")), Tokens(rapid.Int64().Draw(t, "out")), Nanos(rapid.Int64().Draw(t, "took")))
			a.FirstToken = Nanos(rapid.SampledFrom([]int64{0, 0, -1, 1, math.MaxInt64, math.MinInt64}).Draw(t, "first"))
			if rapid.IntRange(0, 20).Draw(t, "cut") == 0 {
				l.try(now, Milli(rapid.Int64Range(1, math.MaxInt64).Draw(t, "before")), 1, max(l.ratio(), One), rapid.Bool().Draw(t, "exploring"))
			}
			l.sample(a, now, now-Nanos(rapid.Int64Range(0, int64(Hour)).Draw(t, "took")))
			now += Nanos(rapid.Int64Range(0, int64(Hour)).Draw(t, "span"))
			if len(l.Cells) > maxCells || l.ratio() < 0 || l.Recent < 0 || l.Recent > maxRatio || l.Drift < 0 || l.Drift > maxRatio {
				t.Fatalf("latency is %+v", l)
			}
			l.calm(&p, now)
			l.verdict(&p)
		}
	})
}

// TestExploresOn holds that a refused window that does better at less is tried
// at less again, until a step makes nothing faster: that one is given back.
func TestExploresOn(t *testing.T) {
	f := foldReports(nil)
	c, par := f.channel("m"), f.par()
	w, l := &c.window, &c.latency
	w.cut(100_000, f.now, false)
	f.explore(c, 100_000)
	// told is what becomes of the trial when calls take so long, of what they did.
	told := func(ratio PPM) *Effects {
		f.now = l.From + Second
		w.Drained, l.Samples, l.Learned, l.Recent, l.Mean, l.Spread = true, mostGain, meanGain, ratio, ratio, 0
		fx := &Effects{}
		f.judgeLatency(c, fx)
		return fx
	}
	for i, want := range []Milli{64_000, 51_200} {
		epoch := w.Epoch
		fx := told(l.TrialRatio * 8 / 10)
		if got := w.value(par, 0); got != want || w.Epoch != epoch+1 || !l.onTrial(f.now) || !fx.Now || len(fx.Decisions) != 1 {
			t.Fatalf("step %d: window %d, epoch %d after %d, on trial %v, %+v; want %d", i, got, w.Epoch, epoch, l.onTrial(f.now), fx, want)
		}
	}
	told(l.TrialRatio)
	if got := w.value(par, 0); got != 64_000 || l.onTrial(f.now) {
		t.Errorf("a step that made nothing faster leaves %d, on trial %v", got, l.onTrial(f.now))
	}
	w.cut(exploreLeast, f.now, false)
	f.explore(c, exploreLeast)
	if told(l.TrialRatio * 8 / 10); l.onTrial(f.now) {
		t.Errorf("a window of %d is tried at still less", w.value(par, 0))
	}
}
