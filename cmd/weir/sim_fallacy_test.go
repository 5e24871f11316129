package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/world"
)

// recklessParams never let fewer than a hundred calls run, whatever is refused.
const recklessParams = "params: {window_floor: 100000, window_start: 100000, breaker_ratio: 1000000, breaker_volume: 10000, breaker_consecutive: 1000}\n"

// fullIncident has twenty slots, which are nearly always taken.
func fullIncident(t *testing.T) *incident.Incident {
	t.Helper()
	text := strings.NewReplacer("duration: 4m", "duration: 3m", "concurrency: 60", "concurrency: 20", "    changes: [{at: 2m, set: {concurrency: 24}}]\n", "", "rate: 24", "rate: 16").Replace(replayIncident)
	inc, err := incident.Parse("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

// refusedShare lives an incident through on some seeds.
func refusedShare(t *testing.T, inc *incident.Incident, p model.Params) float64 {
	t.Helper()
	var refused, sent float64
	for seed := range uint64(3) {
		r, err := world.Run(world.Config{Incident: inc, Seed: 100 + seed, Policy: world.PolicyWeir, Params: &p})
		if err != nil {
			t.Fatal(err)
		}
		refused += float64(r.Refused)
		sent += float64(r.Attempts)
	}
	return refused / sent
}

// carriedOver is what the logged share of refusals in each stretch of five
// seconds would make of another policy's calls.
func carriedOver(logged, asked []world.Second) float64 {
	var sent, refused [1000]float64
	for i := range logged {
		sent[i/5] += float64(logged[i].Sent)
		for _, n := range logged[i].Refused {
			refused[i/5] += float64(n)
		}
	}
	var all, no float64
	for i := range asked {
		all += float64(asked[i].Sent)
		no += float64(asked[i].Sent) * refused[i/5] / max(sent[i/5], 1)
	}
	return no / all
}

// TestReplayFallacy asks after parameters far from those that made a log. What
// was refused then says nothing of what would be: carried over to the other
// behaviour it is off by more than ten times. The world calibrated from the same
// log comes within a fifth.
func TestReplayFallacy(t *testing.T) {
	inc := fullIncident(t)
	reckless := file(t, "reckless.yaml", recklessParams)
	asked := paramsOf(t, reckless)
	journal := lived(t, world.Config{Incident: inc, Seed: 3}).write()
	run := func(p model.Params) *world.Result {
		r, err := world.Run(world.Config{Incident: inc, Seed: 3, Policy: world.PolicyWeir, Params: &p})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	naive := carriedOver(run(model.DefaultParams()).Seconds, run(asked).Seconds)
	truth := refusedShare(t, inc, asked)

	got := weir(t, "", "sim", "replay", journal, "--params", reckless, "--seeds", "3", "--json", "--last", "1")
	var r replayed
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != exitOK {
		t.Fatalf("%v, exit code %d: %s%s", err, got.code, got.stdout, got.stderr)
	}
	ours := r.WhatIf.Asked.Refused / r.WhatIf.Asked.Attempts
	t.Logf("refused: %.4f in truth, %.4f carried over, %.4f by the calibrated world", truth, naive, ours)
	if off := truth / naive; off < 10 && off > 0.1 {
		t.Errorf("carried over is off by %.2f times only: the case shows nothing", off)
	}
	if math.Abs(ours/truth-1) > 0.2 {
		t.Errorf("the calibrated world comes to %.4f, in truth it is %.4f", ours, truth)
	}
}
