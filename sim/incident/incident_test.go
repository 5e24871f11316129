package incident

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weir/sim/strict"
)

// world is an incident that uses every key there is.
const world = `
name: everything
about: one sentence
duration: 60m
fleet:
  agents: 4
  also: [256, 8]
  bus: {delay: 2ms, jitter: 1ms, loss: 0.01}
  changes:
    - {at: 40m, for: 30s, kind: partition, agents: [0, 7]}
    - {at: 20m, for: 5m, kind: controller_down}
    - {at: 30m, kind: agents, count: 8}
    - {at: 45m, kind: agent_crash, agents: [2]}
    - {at: 50m, for: 3m, kind: pause, over: 5m, drop: true}
groups:
  - {name: acct-a, limits: {tokens_per_day: 5000000}}
channels:
  - {name: m2.7, provider: main, groups: [acct-a], limits: {rpm: 60, tpm: 100000, concurrency: 30}, charge: max_tokens, on_controller_loss: zero, alone: 2}
  - {name: spare, provider: main}
routes:
  - name: default
    tiers:
      - [{channel: m2.7, weight: 1}]
      - {channels: [{channel: spare, weight: 0.5}], capability: light}
      - {rule: "busy, please try later"}
providers:
  - name: main
    concurrency: 120
    queue: 40
    rpm: {limit: 60, window: token_bucket, burst: 30}
    tpm: {limit: 100000, window: sliding, charge: max_tokens}
    input_tpm: 90000
    output_tpm: {limit: 50000, window: fixed, per: 2s}
    requests_per_day: 10000
    tokens_per_day: {limit: 5000000, used: 4000000}
    day_elapsed: 23h30m
    service: {base: 200ms, prefill_tokens_per_s: 20000, output_tokens_per_s: 80, cv: 0.3}
    slowdown: {from: 0.7, factor: 4}
    abandoned_work: true
    background: {concurrency: 20}
    noise: {error_rate: 0.005, status: 503}
    refusal: {status: 200, code: "2064", shape: minimax, retry_after: 3s, delay: 20ms, headers: true, charged: true, holds_slot: true}
    refusals:
      day: {shape: openai, retry_after: exact}
    ban: {refusals: 20, in: 60s, for: 30m, widen: 2, most: 1h}
    changes:
      - {at: 45m, over: 2m, set: {concurrency: 120, refusal: {code: 1002}}}
      - {at: 10m, over: 15m, set: {concurrency: 40, service: {output_tokens_per_s: 40}}}
workload:
  - name: summaries
    route: default
    tenant: content
    priority: batch
    arrivals: {kind: batch, size: 10, parallel: 5, every: 200ms}
    start: 1m
    stop: 50m
    input_tokens: {kind: choice, values: [2000, 4000, 8000], weights: [3, 5, 2]}
    output_tokens: {kind: uniform, min: 500, max: 800}
    max_tokens: 1000
    deadline: 10m
    client: {timeout: 60s, pool: 50, stream: true, retry: {kind: requeue, after: 500ms}}
  - name: chat
    route: default
    arrivals: {kind: poisson, rate: 2.5}
    input_tokens: {kind: lognormal, mean: 1000, cv: 0.8}
    output_tokens: {kind: fixed, value: 300}
    client: {retry: {kind: backoff, after: 1s, multiplier: 1.5, max: 20s, jitter: 0.2, attempts: 5}}
  - name: users
    route: default
    agents: [1, 3]
    arrivals: {kind: closed, users: 50, think: 2s, steps: 30, restarts: 2, walk: {swing: 0.1, every: 10s, jumps: [{at: 9m, agent: 3, by: 100}, {at: 4m, agent: 1, by: 7}]}}
    input_tokens: {kind: fixed, value: 1}
    output_tokens: {kind: fixed, value: 1}
  - name: recorded
    route: default
    arrivals: {kind: trace, file: conv.csv, scale: 0.5}
    input_tokens: {kind: trace}
    output_tokens: {kind: trace}
`

func parseWorld(t *testing.T) *Incident {
	t.Helper()
	inc, err := Parse("world.yaml", strings.NewReader(world))
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

func TestParseReadsEveryKey(t *testing.T) {
	inc := parseWorld(t)
	wantFleet := Fleet{
		Agents: 4, Also: []int{256, 8},
		Bus: Bus{Delay: 2 * time.Millisecond, Jitter: time.Millisecond, Loss: 10_000},
		Changes: []FleetChange{
			{At: 20 * time.Minute, For: 5 * time.Minute, Kind: ControllerDown},
			{At: 30 * time.Minute, Kind: AgentCount, Count: 8},
			{At: 40 * time.Minute, For: 30 * time.Second, Kind: Partition, Agents: []int{0, 7}},
			{At: 45 * time.Minute, Kind: AgentCrash, Agents: []int{2}},
			{At: 50 * time.Minute, For: 3 * time.Minute, Over: 5 * time.Minute, Drop: true, Kind: Pause},
		},
	}
	if d := cmp.Diff(wantFleet, inc.Fleet); d != "" {
		t.Errorf("fleet (-want +got):\n%s", d)
	}
	wantChannel := Channel{
		Name: "m2.7", Provider: "main", Groups: []string{"acct-a"}, Charge: ChargeMaxTokens, Loss: LossZero, Alone: 2,
		Limits: Limits{
			RPM: 60, TPM: 100_000, InputTPM: Unlimited, OutputTPM: Unlimited, Concurrency: 30,
			RequestsPerDay: Unlimited, TokensPerDay: Unlimited,
		},
	}
	if d := cmp.Diff(wantChannel, inc.Channels[0]); d != "" {
		t.Errorf("channel (-want +got):\n%s", d)
	}
	wantTiers := []Tier{
		{Channels: []Weighted{{Channel: "m2.7", Weight: PPM}}},
		{Channels: []Weighted{{Channel: "spare", Weight: PPM / 2}}, Capability: "light"},
		{Rule: "busy, please try later"},
	}
	if d := cmp.Diff(wantTiers, inc.Routes[0].Tiers); d != "" {
		t.Errorf("tiers (-want +got):\n%s", d)
	}
	wantWorkload := Workload{
		Name: "summaries", Route: "default", Tenant: "content", Priority: PriorityBatch,
		Arrivals: Arrivals{Kind: ArriveBatch, Size: 10, Parallel: 5, Every: 200 * time.Millisecond},
		Start:    time.Minute, Stop: 50 * time.Minute,
		InputTokens:  Size{Kind: SizeChoice, Values: []int64{2000, 4000, 8000}, Weights: []int64{3 * PPM, 5 * PPM, 2 * PPM}},
		OutputTokens: Size{Kind: SizeUniform, Min: 500, Max: 800},
		MaxTokens:    1000, Deadline: 10 * time.Minute,
		Client: Client{Timeout: time.Minute, Pool: 50, Stream: true, Retry: Retry{Kind: RetryRequeue, After: 500 * time.Millisecond}},
	}
	if d := cmp.Diff(wantWorkload, inc.Workloads[0]); d != "" {
		t.Errorf("workload (-want +got):\n%s", d)
	}
	wantArrivals := Arrivals{
		Kind: ArriveClosed, Users: 50, Think: 2 * time.Second, Steps: 30, Restarts: 2,
		Walk: &Walk{Swing: 100_000, Every: 10 * time.Second, Jumps: []Jump{{4 * time.Minute, 1, 7}, {9 * time.Minute, 3, 100}}},
	}
	if d := cmp.Diff(wantArrivals, inc.Workloads[2].Arrivals); d != "" {
		t.Errorf("closed arrivals (-want +got):\n%s", d)
	}
	if got, want := inc.Workloads[2].Agents, []int{1, 3}; !slices.Equal(got, want) {
		t.Errorf("agents of a workload: got %v, want %v", got, want)
	}
	if got, want := inc.Traces(), []string{"conv.csv"}; !slices.Equal(got, want) {
		t.Errorf("traces: got %v, want %v", got, want)
	}
	if got, want := inc.Workloads[1].Stop, time.Hour; got != want {
		t.Errorf("stop of a workload without one: got %v, want the duration %v", got, want)
	}
}

func TestParseReadsTheProvidersLaw(t *testing.T) {
	p := parseWorld(t).ProviderByName("main")
	refusal := Refusal{
		Status: 200, Code: "2064", Shape: ShapeMiniMax, Hint: HintFixed, HintFor: 3 * time.Second,
		Delay: 20 * time.Millisecond, Headers: true, Charged: true, HoldsSlot: true,
	}
	day := refusal
	day.Status, day.Code, day.Shape, day.Hint = 0, "", ShapeOpenAI, HintExact
	want := Law{
		Concurrency:    120,
		Queue:          40,
		RPM:            Rate{60, TokenBucket, 30, ChargeActual, 0},
		TPM:            Rate{100_000, SlidingWindow, Unlimited, ChargeMaxTokens, 0},
		InputTPM:       Rate{90_000, TokenBucket, Unlimited, ChargeActual, 0},
		OutputTPM:      Rate{50_000, FixedWindow, Unlimited, ChargeActual, 2 * time.Second},
		RequestsPerDay: Daily{Limit: 10_000},
		TokensPerDay:   Daily{Limit: 5_000_000, Used: 4_000_000},
		DayElapsed:     23*time.Hour + 30*time.Minute,
		Service:        Service{200 * time.Millisecond, 20_000, 80, 300_000},
		Slowdown:       Slowdown{700_000, 4 * PPM},
		AbandonedWork:  true,
		Background:     20,
		Noise:          Noise{5000, 503},
		Refusal:        refusal,
		Special:        []SpecialRefusal{{ReasonDay, day}},
		Ban:            Ban{20, time.Minute, 30 * time.Minute, 2 * PPM, time.Hour, 0},
	}
	if d := cmp.Diff(want, p.Law); d != "" {
		t.Errorf("law (-want +got):\n%s", d)
	}
	if d := cmp.Diff(day, p.Law.RefusalFor(ReasonDay)); d != "" {
		t.Errorf("refusal for the day (-want +got):\n%s", d)
	}
	if d := cmp.Diff(refusal, p.Law.RefusalFor(ReasonBan)); d != "" {
		t.Errorf("refusal for a ban (-want +got):\n%s", d)
	}
}

func TestChangesAreSortedAndCumulative(t *testing.T) {
	changes := parseWorld(t).Providers[0].Changes
	if len(changes) != 2 || changes[0].At != 10*time.Minute || changes[1].At != 45*time.Minute {
		t.Fatalf("changes out of order: %+v", changes)
	}
	last := changes[1]
	if last.To.Concurrency != 120 || last.To.Service.OutputPerS != 40 || last.To.Refusal.Code != "1002" {
		t.Errorf("law after the last change: %+v", last.To)
	}
	var moved []int64
	for k, n := range last.To.Numbers() {
		if last.Moves(k) {
			moved = append(moved, *n)
		}
	}
	if d := cmp.Diff([]int64{120}, moved); d != "" {
		t.Errorf("numbers moved by the last change (-want +got):\n%s", d)
	}
}

// TestFaults reads files with one or more faults each and compares every
// message, with its place.
func TestFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fault files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse("f", strings.NewReader(string(text)))
			if _, ok := errors.AsType[*strict.ParseError](err); !ok {
				t.Fatalf("got %v, want a ParseError", err)
			}
			var want []string
			for line := range strings.Lines(string(text)) {
				if w, ok := strings.CutPrefix(line, "#! "); ok {
					want = append(want, strings.TrimSpace(w))
				}
			}
			if d := cmp.Diff(want, strings.Split(err.Error(), "\n")); d != "" {
				t.Errorf("faults (-want +got):\n%s", d)
			}
		})
	}
}

func TestParseBoundsItsInput(t *testing.T) {
	for name, text := range map[string]string{
		"empty":     "",
		"scalar":    "hello",
		"huge":      "name: " + strings.Repeat("x", strict.MaxFile),
		"deep flow": strings.Repeat("[", 5000),
		"deep list": strings.Repeat("- ", 5000) + "x",
		"two docs":  world + "\n---\n" + world,
		"binary":    "\x00\xff\xfe",
		"anchor":    strings.Replace(world, "about: one sentence", "about: &a one", 1),
		"alias":     strings.Replace(world, "about: one sentence", "about: *a", 1),
		"nan":       strings.Replace(world, "rate: 2.5", "rate: .nan", 1),
		"infinite":  strings.Replace(world, "rate: 2.5", "rate: .inf", 1),
		"many":      strings.Replace(world, "agents: [2]", "agents: ["+strings.Repeat("9999,", 3000)+"9]", 1),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f", strings.NewReader(text))
			faults, ok := errors.AsType[*strict.ParseError](err)
			if !ok {
				t.Fatalf("got %v, want a ParseError", err)
			}
			if n := len(faults.Faults); n == 0 || n > strict.MaxFaults+1 {
				t.Errorf("got %d faults", n)
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "f:") || len(line) > 300 {
					t.Errorf("not one clear line: %q", line)
				}
			}
		})
	}
}

func TestBuiltinsParse(t *testing.T) {
	names := List()
	if len(names) == 0 {
		t.Fatal("no built-in incidents")
	}
	for _, name := range names {
		inc, err := Builtin(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if inc.Name != name || inc.About == "" {
			t.Errorf("file %s calls itself %q, about %q", name, inc.Name, inc.About)
		}
	}
	if _, err := Builtin("no-such"); err == nil || !strings.Contains(err.Error(), names[0]) {
		t.Errorf("unknown name: got %v, want an error that lists the names", err)
	}
}

func TestCompressScalesTheScriptOnly(t *testing.T) {
	inc := parseWorld(t)
	before := parseWorld(t)
	got := inc.Compress(time.Minute)
	if d := cmp.Diff(before, inc); d != "" {
		t.Errorf("the original changed:\n%s", d)
	}
	want := parseWorld(t)
	want.Duration = time.Minute
	for k := range want.Fleet.Changes {
		want.Fleet.Changes[k].At /= 60
		want.Fleet.Changes[k].For /= 60
		want.Fleet.Changes[k].Over /= 60
	}
	p := &want.Providers[0]
	p.Law.DayElapsed = 24*time.Hour - 30*time.Second
	for k := range p.Changes {
		p.Changes[k].At /= 60
		p.Changes[k].Over /= 60
		p.Changes[k].To.DayElapsed = p.Law.DayElapsed
	}
	for k := range want.Workloads {
		want.Workloads[k].Start /= 60
		want.Workloads[k].Stop /= 60
		if walk := want.Workloads[k].Arrivals.Walk; walk != nil {
			for j := range walk.Jumps {
				walk.Jumps[j].At /= 60
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("compressed (-want +got):\n%s", d)
	}
}

// again writes an incident and reads it.
func again(t *testing.T, inc *Incident) *Incident {
	t.Helper()
	var text strings.Builder
	if err := Write(&text, inc); err != nil {
		t.Fatal(err)
	}
	out, err := Parse("again", strings.NewReader(text.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	return out
}

// TestWriteKeepsTheMeaning writes every built-in incident, and one that uses
// every key, and reads them again.
func TestWriteKeepsTheMeaning(t *testing.T) {
	all := []*Incident{parseWorld(t)}
	for _, name := range List() {
		inc, err := Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, inc)
	}
	for _, inc := range all {
		if d := cmp.Diff(inc, again(t, inc)); d != "" {
			t.Errorf("%s (-read +written and read):\n%s", inc.Name, d)
		}
	}
}

// TestVariantsAreBuiltIn: a file that lists other numbers of agents is there
// with each of them.
func TestVariantsAreBuiltIn(t *testing.T) {
	for _, n := range []int{8, 256} {
		base, err := Builtin("row-steady")
		if err != nil {
			t.Fatal(err)
		}
		got, err := Builtin(fmt.Sprintf("row-steady-%d", n))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(base.WithAgents(n), got); d != "" || got.Fleet.Agents != n {
			t.Errorf("with %d agents (-want +got):\n%s", n, d)
		}
	}
	for _, name := range []string{"row-steady-9", "row-steady-0", "row-steady--8", "row-steady-8-8", "ban-8", "../incident"} {
		if inc, err := Builtin(name); err == nil {
			t.Errorf("%s is %s", name, inc.Name)
		}
	}
	if n := len(List()); n < 60 {
		t.Errorf("%d built-in incidents with variants", n)
	}
}

func TestShareOfAPause(t *testing.T) {
	f := Fleet{Changes: []FleetChange{
		{At: 10 * time.Second, For: 5 * time.Second, Over: 20 * time.Second, Kind: Pause},
		{At: 20 * time.Second, For: 10 * time.Second, Kind: ControllerDown},
		{At: 40 * time.Second, For: 5 * time.Second, Kind: Pause},
	}}
	for at, want := range map[time.Duration]int64{
		0: PPM, 10 * time.Second: 0, 15*time.Second - 1: 0, 20 * time.Second: PPM / 4, 25 * time.Second: PPM / 2,
		35 * time.Second: PPM, 40 * time.Second: 0, 45*time.Second - 1: 0, 45 * time.Second: PPM,
	} {
		if got := f.Share(at); got != want {
			t.Errorf("share at %v: %d, want %d", at, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		at := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "at"))
		rank := rapid.Int64Range(0, PPM-1).Draw(t, "rank")
		open := f.Opening(at, rank)
		if open < at || f.Share(open) <= rank {
			t.Fatalf("from %v with rank %d: %v, where the share is %d", at, rank, open, f.Share(open))
		}
		if early := at + (open-at)/2; early < open-time.Microsecond && f.Share(early) > rank && f.Share(at) <= rank && early < 40*time.Second {
			t.Fatalf("from %v with rank %d: %v, though %v was open", at, rank, open, early)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(world)
	f.Add("a: [b, {c: d}]")
	f.Fuzz(func(t *testing.T, text string) {
		inc, err := Parse("f", strings.NewReader(text))
		var faults *strict.ParseError
		if (inc == nil) != (err != nil) || err != nil && !errors.As(err, &faults) {
			t.Fatalf("incident %v, error %v", inc != nil, err)
		}
		if err == nil {
			if d := cmp.Diff(inc, again(t, inc)); d != "" {
				t.Fatalf("written and read again (-want +got):\n%s", d)
			}
		}
	})
}
