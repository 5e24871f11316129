package probe

import (
	"slices"
	"time"

	"weir/model"
)

// Ask is the size of a call in tokens.
type Ask struct{ Input, Output int64 }

func (a Ask) tokens() int64 { return a.Input + a.Output }

// Result is how a call ended.
type Result struct {
	Class     model.Class
	Dimension model.Dimension
	// Code is the provider's own word, empty for none.
	Code string
	// Broken is why no whole answer came, empty when one did.
	Broken string
	// RetryAfter is the wait the answer names; negative for none.
	RetryAfter time.Duration
	Hints      []model.LimitHint
	// Tokens are those the answer says it used; 0 when it does not say.
	Tokens int64
}

// call is one call of a plan.
type call struct {
	ask         Ask
	sent, ended time.Duration
	beside      int64 // calls in flight when it was sent
	over        bool
	result      Result
}

// tokens are what the call used, or may use.
func (c *call) tokens() int64 {
	switch {
	case !c.over:
		return c.ask.tokens()
	case c.result.Tokens > 0:
		return c.result.Tokens
	case c.result.Class == model.ClassOK:
		return c.ask.tokens()
	}
	return 0 // refused
}

func (c *call) ok() bool            { return c.over && c.result.Class == model.ClassOK }
func (c *call) took() time.Duration { return c.ended - c.sent }

// Step is what came of a stretch of calls at one level.
type Step struct {
	// Stage is "concurrency", "requests" or "tokens"; Level counts calls at
	// once, or requests or tokens a minute.
	Stage string `json:"stage"`
	Level int64  `json:"level"`
	// Sent is the sum of OK, Refused and Failed.
	Sent    int `json:"sent"`
	OK      int `json:"ok"`
	Refused int `json:"refused"`
	Failed  int `json:"failed"`
	// P50 and P90 are percentiles of the time that good answers took.
	P50 time.Duration `json:"p50_ns"`
	P90 time.Duration `json:"p90_ns"`
	// Code is the provider's word of the first refusal.
	Code string `json:"code,omitempty"`
}

// step sums calls up.
func step(stage string, level int64, calls []*call) Step {
	s := Step{Stage: stage, Level: level, Sent: len(calls)}
	var took []time.Duration
	for _, c := range calls {
		switch {
		case c.ok():
			s.OK++
			took = append(took, c.took())
		case c.result.Class.Refused():
			s.Refused++
			if s.Code == "" {
				s.Code = c.result.Code
			}
		default:
			s.Failed++
		}
	}
	s.P50, s.P90 = percentile(took, 50), percentile(took, 90)
	return s
}

// percentile is the p-th of a hundred, 0 for no times.
func percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[(len(times)-1)*p/100]
}

// Finding is what is known of one limit.
type Finding struct {
	// Dimension is "concurrency", "requests" or "tokens"; the last two count
	// per minute.
	Dimension string `json:"dimension"`
	// Low was let through; 0 when nothing is known. High was refused; nil
	// when nothing was.
	Low  int64  `json:"low"`
	High *int64 `json:"high"`
	// Source is "header" for what answers told, "refusal" for what refusals
	// showed, "latency" for a level at which answers take much longer, and
	// "none" for an interval that is open.
	Source string `json:"source"`
	// Note says for people how it was found, or why it was not.
	Note string `json:"note"`
	// Proposed is the limit to set, with a margin; nil when none is known.
	Proposed *int64 `json:"proposed"`
}

// keep is what a proposal keeps of what was let through, in percent.
const keep = 75

// found closes an interval and proposes.
func found(dimension, source string, low, high int64, note string) Finding {
	proposed := max(low*keep/100, 1)
	return Finding{Dimension: dimension, Low: low, High: &high, Source: source, Note: note, Proposed: &proposed}
}

// open leaves an interval open.
func open(dimension string, low int64, note string) Finding {
	return Finding{Dimension: dimension, Low: low, Source: "none", Note: note}
}
