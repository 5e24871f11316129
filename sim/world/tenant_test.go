package world

import (
	"strings"
	"testing"
	"time"
)

// TestCeilingOfCost lives through the day of a tenant whose ceiling of cost is
// reached: it warns, then nothing more of its starts, and nobody else notices.
func TestCeilingOfCost(t *testing.T) {
	r := run(t, Config{Incident: scene(t, "ceiling"), Seed: 1, Policy: PolicyWeir})
	const ceiling, flight = 500, 10 // calls, and those in flight when it was reached
	if got, wanted := r.ByAgent[0], r.WantedBy[0]; got < ceiling || got > ceiling+flight || wanted < ceiling+100 {
		t.Errorf("%d of %d calls of the tenant with a ceiling, want %d and what was in flight", got, wanted, ceiling)
	}
	if got, wanted := r.ByAgent[1], r.WantedBy[1]; got < wanted-flight {
		t.Errorf("%d of %d calls of the other tenant", got, wanted)
	}
	if refused := r.WantedBy[0] - r.ByAgent[0] - flight; r.TurnedAway < refused {
		t.Errorf("%d turned away, want at least %d", r.TurnedAway, refused)
	}
	var said []string
	for _, d := range r.Decisions {
		if strings.Contains(d.Reason, "tenant import") {
			said = append(said, d.Reason)
		}
	}
	if len(said) != 2 || !strings.Contains(said[0], "cost_per_day 0.500000 passed") || !strings.Contains(said[1], "cost_per_day 1.000000 reached") {
		t.Errorf("decisions on the tenant: %q", said)
	}
}

// TestShares holds that the fleet serves tenants by their shares where both are
// beside the same agents, whole slots and rotation notwithstanding.
func TestShares(t *testing.T) {
	for seed := range uint64(2) {
		r := run(t, Config{Incident: scene(t, "shares"), Seed: seed, Policy: PolicyWeir, BooksFrom: time.Minute})
		less, more := r.ByWorkload[0], r.ByWorkload[1]
		if part := float64(more) / float64(less+more); part < 0.70 || part > 0.78 {
			t.Errorf("seed %d: the tenant with three quarters of the shares was served %.3f of all, %d of %d calls", seed, part, more, less+more)
		}
	}
}
