package tunereport

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"weir/cmd/weir/report"
	"weir/cmd/weir/simreport"
	"weir/model"
	"weir/sim/tune"
)

// Number is a number that may be missing.
type Number = report.Number

// Study is what the page shows.
type Study struct {
	// Command is the command line, Version the software's.
	Command string `json:"command"`
	Version string `json:"version"`
	// Seeds is on how many seeds of each incident the search tried a set.
	Seeds   int          `json:"seeds"`
	Runs    int          `json:"runs"`
	Verdict tune.Verdict `json:"verdict"`
	// Found is set when there is a set to compare with what is in force.
	Found bool `json:"found"`
	// Objectives are the names of what Losses list.
	Objectives []string `json:"objectives"`
	// Params are all parameters, Trials what was tried, in order.
	Params []Param `json:"params"`
	Trials []Trial `json:"trials"`
	// Moves are the incidents that the verdict's set moved most.
	Moves []Move `json:"moves"`
}

// Move is one run of an incident over time, before and after.
type Move struct {
	Before simreport.Timeline `json:"before"`
	After  simreport.Timeline `json:"after"`
	// Gain is the incident's, over all seeds.
	Gain float64 `json:"gain"`
}

// Param is one parameter of the laws.
type Param struct {
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	About  string `json:"about"`
	Min    int64  `json:"min"`
	Max    int64  `json:"max"`
	Log    bool   `json:"log"`
	Before int64  `json:"before"`
	After  int64  `json:"after"`
	// Share is how much of the scores' variance it explains, negative when it
	// was not searched.
	Share float64 `json:"share"`
	// At are its places in its range before and after, in percent.
	At, To float64 `json:"-"`
}

// Trial is one parameter set that was tried.
type Trial struct {
	ID   int    `json:"id"`
	Kind string `json:"kind"`
	Runs int    `json:"runs"`
	Full bool   `json:"full"`
	// Front is set when no other trial is better in every objective, Best when
	// it was the best so far, Winner when the verdict is about it.
	Front  bool   `json:"front"`
	Best   bool   `json:"best"`
	Broken string `json:"broken,omitempty"`
	Score  Number `json:"score"`
	// Selected is its score on the selection's seeds, null where it was not there.
	Selected Number    `json:"selected"`
	Losses   []float64 `json:"losses"`
	// At are the places of its values in their ranges, by parameter.
	At []float64 `json:"at"`
}

// StudyOf takes a study's end.
func StudyOf(r *tune.Result, seeds int) *Study {
	s := &Study{Seeds: seeds, Runs: r.Runs, Verdict: r.Verdict, Found: r.Winner != nil, Params: []Param{}, Trials: []Trial{}, Moves: []Move{}}
	for o := range tune.NumObjectives {
		s.Objectives = append(s.Objectives, o.String())
	}
	after := r.InForce
	if r.Winner != nil {
		after = r.Winner
	}
	for i, spec := range model.ParamSpecs() {
		p := Param{
			Name: spec.Name, Unit: spec.Unit, About: spec.Source, Min: spec.Min, Max: spec.Max, Log: spec.Scale == model.ScaleLog,
			Before: r.InForce.Values[i], After: after.Values[i], Share: -1,
		}
		if r.Importance[i].Searched {
			p.Share = r.Importance[i].Share
		}
		p.At, p.To = 100*tune.Unit(&spec, p.Before), 100*tune.Unit(&spec, p.After)
		s.Params = append(s.Params, p)
	}
	for _, t := range r.Trials {
		s.Trials = append(s.Trials, trialOf(r, t))
	}
	return s
}

func trialOf(r *tune.Result, t *tune.Trial) Trial {
	out := Trial{
		ID: t.ID, Kind: t.Kind, Runs: t.Runs, Full: t.Full, Broken: t.Broken, Score: Number(t.Score), Selected: Number(math.NaN()),
		Front: slices.Contains(r.Front, t), Best: slices.Contains(r.Best, t), Losses: t.Losses[:],
	}
	if t.Taken {
		out.Selected = Number(t.Selected)
	}
	for i, spec := range model.ParamSpecs() {
		out.At = append(out.At, math.Round(1e4*tune.Unit(&spec, t.Values[i]))/1e4)
	}
	return out
}

// Changed are the parameters that differ, those that moved furthest first.
func (s *Study) Changed() []Param {
	changed := slices.DeleteFunc(slices.Clone(s.Params), func(p Param) bool { return p.Before == p.After })
	slices.SortStableFunc(changed, func(a, b Param) int { return cmp.Compare(math.Abs(b.To-b.At), math.Abs(a.To-a.At)) })
	return changed
}

// Important are the parameters that explain anything, most first.
func (s *Study) Important() []Param {
	some := slices.DeleteFunc(slices.Clone(s.Params), func(p Param) bool { return p.Share < 0.005 })
	slices.SortStableFunc(some, func(a, b Param) int { return cmp.Compare(b.Share, a.Share) })
	return some
}

// Front are the trials on the front, by the first objective.
func (s *Study) Front() []Trial {
	front := slices.DeleteFunc(slices.Clone(s.Trials), func(t Trial) bool { return !t.Front })
	slices.SortStableFunc(front, func(a, b Trial) int { return cmp.Compare(a.Losses[0], b.Losses[0]) })
	return front
}

// Text is a value of the parameter.
func (p Param) Text(v int64) string {
	switch {
	case p.Unit == "ns" && v > 0:
		return time.Duration(v).String()
	case p.Unit == "ns":
		return "0s"
	case p.Unit == "ppm":
		return fmt.Sprintf("%.4g", float64(v)/1e6)
	case p.Unit == "milli-slots":
		return fmt.Sprintf("%.4g slots", float64(v)/1e3)
	}
	return fmt.Sprint(v)
}
