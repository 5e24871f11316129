package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Run is what a report shows.
type Run struct {
	Title string `json:"title"`
	// About is a sentence or two on what was run.
	About string `json:"about"`
	// Verdict is the outcome in one sentence; Good colours it.
	Verdict string `json:"verdict"`
	Good    bool   `json:"good"`
	// Made is when, in RFC 3339.
	Made string `json:"made"`
	// Version is the software's version.
	Version string `json:"version"`
	// Notes say what was real and what was not, a sentence each.
	Notes []string `json:"notes"`
	// CountedFrom is the second of each phase from which figures count.
	CountedFrom float64 `json:"counted_from_s"`
	Phases      []Phase `json:"phases"`
	// Rows are shown in place of those of the phases' figures, if there are any.
	Rows []Row `json:"-"`
}

// Phase is one part of a run, with a clock of its own that starts at 0.
type Phase struct {
	Name    string  `json:"name"`
	About   string  `json:"about"`
	Figures Figures `json:"figures"`
	// Seconds is the phase's length.
	Seconds   float64    `json:"seconds"`
	Samples   Samples    `json:"samples"`
	Marks     []Mark     `json:"marks"`
	Decisions []Decision `json:"decisions"`
	// DecisionsLeftOut counts those that did not fit into Decisions.
	DecisionsLeftOut int `json:"decisions_left_out"`
}

// Figures are what a phase comes to, over its counted seconds. The names are
// those of `weir sim run --json` where both count the same thing.
type Figures struct {
	Seconds float64 `json:"seconds"`
	// Offered counts requests the application wanted answered, Completed those
	// answered within their deadline; Goodput is Completed per second.
	Offered   int64   `json:"requests"`
	Completed int64   `json:"completed"`
	Goodput   float64 `json:"goodput"`
	// CouldHaveServed is what an omniscient scheduler served of the same
	// demand, by the provider's books; GoodputRatio is Completed over it.
	CouldHaveServed int64  `json:"could_have_served"`
	GoodputRatio    Number `json:"goodput_ratio"`
	// Attempts are calls that reached the provider; Wasted are those refused,
	// failed or abandoned; WasteRatio is Wasted over Attempts.
	Attempts   int64  `json:"attempts"`
	Refused    int64  `json:"refused"`
	Abandoned  int64  `json:"abandoned"`
	Failed     int64  `json:"failed"`
	Wasted     int64  `json:"wasted_attempts"`
	WasteRatio Number `json:"waste_ratio"`
	// Code2064 counts the provider's answers with that code.
	Code2064 int64 `json:"code_2064"`
	// P50 and P99 are request times in seconds from when a request was wanted
	// to its answer; CallP50 and CallP99 those of one call that was answered.
	// NaN for none.
	P50     Number `json:"p50_s"`
	P99     Number `json:"p99_s"`
	CallP50 Number `json:"call_p50_s"`
	CallP99 Number `json:"call_p99_s"`
	// Recover is the time after the last change of the script until nine
	// tenths of what could have been served was; NaN for never, infinite while
	// the run goes on and it was not yet.
	Recover Number `json:"recover_s"`
	// WastedTokens are the tokens of provider work that reached nobody.
	WastedTokens int64 `json:"wasted_tokens"`
}

// Mark is an instant at which the script changes the world.
type Mark struct {
	At   float64 `json:"at_s"`
	Text string  `json:"text"`
}

// Decision is one decision of the controller.
type Decision struct {
	At      float64 `json:"at_s"`
	Channel string  `json:"channel"`
	Rule    string  `json:"rule"`
	// Change is the number before and after, or empty.
	Change string `json:"change"`
	Reason string `json:"reason"`
}

// Number is a number that may be missing: NaN means none and is null in JSON.
type Number float64

// MarshalJSON writes null for NaN and infinities.
func (n Number) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(n), -1), nil }

// UnmarshalJSON is the inverse of MarshalJSON.
func (n *Number) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		*n = Number(math.NaN())
		return nil
	}
	if err := json.Unmarshal(data, (*float64)(n)); err != nil {
		return fmt.Errorf("decode number: %w", err)
	}
	return nil
}

// Samples are columns of equal length. A NaN is a gap.
type Samples struct {
	// T is seconds since the start of the phase, growing.
	T Column `json:"t_s"`
	// Offered, Sent, Completed, Refused and Could are calls per second over the
	// second before T: wanted by the application, arrived at the provider, answered, turned
	// away, and what could have been served.
	Offered   Column `json:"offered"`
	Sent      Column `json:"sent"`
	Completed Column `json:"completed"`
	Refused   Column `json:"refused"`
	Could     Column `json:"could_have_served"`
	// InFlight are calls at the provider, Capacity its true limit and Best the
	// number at which the most gets done; Window is what Weir allows.
	InFlight Column `json:"in_flight"`
	Capacity Column `json:"capacity"`
	Best     Column `json:"best"`
	Window   Column `json:"window"`
	// P50 and P99 are the times of answered calls in seconds.
	P50 Column `json:"call_p50_s"`
	P99 Column `json:"call_p99_s"`
	// Weight is the channel's, 0..1; Breaker is 0 closed, 0.5 half-open, 1 open.
	Weight  Column `json:"weight"`
	Breaker Column `json:"breaker"`
}

// Column is one series of numbers.
type Column []float64

// MarshalJSON writes NaN as null, and five significant digits.
func (c Column) MarshalJSON() ([]byte, error) {
	out := append(make([]byte, 0, 2+6*len(c)), '[')
	for i, v := range c {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendNumber(out, v, 5)
	}
	return append(out, ']'), nil
}

func appendNumber(out []byte, v float64, digits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(out, "null"...)
	}
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.AppendFloat(out, v, 'f', 0, 64)
	}
	return strconv.AppendFloat(out, v, 'g', digits, 64)
}
