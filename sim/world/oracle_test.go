package world

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/sim/incident"
)

// TestOracleIsTheBest holds the judge: over incidents of every kind no policy
// completes more than 2 % above it, it is refused by nobody but by luck, and
// what it starts ends in time.
func TestOracleIsTheBest(t *testing.T) {
	for _, name := range []string{
		"row-steady-8", "row-step-8", "row-rise-8", "row-hidden-rate-8", "row-charged-8", "row-headers-8", "row-outage-8",
		"2064-cascade", "ban", "max-tokens", "window-3", "two-models", "mixed-lengths", "noisy-tenant", "cold-spare", "14003-window",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inc := builtin(t, name)
			inc = inc.Compress(min(inc.Duration, 2*time.Minute))
			oracle := run(t, Config{Incident: inc, Seed: 2, Policy: PolicyOracle})
			for _, policy := range []string{PolicyNone, "openai-sdk", "netflix-aimd", "litellm-cooldown", PolicyWeir} {
				r := run(t, Config{Incident: inc, Seed: 2, Policy: policy})
				if limit := max(oracle.Completed*102/100, oracle.Completed+3); r.Completed > limit {
					t.Errorf("%s completed %d, the oracle %d", policy, r.Completed, oracle.Completed)
				}
			}
			var failed int64
			for _, b := range oracle.Books {
				failed += b.Failed
				if b.Refused.Total() != 0 {
					t.Errorf("the oracle was refused: %+v", b.Refused)
				}
			}
			if late := oracle.Wasted - failed; late*20 > oracle.Attempts {
				t.Errorf("%d of %d attempts of the oracle were too late", late, oracle.Attempts)
			}
		})
	}
}

// TestOracleDoesNotBlock: one request that can never fit a limit does not keep
// those behind it from starting.
func TestOracleDoesNotBlock(t *testing.T) {
	inc := *builtin(t, "max-tokens")
	inc.Duration = time.Minute
	huge := inc.Workloads[0]
	huge.Name, huge.Arrivals.Rate, huge.MaxTokens = "huge", incident.PPM, 1_000_000 // ten times the bucket
	inc.Workloads = append(slices.Clone(inc.Workloads), huge)
	with := run(t, Config{Incident: &inc, Seed: 1, Policy: PolicyOracle})
	inc.Workloads = inc.Workloads[:1]
	without := run(t, Config{Incident: &inc, Seed: 1, Policy: PolicyOracle})
	if with.Completed*100 < without.Completed*97 || without.Completed < 150 {
		t.Errorf("completed %d beside requests that never fit, %d without", with.Completed, without.Completed)
	}
}

// TestWaiting compares the line with a plain sorted slice.
func TestWaiting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q waiting
		var plain []spot
		order := func(a, b spot) int {
			if a.before(b) {
				return -1
			}
			return 1
		}
		for id := range uint64(rapid.IntRange(1, 200).Draw(t, "n")) {
			s := spot{until: rapid.Int64Range(0, 20).Draw(t, "until"), id: id}
			if len(plain) > 0 && rapid.Bool().Draw(t, "remove") {
				k := rapid.IntRange(0, len(plain)-1).Draw(t, "which")
				q.remove(plain[k])
				q.remove(plain[k]) // gone: nothing happens
				plain = slices.Delete(plain, k, k+1)
				continue
			}
			q.add(s)
			plain = append(plain, s)
			slices.SortFunc(plain, order)
			if !slices.Equal(q.live(), plain) {
				t.Fatalf("%v, want %v", q.live(), plain)
			}
		}
	})
}
