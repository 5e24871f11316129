package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/events"
	"weir/model"
	"weir/sim/incident"
	"weir/sim/world"
)

// incidentOf is a small one whose provider shrinks in the middle.
const replayIncident = `
name: shrink
duration: 4m
fleet: {agents: 2, bus: {delay: 2ms, jitter: 1ms}}
channels: [{name: main, provider: main}]
routes: [{name: default, tiers: [[{channel: main}]]}]
providers:
  - name: main
    concurrency: 60
    service: {base: 300ms, prefill_tokens_per_s: 20000, output_tokens_per_s: 400, cv: 0.2}
    refusal: {status: 200, code: "2064", shape: minimax, retry_after: none, delay: 50ms}
    changes: [{at: 2m, set: {concurrency: 24}}]
workload:
  - name: w
    route: default
    tenant: content
    arrivals: {kind: poisson, rate: 24}
    input_tokens: {kind: uniform, min: 1000, max: 4000}
    output_tokens: {kind: uniform, min: 100, max: 500}
    client: {pool: 1000}
`

// livedJournal is the log of an incident that the simulator lived through.
func livedJournal(t *testing.T) string {
	t.Helper()
	inc, err := incident.Parse("test", strings.NewReader(replayIncident))
	if err != nil {
		t.Fatal(err)
	}
	return lived(t, world.Config{Incident: inc, Seed: 3}).write()
}

// lived is the log of a run of the simulator under Weir.
func lived(t *testing.T, c world.Config) *logMaker {
	t.Helper()
	m := &logMaker{t: t}
	c.Policy = world.PolicyWeir
	c.Records = func(r model.Record) {
		m.now = evening + r.Time
		subject := events.ControlSubject("test")
		if a, ok := r.Fact.(*model.Attempts); ok {
			subject = events.LogSubject("test", a.Agent)
		}
		m.raw(subject, events.Encode(nil, r.Fact))
	}
	if _, err := world.Run(c); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSimReplay(t *testing.T) {
	path := livedJournal(t)
	got := weir(t, "", "sim", "replay", path)
	if got.code != exitOK {
		t.Fatalf("exit code %d: %s", got.code, got.stderr)
	}
	for _, text := range []string{"verified: three folds", "measured, as the controller saw it", "window cut", "(2064)", "at the end main has a window of"} {
		if !strings.Contains(got.stdout, text) {
			t.Errorf("nothing says %q:\n%.3000s", text, got.stdout)
		}
	}
	calm := file(t, "calm.yaml", "params: {plateau: 30s, window_start: 5000}\n")
	dir := t.TempDir()
	got = weir(t, "", "sim", "replay", path, "--params", calm, "--seeds", "2", "--json", "--last", "3", "--out", dir)
	var r replayed
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		t.Fatalf("%v: %s%s", err, got.stdout, got.stderr)
	}
	if got.code != exitOK || !r.Verdict.Verified || len(r.Events) != 3 || r.Omitted == 0 {
		t.Errorf("exit code %d: %s%+v", got.code, got.stderr, r.Verdict)
	}
	page, err := os.ReadFile(filepath.Join(dir, simReportFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"Verified: three folds", "Asked after: plateau", "Modelled, in a world calibrated", `<td>main</td>`, "overloaded"} {
		if !strings.Contains(string(page), text) {
			t.Errorf("the report lacks %q", text)
		}
	}
	w := r.WhatIf
	if w == nil || !w.Modelled || !w.Safe || len(w.Params) != 2 || w.Recorded == nil || w.Asked == nil || w.Recorded.Params == w.Asked.Params || w.Asked.Completed == 0 {
		t.Errorf("what if %+v", w)
	}
	weir(t, "", "sim", "replay", path, "--seeds", "0").wantFaults(t, "--seeds=0")
	weir(t, "", "sim", "replay", "/nowhere").wantFaults(t, "/nowhere")
	weir(t, "", "sim", "replay", calm).wantFaults(t, "open journal")
	empty := newLogMaker(t).write()
	weir(t, "", "sim", "replay", empty, "--params", calm).wantFaults(t, "no call to estimate anything from")
}

// TestReplayIsWhole holds the report of a journal to its calls: none is lost
// between the steps, and each column has one number for each.
func TestReplayIsWhole(t *testing.T) {
	source, err := (&logFlags{}).records(&env{}, livedJournal(t))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := record(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	end := rec.fleet.View().Channels[0]
	c := rec.channels["main"]
	if rec.steps > replaySteps+1 || c == nil {
		t.Fatalf("%d steps of channels %v", rec.steps, rec.busiest())
	}
	for _, class := range model.Classes {
		if got, want := uint64(c.counts[class]), end.Counts[class]; got != want {
			t.Errorf("%s: got %d, want %d", class, got, want)
		}
	}
	ok := 0.0
	for _, rate := range c.samples.Completed {
		ok += rate * rec.every.Duration().Seconds()
	}
	if got, want := uint64(ok+0.5), end.Counts[model.ClassOK]; got != want || len(c.samples.T) != rec.steps || len(c.samples.P99) != rec.steps {
		t.Errorf("%d answered in %d steps, want %d in %d", got, len(c.samples.T), want, rec.steps)
	}
}

func TestSimCalibrate(t *testing.T) {
	if testing.Short() {
		t.Skip("simulations, which take long under the race detector")
	}
	path := livedJournal(t)
	out := filepath.Join(t.TempDir(), "world.yaml")
	got := weir(t, "", "sim", "calibrate", path, "-o", out, "--json")
	var r calibrated
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != exitOK {
		t.Fatalf("%v, exit code %d: %s%s", err, got.code, got.stdout, got.stderr)
	}
	if c := r.Check; c == nil || !c.Safe || c.Policy != world.PolicyWeir {
		t.Errorf("check %+v", c)
	}
	spans := r.Providers[0].Concurrency
	if last := spans[len(spans)-1]; !last.Holds(24) || last.Open {
		t.Errorf("concurrency %+v, want 24 at the end", spans)
	}
	for _, s := range spans {
		if s.From.Duration().Minutes() < 1.9 && s.To.Duration().Minutes() < 2.1 && !s.Holds(60) {
			t.Errorf("concurrency %+v, want 60 at first", spans)
		}
	}
	if got := weir(t, "", "sim", "run", out, "--policy", "weir", "--json"); got.code != exitOK || !strings.Contains(got.stdout, `"incident":"world"`) {
		t.Errorf("the incident does not run: %s%s", got.stdout, got.stderr)
	}

	calls := filepath.Join(t.TempDir(), "calls.csv")
	if got := weir(t, "", "log", "export", calls, "--as", "requests", "--times", "--journal", path); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	data, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	got = weir(t, string(data)+"nonsense\n", "sim", "calibrate", "-", "-o", out)
	if got.code != exitOK || !strings.Contains(got.stdout, "1 of") || !strings.Contains(got.stdout, "concurrency") || !strings.Contains(got.stderr, "a line is no call") {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	weir(t, "a,b\n1,2\n", "sim", "calibrate", "-", "-o", out).wantFaults(t, "no column says when a call was sent")
	weir(t, "", "sim", "calibrate", "-", "-o", out).wantFaults(t, "no call to estimate")
	weir(t, "", "sim", "calibrate", "-", "-o", out, "--column", "colour=x").wantFaults(t, "no such field")
	weir(t, "", "sim", "calibrate", "/nowhere", "-o", out).wantFaults(t, "/nowhere")
	weir(t, "", "sim", "calibrate", calls, "-o", "/nowhere/x.yaml").wantFaults(t, "/nowhere")
	weir(t, "", "sim", "calibrate", path).wantFaults(t, "--out")
}
