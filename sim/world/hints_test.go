package world

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/provider"
)

// TestHints reads headers as the classifier reads the emulator's.
func TestHints(t *testing.T) {
	h := provider.Headers{
		Sent:     true,
		Requests: provider.Figure{Limit: 600, Remaining: 0, Reset: 4_900_400 * time.Microsecond},
		Tokens:   provider.Figure{Limit: -1},
	}
	for shape, reset := range map[incident.Shape]model.Nanos{incident.ShapeOpenAI: 4900e6, incident.ShapeAnthropic: 4e9} {
		want := []model.LimitHint{{Dimension: model.DimRequests, Limit: 600, Remaining: 0, Reset: reset}}
		if d := cmp.Diff(want, hints(&h, shape)); d != "" {
			t.Errorf("%s: %s", shape, d)
		}
	}
	h.Sent = false
	if got := hints(&h, incident.ShapeOpenAI); got != nil {
		t.Errorf("no headers told %v", got)
	}
}

// TestJudge names the limit that only headers tell.
func TestJudge(t *testing.T) {
	spent := func(r, k int64) []model.LimitHint {
		return []model.LimitHint{
			{Dimension: model.DimRequests, Limit: 60, Remaining: r, Reset: 5e9},
			{Dimension: model.DimTokens, Limit: 9000, Remaining: k, Reset: 20e9},
		}
	}
	for name, tc := range map[string]struct {
		in     model.Outcome
		dim    model.Dimension
		wait   model.Nanos
		scoped model.Scope
	}{
		"requests spent":            {model.Outcome{Class: model.ClassRateLimited, RetryAfter: -1, Hints: spent(0, 7)}, model.DimRequests, 5e9, model.ScopeChannel},
		"both spent, longer":        {model.Outcome{Class: model.ClassRateLimited, RetryAfter: -1, Hints: spent(0, 0)}, model.DimTokens, 20e9, model.ScopeChannel},
		"both spent, one named":     {model.Outcome{Class: model.ClassRateLimited, Dimension: model.DimRequests, RetryAfter: -1, Hints: spent(0, 0)}, model.DimRequests, 5e9, model.ScopeChannel},
		"a stated wait stays":       {model.Outcome{Class: model.ClassRateLimited, RetryAfter: 1e9, Hints: spent(0, 7)}, model.DimRequests, 1e9, model.ScopeChannel},
		"nothing spent":             {model.Outcome{Class: model.ClassRateLimited, RetryAfter: -1, Hints: spent(3, 7)}, model.DimNone, -1, model.ScopeChannel},
		"overload is no limit":      {model.Outcome{Class: model.ClassOverloaded, RetryAfter: -1, Hints: spent(0, 7)}, model.DimNone, -1, model.ScopeChannel},
		"credits are the account's": {model.Outcome{Class: model.ClassQuotaExhausted, Dimension: model.DimCredits, RetryAfter: -1}, model.DimCredits, -1, model.ScopeGroup},
		"success says nothing":      {model.Outcome{Class: model.ClassOK, RetryAfter: -1, Hints: spent(0, 7)}, model.DimNone, -1, model.ScopeRequest},
	} {
		o := tc.in
		judge(&o)
		if o.Dimension != tc.dim || o.RetryAfter != tc.wait || o.Scope != tc.scoped {
			t.Errorf("%s: %v, wait %d, %v; want %v, %d, %v", name, o.Dimension, o.RetryAfter, o.Scope, tc.dim, tc.wait, tc.scoped)
		}
	}
}

// TestHeadersReachThePolicy runs an incident whose answers all carry headers:
// each outcome a door hears has them.
func TestHeadersReachThePolicy(t *testing.T) {
	inc, err := incident.Builtin("row-headers")
	if err != nil {
		t.Fatal(err)
	}
	w, err := begin(Config{Incident: inc, Seed: 1, Policy: PolicyNone})
	if err != nil {
		t.Fatal(err)
	}
	var ok, refused int
	for _, a := range w.agents {
		a.door = &hearing{door: a.door, heard: func(o model.Outcome) {
			if len(o.Hints) != 2 || o.Hints[0].Limit != 600 || o.Hints[1].Limit != 1_000_000 {
				t.Fatalf("%v told %v", o.Class, o.Hints)
			}
			if o.Class == model.ClassOK {
				ok++
			} else {
				refused++
			}
		}}
	}
	w.play()
	if ok == 0 || refused == 0 {
		t.Errorf("heard %d successes and %d refusals", ok, refused)
	}
}

// hearing is a door that is listened at.
type hearing struct {
	door
	heard func(model.Outcome)
}

func (h *hearing) settled(i, k uint32, o model.Outcome) {
	h.heard(o)
	h.door.settled(i, k, o)
}
