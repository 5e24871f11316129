package tune

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weir/model"
)

// Verdict says whether to change parameters, and why.
type Verdict struct {
	// Recommend is set when the change is worth it; Why is a sentence either way.
	Recommend bool   `json:"recommend"`
	Why       string `json:"why"`
	// Gain is what the score falls by on seeds that nothing was chosen by, with
	// its 95 % interval over those seeds. Promised is what it fell by when
	// the set was found: the difference is the search's optimism.
	Gain     float64 `json:"gain"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Promised float64 `json:"promised"`
	// Seeds is on how many seeds the gain was measured.
	Seeds int `json:"seeds"`
	// Before and After are the means of the objectives.
	Before Losses `json:"before"`
	After  Losses `json:"after"`
	// Incidents are in the order of the configuration.
	Incidents []IncidentGain `json:"incidents"`
}

// IncidentGain is one incident before and after.
type IncidentGain struct {
	Name string `json:"name"`
	// Gain is by how much its weighted loss falls.
	Gain   float64 `json:"gain"`
	Before Losses  `json:"before"`
	After  Losses  `json:"after"`
	// Worse is set when it loses more than is tolerated.
	Worse bool `json:"worse"`
	// LeftOut is the gain on this incident of what would have been the search's
	// best without it.
	LeftOut float64 `json:"left_out"`
	// Seed is that of the verdict's runs whose loss moved most.
	Seed uint64 `json:"seed"`
}

// judge measures the winner against what is in force, once, on seeds of its own.
func (s *study) judge(winner *Trial) (Verdict, error) {
	s.phase = "verdict"
	if winner == nil {
		return Verdict{Why: "keep what you have: the search found nothing that holds the invariants and differs from it"}, nil
	}
	if err := s.live([]*Trial{s.base, winner}, s.verdict); err != nil {
		return Verdict{}, err
	}
	seeds := len(s.verdict) / len(s.c.Incidents)
	before, after := s.losses(s.base, s.verdict), s.losses(winner, s.verdict)
	v := Verdict{Seeds: seeds, Before: mean(s.outcomes(s.base, s.verdict)), After: mean(s.outcomes(winner, s.verdict))}
	v.Gain, v.Low, v.High = jackknife(seeds, func(without int) float64 {
		return blend(s.leave(before, without), s.c.Tail) - blend(s.leave(after, without), s.c.Tail)
	})
	v.Promised = s.promised(winner)
	var bad []string
	for i := range s.c.Incidents {
		g := s.incidentGain(i, winner)
		if g.Worse {
			bad = append(bad, fmt.Sprintf("%s (by %.3f)", g.Name, -g.Gain))
		}
		v.Incidents = append(v.Incidents, g)
	}
	v.Recommend, v.Why = s.reason(&v, s.brokenBy(winner, s.verdict), bad)
	return v, nil
}

// reason decides.
func (s *study) reason(v *Verdict, broken string, bad []string) (recommend bool, why string) {
	figures := fmt.Sprintf("on %d unseen seeds the score gets better by %.4f (95 %% interval %.4f to %.4f)", v.Seeds, v.Gain, v.Low, v.High)
	switch {
	case broken != "":
		return false, "keep what you have: the best found breaks an invariant on unseen seeds: " + broken
	case v.Low <= 0:
		return false, "keep what you have: " + figures + ", which may be nothing or worse"
	case len(bad) > 0:
		return false, fmt.Sprintf("keep what you have: %s, but an incident becomes worse by more than %.3f: %s", figures, s.c.Tolerance, strings.Join(bad, ", "))
	case v.Gain < s.c.Worth:
		return false, fmt.Sprintf("keep what you have: %s, less than the %.3f that a change is worth", figures, s.c.Worth)
	}
	return true, "change: " + figures + ", and no incident becomes worse than is tolerated"
}

// leave returns the losses without those of one seed; all for -1.
func (s *study) leave(losses []float64, without int) []float64 {
	if without < 0 {
		return losses
	}
	n := len(s.c.Incidents)
	return slices.Concat(losses[:without*n], losses[(without+1)*n:])
}

// promised is by how much a trial was better than what is in force when it was
// found: in the search, or in the selection, which made it simpler.
func (s *study) promised(t *Trial) float64 {
	pairs := s.search
	if !t.Full {
		pairs = s.selection
	}
	return blend(s.losses(s.base, pairs), s.c.Tail) - blend(s.losses(t, pairs), s.c.Tail)
}

func (s *study) incidentGain(i int, winner *Trial) IncidentGain {
	own := slices.DeleteFunc(slices.Clone(s.verdict), func(p pair) bool { return p.incident != i })
	g := IncidentGain{Name: s.c.Incidents[i].Name, Before: mean(s.outcomes(s.base, own)), After: mean(s.outcomes(winner, own))}
	g.Gain = s.c.Weights.loss(&g.Before) - s.c.Weights.loss(&g.After)
	g.Worse = -g.Gain > s.c.Tolerance
	g.LeftOut = s.leftOut(i)
	most := -1.0
	before, after := s.losses(s.base, own), s.losses(winner, own)
	for k := range own {
		if d := math.Abs(before[k] - after[k]); d > most {
			most, g.Seed = d, own[k].seed
		}
	}
	return g
}

// leftOut chooses among the search's trials without an incident and returns
// what the choice gains on it.
func (s *study) leftOut(i int) float64 {
	rest := slices.DeleteFunc(slices.Clone(s.search), func(p pair) bool { return p.incident == i })
	own := slices.DeleteFunc(slices.Clone(s.search), func(p pair) bool { return p.incident != i })
	if len(rest) == 0 {
		return 0
	}
	best, least := s.base, blend(s.losses(s.base, rest), s.c.Tail)
	for _, t := range s.trials {
		if !t.Full || t.Broken != "" {
			continue
		}
		if v := blend(s.losses(t, rest), s.c.Tail) + s.far(t); v < least {
			best, least = t, v
		}
	}
	a, b := mean(s.outcomes(s.base, own)), mean(s.outcomes(best, own))
	return s.c.Weights.loss(&a) - s.c.Weights.loss(&b)
}

// Result is a study at its end.
type Result struct {
	Verdict Verdict
	// Winner is what the verdict is about, nil for nothing.
	Winner *Trial
	// Params is what should be in force after this study.
	Params model.Params
	// InForce is trial 0.
	InForce *Trial
	// Trials are the search's in order; Best are those that were the best so
	// far; Others are what the selection made of one.
	Trials, Best, Others []*Trial
	// Front are those of which no other is better in every objective.
	Front []*Trial
	// Importance is in the order of model.ParamSpecs.
	Importance []Importance
	// Runs is how many simulations it took.
	Runs int
}

func (s *study) result(winner *Trial, v Verdict) *Result {
	r := &Result{
		Verdict: v, Winner: winner, Params: s.c.InForce, InForce: s.base,
		Trials: s.trials, Best: s.path, Others: s.others, Runs: s.runs,
		Front: front(s.trials), Importance: s.importance(),
	}
	if v.Recommend {
		r.Params = s.space.params(winner.Values)
	}
	return r
}
