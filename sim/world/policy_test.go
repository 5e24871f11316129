package world

import (
	"strings"
	"testing"
	"time"

	"weir/model"
	"weir/sim/incident"
)

func TestPoliciesAreListed(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Policies() {
		if p.Name == "" || p.About == "" || seen[p.Name] {
			t.Errorf("policy %q (%q) is unnamed, says nothing or stands twice", p.Name, p.About)
		}
		seen[p.Name] = true
	}
	for _, name := range []string{PolicyNone, PolicyWeir, PolicyOracle} {
		if !seen[name] {
			t.Errorf("policy %q is not listed", name)
		}
	}
	_, err := Run(Config{Incident: cascade(t), Policy: "nobody"})
	if err == nil || !strings.Contains(err.Error(), "nobody") || !strings.Contains(err.Error(), "aws-adaptive") {
		t.Errorf("unknown policy: %v; want an error that names it and the others", err)
	}
}

// TestEveryPolicyRuns: the same seed gives the same run, its counts add up, and
// something is served.
func TestEveryPolicyRuns(t *testing.T) {
	for _, p := range Policies() {
		c := Config{Incident: cascade(t).Compress(14 * time.Second), Seed: 7, Policy: p.Name}
		a, b := run(t, c), run(t, c)
		if a.Digest != b.Digest || a.Completed != b.Completed {
			t.Errorf("%s: two runs of one seed differ", p.Name)
		}
		if a.Completed == 0 {
			t.Errorf("%s: nothing was completed", p.Name)
		}
	}
}

// TestAblations: each moves some parameters of whatever is given, stays within
// their ranges and leaves what is given alone.
func TestAblations(t *testing.T) {
	given := model.DefaultParams()
	given.RotateEvery = 3 * model.Second
	before := given
	for _, a := range ablations() {
		if a.tune == nil {
			continue
		}
		p := a.params(&given)
		if err := p.Check(); err != nil {
			t.Errorf("%s: %v", a.Name, err)
		}
		if *p == given || p.RotateEvery != given.RotateEvery {
			t.Errorf("%s changes nothing, or too much", a.Name)
		}
		if q := a.params(nil); q.RotateEvery != model.DefaultParams().RotateEvery {
			t.Errorf("%s does not start from the defaults when nothing is given", a.Name)
		}
	}
	if given != before {
		t.Error("an ablation changed the given parameters")
	}
	weir, err := policyNamed(PolicyWeir)
	if err != nil || weir.params(&given) != &given {
		t.Error("Weir itself does not take the parameters as given")
	}
}

// TestNotTold: what is told keeps Weir from being refused; without it Weir
// finds the limit by refusals.
func TestNotTold(t *testing.T) {
	inc := scene(t, "peer-told")
	inc.Fleet.Changes = nil
	told := run(t, Config{Incident: inc, Seed: 1, Policy: PolicyWeir})
	r := run(t, Config{Incident: inc, Seed: 1, Policy: "weir-not-told"})
	t.Logf("refused: %d told, %d not; completed %d and %d", told.Refused, r.Refused, told.Completed, r.Completed)
	if told.Refused != 0 || r.Refused == 0 || r.Completed*4 < told.Completed*3 {
		t.Errorf("refused: %d told, %d not; completed %d and %d", told.Refused, r.Refused, told.Completed, r.Completed)
	}
}

// TestNoLatencyMatters: in the cascade latency is what keeps Weir from
// crowding the cluster.
func TestNoLatencyMatters(t *testing.T) {
	full := run(t, Config{Incident: cascade(t), Seed: 1, Policy: PolicyWeir, BooksFrom: 5 * time.Second})
	less := run(t, Config{Incident: cascade(t), Seed: 1, Policy: "weir-no-latency", BooksFrom: 5 * time.Second})
	t.Logf("completed: %d, without latency %d", full.Completed, less.Completed)
	if less.Completed*10 > full.Completed*8 {
		t.Errorf("%d completed without a look at latency, %d with; want clearly fewer", less.Completed, full.Completed)
	}
}

// TestAblationsMatter: each part that an ablation leaves out shows by what it
// is for.
func TestAblationsMatter(t *testing.T) {
	steady := *builtin(t, "row-steady")
	steady.Duration = 2 * time.Minute
	full := run(t, Config{Incident: &steady, Seed: 1, Policy: PolicyWeir})
	less := func(policy string) *Result {
		r := run(t, Config{Incident: &steady, Seed: 1, Policy: policy})
		t.Logf("%s: completed %d, waste %.3f; Weir %d, %.3f", policy, r.Completed, r.WasteRatio(), full.Completed, full.WasteRatio())
		return r
	}
	for _, policy := range []string{"weir-no-epochs", "weir-no-pin"} { // cuts too deep
		if r := less(policy); r.Completed*100 > full.Completed*95 {
			t.Errorf("%s completed %d, Weir %d; want clearly fewer", policy, r.Completed, full.Completed)
		}
	}
	for _, policy := range []string{"weir-no-leases", "weir-no-fleet"} { // 64 agents with parts that do not add up
		if r := less(policy); r.WasteRatio() < 2*full.WasteRatio() {
			t.Errorf("%s wastes %.3f, Weir %.3f; want twice as much", policy, r.WasteRatio(), full.WasteRatio())
		}
	}
	outage := *builtin(t, "row-outage")
	outage.Duration = 2 * time.Minute
	share := func(policy string) float64 {
		var retries, attempts int64
		for seed := range uint64(3) {
			r := run(t, Config{Incident: &outage, Seed: seed + 1, Policy: policy})
			retries, attempts = retries+r.Retries, attempts+r.Attempts
		}
		t.Logf("%s: %d retries of %d attempts", policy, retries, attempts)
		return float64(retries) / float64(attempts-retries)
	}
	if with, without := share(PolicyWeir), share("weir-no-retry-budget"); with > 0.1+64.0/1000 || without <= with {
		t.Errorf("retries per first attempt: %.4f with a budget of a tenth, %.4f without", with, without)
	}
}

// TestNoFleetStaysAlone: without a fleet neither the controller's absence nor
// the bus changes anything.
func TestNoFleetStaysAlone(t *testing.T) {
	inc := *builtin(t, "controller-down")
	inc.Duration = 2 * time.Minute
	inc.Fleet.Changes = nil
	quiet := run(t, Config{Incident: &inc, Seed: 1, Policy: "weir-no-fleet"})
	inc.Fleet.Bus = incident.Bus{Delay: time.Second, Jitter: time.Second, Loss: incident.PPM / 2}
	inc.Fleet.Changes = []incident.FleetChange{
		{At: time.Minute, For: 30 * time.Second, Kind: incident.ControllerDown},
		{At: time.Minute, For: 30 * time.Second, Kind: incident.Partition, Agents: []int{0, 1}},
	}
	if r := run(t, Config{Incident: &inc, Seed: 1, Policy: "weir-no-fleet"}); r.Completed != quiet.Completed || r.Attempts != quiet.Attempts {
		t.Errorf("completed %d of %d attempts, %d of %d when nothing happens to the fleet", r.Completed, r.Attempts, quiet.Completed, quiet.Attempts)
	}
}
