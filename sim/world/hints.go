package world

import (
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/provider"
)

// hints are the limits that an answer's headers told, as the agent's
// classifier reads them: by dimension, a limit that is not shown left out.
// Whoever gets the slice may keep it.
func hints(h *provider.Headers, shape incident.Shape) []model.LimitHint {
	if !h.Sent {
		return nil
	}
	var told []model.LimitHint
	see := func(d model.Dimension, f provider.Figure) {
		if f.Limit >= 0 {
			told = append(told, model.LimitHint{Dimension: d, Limit: f.Limit, Remaining: f.Remaining, Reset: model.Nanos(written(f.Reset, shape))})
		}
	}
	see(model.DimRequests, h.Requests)
	see(model.DimTokens, h.Tokens)
	return told
}

// written is a reset as precise as a shape's headers write it: Anthropic's are
// instants in whole seconds, the others' durations in milliseconds.
func written(reset time.Duration, shape incident.Shape) time.Duration {
	if shape == incident.ShapeAnthropic {
		return reset.Truncate(time.Second)
	}
	return reset.Round(time.Millisecond)
}

// judge completes a refusal with what Weir's classifier makes of it beyond its
// words: whom it concerns; which limit is used up when only the headers tell;
// and the wait until that is whole again when no other is stated.
func judge(o *model.Outcome) {
	if !o.Class.Refused() {
		return
	}
	o.Scope = model.ScopeChannel
	if o.Class == model.ClassQuotaExhausted && o.Dimension == model.DimCredits {
		o.Scope = model.ScopeGroup // one purse pays for all
	}
	if o.Class != model.ClassRateLimited && o.Class != model.ClassQuotaExhausted {
		return
	}
	spent := exhausted(o.Hints, o.Dimension)
	if spent == nil {
		return
	}
	if o.Dimension == model.DimNone && o.Class == model.ClassRateLimited {
		o.Dimension = spent.Dimension
	}
	if o.RetryAfter < 0 {
		o.RetryAfter = spent.Reset
	}
}

// exhausted is the limit that is used up: of dimension d if that is among
// them, else the one that takes longest to come back; nil for none.
func exhausted(told []model.LimitHint, d model.Dimension) *model.LimitHint {
	var found *model.LimitHint
	for i := range told {
		switch h := &told[i]; {
		case h.Remaining != 0:
		case found == nil, h.Dimension == d, found.Dimension != d && h.Reset > found.Reset:
			found = h
		}
	}
	return found
}
