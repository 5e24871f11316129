package probe

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"weir/model"
)

// play drives a plan in a time of its own; answer judges each call.
func play(t *testing.T, p *Plan, took time.Duration, answer func(now time.Duration, inFlight int) Result) (most int) {
	t.Helper()
	type flying struct {
		id  int
		end time.Duration
		r   Result
	}
	var live []flying
	now := time.Duration(0)
	for range 1_000_000 {
		m := p.Next(now)
		if m.Done {
			if len(live) > 0 {
				t.Fatal("done with calls in flight")
			}
			return most
		}
		if m.Send {
			r := answer(now, len(live))
			end := now + took
			if r.Class.Refused() {
				end = now + time.Millisecond
			}
			live = append(live, flying{m.Call, end, r})
			most = max(most, len(live))
			continue
		}
		next := -1
		for i, f := range live {
			if f.end <= m.Wake && (next < 0 || f.end < live[next].end) {
				next = i
			}
		}
		if next < 0 {
			if m.Wake == never {
				t.Fatal("waits for ever")
			}
			now = max(now, m.Wake)
			continue
		}
		now = max(now, live[next].end)
		p.Ended(now, live[next].id, live[next].r)
		live = append(live[:next], live[next+1:]...)
	}
	t.Fatal("no end")
	return 0
}

// TestPlanEnds answers with anything at all: the plan ends, within its bounds.
func TestPlanEnds(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := Bounds{Requests: 1 + rng.Int64N(2000), Tokens: 1 + rng.Int64N(300_000), Refusals: 1 + rng.Int64N(50), Time: time.Duration(1 + rng.Int64N(int64(20*time.Minute))), InFlight: 1 + rng.Int64N(100)}
		p := NewPlan(b, Dimensions())
		bad := rng.IntN(100)
		answer := func(time.Duration, int) Result {
			r := Result{Class: model.ClassOK, RetryAfter: -1, Tokens: rng.Int64N(50)}
			if rng.IntN(100) < bad {
				r.Class = model.Classes[rng.IntN(len(model.Classes))]
				r.Dimension = model.Dimension(rng.IntN(6))
				r.RetryAfter = time.Duration(rng.Uint64())
				r.Hints = []model.LimitHint{{Dimension: model.Dimension(rng.IntN(6)), Limit: int64(rng.Uint64()), Remaining: int64(rng.Uint64()), Reset: model.Nanos(rng.Uint64())}}
			}
			return r
		}
		most := play(t, p, time.Duration(1+rng.Int64N(int64(3*time.Second))), answer)
		s := p.Spent()
		if s.Requests > b.Requests || int64(most) > max(b.InFlight, 1) {
			t.Errorf("seed %d: spent %+v with %d at once of %+v", seed, s, most, b)
		}
		for _, f := range p.Findings() {
			if f.Low < 0 || f.High != nil && *f.High < f.Low || f.High == nil && (f.Note == "" || f.Proposed != nil) || f.Proposed != nil && *f.Proposed > max(f.Low, 1) {
				t.Errorf("seed %d: finding %+v", seed, f)
			}
		}
	}
}

// TestDailyHeaderIsNotARate hears of a limit that counts over a day.
func TestDailyHeaderIsNotARate(t *testing.T) {
	p := NewPlan(Bounds{Requests: 100, Tokens: 100_000, Refusals: 9, Time: time.Minute, InFlight: 4}, []string{"requests"})
	play(t, p, time.Second, func(time.Duration, int) Result {
		return Result{Class: model.ClassOK, RetryAfter: -1, Hints: []model.LimitHint{{Dimension: model.DimRequests, Limit: 14_400, Remaining: 14_399, Reset: 6 * model.Second}}}
	})
	if f := p.Findings()[0]; f.Source == "header" {
		t.Errorf("14,400 a day are taken for a minute's: %+v", f)
	}
}

// TestKeyStaysHere answers with a way elsewhere.
func TestKeyStaysHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Host != "provider.test" {
				t.Errorf("a call went to %s with key %q", r.URL.Host, r.Header.Get("Authorization"))
			}
			http.Redirect(w, r, "http://elsewhere.test/v1/chat/completions", http.StatusTemporaryRedirect)
		})
		_, err := Run(t.Context(), Options{
			Target: Target{URL: "http://provider.test/v1", API: OpenAI, Model: "m", Key: "secret", Client: &http.Client{Transport: direct{h}}},
			Bounds: bounds, Dimensions: Dimensions(),
		})
		if err == nil {
			t.Error("want a fault: nothing can be found")
		}
	})
}
