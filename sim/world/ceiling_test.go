package world

import (
	"strings"
	"testing"
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
