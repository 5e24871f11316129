package rig

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/controller"
	"weir/events"
	"weir/model"
	"weir/sim/incident"
)

// steady is a provider that never refuses what the test sends, so slow that
// the pace of the calls is its own and not the machine's.
const steady = `
name: steady
duration: 1h
fleet: {agents: 2}
channels: [{name: main, provider: main}]
routes: [{name: default, tiers: [[{channel: main}]]}]
providers: [{name: main, concurrency: 200, service: {base: 400ms, output_tokens_per_s: 1000}}]
workload: [{name: w, route: default, arrivals: {kind: poisson, rate: 1}, input_tokens: {kind: fixed, value: 1}, output_tokens: {kind: fixed, value: 1}}]
`

// clients call through the sidecars until stop is called, each a call after
// the other, and count.
func clients(t *testing.T, sidecars []string, n int) (answered, failed *atomic.Int64, stop func()) {
	t.Helper()
	answered, failed = new(atomic.Int64), new(atomic.Int64)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range n {
		url := sidecars[i%len(sidecars)] + "/v1/chat/completions"
		all.Go(func() {
			for ctx.Err() == nil {
				body := `{"model": "default", "max_tokens": 20, "messages": [{"role": "user", "content": "hello"}]}`
				resp, err := http.Post(url, "application/json", bytes.NewReader([]byte(body)))
				if err != nil {
					failed.Add(1)
					continue
				}
				_, err = io.Copy(io.Discard, resp.Body)
				if resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
					failed.Add(1)
					continue
				}
				answered.Add(1)
			}
		})
	}
	return answered, failed, sync.OnceFunc(func() { cancel(); all.Wait() })
}

// TestBadParametersAreTakenBack pushes parameters that leave the fleet one
// slot, under guard, while twenty clients call. They are taken back within the
// guard's time, the calls go on, and none fails; parameters that change
// nothing are kept.
func TestBadParametersAreTakenBack(t *testing.T) {
	t.Parallel()
	inc, err := incident.Parse("steady", strings.NewReader(steady))
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
	answered, failed, stop := clients(t, s.Sidecars, 20)
	defer stop()
	waitFor(t, "some answers", func() bool { return answered.Load() > 200 })

	before, beforeSeq := params(t, s)
	bad := before
	bad.Name, bad.Params.WindowMax, bad.Params.WindowFloor = "bad", 1000, 1000
	bad.Guard = model.Guard{For: model.Minute, Goodput: -200_000, Waste: 50_000}
	verdict := s.watch(t, &bad)
	if !strings.Contains(verdict.Reason, "taken back") {
		t.Fatalf("verdict: %s", verdict.Reason)
	}
	after, afterSeq := params(t, s)
	if after != before || afterSeq != beforeSeq {
		t.Errorf("in force are %s of record %d, want %s of %d", after.Name, afterSeq, before.Name, beforeSeq)
	}
	n := answered.Load()
	// More than a guard needs of the time before it, and none of what was bad.
	waitFor(t, "answers go on", func() bool { return answered.Load() > n+500 })

	good := before
	good.Name, good.Params.Plateau = "good", before.Params.Plateau+model.Second
	good.Guard = model.Guard{For: model.GuardLeast, Goodput: -model.One, Waste: 50_000}
	if verdict := s.watch(t, &good); verdict.Params != good.Params.Hash() {
		t.Errorf("verdict: %s", verdict.Reason)
	}
	stop()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d calls failed", n)
	}
}

func params(t *testing.T, s *Stack) (model.ParamSet, uint64) {
	t.Helper()
	set, seq, err := s.Loop.Params(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return set, seq
}

// watch pushes a guarded set and returns the verdict.
func (s *Stack) watch(t *testing.T, p *model.ParamSet) controller.Decision {
	t.Helper()
	seq, err := s.Log.Append(t.Context(), events.Encode(nil, p))
	if err != nil {
		t.Fatal(err)
	}
	var found []controller.Decision
	waitFor(t, "a verdict", func() bool {
		found, err = s.Loop.Decisions(controller.DecisionQuery{From: seq + 1, Rule: string(model.RuleParams), Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		return len(found) > 0
	})
	t.Log(found[0].Reason)
	return found[0]
}

// waitFor waits until what is true, which it is long before two minutes are over.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited two minutes: %s", what)
		}
	}
}
