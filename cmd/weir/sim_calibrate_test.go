package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"testing"
	"time"

	"weir/sim/incident"
	"weir/sim/provider"
	"weir/sim/world"
)

// TestCalibrateTheDemo calibrates the journal of the demo's second half, as the
// simulator lives it through. Hardly a call is refused in it, if any: what the
// provider can do must be told from what calls took. Then the same parameters in
// the calibrated world must bring what they did.
func TestCalibrateTheDemo(t *testing.T) {
	inc, err := incident.Builtin("2064-cascade")
	if err != nil {
		t.Fatal(err)
	}
	inc = inc.Compress(30 * time.Second)
	path := lived(t, world.Config{Incident: inc, Seed: 1}).write()
	got := weir(t, "", "sim", "calibrate", path, "-o", filepath.Join(t.TempDir(), "world.yaml"), "--json")
	var r calibrated
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != exitOK {
		t.Fatalf("%v, exit code %d: %s%s", err, got.code, got.stdout, got.stderr)
	}
	figure := func(name string) (was, is float64) {
		for _, f := range r.Check.Figures {
			if f.Name == name {
				return f.Recorded, f.Simulated
			}
		}
		t.Fatalf("there is no figure %s", name)
		return 0, 0
	}
	wanted, _ := figure("requests")
	if was, is := figure("completed"); math.Abs(was-is) > 0.05*wanted {
		t.Errorf("%v answered, in the calibrated world %v", was, is)
	}
	if was, is := figure("refused_share"); math.Abs(was-is) > 0.05 {
		t.Errorf("%v refused, in the calibrated world %v", was, is)
	}
	c := r.Providers[0].Capacity
	if c == nil {
		t.Fatalf("no capacity: %+v", r.Providers[0])
	}
	p, truth := provider.New(provider.Config{Incident: inc.Providers[0]})
	closed := 0
	for _, b := range c.Bends {
		p.Advance(int64(b.At), nil)
		best := float64(truth.BestInFlight())
		t.Logf("at %s: %.1f (%.1f to %.1f, open %v), in truth %v", b.At.Duration(), b.Best, b.Low, b.High, b.Open, best)
		if b.Open {
			continue
		}
		if closed++; math.Abs(b.Best/best-1) > 0.1 {
			t.Errorf("at %s most answers with %.1f in flight, in truth with %v", b.At.Duration(), b.Best, best)
		}
	}
	if closed < 3 {
		t.Errorf("bounded at %d instants only: %+v", closed, c.Bends)
	}
}
