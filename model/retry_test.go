package model

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestRetryBackoff checks the curve, its cap, its jitter and the provider's wait.
func TestRetryBackoff(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	plain := RetryConfig{Base: Second, Max: 10 * Second, Multiplier: 2 * One}
	for _, c := range []struct {
		name  string
		cfg   RetryConfig
		n     int
		after Nanos
		want  Nanos
	}{
		{"first", plain, 1, 0, Second},
		{"third", plain, 3, 0, 4 * Second},
		{"capped", plain, 9, 0, 10 * Second},
		{"a million tries", plain, 1_000_000, 0, 10 * Second},
		{"the provider's wait is longer", plain, 1, 25 * Second, 25 * Second},
		{"the provider's wait is shorter", plain, 3, Second, 4 * Second},
		{"no wait", plain, 1, -1, Second},
		{"nothing configured", RetryConfig{}, 2, 0, 2 * Second},
		{"no growth", RetryConfig{Base: Second, Max: Minute, Multiplier: One}, 5, 0, Second},
		{"shrinking is no growth", RetryConfig{Base: Second, Max: Minute, Multiplier: 1}, 5, 0, Second},
	} {
		if got := retryBackoff(&c.cfg, c.n, c.after, rnd); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestRetryNeverEarly checks that jitter only ever adds, and at most its share.
func TestRetryNeverEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := RetryConfig{
			Base: Nanos(rapid.Int64Range(-1, int64(Minute)).Draw(t, "base")), Max: Nanos(rapid.Int64Range(-1, int64(Hour)).Draw(t, "max")),
			Multiplier: PPM(rapid.Int64Range(-1, 10*int64(One)).Draw(t, "multiplier")), Jitter: PPM(rapid.Int64Range(-1, 2*int64(One)).Draw(t, "jitter")),
		}
		after := Nanos(rapid.Int64().Draw(t, "after"))
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		got := retryBackoff(&cfg, rapid.IntRange(0, 300).Draw(t, "n"), after, rnd)
		if got < after {
			t.Fatalf("%s, before the provider's %s", got, after)
		}
		if top := max(cfg.Max, cfg.Base, retryMax, after); got > gateLater(top, top) {
			t.Fatalf("%s, more than twice the most of %s", got, top)
		}
	})
}

// TestRetryBudget checks that repeats stay a share of first attempts, in calls
// and tokens, whatever the order.
func TestRetryBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := PPM(rapid.Int64Range(-1, 2*int64(One)).Draw(t, "share"))
		var b retryBudget
		var firsts, repeats int64
		var earned, spent Tokens
		var first Tokens
		n := rapid.IntRange(0, 300).Draw(t, "n")
		for range n {
			tokens := Tokens(rapid.Int64Range(0, 10_000).Draw(t, "tokens"))
			if rapid.Bool().Draw(t, "first") {
				if firsts == 0 {
					first = tokens
				}
				firsts++
				earned += tokens
				b.earn(share, tokens)
			} else if b.spend(tokens) {
				repeats++
				spent += tokens
			}
			if b.credit < 0 || b.credit > retryBank || b.tokens < 0 {
				t.Fatalf("credit %d, tokens %d", b.credit, b.tokens)
			}
		}
		part := min(max(share, 0), One)
		if most := scale(firsts, part) + 1; repeats > most {
			t.Fatalf("%d repeats of %d first attempts", repeats, firsts)
		}
		if most := scale(int64(earned), part) + int64(first); int64(spent) > most {
			t.Fatalf("%d tokens repeated, %d may", spent, most)
		}
	})
}

// TestRetryPlan holds the table of classes.
func TestRetryPlan(t *testing.T) {
	want := map[Class]retryWhere{
		ClassOK: retryNever, ClassInvalid: retryNever, ClassCanceled: retryNever,
		ClassRateLimited: retryHere, ClassOverloaded: retryElsewhere,
		ClassQuotaExhausted: retryOther, ClassAuth: retryOther, ClassTransport: retryQuick,
	}
	for _, c := range Classes {
		if got, _ := retryPlan(c, 1); got != want[c] {
			t.Errorf("%s: %d, want %d", c, got, want[c])
		}
	}
	if got, _ := retryPlan(ClassTransport, 2); got != retryNever {
		t.Errorf("a connection that broke twice is tried a third time")
	}
}
