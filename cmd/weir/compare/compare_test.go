package compare

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/sim/incident"
	"weir/sim/world"
)

// small is two providers that answer within milliseconds, each with a route of
// its own.
const small = `
name: small
duration: 40s
fleet: {agents: 2, bus: {delay: 1ms}}
channels:
  - {name: one, provider: a}
  - {name: two, provider: b}
routes:
  - {name: first, tiers: [[{channel: one}]]}
  - {name: second, tiers: [[{channel: two}]]}
providers:
  - {name: a, concurrency: 50, service: {base: 5ms, cv: 0}, refusal: {status: 429}}
  - {name: b, concurrency: 0, service: {base: 5ms, cv: 0}, refusal: {status: 429}}
workload:
  - {name: x, route: first, arrivals: {kind: poisson, rate: 30}, input_tokens: {kind: fixed, value: 9}, output_tokens: {kind: fixed, value: 1}, deadline: 30s}
  - {name: y, route: second, arrivals: {kind: poisson, rate: 10}, input_tokens: {kind: fixed, value: 9}, output_tokens: {kind: fixed, value: 1}, deadline: 30s, client: {retry: {kind: none}}}
`

func parse(t *testing.T, text string) *incident.Incident {
	t.Helper()
	inc, err := incident.Parse("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

// TestBothSides plays two seconds of a script with and without Weir: both
// sides want the same requests, what the first provider takes is completed and
// what the second refuses is not.
func TestBothSides(t *testing.T) {
	inc := parse(t, small).Compress(2 * time.Second)
	for _, policy := range []string{world.PolicyNone, world.PolicyWeir} {
		o := Options{Incident: inc, Policy: policy, Seed: 3, CountFrom: time.Second}
		sim, err := simulated(inc, &o)
		if err != nil {
			t.Fatal(err)
		}
		side, _, err := live(t.Context(), inc, &o)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: live %+v, simulated %+v", policy, side, sim)
		if sim.Completed < 15 || sim.Completed > sim.Requests || sim.CouldHaveServed == 0 {
			t.Errorf("%s: simulated %+v", policy, sim)
		}
		if side.Requests == 0 || side.Completed == 0 || side.CouldHaveServed == 0 || side.Attempts == 0 {
			t.Errorf("%s: live %+v", policy, side)
		}
		if got, want := slices.Sorted(maps.Keys(side.Refused)), slices.Sorted(maps.Keys(sim.Refused)); len(got) > 0 && len(want) > 0 && !slices.Equal(got, want) {
			t.Errorf("%s: the same refusal is %v live and %v simulated", policy, got, want)
		}
		if policy == world.PolicyNone && (side.Wasted == 0 || sim.Wasted == 0) {
			t.Errorf("%s: nothing was refused by the provider that takes nothing: live %+v, simulated %+v", policy, side, sim)
		}
	}
}

func TestCheck(t *testing.T) {
	fine := func() Options {
		return Options{Incident: parse(t, small), Policy: world.PolicyWeir, Speed: 2, CountFrom: 5 * time.Second}
	}
	if o := fine(); Check(&o) != nil {
		t.Fatal(Check(&o))
	}
	for want, change := range map[string]func(*Options){
		"policy oracle":          func(o *Options) { o.Policy = world.PolicyOracle },
		"want 1 to 10":           func(o *Options) { o.Speed = 11 },
		"a speed of 0.5":         func(o *Options) { o.Speed = 0.5 },
		"would be over in 4s":    func(o *Options) { o.Speed = 10 },
		"at most 64":             func(o *Options) { o.Incident.Fleet.Agents = 65 },
		"loses messages":         func(o *Options) { o.Incident.Fleet.Bus.Loss = 1 },
		"takes over 50ms":        func(o *Options) { o.Incident.Fleet.Bus.Delay = time.Second },
		"change controller_down": func(o *Options) { o.Incident.Fleet.Changes = []incident.FleetChange{{Kind: incident.ControllerDown}} },
	} {
		o := fine()
		change(&o)
		if err := Check(&o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestOff(t *testing.T) {
	if got := (&Result{GoodputOff: -3, WasteOff: 2}).Off(); got != 3 {
		t.Errorf("got %v, want 3", got)
	}
}

// TestLiveIsAsSimulated plays the demo's incident and others live, ten times
// faster, and holds the simulator to five points of what came of it.
func TestLiveIsAsSimulated(t *testing.T) {
	if os.Getenv("WEIR_LONG") == "" {
		t.Skip("takes ten minutes; set WEIR_LONG=1")
	}
	for _, c := range []struct{ incident, policy string }{
		{"2064-cascade", world.PolicyWeir},
		{"14003-window", world.PolicyNone},
		{"14003-window", world.PolicyWeir},
		{"row-step-8", world.PolicyWeir},
		{"two-models", world.PolicyWeir},
	} {
		inc, err := incident.Builtin(c.incident)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), Options{Incident: inc, Policy: c.policy, Seed: 1, CountFrom: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", r)
		switch {
		case r.Off() <= 5:
		case r.Lag > MostLag/2:
			t.Logf("the machine was busy: requests were noticed %.2f s late", r.Lag)
		default:
			t.Errorf("%s differs by %.1f points", c.incident, r.Off())
		}
	}
}
