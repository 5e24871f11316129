package world

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Figures are one run as other tools read it; see Measure.
type Figures struct {
	Incident string `json:"incident"`
	Policy   string `json:"policy"`
	Seed     uint64 `json:"seed"`
	// Params is the hash of the parameters in force, Digest that of the event
	// stream.
	Params string `json:"params"`
	Digest string `json:"digest"`

	Requests  int64 `json:"requests"`
	Completed int64 `json:"completed"`
	// Goodput is requests completed within their deadline, per second;
	// GoodputRatio the same over the oracle's of the same seed.
	Goodput      float64 `json:"goodput"`
	GoodputRatio float64 `json:"goodput_ratio"`
	// TokenRatio is the tokens of completed requests over the oracle's. The
	// oracle completes most requests, not most tokens: where a limit counts
	// tokens, a policy that prefers no size may be above 1 here and below it
	// there.
	TokenRatio     float64 `json:"token_ratio"`
	Attempts       int64   `json:"attempts"`
	WastedAttempts int64   `json:"wasted_attempts"`
	WasteRatio     float64 `json:"waste_ratio"`
	WastedTokens   int64   `json:"wasted_tokens"`

	// DetectS is from the first change of the script until the load on the
	// providers is a tenth below what it was then, or a tenth above where they
	// take more from then on. It is 0 when nothing changes, and the rest of the
	// run when that never happens.
	DetectS float64 `json:"detect_s"`
	// RecoverS is from the last change, or the start when nothing changes,
	// until completions reach 90 % of the oracle's over five seconds and keep
	// to it over the minute that begins there; null if never. The oracle's is 0.
	RecoverS *float64 `json:"recover_s"`
	// Collapsed is set when the last tenth of the run has less than half of
	// the oracle's goodput.
	Collapsed bool `json:"collapsed"`

	LeaseOvershoot    float64 `json:"lease_overshoot"`
	LeaseUtilisation  float64 `json:"lease_utilisation"`
	CutDrainS         float64 `json:"cut_drain_s"`
	ProviderOvershoot float64 `json:"provider_overshoot"`

	P50S           float64 `json:"p50_s"`
	P95S           float64 `json:"p95_s"`
	P99S           float64 `json:"p99_s"`
	DeadlineMisses int64   `json:"deadline_misses"`
	// Jain is the fairness over the agents: each one's completed requests over
	// its max-min fair part of all that were completed, by what it wanted.
	Jain float64 `json:"jain"`
	// Flaps is how often a breaker opened.
	Flaps int64 `json:"flaps"`

	SimEvents uint64  `json:"sim_events"`
	VirtualS  float64 `json:"virtual_s"`
	WallS     float64 `json:"wall_s"`
}

// Measure puts a run beside the oracle's of the same incident and seed.
func Measure(r, oracle *Result, wall time.Duration) Figures {
	span := (time.Duration(len(r.Seconds))*time.Second - r.From).Seconds()
	f := Figures{
		Incident: r.Incident, Policy: r.Policy, Seed: r.Seed, Params: r.Params.Hash(),
		Digest:   fmt.Sprintf("%016x", r.Digest),
		Requests: r.Requests, Completed: r.Completed,
		Goodput:      float64(r.Completed) / max(span, 1),
		GoodputRatio: over(r.Completed, oracle.Completed), TokenRatio: over(r.Tokens, oracle.Tokens),
		Attempts: r.Attempts, WastedAttempts: r.Wasted, WasteRatio: r.WasteRatio(), WastedTokens: r.WastedTokens,
		DetectS: detect(r), RecoverS: recovered(r, oracle), Collapsed: collapsed(r, oracle),
		LeaseOvershoot: ratio(r.LeaseOvershoot), LeaseUtilisation: ratio(r.LeaseUtilisation),
		CutDrainS: r.CutDrain.Seconds(), ProviderOvershoot: ratio(r.ProviderOvershoot),
		P50S: r.P50.Seconds(), P95S: r.P95.Seconds(), P99S: r.P99.Seconds(),
		DeadlineMisses: r.Missed, Jain: jain(fairness(r.ByAgent, r.WantedBy)), Flaps: r.Flaps,
		SimEvents: r.Events, VirtualS: float64(len(r.Seconds)), WallS: wall.Seconds(),
	}
	return f
}

func ratio(ppm int64) float64 { return float64(ppm) / 1e6 }

// fairness is what each of those who wanted anything got, over its max-min
// fair part of what all got: who wants less than an equal part has what it
// wants, the others share the rest.
func fairness(got, wanted []int64) []float64 {
	left, order := int64(0), make([]int, 0, len(wanted))
	for i := range wanted {
		left += got[i]
		if wanted[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(wanted[a], wanted[b]) })
	shares := make([]float64, 0, len(order))
	rest := float64(left)
	for k, i := range order {
		fair := min(float64(wanted[i]), rest/float64(len(order)-k))
		rest -= fair
		if fair > 0 {
			shares = append(shares, float64(got[i])/fair)
		}
	}
	return shares
}

// jain is (Σx)² ÷ (n·Σx²): 1 when all have the same, 1/n when one has all.
func jain(x []float64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(x)) * squares)
}

// over is x of best, 1 when there was nothing to get.
func over(x, best int64) float64 {
	if best == 0 && x == 0 {
		return 1
	}
	return float64(x) / float64(max(best, 1))
}

func detect(r *Result) float64 {
	from := int(r.FirstChange.Seconds())
	if r.FirstChange == 0 || from < 1 || from >= len(r.Seconds) {
		return 0
	}
	level := r.Seconds[from-1]
	more := false
	for _, s := range r.Seconds[from:min(from+detectOver, len(r.Seconds))] {
		more = more || s.Capacity > level.Capacity
	}
	for _, s := range r.Seconds[from:] {
		if !more && s.InFlight*10 <= level.InFlight*9 || more && s.InFlight*10 >= level.InFlight*11 {
			return max(float64(s.At)-r.FirstChange.Seconds(), 0)
		}
	}
	return float64(len(r.Seconds)) - r.FirstChange.Seconds()
}

const (
	// detectOver is within how many seconds a cap that rises counts as the change.
	detectOver = 60
	// recoverOver is over how many seconds a rate counts as recovered, and
	// recoverKeeps over how many it must last.
	recoverOver  = 5
	recoverKeeps = 60
)

func recovered(r, oracle *Result) *float64 {
	if r == oracle {
		return new(float64)
	}
	end := min(len(r.Seconds), len(oracle.Seconds))
	enough := func(from, to int) (bool, int64) {
		var mine, best int64
		for k := from; k < min(to, end); k++ {
			mine += r.Seconds[k].Completed
			best += oracle.Seconds[k].Completed
		}
		return mine*10 >= best*9, best
	}
	last := max(r.LastChange, r.From)
	for i := int(last.Seconds()); i+recoverOver <= end; i++ {
		now, best := enough(i, i+recoverOver)
		lasts, _ := enough(i, i+recoverKeeps)
		if now && lasts && best > 0 {
			d := max(float64(i)-last.Seconds(), 0)
			return &d
		}
	}
	return nil
}

func collapsed(r, oracle *Result) bool {
	n := min(len(r.Seconds), len(oracle.Seconds))
	var mine, best int64
	for i := n - n/10; i < n; i++ {
		mine += r.Seconds[i].Completed
		best += oracle.Seconds[i].Completed
	}
	return mine*2 < best
}
