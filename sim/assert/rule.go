package assert

import "math"

// rule is a kind of assertion: bounds that all must hold.
type rule struct {
	name   string
	bounds []bound
}

// bound compares one figure of a run with the number given for key.
type bound struct {
	key  string
	what string
	// least: the figure must be at least the bound, else at most.
	least bool
	of    func(r *Run) float64
}

// excess is by how much a figure is on the wrong side of its bound, at most 0
// when it holds. A figure that is NaN never holds.
func (b *bound) excess(got, limit float64) float64 {
	by := got - limit
	if b.least {
		by = -by
	}
	if math.IsNaN(by) {
		return math.Inf(1)
	}
	return by
}

func rules() []rule {
	return []rule{
		// The end of the run has at least this share of the oracle's goodput.
		{"no-collapse", []bound{{key: "end", what: "the last tenth's share of the oracle's goodput", least: true, of: end}}},
		// It is back at nine tenths of the oracle's rate so long after the
		// last change.
		{"recovers", []bound{{key: "within", what: "the time to recover in seconds", of: recovery}}},
		// Completions in slots of ten seconds vary no more than that from the
		// oracle's: the standard deviation of the share over its mean.
		{"steady", []bound{{key: "cv", what: "the variation of the rate", of: variation}}},
		// Nobody gets much less than others: Jain's index over the agents.
		{"fair", []bound{{key: "jain", what: "Jain's index", least: true, of: func(r *Run) float64 { return r.Figures.Jain }}}},
		// What is leased never exceeds the limit when a claim rises, what is
		// in flight at a provider its true cap by more than that.
		{"no-overshoot", []bound{
			{key: "lease", what: "claims over the limit", of: func(r *Run) float64 { return r.Figures.LeaseOvershoot }},
			{key: "provider", what: "in flight over the true cap", of: func(r *Run) float64 { return r.Figures.ProviderOvershoot }},
		}},
		// Completed requests over the oracle's.
		{"goodput", []bound{{key: "least", what: "goodput over the oracle's", least: true, of: func(r *Run) float64 { return r.Figures.GoodputRatio }}}},
		// Attempts that brought nothing, of all attempts.
		{"waste", []bound{{key: "most", what: "the share of wasted attempts", of: func(r *Run) float64 { return r.Figures.WasteRatio }}}},
		// A breaker opens no more often than that.
		{"calm", []bound{{key: "flaps", what: "how often a breaker opened", of: func(r *Run) float64 { return float64(r.Figures.Flaps) }}}},
	}
}

// end is the share of the oracle's goodput in the last tenth of the run.
func end(r *Run) float64 {
	mine, best := r.Result.Seconds, r.Oracle.Seconds
	n := min(len(mine), len(best))
	var a, b int64
	for i := n - n/10; i < n; i++ {
		a += mine[i].Completed
		b += best[i].Completed
	}
	if b == 0 {
		return 1 // nothing was to be had
	}
	return float64(a) / float64(b)
}

// recovery is infinite for never.
func recovery(r *Run) float64 {
	if r.Figures.RecoverS == nil {
		return math.Inf(1)
	}
	return *r.Figures.RecoverS
}

// slot is over how many seconds a rate is taken.
const slot = 10

// variation is the coefficient of variation of the share of the oracle's
// completions, slot by slot, since the books opened.
func variation(r *Run) float64 {
	from := int(r.Result.From.Seconds())
	n := min(len(r.Result.Seconds), len(r.Oracle.Seconds))
	var shares []float64
	for ; from+slot <= n; from += slot {
		var a, b int64
		for i := from; i < from+slot; i++ {
			a += r.Result.Seconds[i].Completed
			b += r.Oracle.Seconds[i].Completed
		}
		if b > 0 {
			shares = append(shares, float64(a)/float64(b))
		}
	}
	var sum, squares float64
	for _, s := range shares {
		sum += s
	}
	mean := sum / float64(len(shares))
	for _, s := range shares {
		squares += (s - mean) * (s - mean)
	}
	if mean == 0 {
		return math.Inf(1)
	}
	return math.Sqrt(squares/float64(len(shares))) / mean
}
