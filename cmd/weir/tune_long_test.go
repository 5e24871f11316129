package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/config"
	"weir/model"
	"weir/sim/tune"
)

// badParams is a set that somebody might have written down in a hurry: cuts by
// half, the least weight that there is, no margin, a plateau of a minute, long
// waits, breakers on a hair trigger.
const badParams = `params:
  cut_share: 500000
  weight_floor: 1000
  budget_margin: 1000000
  pin_floor: 100000
  plateau: 60s
  slow_start_gain: 100
  hold_default: 20s
  breaker_ratio: 100000
  breaker_volume: 2
  breaker_wait: 60s
  latency_calm: 1010000
  latency_high: 1050000
  latency_cut_floor: 300000
`

// TestTuneFromBadParameters starts from a bad set, without a look at the
// defaults, with all parameters free, and must gain at least 95 % of what the
// defaults gain on seeds that the study never saw.
func TestTuneFromBadParameters(t *testing.T) {
	if os.Getenv("WEIR_LONG") != "1" {
		t.Skip("takes minutes; set WEIR_LONG=1")
	}
	names := "row-step-8,row-rise-8,row-outage-8,row-hidden-rate-8,row-steady-8,row-ambiguous-8"
	bad, out := file(t, "bad.yaml", badParams), filepath.Join(t.TempDir(), "found.yaml")
	began := time.Now()
	got := weir(t, "", "sim", "tune", "--cold", "--params", bad, "--incidents", names, "--compress", "2m", "--trials", "200", "--seeds", "8", "-o", out)
	t.Logf("in %v:\n%s", time.Since(began).Round(time.Second), got.stdout)
	if got.code != exitOK {
		t.Fatal(got.stderr)
	}
	c := simTuneCommand{Incidents: strings.Split(names, ","), Compress: 2 * time.Minute}
	g, err := c.ground()
	if err != nil {
		t.Fatal(err)
	}
	inForce, found, defaults := loss(t, g, paramsOf(t, bad)), loss(t, g, paramsOf(t, out)), loss(t, g, model.DefaultParams())
	share := (inForce - found) / (inForce - defaults)
	t.Logf("mean loss %.4f before, %.4f after, %.4f with the defaults: %.2f of their gain", inForce, found, defaults, share)
	if share < 0.95 {
		t.Errorf("the study gained %.2f of what the defaults gain, want 0.95", share)
	}
}

// paramsOf reads a file of parameters.
func paramsOf(t *testing.T, path string) model.Params {
	t.Helper()
	p, err := read(path, config.ParseParams)
	if err != nil {
		t.Fatal(err)
	}
	set, err := p.Apply(model.DefaultParams())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// loss is a set's mean weighted loss on seeds of its own.
func loss(t *testing.T, g *ground, p model.Params) float64 {
	t.Helper()
	var jobs []tune.Job
	for i := range g.incidents {
		for seed := range uint64(8) {
			jobs = append(jobs, tune.Job{Incident: i, Seed: 1<<50 + seed, Params: p})
		}
	}
	sum, w := 0.0, tune.DefaultWeights()
	err := g.evaluate(t.Context(), 0, func() {})(jobs, func(o tune.Outcome) error {
		for k, v := range o.Losses {
			sum += w[k] * v / float64(len(jobs))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
