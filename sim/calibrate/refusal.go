package calibrate

import (
	"slices"
	"time"

	"weir/model"
	"weir/sim/incident"
)

// Refusal is how the provider says no.
type Refusal struct {
	Count   int            `json:"count"`
	Status  int            `json:"status"`
	Code    string         `json:"code"`
	Shape   incident.Shape `json:"shape"`
	DelayMS float64        `json:"delay_ms"`
	// RetryAfter is none, exact, or a duration.
	RetryAfter string `json:"retry_after"`
}

// refusalOf describes the refusals among calls.
func (l *Log) refusalOf(calls []call, is func(*call) bool) Refusal {
	r := Refusal{Shape: incident.ShapeOpenAI, RetryAfter: string(incident.HintNone), DelayMS: 50}
	type face struct{ status, code uint16 }
	faces := map[face]int{}
	var delays, waits []model.Nanos
	var most face
	for i := range calls {
		c := &calls[i]
		if !is(c) {
			continue
		}
		r.Count++
		f := face{c.status, c.code}
		if faces[f]++; faces[f] > faces[most] {
			most = f
		}
		delays = append(delays, c.took)
		if c.retryAfter > 0 {
			waits = append(waits, c.retryAfter)
		}
	}
	if r.Count == 0 {
		return r
	}
	r.Status, r.Code = int(most.status), l.codes.list[most.code]
	slices.Sort(delays)
	r.DelayMS = float64(delays[len(delays)/2]) / 1e6
	r.Shape = shapeOf(r.Status, r.Code)
	slices.Sort(waits)
	switch {
	case len(waits)*2 < r.Count:
	case waits[0]*10 >= waits[len(waits)-1]*9:
		r.RetryAfter = waits[len(waits)/2].Duration().Round(time.Millisecond).String()
	default:
		r.RetryAfter = string(incident.HintExact)
	}
	return r
}

// shapeOf guesses the API from a refusal.
func shapeOf(status int, code string) incident.Shape {
	switch {
	case status == 200 && len(code) == 4 && code[0] >= '1' && code[0] <= '2':
		return incident.ShapeMiniMax
	case status == 529, code == "overloaded_error", code == "rate_limit_error":
		return incident.ShapeAnthropic
	case code == "RESOURCE_EXHAUSTED", code == "UNAVAILABLE":
		return incident.ShapeGemini
	}
	return incident.ShapeOpenAI
}
