package rig

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/cmd/weir/story"
	"weir/events"
	"weir/model"
	"weir/sim/incident"
)

// causes is a provider that refuses the seventh call at a time, and everything
// once the day's tokens are spent.
const causes = `
name: causes
duration: 1h
fleet: {agents: 2}
channels: [{name: main, provider: main}, {name: spare, provider: spare}]
routes: [{name: default, tiers: [[{channel: main}], [{channel: spare}]]}]
providers:
  - {name: main, concurrency: 6, tokens_per_day: 4000, service: {base: 100ms, output_tokens_per_s: 1000}, refusal: {status: 200, code: "2064", shape: minimax, delay: 5ms}, refusals: {day: {status: 429, code: insufficient_quota, shape: openai}}}
  - {name: spare, concurrency: 200, service: {base: 100ms, output_tokens_per_s: 1000}}
workload: [{name: w, route: default, arrivals: {kind: poisson, rate: 1}, input_tokens: {kind: fixed, value: 1}, output_tokens: {kind: fixed, value: 1}}]
`

// TestExplainsALiveRun brings a live fleet to each kind of trouble and holds
// that what is told of every cut, opening and degradation is what the record
// that it names holds.
func TestExplainsALiveRun(t *testing.T) {
	t.Parallel()
	inc, err := incident.Parse("causes", strings.NewReader(causes))
	if err != nil {
		t.Fatal(err)
	}
	p, err := StartProviders(inc, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	s, err := Start(t.Context(), Options{Dir: t.TempDir(), Config: inc.Told("test"), Agents: 2, Upstreams: p.Upstreams(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for i := range 30 {
		calls.Go(func() { callOn(ctx, s.Sidecars[i%2]) })
	}
	waitFor(t, "the spare channel works", func() bool {
		v, err := s.Loop.View(t.Context())
		return err == nil && v.Channels[0].Breaker == model.BreakerOpen.String() && v.Channels[1].Attempts["ok"] > 10
	})
	cancel()
	calls.Wait()

	told, records := tell(t, s)
	seen := map[string]int{}
	for _, e := range told {
		seen[e.Rule]++
		checkCause(t, &e, records[e.Seq])
	}
	for _, rule := range []string{"window.cut", "breaker.open", story.RuleDegraded} {
		if seen[rule] == 0 {
			t.Errorf("nothing of %s happened: %v", rule, seen)
		}
	}
}

// tell folds the log and returns what is told of the channel main, and the
// records.
func tell(t *testing.T, s *Stack) ([]story.Event, map[uint64]model.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	info, err := s.Log.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := s.Log.Read(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	st, decoder, records := story.New(model.NewFleet(), story.Options{Channel: "main", Keep: 10_000}), events.NewDecoder(), map[uint64]model.Record{}
	for seq := uint64(0); seq < info.Last; {
		e, err := reader.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := decoder.Record(e)
		if err != nil {
			t.Fatal(err)
		}
		st.Fold(rec)
		fact, err := events.Decode(e.Data) // the decoder uses its memory again
		if err != nil {
			t.Fatal(err)
		}
		rec.Fact = fact
		records[e.Seq], seq = rec, e.Seq
	}
	return st.Events(), records
}

// checkCause holds an event against the record that it names.
func checkCause(t *testing.T, e *story.Event, rec model.Record) {
	t.Helper()
	count := func(class model.Class, code string) (n int) {
		report, ok := rec.Fact.(*model.Attempts)
		if !ok {
			t.Errorf("record %d of %q is a %s", e.Seq, e.Text, rec.Fact.Kind())
			return 0
		}
		for i := range report.Attempts {
			a := &report.Attempts[i]
			if report.Channels[a.Channel].Channel == "main" && a.Class == class && a.Code == code {
				n++
			}
		}
		return n
	}
	want := func(n int, words string) {
		t.Helper()
		if n == 0 || !strings.Contains(e.Cause, fmt.Sprintf("%d %s", n, words)) {
			t.Errorf("record %d holds %d %s, told is %q", e.Seq, n, words, e.Cause)
		}
	}
	switch e.Rule {
	case "window.cut":
		want(count(model.ClassOverloaded, "2064"), "overloaded (2064)")
	case "breaker.open":
		want(count(model.ClassQuotaExhausted, "insufficient_quota"), "quota_exhausted (insufficient_quota)")
		if !strings.Contains(e.Reason, "quota exhausted") {
			t.Errorf("record %d opened the breaker: %q", e.Seq, e.Reason)
		}
	case story.RuleDegraded:
		report, ok := rec.Fact.(*model.Attempts)
		degraded := false
		for i := 0; ok && i < len(report.Attempts); i++ {
			degraded = degraded || report.Attempts[i].Degraded
		}
		if !degraded || !strings.Contains(e.Text, "spare") || !strings.Contains(e.Text, "main has its breaker "+model.BreakerOpen.String()) {
			t.Errorf("record %d, degraded %t: %q; cause %q", e.Seq, degraded, e.Text, e.Cause)
		}
	}
}
