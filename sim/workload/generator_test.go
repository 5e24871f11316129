package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/sim/incident"
)

const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
)

// world parses an incident of four agents with one workload of the given lines.
func world(t *testing.T, lines string) *incident.Incident {
	t.Helper()
	text := `
name: test
duration: 60s
fleet: {agents: 4}
channels: [{name: c, provider: main}]
routes: [{name: r, tiers: [[{channel: c}]]}]
providers: [{name: main}]
workload:
  - name: w
    route: r
`
	for line := range strings.Lines(strings.TrimSpace(lines) + "\n") {
		text += "    " + strings.TrimSpace(line) + "\n"
	}
	inc, err := incident.Parse("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

const fixed = "\ninput_tokens: {kind: fixed, value: 100}\noutput_tokens: {kind: fixed, value: 10}"

func generator(t *testing.T, inc *incident.Incident, traces map[string]Trace) *Generator {
	t.Helper()
	g, err := New(inc, 1, traces)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// drain takes all requests up to an instant and checks order and numbers.
func drain(t *testing.T, g *Generator, until int64) []Request {
	t.Helper()
	var all []Request
	seen := map[uint64]bool{}
	last := int64(0)
	for {
		next := g.NextAt()
		r, ok := g.Next(until)
		if !ok {
			return all
		}
		if r.At < last || r.At < next || r.At > until {
			t.Fatalf("request at %d after %d, announced for %d, until %d", r.At, last, next, until)
		}
		if seen[r.ID] {
			t.Fatalf("request number %x twice", r.ID)
		}
		seen[r.ID], last = true, r.At
		all = append(all, r)
	}
}

// TestBatchesOverlap is the definition: every `every` a batch begins, its
// groups go `every` apart, so that each tick carries a group of every batch
// that is under way.
func TestBatchesOverlap(t *testing.T) {
	inc := world(t, "arrivals: {kind: batch, size: 7, parallel: 3, every: 200ms}\nstop: 800ms"+fixed)
	perTick := map[int][]string{}
	base := int64(-1)
	for _, r := range drain(t, generator(t, inc, nil), 60*sec) {
		if r.Agent != 2 {
			continue
		}
		if base < 0 {
			base = r.At
		}
		tick := int((r.At - base) / (200 * ms))
		n := int(r.ID & streamMask)
		perTick[tick] = append(perTick[tick], fmt.Sprintf("%d.%d", n/7, n%7))
	}
	want := map[int][]string{
		0: {"0.0", "0.1", "0.2"},
		1: {"1.0", "1.1", "1.2", "0.3", "0.4", "0.5"},
		2: {"2.0", "2.1", "2.2", "1.3", "1.4", "1.5", "0.6"},
		3: {"3.0", "3.1", "3.2", "2.3", "2.4", "2.5", "1.6"},
		4: {"3.3", "3.4", "3.5", "2.6"}, // no batch begins at or after the stop
		5: {"3.6"},
	}
	if d := cmp.Diff(want, perTick); d != "" {
		t.Errorf("batch.call per tick (-want +got):\n%s", d)
	}
}

func TestBatchOfTheCascadeIsFiftyCallsASecondAnAgent(t *testing.T) {
	inc, err := incident.Builtin("2064-cascade")
	if err != nil {
		t.Fatal(err)
	}
	perAgent := map[int]int{}
	for _, r := range drain(t, generator(t, inc, nil), 100*sec) {
		perAgent[r.Agent]++
		if r.Output < 500 || r.Output > 800 || r.MaxTokens != 800 || r.Deadline != r.At+600*sec {
			t.Fatalf("request %+v", r)
		}
	}
	for agent := range 4 {
		if n := perAgent[agent]; n < 4980 || n > 5010 {
			t.Errorf("agent %d: %d calls in 100 s, want about 5000", agent, n)
		}
	}
}

func TestPoissonKeepsItsRateOverTheFleet(t *testing.T) {
	inc := world(t, "arrivals: {kind: poisson, rate: 100}"+fixed)
	perAgent := map[int]int{}
	all := drain(t, generator(t, inc, nil), 60*sec)
	for _, r := range all {
		perAgent[r.Agent]++
	}
	if n := len(all); n < 5700 || n > 6300 {
		t.Errorf("%d requests in a minute, want about 6000", n)
	}
	for agent := range 4 {
		if n := perAgent[agent]; n < 1300 || n > 1700 {
			t.Errorf("agent %d has %d requests, want about 1500", agent, n)
		}
	}
}

func TestClosedUsersWaitForTheirAnswer(t *testing.T) {
	inc := world(t, "arrivals: {kind: closed, users: 8, think: 1s}"+fixed)
	g := generator(t, inc, nil)
	first := drain(t, g, 59*sec)
	if len(first) != 8 {
		t.Fatalf("%d requests without any answer, want one for each of 8 users", len(first))
	}
	perAgent := map[int]int{}
	for _, r := range first {
		perAgent[r.Agent]++
	}
	if d := cmp.Diff(map[int]int{0: 2, 1: 2, 2: 2, 3: 2}, perAgent); d != "" {
		t.Errorf("users per agent (-want +got):\n%s", d)
	}
	g.Answered(30*sec, first[3], true)
	again := drain(t, g, 59*sec)
	if len(again) != 1 || again[0].User != first[3].User || again[0].At < 30*sec || again[0].ID == first[3].ID {
		t.Errorf("after one answer: %+v", again)
	}
	g.Answered(60*sec, first[0], true)
	if g.NextAt() != Never {
		t.Error("a user asks after the stop")
	}
}

// TestOtherAgentsChangeNothing: what an agent's application wants does not
// depend on who else is there.
func TestOtherAgentsChangeNothing(t *testing.T) {
	inc := world(t, "arrivals: {kind: batch, size: 4, every: 1s}\ninput_tokens: {kind: lognormal, mean: 1000, cv: 1}\noutput_tokens: {kind: uniform, min: 1, max: 1000}")
	of := func(agents, agent int) (out []Request) {
		g := generator(t, inc, nil)
		g.SetAgents(0, agents)
		for _, r := range drain(t, g, 60*sec) {
			if r.Agent == agent {
				out = append(out, r)
			}
		}
		return out
	}
	if d := cmp.Diff(of(4, 1), of(9, 1)); d != "" {
		t.Errorf("agent 1 beside 3 and beside 8 others:\n%s", d)
	}
}

func TestAgentsThatLeaveAndComeBackCountOn(t *testing.T) {
	inc := world(t, "arrivals: {kind: batch, size: 4, parallel: 2, every: 1s}"+fixed)
	g := generator(t, inc, nil)
	all := drain(t, g, 10*sec)
	g.SetAgents(10*sec, 1)
	alone := drain(t, g, 20*sec)
	for _, r := range alone {
		if r.Agent != 0 {
			t.Fatalf("request of an agent that left: %+v", r)
		}
	}
	g.SetAgents(20*sec, 2)
	back := drain(t, g, 30*sec)
	seen := map[uint64]bool{}
	perAgent := map[int]int{}
	for _, r := range slices.Concat(all, alone, back) {
		if seen[r.ID] {
			t.Fatalf("request number %x twice", r.ID)
		}
		seen[r.ID] = true
	}
	for _, r := range back {
		perAgent[r.Agent]++
	}
	if keys := slices.Sorted(maps.Keys(perAgent)); !slices.Equal(keys, []int{0, 1}) || perAgent[1] < 30 {
		t.Errorf("requests after agent 1 came back: %v", perAgent)
	}
}

func TestSizesFollowTheirLaw(t *testing.T) {
	inc := world(t, `
		arrivals: {kind: poisson, rate: 1000}
		input_tokens: {kind: choice, values: [2000, 4000, 8000], weights: [3, 5, 2]}
		output_tokens: {kind: lognormal, mean: 500, cv: 0.5}`)
	counts := map[int64]int{}
	sum := int64(0)
	all := drain(t, generator(t, inc, nil), 60*sec)
	for _, r := range all {
		counts[r.Input]++
		sum += r.Output
	}
	for value, share := range map[int64]float64{2000: 0.3, 4000: 0.5, 8000: 0.2} {
		if got := float64(counts[value]) / float64(len(all)); got < share-0.01 || got > share+0.01 {
			t.Errorf("share of %d: %.3f, want %.1f", value, got, share)
		}
	}
	if mean := sum / int64(len(all)); mean < 490 || mean > 510 {
		t.Errorf("mean output %d, want about 500", mean)
	}
}

func TestAgainFollowsTheHabit(t *testing.T) {
	back := incident.Retry{Kind: incident.RetryBackoff, After: time.Second, Multiplier: 2 * incident.PPM, Max: 5 * time.Second, Attempts: 5}
	var waits []time.Duration
	for try := int64(1); ; try++ {
		w, ok := Again(back, 1, 2, try)
		if !ok {
			break
		}
		waits = append(waits, w.Round(time.Microsecond))
	}
	if d := cmp.Diff([]time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second}, waits); d != "" {
		t.Errorf("backoff (-want +got):\n%s", d)
	}
	back.Jitter = incident.PPM / 5
	for request := range uint64(1000) {
		if w, _ := Again(back, 1, request, 1); w < 800*time.Millisecond || w > 1200*time.Millisecond {
			t.Fatalf("wait %v outside 1s ± 20 %%", w)
		}
	}
	if w, ok := Again(incident.Retry{Kind: incident.RetryRequeue, After: time.Second}, 1, 2, 1000); w != time.Second || !ok {
		t.Errorf("requeue: %v %v", w, ok)
	}
	if _, ok := Again(incident.Retry{Kind: incident.RetryNone}, 1, 2, 1); ok {
		t.Error("no retry: tries again")
	}
}
