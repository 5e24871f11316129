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
		l.sample(call(1000, 100, Second), 0)
	}
	return l
}

func TestLatencyLearnsBeforeItJudges(t *testing.T) {
	p := DefaultParams()
	l := newLatency(Hour)
	for i := range cellSamples + learnt - 1 {
		l.sample(call(1000, 100, Second), Hour)
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
		l.sample(call(1000, 100, 2*Second), Second)
	}
	ratio, high := l.high(&p)
	if !high || l.calm(&p, Second) || ratio < 15*One/10 {
		t.Errorf("calls of twice the time: ratio %d, high %v", ratio, high)
	}
	// Calls that merely got longer are measured in other cells.
	l = taught()
	for range 100 {
		l.sample(call(1000, 1600, 16*Second), Second)
	}
	if got := l.ratio(); got != One {
		t.Errorf("longer answers have ratio %d", got)
	}
	// Calls that end soon after a cut ran under the load before it.
	l = taught()
	l.settle(Second)
	for range 100 {
		l.sample(call(1000, 100, 2*Second), 2*Second)
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
		l.sample(call(1000, 100, Second/2), Second)
	}
	if l.Drift > One*51/100 {
		t.Errorf("calls of half the time leave the baseline at %d", l.Drift)
	}
	l = taught()
	for i := range 6000 {
		l.sample(call(1000, 100, 2*Second), Nanos(i)*Minute/100)
	}
	if want := One + 60*driftPerMinute; l.Drift > want || l.Drift < One+50*driftPerMinute {
		t.Errorf("an hour of slow calls moves the baseline to %d, want up to %d", l.Drift, want)
	}
}

// TestLatencyTrial holds what becomes of a cut to half: it helped when calls
// are near their baseline again, did not when they are as slow, and nothing is
// said before enough calls have ended.
func TestLatencyTrial(t *testing.T) {
	p := DefaultParams()
	for _, c := range []struct {
		took         Nanos
		helped, sure bool
	}{
		{Second, true, true},
		{Second * 16 / 10, true, true},
		{Second * 19 / 10, false, true},
		{2 * Second, false, true},
	} {
		l := taught()
		for range 4 * recentGain {
			l.sample(call(1000, 100, 2*Second), 0)
		}
		l.try(0, 40_000, 20_000, l.ratio())
		now := l.From
		if l.calm(&p, now) || !l.onTrial(now) || l.onTrial(l.Wary) {
			t.Fatalf("on trial: %+v", l)
		}
		if _, sure := l.verdict(&p); sure {
			t.Error("a verdict without a call")
		}
		for range 6 * recentGain {
			l.sample(call(1000, 100, c.took), now)
		}
		if helped, sure := l.verdict(&p); helped != c.helped || sure != c.sure {
			t.Errorf("calls of %s after the cut: helped %v, sure %v", c.took, helped, sure)
		}
		if l.rebase(now); l.ratio() != One || l.onTrial(now) || l.calm(&p, now) {
			t.Errorf("the new normal: %+v", l)
		}
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
				l.try(now, Milli(rapid.Int64Range(1, math.MaxInt64).Draw(t, "before")), 1, max(l.ratio(), One))
			}
			l.sample(a, now)
			now += Nanos(rapid.Int64Range(0, int64(Hour)).Draw(t, "span"))
			if len(l.Cells) > maxCells || l.ratio() < 0 || l.Recent < 0 || l.Recent > maxRatio || l.Drift < 0 || l.Drift > maxRatio {
				t.Fatalf("latency is %+v", l)
			}
			l.calm(&p, now)
			l.verdict(&p)
		}
	})
}
