package tune

import (
	"fmt"
	"math"
	"slices"
	"time"

	"weir/sim/world"
)

// Objective is one thing that a run should have little of.
type Objective int

// The objectives. Each is about 0 where all is well and about 1 where nothing
// is; goodput may be below 0, since the oracle is no upper bound everywhere.
const (
	Lost     Objective = iota // 1 - goodput over the oracle's
	Wasted                    // wasted share of attempts
	Slow                      // p99 ÷ (p99 + the oracle's): 1/2 is as fast
	Unfair                    // 1 - Jain's fairness over agents
	Collapse                  // 1 when the end has less than half of the oracle's goodput
	Recovery                  // time to recover ÷ what is left of the run after the last change
	NumObjectives
)

// String is the objective's name in flags and reports.
func (o Objective) String() string {
	switch o {
	case Lost:
		return "goodput"
	case Wasted:
		return "waste"
	case Slow:
		return "tail"
	case Unfair:
		return "fairness"
	case Collapse:
		return "collapse"
	case Recovery:
		return "recovery"
	case NumObjectives:
	}
	return fmt.Sprintf("objective(%d)", int(o))
}

// Losses are a run's, or a mean's, by objective.
type Losses [NumObjectives]float64

// Weights say what each objective counts in one number.
type Weights [NumObjectives]float64

// DefaultWeights are for a batch that wants its answers and pays for waste: a
// collapse is as bad as no goodput at all.
func DefaultWeights() Weights { return Weights{1, 0.5, 0.1, 0.2, 1, 0.2} }

func (w *Weights) loss(l *Losses) float64 {
	sum := 0.0
	for i := range l {
		sum += w[i] * l[i]
	}
	return sum
}

// Outcome is what one job came to.
type Outcome struct {
	Losses Losses
	// Broken names the invariant that the run broke; empty for none.
	Broken string
	// Digest identifies the run's events.
	Digest uint64
}

// Measure judges a run beside the oracle's of the same incident and seed.
func Measure(r, oracle *world.Result) Outcome {
	f := world.Measure(r, oracle, 0)
	o := Outcome{Digest: r.Digest, Broken: broken(r)}
	o.Losses = Losses{Lost: 1 - f.GoodputRatio, Wasted: f.WasteRatio, Slow: slow(r, oracle), Unfair: 1 - f.Jain}
	if f.Collapsed {
		o.Losses[Collapse] = 1
	}
	if left := f.VirtualS - r.LastChange.Seconds(); r.LastChange > 0 && left > 0 {
		o.Losses[Recovery] = 1
		if f.RecoverS != nil {
			o.Losses[Recovery] = *f.RecoverS / left
		}
	}
	for i, v := range o.Losses {
		o.Losses[i] = round6(v)
	}
	return o
}

// slow compares tails. A run that answered nobody is as slow as can be.
func slow(r, oracle *world.Result) float64 {
	switch {
	case r.Completed == 0:
		return 1
	case r.P99+oracle.P99 <= 0:
		return 0.5
	}
	return float64(r.P99) / float64(r.P99+oracle.P99)
}

// round6 keeps a stored number short.
func round6(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 1
	}
	return math.Round(v*1e6) / 1e6
}

// broken names an invariant that does not hold.
func broken(r *world.Result) string {
	ended, sent, spent := int64(0), int64(0), int64(0)
	for i := range r.Seconds {
		s := &r.Seconds[i]
		ended += s.Completed + s.Failed - s.Wanted
		sent += s.Sent
		for _, n := range s.Refused {
			spent += n
		}
	}
	switch {
	case r.LeaseOvershoot > 1_000_000:
		return fmt.Sprintf("claims rose to %.3f of the limit", float64(r.LeaseOvershoot)/1e6)
	case ended > 0:
		return fmt.Sprintf("%d requests ended that nobody wanted", ended)
	case spent > sent:
		return fmt.Sprintf("%d attempts were refused of %d sent", spent, sent)
	case r.Completed < 0 || r.Wasted < 0 || r.P99 < 0 || r.P99 > time.Duration(len(r.Seconds)+1)*time.Second:
		return "the books hold impossible figures"
	}
	return ""
}

// mean is the mean of losses by objective.
func mean(all []Outcome) (m Losses) {
	for i := range all {
		for k, v := range all[i].Losses {
			m[k] += v / float64(len(all))
		}
	}
	return m
}

// blend is what a trial is judged by: the mean of its losses, and with share
// tail the mean of the worst tenth, so that a collapse is not averaged away.
func blend(losses []float64, tail float64) float64 {
	if len(losses) == 0 {
		return math.Inf(1)
	}
	sorted := slices.Sorted(slices.Values(losses))
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	// A tenth of 96 is nine and six tenths of the tenth, lest the figure jump
	// from one number of runs to the next.
	tenth, bad := max(1, float64(len(sorted))/10), 0.0
	for left, i := tenth, len(sorted)-1; left > 0; left, i = left-1, i-1 {
		bad += min(1, left) * sorted[i]
	}
	return (1-tail)*sum/float64(len(sorted)) + tail*bad/tenth
}
