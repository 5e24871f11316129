package load

import (
	"maps"
	"math"
	"time"
)

// Counts is what happened since the start. A request ends in one of
// Completed, GaveUp and Dropped, or is still held; each attempt ends in one of
// OK, Late and Failed, or is still in flight.
type Counts struct {
	// Offered counts requests that were wanted.
	Offered int64 `json:"requests"`
	// Completed are requests answered within their deadline.
	Completed int64 `json:"completed"`
	// GaveUp are requests whose deadline passed or whose habit allows no more
	// tries.
	GaveUp int64 `json:"gave_up"`
	// Dropped are requests that the application had no room to hold.
	Dropped int64 `json:"dropped"`
	// Attempts are the application's tries.
	Attempts int64 `json:"attempts"`
	OK       int64 `json:"ok"`
	Late     int64 `json:"late"`
	Failed   int64 `json:"failed"`
	// FailedTokens are the prompt tokens of failed tries.
	FailedTokens int64 `json:"failed_prompt_tokens"`
}

// minus returns what happened after an earlier moment.
func (c Counts) minus(before Counts) Counts {
	return Counts{
		Offered: c.Offered - before.Offered, Completed: c.Completed - before.Completed,
		GaveUp: c.GaveUp - before.GaveUp, Dropped: c.Dropped - before.Dropped,
		Attempts: c.Attempts - before.Attempts, OK: c.OK - before.OK, Late: c.Late - before.Late,
		Failed: c.Failed - before.Failed, FailedTokens: c.FailedTokens - before.FailedTokens,
	}
}

// Snapshot is a run at a moment.
type Snapshot struct {
	// At is the time since the start.
	At time.Duration
	// Total counts since the start, Recent since the snapshot before.
	Total, Recent Counts
	// P50 and P99 are the times of the calls answered since the snapshot
	// before; negative for none.
	P50, P99 time.Duration
	// InFlight counts calls, Held requests that wait in the applications.
	InFlight, Held int64
}

// Spread are the percentiles of some durations in seconds; all 0 for none.
type Spread struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_s"`
	P95   float64 `json:"p95_s"`
	P99   float64 `json:"p99_s"`
	Max   float64 `json:"max_s"`
}

func spreadOf(h *Histogram) Spread {
	s := Spread{Count: h.N(), Max: round(h.Max().Seconds())}
	for q, to := range map[float64]*float64{0.5: &s.P50, 0.95: &s.P95, 0.99: &s.P99} {
		d, _ := h.Quantile(q)
		*to = round(d.Seconds())
	}
	return s
}

// round keeps tenths of a millisecond.
func round(s float64) float64 { return math.Round(s*1e4) / 1e4 }

// Point is one step of a timeline: counts within it.
type Point struct {
	// At is the step's end in seconds since the start.
	At float64 `json:"at_s"`
	Counts
	// P50 is the median time of the calls answered in it, 0 for none.
	P50      float64 `json:"call_p50_s"`
	InFlight int64   `json:"in_flight"`
	Held     int64   `json:"held"`
}

// mostPoints bounds a timeline; a longer run has coarser steps.
const mostPoints = 3600

// mostCodes bounds the codes told apart; the rest is "other".
const mostCodes = 64

// tally is the running count of a run and what was counted so far of it.
type tally struct {
	total         Counts
	codes         map[string]int64
	lag           Histogram
	call, request Histogram

	// base is total when counting began.
	base     Counts
	baseFrom time.Duration

	last   Counts
	recent Histogram
}

// begin starts counting anew: what came before is warm-up.
func (t *tally) begin(now time.Duration) {
	t.base, t.baseFrom = t.total, now
	t.codes = map[string]int64{}
	t.lag, t.call, t.request = Histogram{}, Histogram{}, Histogram{}
}

func (t *tally) code(code string) {
	if _, known := t.codes[code]; !known && len(t.codes) >= mostCodes {
		code = "other"
	}
	t.codes[code]++
}

// snapshot returns the moment and starts the next interval.
func (t *tally) snapshot(now time.Duration, inFlight, held int64) Snapshot {
	s := Snapshot{At: now, Total: t.total, Recent: t.total.minus(t.last), P50: -1, P99: -1, InFlight: inFlight, Held: held}
	if d, ok := t.recent.Quantile(0.5); ok {
		s.P50 = d
		s.P99, _ = t.recent.Quantile(0.99)
	}
	t.last = t.total
	t.recent = Histogram{}
	return s
}

func (t *tally) result(now time.Duration) Result {
	return Result{
		From: t.baseFrom.Seconds(), Seconds: (now - t.baseFrom).Seconds(),
		Counts: t.total.minus(t.base), Total: t.total, Codes: maps.Clone(t.codes),
		Call: spreadOf(&t.call), Request: spreadOf(&t.request), Lag: spreadOf(&t.lag),
	}
}

// point turns a snapshot into a step of the timeline.
func point(s *Snapshot) Point {
	return Point{
		At: round(s.At.Seconds()), Counts: s.Recent,
		P50: round(max(0, s.P50).Seconds()), InFlight: s.InFlight, Held: s.Held,
	}
}
