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
		l.sample(call(1000, 100, Second), 0, true)
	}
	return l
}

func TestLatencyLearnsBeforeItJudges(t *testing.T) {
	p := DefaultParams()
	l := newLatency(Hour)
	for i := range cellSamples + learnt - 1 {
		l.sample(call(1000, 100, Second), Hour, true)
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
	l.cutMade(10_000, One, 0, false)
	for range max(p.LatencySamples, recentGain) {
		l.sample(call(1000, 100, 2*Second), Second, true)
	}
	ratio, high := l.high(&p)
	if !high || l.calm(&p, Second) || ratio < 15*One/10 {
		t.Errorf("calls of twice the time: ratio %d, high %v", ratio, high)
	}
	// Calls that merely got longer are measured in other cells.
	l = taught()
	for range 100 {
		l.sample(call(1000, 1600, 16*Second), Second, true)
	}
	if got := l.ratio(); got != One {
		t.Errorf("longer answers have ratio %d", got)
	}
	// Calls sent before a cut are not judged.
	l = taught()
	for range 100 {
		l.sample(call(1000, 100, 9*Second), Second, false)
	}
	if got := l.ratio(); got != One {
		t.Errorf("calls of before a cut have ratio %d", got)
	}
}

// TestLatencyBaselineDrifts holds how the baseline follows: down at once, up
// by a bounded rate, however many samples say so.
func TestLatencyBaselineDrifts(t *testing.T) {
	l := taught()
	for range 10 * meanGain {
		l.sample(call(1000, 100, Second/2), Second, true)
	}
	if l.Drift > One*51/100 {
		t.Errorf("calls of half the time leave the baseline at %d", l.Drift)
	}
	l = taught()
	for i := range 6000 {
		l.sample(call(1000, 100, 2*Second), Nanos(i)*Minute/100, true)
	}
	if want := One + 60*driftPerMinute; l.Drift > want || l.Drift < One+50*driftPerMinute {
		t.Errorf("an hour of slow calls moves the baseline to %d, want up to %d", l.Drift, want)
	}
}

func TestLatencyGivesUpAFutileSeries(t *testing.T) {
	l := taught()
	slow := func() {
		for range 4 * recentGain {
			l.sample(call(1000, 100, 2*Second), Second, true)
		}
	}
	slow()
	ratio := l.ratio()
	l.cutMade(40_000, ratio, Second, true)
	slow()
	if l.futile(20_000, 1_000, l.ratio()) {
		t.Error("given up at half the load")
	}
	if !l.futile(10_000, 1_000, l.ratio()) {
		t.Error("a quarter of the load did not help, and it goes on")
	}
	if l.futile(10_000, 1_000, ratio*8/10) {
		t.Error("given up though it helped")
	}
	l.rebase(Second)
	if l.ratio() != One || l.futile(1_000, 1_000, 8*One) {
		t.Errorf("the new normal has ratio %d", l.ratio())
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
			l.sample(a, now, rapid.Bool().Draw(t, "fresh"))
			now += Nanos(rapid.Int64Range(0, int64(Hour)).Draw(t, "span"))
			if len(l.Cells) > maxCells || l.ratio() < 0 || l.Recent < 0 || l.Recent > maxRatio || l.Drift < 0 || l.Drift > maxRatio {
				t.Fatalf("latency is %+v", l)
			}
			l.calm(&p, now)
		}
	})
}
