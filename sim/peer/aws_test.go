package peer

import (
	"testing"

	"weir/model"
)

func TestAWSRateStepByStep(t *testing.T) {
	l := NewAWS(0, Dice{})
	s := &line{t: t, l: l}
	want := func(what string, got, want int64) {
		t.Helper()
		if got != want {
			t.Fatalf("at %d: %s %d, want %d", s.now, what, got, want)
		}
	}
	// Until the first throttle nothing is held back.
	for range 10 {
		s.ok(s.send())
	}
	x := s.send()
	y := s.send()
	// The eleventh ends in the next half second: 11 in 0.5 s are 22/s, and
	// 0.8*22 + 0.2*0 = 17.6.
	s.now = 500 * millisecond
	s.ok(x)
	want("measured", l.measured, 17_600_000)
	// A throttle: lastMax 17.6, rate 0.7 of it.
	s.now = 600 * millisecond
	s.refused(y)
	want("lastMax", l.lastMax, 17_600_000)
	want("fill", l.fill, 12_320_000)
	// The bucket had filled at the floor of 0.5/s for 0.6 s: 0.3 tokens. The
	// other 0.7 take 56.818181 ms, and a microsecond of grace.
	s.ask(Wait, 600*millisecond+56_818_181+microsecond)
	s.now = 656_819_181
	x = s.send()
	want("tokens", l.tokens, 10) // 0.3 + 12.32 * 56.819 ms - 1
	s.ask(Wait, s.now+81_168_019+microsecond)
	// A success at 1 s. Two ended in this half second, 4/s: 0.8*4 + 0.2*17.6
	// = 6.72. K = cbrt(0.75*17.6) = 2.363 s, t = 0.4 s: 0.4*(-1.963)^3 + 17.6
	// = 14.574335, but at most twice what was measured.
	s.now = second
	s.ok(x)
	want("measured", l.measured, 6_720_000)
	want("curve", l.cubic(s.now), 14_574_335)
	want("fill", l.fill, 13_440_000)
	// On the curve: lastMax after K, 0.4 more a second later.
	want("curve at K", l.cubic(600*millisecond+2363*millisecond), 17_600_000)
	want("curve at K+1s", l.cubic(600*millisecond+3363*millisecond), 18_000_000)
	// The next throttle takes the lower of measured and fill.
	x = s.send()
	s.refused(x)
	want("lastMax", l.lastMax, 6_720_000)
	want("fill", l.fill, 4_704_000)
}

// TestAWSFloor: whatever is throttled, half a call a second goes out.
func TestAWSFloor(t *testing.T) {
	l := NewAWS(0, Dice{})
	s := &line{t: t, l: l}
	sent := 0
	for s.now < 1000*second {
		v, at := l.Ask(s.now, Call{})
		if v == Wait {
			s.now = at
			continue
		}
		s.refused(s.send())
		sent++
	}
	if l.fill != 500_000 || sent < 498 || sent > 503 {
		t.Errorf("fill %d, %d attempts in 1000 s; want 500000 and 500", l.fill, sent)
	}
}

func TestAWSRetryQuota(t *testing.T) {
	l := NewAWS(0, Dice{Seed: 5})
	throttle := Sample{Class: model.ClassRateLimited, Status: 429}
	fault := Sample{Class: model.ClassOverloaded, Status: 500}
	for _, c := range []struct {
		s         *Sample
		tries     int
		cost, max int64
	}{
		{&throttle, 1, 5, second},
		{&throttle, 2, 5, 2 * second},
		{&fault, 1, 14, 50 * millisecond},
		{&fault, 2, 14, 100 * millisecond},
	} {
		before, most := l.quota, int64(0)
		var receipt uint64
		for range 5 {
			wait, r, ok := l.Again(0, c.tries, Group{}, c.s)
			if !ok || wait >= c.max {
				t.Fatalf("try %d: wait %d, %v; want one below %d", c.tries, wait, ok, c.max)
			}
			most, receipt = max(most, wait), r
		}
		if got := before - l.quota; got != 5*c.cost || receipt != uint64(c.cost) || most < c.max/4 {
			t.Errorf("try %d: five retries cost %d, receipt %d, longest wait %d; want %d each", c.tries, got, receipt, most, c.cost)
		}
	}
	if _, _, ok := l.Again(0, 3, Group{}, &throttle); ok {
		t.Error("a fourth attempt, want three in all")
	}
	// 500 - 5*(5+5+14+14) = 310. A success pays one token, and a retry's cost
	// comes back.
	l.Done(0, &Sample{Class: model.ClassOK})
	l.Done(0, &Sample{Class: model.ClassOK, Receipt: 14})
	if l.quota != 310+1+15 {
		t.Errorf("quota %d, want 326", l.quota)
	}
	retries := 0
	for {
		if _, _, ok := l.Again(0, 1, Group{}, &throttle); !ok {
			break
		}
		retries++
	}
	if retries != 65 || l.quota != 1 {
		t.Errorf("%d retries until the quota ended at %d, want 65 and 1", retries, l.quota)
	}
	for range 1000 {
		l.Done(0, &Sample{Class: model.ClassOK, Receipt: 5})
	}
	if l.quota != 500 {
		t.Errorf("quota %d after many successes, want 500", l.quota)
	}
}

func TestCubeRoot(t *testing.T) {
	for _, c := range [][2]int64{{0, 0}, {1, 1}, {7, 1}, {8, 2}, {26, 2}, {27, 3}, {13_200_000_000, 2363}, {1e15, 100_000}, {999_999_999_999_999, 99_999}, {8e18, 2_000_000}} {
		if got := cubeRoot(c[0]); got != c[1] {
			t.Errorf("cube root of %d: %d, want %d", c[0], got, c[1])
		}
	}
}
