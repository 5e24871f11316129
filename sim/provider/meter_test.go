package provider

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/sim/incident"
)

func rate(kind incident.WindowKind, limit, burst int64) incident.Rate {
	return incident.Rate{Limit: limit, Window: kind, Burst: burst}
}

func TestMeters(t *testing.T) {
	type step struct {
		at   time.Duration
		cost int64
		wait time.Duration // 0: taken
	}
	for name, c := range map[string]struct {
		rate  incident.Rate
		phase int64
		steps []step
	}{
		"bucket of 60 refills one a second": {rate(incident.TokenBucket, 60, 2), 0, []step{
			{0, 1, 0},
			{0, 1, 0},
			{0, 1, time.Second},
			{400 * time.Millisecond, 1, 600 * time.Millisecond},
			{time.Second, 1, 0},
			{time.Second, 2, 2 * time.Second},
			{10 * time.Second, 2, 0},
			{10 * time.Second, 1, time.Second},
			{10 * time.Second, 3, Forever},
		}},
		"fixed window forgets at its edge": {rate(incident.FixedWindow, 10, -1), 15 * sec, []step{
			{0, 10, 0},
			{0, 1, 15 * time.Second},
			{15 * time.Second, 10, 0},
			{20 * time.Second, 1, 55 * time.Second},
			{75 * time.Second, 1, 0},
		}},
		"sliding window forgets a minute later": {rate(incident.SlidingWindow, 10, -1), 0, []step{
			{0, 4, 0},
			{30 * time.Second, 6, 0},
			{30 * time.Second, 1, 30*time.Second + 100*time.Millisecond},
			{60 * time.Second, 5, 30*time.Second + 100*time.Millisecond},
			{60*time.Second + 100*time.Millisecond, 4, 0},
			{time.Hour, 10, 0},
		}},
		"limit of nothing": {rate(incident.TokenBucket, 0, 0), 0, []step{{0, 1, Forever}}},
		"no limit":         {rate(incident.TokenBucket, incident.Unlimited, -1), 0, []step{{0, 1 << 40, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeter(c.rate, c.phase)
			for _, s := range c.steps {
				if got := time.Duration(m.wait(int64(s.at), s.cost)); got != s.wait {
					t.Errorf("at %v for %d: wait %v, want %v", s.at, s.cost, got, s.wait)
				}
				if s.wait == 0 {
					m.take(int64(s.at), s.cost)
				}
			}
		})
	}
}

// Forever is Never as a duration.
const Forever = time.Duration(Never)

func TestBucketDebtIsBounded(t *testing.T) {
	m := newMeter(rate(incident.TokenBucket, 60, 10), 0)
	for range 1000 {
		m.take(0, 1)
	}
	if got := time.Duration(m.wait(0, 1)); got != 11*time.Second {
		t.Errorf("a bucket of 10 in full debt lets the next call in after %v, want 11s", got)
	}
}

func TestDayResetsWhereItsDayEnds(t *testing.T) {
	m := newDaily(incident.Daily{Limit: 100, Used: 99}, 23*time.Hour+59*time.Minute)
	if got := m.wait(0, 1); got != 0 {
		t.Errorf("the hundredth waits %v", time.Duration(got))
	}
	m.take(0, 1)
	if got := time.Duration(m.wait(10*sec, 1)); got != 50*time.Second {
		t.Errorf("the next waits %v, want 50s", got)
	}
	if got := m.wait(60*sec, 100); got != 0 {
		t.Errorf("the next day waits %v", time.Duration(got))
	}
}

// TestMeterNeverLetsMoreThrough: whatever comes whenever, no 60 s hold more
// than limit (sliding), limit+burst (bucket) or two windows' worth (fixed);
// and after the stated wait a call fits, not before.
func TestMeterNeverLetsMoreThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]incident.WindowKind{incident.TokenBucket, incident.FixedWindow, incident.SlidingWindow}).Draw(t, "kind")
		limit := rapid.Int64Range(1, 200).Draw(t, "limit")
		burst := rapid.Int64Range(1, 200).Draw(t, "burst")
		m := newMeter(rate(kind, limit, burst), rapid.Int64Range(0, minute-1).Draw(t, "phase"))
		allowed := map[incident.WindowKind]int64{
			incident.TokenBucket: limit + burst, incident.FixedWindow: 2 * limit, incident.SlidingWindow: limit,
		}[kind]
		type taken struct{ at, cost int64 }
		var log []taken
		now := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			now += rapid.OneOf(rapid.Int64Range(0, 2*sec), rapid.Int64Range(0, 2*minute)).Draw(t, "gap")
			cost := rapid.Int64Range(1, 50).Draw(t, "cost")
			w := m.wait(now, cost)
			if w == Never {
				continue
			}
			if w > 0 {
				early := m
				early.ring = append([]int64(nil), m.ring...)
				if early.wait(now+w-1, cost) == 0 {
					t.Fatalf("fits before its wait of %d", w)
				}
				if now += w; m.wait(now, cost) != 0 {
					t.Fatalf("does not fit after its wait of %d", w)
				}
			}
			m.take(now, cost)
			log = append(log, taken{now, cost})
			sum := int64(0)
			for _, x := range log {
				if now-x.at < minute {
					sum += x.cost
				}
			}
			if sum > allowed {
				t.Fatalf("%d in the last 60 s, at most %d are allowed", sum, allowed)
			}
		}
	})
}
