package model

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestBreakerRatioIsThatOfAList compares the ring with a list of all outcomes.
func TestBreakerRatioIsThatOfAList(t *testing.T) {
	type outcome struct {
		sent Nanos
		ok   bool
	}
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultParams()
		p.BreakerWindow = Nanos(rapid.Int64Range(1, 30).Draw(t, "window")) * Second
		var b breaker
		var all []outcome
		now := Nanos(rapid.Int64Range(0, int64(Hour)).Draw(t, "start"))
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			now += Nanos(rapid.Int64Range(0, int64(5*Second)).Draw(t, "span"))
			// Calls may end as long after they were sent as the ring is
			// longer than the window.
			ago := Nanos(rapid.Int64Range(0, int64(29*Second)).Draw(t, "ago"))
			o := outcome{max(now-ago, 0), rapid.Bool().Draw(t, "ok")}
			b.outcome(o.sent, o.ok)
			all = append(all, o)
			var fail, total int64
			for _, o := range all {
				if int64(o.sent/Second) > int64((now-p.BreakerWindow)/Second) {
					total++
					if !o.ok {
						fail++
					}
				}
			}
			if f, n := b.ratio(&p, now); f != fail || n != total {
				t.Fatalf("%d of %d failed, want %d of %d", f, n, fail, total)
			}
		}
	})
}

func TestBreakerTrips(t *testing.T) {
	p := DefaultParams()
	for _, c := range []struct {
		name        string
		ok, fail    int
		consecutive int64
		want        bool
	}{
		{"nothing happened", 0, 0, 0, false},
		{"one of one", 0, 1, 0, false},
		{"all of too few", 0, int(p.BreakerVolume) - 1, 0, false},
		{"all of enough", 0, int(p.BreakerVolume), 0, true},
		{"half of many, by the mean only", 1000, 1000, 0, false},
		{"more than half of many", 1000, 1070, 0, true},
		{"in a row at the floor", 0, 0, p.BreakerConsecutive, true},
	} {
		b := breaker{Consecutive: c.consecutive}
		for range c.ok {
			b.outcome(Minute, true)
		}
		for range c.fail {
			b.outcome(Minute, false)
		}
		if _, got := b.tripped(&p, Minute+Second); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestBreakerNoise holds from which share on server errors without a cause are no
// noise any more: a percent, by three deviations, as one of a hundred looks at
// two deviations is wrong.
func TestBreakerNoise(t *testing.T) {
	p := DefaultParams()
	for _, c := range []struct {
		ok, errors int
		want       bool
	}{
		{0, 1, true},
		{0, 9, true},
		{0, 10, false},
		{300, 10, true},
		{300, 20, false},
		{3000, 45, true},
		{3000, 60, false},
	} {
		var b breaker
		for range c.ok {
			b.outcome(Minute, true)
		}
		var got bool
		for range c.errors {
			got = b.noise(&p, Minute, Minute)
		}
		if got != c.want {
			t.Errorf("%d errors beside %d good calls: noise %v", c.errors, c.ok, got)
		}
	}
}

// TestBreakerDeadlinesMoveLater holds invariant 5 and the doubling.
func TestBreakerDeadlinesMoveLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParams(t)
		var b breaker
		now := Nanos(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += Nanos(rapid.Int64Range(0, int64(Hour)).Draw(t, "span"))
			until, wait := b.Until, b.Wait
			asked := Nanos(rapid.SampledFrom([]int64{0, 0, 0, 1, int64(Hour)}).Draw(t, "wait"))
			b.open(&p, now, asked)
			switch {
			case b.Until < until || b.Until < now+asked:
				t.Fatalf("open until %s, was %s, asked for %s at %s", b.Until, until, asked, now)
			case asked == 0 && wait > 0 && b.Wait != min(2*wait, p.BreakerWaitMax):
				t.Fatalf("a wait of %s follows %s", b.Wait, wait)
			case asked > 0 && b.Wait != wait:
				t.Fatalf("a hint moved the wait from %s to %s", wait, b.Wait)
			}
		}
		if b.close(); b != (breaker{}) {
			t.Fatalf("closed, it remembers %+v", b)
		}
	})
}

func TestBreakerForgetsOldSeconds(t *testing.T) {
	p := DefaultParams()
	var b breaker
	b.outcome(0, false)
	b.outcome(-Second, false)
	b.outcome(math.MinInt64, false)
	if fail, _ := b.ratio(&p, Hour); fail != 0 {
		t.Errorf("%d failures of an hour ago count", fail)
	}
	b.outcome(Hour, false)
	b.outcome(Hour-breakerSeconds*Second, false) // the same place in the ring
	if fail, total := b.ratio(&p, Hour); fail != 1 || total != 1 {
		t.Errorf("%d of %d, want 1 of 1", fail, total)
	}
}
