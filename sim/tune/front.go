package tune

import (
	"cmp"
	"math"
	"slices"
)

// front are the trials, among those with every run, that no other beats: none
// is at least as good in every objective and better in one.
func front(trials []*Trial) []*Trial {
	var best []*Trial
	for _, t := range trials {
		if !t.Full || t.Broken != "" {
			continue
		}
		beaten := slices.ContainsFunc(best, func(o *Trial) bool { return !betterSomewhere(&t.Losses, &o.Losses) })
		if beaten { // or the same
			continue
		}
		best = slices.DeleteFunc(best, func(o *Trial) bool { return !betterSomewhere(&o.Losses, &t.Losses) })
		best = append(best, t)
	}
	return best
}

// betterSomewhere reports whether a has less than b of some objective.
func betterSomewhere(a, b *Losses) bool {
	for i := range a {
		if a[i] < b[i] {
			return true
		}
	}
	return false
}

// Importance is how much of a study's differences one parameter explains.
type Importance struct {
	Name string
	// Share is the share of the scores' variance that its value explains by
	// itself, 0..1, corrected for chance.
	Share float64
	// Searched is whether it could change.
	Searched bool
}

// importance compares the trials that were asked for together, since between
// those of other times everything has moved: it groups them by how far a
// parameter is from its mean among them and asks how much of the variance of
// the scores lies between the groups: omega squared (W. L. Hays, 1963). Scores
// far off count as those at the worst tenth, or they would be all there is.
func (s *study) importance() []Importance {
	var trials []*Trial
	var scores []float64
	for _, t := range s.trials {
		if !math.IsInf(t.Score, 0) {
			trials = append(trials, t)
			scores = append(scores, t.Score)
		}
	}
	sorted := slices.Sorted(slices.Values(scores))
	for i := range scores {
		scores[i] = min(scores[i], sorted[(len(sorted)-1)*9/10])
	}
	scores = apart(trials, scores)
	all := make([]Importance, len(s.space.specs))
	for i := range s.space.specs {
		p := &s.space.specs[i]
		all[i] = Importance{Name: p.Name, Searched: slices.Contains(s.space.axes, i)}
		if !all[i].Searched {
			continue
		}
		at := make([]float64, len(trials))
		for k, t := range trials {
			at[k] = Unit(p, t.Values[i])
		}
		all[i].Share = omega(scores, apart(trials, at))
	}
	return all
}

// apart takes from each value the mean of its batch; batches stand together.
func apart(trials []*Trial, values []float64) []float64 {
	out := make([]float64, len(values))
	for from := 0; from < len(trials); {
		to, sum := from, 0.0
		for ; to < len(trials) && trials[to].batch == trials[from].batch; to++ {
			sum += values[to]
		}
		for k := from; k < to; k++ {
			// Rounded, so that equal values have the same place.
			out[k] = round6(values[k] - sum/float64(to-from))
		}
		from = to
	}
	return out
}

// omega groups values into five parts of equal number, equal values together.
func omega(scores, at []float64) float64 {
	const parts = 5
	n := len(scores)
	order := make([]int, n)
	total := 0.0
	for k := range order {
		order[k] = k
		total += scores[k] / float64(n)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	between, all, groups := 0.0, 0.0, 0
	for from := 0; from < n; {
		to := min(n, from+(n+parts-1)/parts)
		for to < n && at[order[to]] == at[order[to-1]] {
			to++
		}
		sum := 0.0
		for _, k := range order[from:to] {
			sum += scores[k]
			all += (scores[k] - total) * (scores[k] - total)
		}
		d := sum/float64(to-from) - total
		between += d * d * float64(to-from)
		groups++
		from = to
	}
	if groups < 2 || n <= groups || all == 0 {
		return 0
	}
	within := (all - between) / float64(n-groups)
	return min(1, max(0, (between-float64(groups-1)*within)/(all+within)))
}
