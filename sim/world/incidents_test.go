package world

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/sim/incident"
	"weir/sim/workload"
)

// builtin returns a built-in incident.
func builtin(t *testing.T, name string) *incident.Incident {
	t.Helper()
	inc, err := incident.Builtin(name)
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

// traces reads what an incident's arrivals name from the folder in
// WEIR_TRACES; a test without it is skipped.
func traces(t *testing.T, inc *incident.Incident) map[string]workload.Trace {
	t.Helper()
	out := map[string]workload.Trace{}
	for _, name := range inc.Traces() {
		dir := os.Getenv("WEIR_TRACES")
		if dir == "" {
			t.Skipf("%s needs %s: set WEIR_TRACES to the folder that has it", inc.Name, name)
		}
		f, err := os.Open(filepath.Join(dir, filepath.Base(name)))
		if err != nil {
			t.Skipf("%s is left out: %v", inc.Name, err)
		}
		out[name], err = workload.ReadTrace(name, f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// lived is a world after its end, for tests that look inside.
func lived(t *testing.T, inc *incident.Incident, policy string) (*world, *Result) {
	t.Helper()
	w, err := begin(Config{Incident: inc, Seed: 1, Policy: policy, Traces: traces(t, inc)})
	if err != nil {
		t.Fatal(err)
	}
	return w, w.play()
}

// TestEveryIncidentConserves lives each built-in incident and variant in half
// a minute without control, with Weir and with the oracle. Run itself finds
// what does not add up. With Weir no record raises what is claimed above the
// limit.
func TestEveryIncidentConserves(t *testing.T) {
	for _, name := range incident.List() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inc := builtin(t, name)
			inc = inc.Compress(min(inc.Duration, 30*time.Second))
			for _, policy := range []string{PolicyNone, PolicyWeir, PolicyOracle} {
				r := run(t, Config{Incident: inc, Seed: 1, Policy: policy, Traces: traces(t, inc)})
				if r.Requests == 0 || r.Attempts == 0 {
					t.Errorf("%s: %d requests, %d attempts: nothing happened", policy, r.Requests, r.Attempts)
				}
				if r.LeaseOvershoot > 1_000_000 {
					t.Errorf("%s: claims rose to %d ppm of the limit", policy, r.LeaseOvershoot)
				}
			}
		})
	}
}

// TestFleetShrinks: agents that are taken away leave nothing claimed, though
// they had calls in flight.
func TestFleetShrinks(t *testing.T) {
	inc := builtin(t, "fleet-growth")
	inc = inc.Compress(2 * time.Minute)
	w, _ := lived(t, inc, PolicyWeir)
	states := map[string]int{}
	for _, a := range w.fleet().View().Agents {
		states[a.State]++
	}
	if got, want := states, (map[string]int{"here": 10, "left": 190}); !maps.Equal(got, want) {
		t.Errorf("agents at the end: %v, want %v", got, want)
	}
}
