package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"weir/model"
	"weir/sim/world"
)

// Check compares the recorded with what comes of the world under the policy
// that made the log.
type Check struct {
	// Policy is that policy, Seeds how many runs the simulated is the mean of.
	Policy  string   `json:"policy"`
	Seeds   int      `json:"seeds"`
	Figures []Figure `json:"figures"`
	// Phases are the same for the normal, the saturated and the recovering
	// stretches of the log, those that it has enough of.
	Phases []Phase `json:"phases,omitempty"`
	// Safe is set when every figure is within its tolerance. A what-if in a
	// world that is not safe says nothing.
	Safe bool `json:"safe"`
	// Why says what is off, empty for nothing.
	Why string `json:"why,omitempty"`
}

// Figure is one number of both.
type Figure struct {
	Name      string  `json:"name"`
	Recorded  float64 `json:"recorded"`
	Simulated float64 `json:"simulated"`
	// Tolerance is the most the two may differ by.
	Tolerance float64 `json:"tolerance"`
	Within    bool    `json:"within"`
}

// checkSeeds is how many runs are compared with the log.
const checkSeeds = 3

// recorded are the figures of a log.
type recorded struct{ requests, completed, attempts, refused, p50, p95 float64 }

func (l *Log) recorded(requests []request) recorded {
	r := recorded{requests: float64(len(requests)), attempts: float64(len(l.calls))}
	var took []model.Nanos
	for i := range requests {
		if q := &requests[i]; q.answered {
			r.completed++
			took = append(took, q.done-q.wanted)
		}
	}
	for i := range l.calls {
		if model.Class(l.calls[i].class).Refused() {
			r.refused++
		}
	}
	slices.Sort(took)
	if n := len(took); n > 0 {
		r.p50, r.p95 = took[n/2].Duration().Seconds(), took[(n-1)*95/100].Duration().Seconds()
	}
	return r
}

// Check lives the world through under the policy that made the log, Weir if it
// was told of channels, and puts the comparison into the report.
func (w *World) Check(l *Log, o Options) error {
	c := &Check{Policy: world.PolicyNone, Seeds: checkSeeds}
	if o.Config != nil && !o.Observed {
		c.Policy = world.PolicyWeir
	}
	requests := l.requests()
	was, passed := l.recorded(requests), l.passages(requests, model.Nanos(w.Report.From.UnixNano()))
	var is recorded
	var runs [][]passage
	for seed := range uint64(checkSeeds) {
		r, err := w.Run(c.Policy, seed+1, o.Params)
		if err != nil {
			return fmt.Errorf("live the calibrated world through: %w", err)
		}
		is.requests += float64(r.Requests) / checkSeeds
		is.completed += float64(r.Completed) / checkSeeds
		is.attempts += float64(r.Attempts) / checkSeeds
		is.refused += float64(r.Refused) / checkSeeds
		is.p50 += r.P50.Seconds() / checkSeeds
		is.p95 += r.P95.Seconds() / checkSeeds
		runs = append(runs, simulatedPassages(r, passed))
	}
	share := func(r recorded) float64 { return r.refused / max(r.attempts, 1) }
	c.add("requests", was.requests, is.requests, 0.02*was.requests+1)
	c.add("completed", was.completed, is.completed, 0.05*was.requests+2)
	c.add("attempts", was.attempts, is.attempts, 0.15*was.attempts+3)
	c.add("refused_share", share(was), share(is), max(0.03, 0.4*share(was)))
	c.add("p50_s", was.p50, is.p50, 0.25*was.p50+0.02)
	c.add("p95_s", was.p95, is.p95, 0.15*was.p95+0.05)
	c.phases(passed, runs)
	c.Safe = c.Why == ""
	w.Report.Check = c
	return nil
}

// add compares a figure of the whole log.
func (c *Check) add(name string, was, is, tolerance float64) {
	c.Figures = append(c.Figures, c.figure("", name, was, is, tolerance))
}

// figure compares; of which stretches it is stands before its name in Why.
func (c *Check) figure(of, name string, was, is, tolerance float64) Figure {
	f := Figure{Name: name, Recorded: was, Simulated: is, Tolerance: tolerance, Within: math.Abs(was-is) <= tolerance}
	if !f.Within {
		c.Why = cmp.Or(c.Why, fmt.Sprintf("%s%s was %.4g and comes to %.4g", of, name, was, is))
	}
	return f
}

// Run lives the world through.
func (w *World) Run(policy string, seed uint64, params *model.Params) (*world.Result, error) {
	return world.Run(world.Config{Incident: w.Incident, Seed: seed, Policy: policy, Params: params, Traces: w.Traces})
}
