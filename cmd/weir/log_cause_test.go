package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/story"
	"weir/events"
	"weir/model"
	"weir/sim/incident"
	"weir/sim/world"
)

// truth is a run of the simulator, of which everything is known: its records,
// and what really happened at the provider in each second.
type truth struct {
	*testing.T
	inc     *incident.Incident
	seconds []world.Second
	records map[uint64]model.Record
	told    []story.Event // oldest first
	seen    map[string]int
}

// explainedRun lives the demo's second phase through in virtual time, and explains
// the journal of it.
func explainedRun(t *testing.T, inc *incident.Incident, params *model.Params, seed uint64) *truth {
	t.Helper()
	r := &truth{T: t, inc: inc, records: map[uint64]model.Record{}, seen: map[string]int{}}
	m := lived(t, world.Config{Incident: inc, Seed: seed, Params: params, Observe: func(s world.Second) { r.seconds = append(r.seconds, s) }})
	for _, e := range m.entries {
		fact, err := events.Decode(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		r.records[e.Seq] = model.Record{Seq: e.Seq, Time: e.Time, Fact: fact}
	}
	got := weir(t, "", "log", "explain", "m2.7", m.write(), "--json", "--last", "10000")
	var why story.Why
	if err := json.Unmarshal([]byte(got.stdout), &why); err != nil || why.Omitted > 0 {
		t.Fatalf("%v, %d events left out: %s", err, why.Omitted, got.stderr)
	}
	for i := range why.Events {
		e := why.Events[len(why.Events)-1-i]
		r.told = append(r.told, e)
		r.seen[e.Rule]++
	}
	return r
}

// at is when in the script an event happened.
func (r *truth) at(e *story.Event) time.Duration {
	return (model.Nanos(e.Time) - evening - model.Second).Duration()
}

// capacity is what the provider really took at a time, in the second of an
// instant.
func (r *truth) capacity(at time.Duration) float64 {
	n := min(int(at/time.Second), len(r.seconds)-1)
	return float64(r.seconds[n].Capacity)
}

// refused is how many calls the provider refused around an instant.
func (r *truth) refused(at time.Duration) (n int64) {
	for _, s := range r.seconds {
		if d := time.Duration(s.At)*time.Second - at; d > -time.Second && d < 2*time.Second {
			for _, k := range s.Refused {
				n += k
			}
		}
	}
	return n
}

// lately is how far back the calls are looked at that made one judge.
const lately = 300 * time.Millisecond

// slowness is how many times as long as on an idle provider the calls took
// that were answered just before an instant.
func (r *truth) slowness(at time.Duration) float64 {
	service := &r.inc.Providers[0].Law.Service
	took, idle := 0.0, 0.0
	for _, rec := range r.records {
		report, ok := rec.Fact.(*model.Attempts)
		if when := (rec.Time - evening - model.Second).Duration(); !ok || when <= at-lately || when > at {
			continue
		}
		for i := range report.Attempts {
			if a := &report.Attempts[i]; a.Class == model.ClassOK {
				took += a.Took.Duration().Seconds()
				idle += service.Base.Seconds() + float64(a.In)/float64(service.PrefillPerS) + float64(a.Out)/float64(service.OutputPerS)
			}
		}
	}
	return took / idle
}

// held is how many attempts of a class the event's record holds for the
// channel.
func (r *truth) held(e *story.Event, class model.Class, code string) (n int) {
	report, ok := r.records[e.Seq].Fact.(*model.Attempts)
	if !ok {
		r.Errorf("record %d of %q is a %s", e.Seq, e.Text, r.records[e.Seq].Fact.Kind())
		return 0
	}
	for i := range report.Attempts {
		if a := &report.Attempts[i]; report.Channels[a.Channel].Channel == "m2.7" && a.Class == class && a.Code == code {
			n++
		}
	}
	return n
}

// slower holds that a window was cut for what really made calls slow: over
// seven tenths of what the provider has left are in flight.
func (r *truth) slower(e *story.Event) {
	var ratio, inflight int
	if _, err := fmt.Sscanf(e.Reason, "calls take %d %% of their baseline with %d in flight", &ratio, &inflight); err != nil {
		r.Errorf("%q: %v", e.Reason, err)
		return
	}
	at := r.at(e)
	if share := float64(inflight) / r.capacity(at); share < 0.65 || share > 1.4 {
		r.Errorf("at %s: told is %q, %.2f of what the provider takes", at, e.Reason, share)
	}
	if slower := r.slowness(at); slower < 1.08 {
		r.Errorf("at %s: told is %q, calls really take %.2f of their time on an idle provider", at, e.Reason, slower)
	}
	ok, refused := r.held(e, model.ClassOK, ""), r.held(e, model.ClassOverloaded, "2064")
	if refused > 0 || !strings.Contains(e.Cause, fmt.Sprintf("%d ok", ok)) {
		r.Errorf("record %d holds %d ok and %d refused, told is %q", e.Seq, ok, refused, e.Cause)
	}
}

// turnedAway holds that a cut or an opening names the refusals that it follows,
// as many as its record holds.
func (r *truth) turnedAway(e *story.Event) {
	n := r.held(e, model.ClassOverloaded, "2064")
	if n == 0 || !strings.Contains(e.Cause, fmt.Sprintf("%d overloaded (2064)", n)) || r.refused(r.at(e)) == 0 {
		r.Errorf("%s, record %d: %d refused there, %d around it by the provider; told is %q", e.Rule, e.Seq, n, r.refused(r.at(e)), e.Cause)
	}
	if e.Rule == string(model.RuleWindowCut) && !strings.Contains(e.Reason, "(code 2064)") {
		r.Errorf("record %d: no code in %q", e.Seq, e.Reason)
	}
}

// lesser holds that what is told of the way to the spare channel is how the
// main one stood then.
func (r *truth) lesser(e *story.Event, breaker string) {
	report, ok := r.records[e.Seq].Fact.(*model.Attempts)
	degraded := false
	for i := 0; ok && i < len(report.Attempts); i++ {
		degraded = degraded || report.Attempts[i].Degraded
	}
	if !degraded || !strings.Contains(e.Text, "tier 1, channel spare: m2.7 has its breaker "+breaker) {
		r.Errorf("record %d, degraded %t, breaker %s: %q", e.Seq, degraded, breaker, e.Text)
	}
}

func demoIncident(t *testing.T, length time.Duration) *incident.Incident {
	t.Helper()
	inc, err := incident.Builtin("2064-cascade")
	if err != nil {
		t.Fatal(err)
	}
	return inc.Compress(length)
}

// TestExplainsTheDemo explains the demo's incident, in its length there: calls
// get slower while the provider shrinks, and none needs to be refused.
func TestExplainsTheDemo(t *testing.T) {
	for seed := range uint64(3) {
		r := explainedRun(t, demoIncident(t, 30*time.Second), nil, seed+1)
		for i := range r.told {
			e := &r.told[i]
			switch e.Rule {
			case string(model.RuleLatencyCut):
				r.slower(e)
			case string(model.RuleWindowCut), string(model.RuleBreakerOpen):
				r.turnedAway(e)
			case story.RuleDegraded:
				t.Errorf("there is one tier, told is %q", e.Text)
			}
		}
		if r.seen[string(model.RuleLatencyCut)] < 3 {
			t.Errorf("seed %d: %v happened, want cuts for latency", seed+1, r.seen)
		}
	}
}

// TestExplainsRefusals explains the same incident where Weir does not look at
// latency, so that it comes to refusals, the provider shuts out who is refused
// too often, and there is a spare channel.
func TestExplainsRefusals(t *testing.T) {
	inc := demoIncident(t, time.Minute)
	ban := incident.Ban{Refusals: 5, In: time.Minute, For: 2 * time.Minute}
	spare := inc.Providers[0]
	spare.Name, spare.Changes = "spare", nil
	inc.Providers[0].Law.Ban = ban
	for i := range inc.Providers[0].Changes {
		inc.Providers[0].Changes[i].To.Ban = ban
	}
	inc.Providers = append(inc.Providers, spare)
	inc.Channels = append(inc.Channels, incident.Channel{Name: "spare", Provider: "spare"})
	main := inc.Routes[0].Tiers[0].Channels[0]
	inc.Routes[0].Tiers = append(inc.Routes[0].Tiers, incident.Tier{Channels: []incident.Weighted{{Channel: "spare", Weight: main.Weight}}})
	params := model.DefaultParams()
	params.LatencyCalm, params.LatencyHigh = 3_000_000, 10_000_000
	seen := map[string]int{}
	for seed := range uint64(3) {
		r := explainedRun(t, inc, &params, seed+1)
		breaker := model.BreakerClosed
		for i := range r.told {
			e := &r.told[i]
			seen[e.Rule]++
			switch e.Rule {
			case string(model.RuleWindowCut):
				r.turnedAway(e)
			case string(model.RuleBreakerOpen):
				breaker = model.BreakerOpen
				r.turnedAway(e)
			case string(model.RuleBreakerHalf):
				breaker = model.BreakerHalfOpen
			case string(model.RuleBreakerClose):
				breaker = model.BreakerClosed
			case string(model.RuleLatencyCut):
				t.Errorf("latency is not looked at, told is %q", e.Text)
			case story.RuleDegraded:
				if !strings.Contains(e.Text, "is back at its main tier") {
					r.lesser(e, breaker.String())
				}
			}
		}
	}
	for _, rule := range []string{string(model.RuleWindowCut), string(model.RuleBreakerOpen), story.RuleDegraded} {
		if seen[rule] == 0 {
			t.Errorf("nothing of %s happened: %v", rule, seen)
		}
	}
}
