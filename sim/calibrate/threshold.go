package calibrate

import (
	"cmp"
	"math"
	"slices"
)

// Estimate is a limit with its interval of 90 %.
type Estimate struct {
	// Best is the most likely value.
	Best float64 `json:"best"`
	// Low and High bound it. Where Open is set nothing bounds it from above:
	// High is 0 and the interval is [Low, infinity).
	Low  float64 `json:"low"`
	High float64 `json:"high,omitempty"`
	Open bool    `json:"open"`
	// Accepted and Refused are how many observations of each kind it rests on.
	Accepted int `json:"accepted"`
	Refused  int `json:"refused"`
}

// Holds reports whether v is within the interval.
func (e Estimate) Holds(v float64) bool { return v >= e.Low && (e.Open || v <= e.High) }

// sight is what was seen of a limit at one instant: x is how much was used with
// this call, so that a limit of at least x lets it through.
type sight struct {
	x       float64
	refused bool
}

const (
	// lapse is the share of outcomes that have nothing to do with the limit.
	lapse = 0.002
	// ninety is half the 90 % quantile of chi-square with one degree of
	// freedom: what the log-likelihood loses at the ends of the interval.
	ninety = 1.353
)

// level is the sum of all sights with the same x.
type level struct{ x, ok, no float64 }

func levels(all []sight) []level {
	if len(all) > maxCells {
		return cells(all)
	}
	slices.SortFunc(all, func(a, b sight) int { return cmp.Compare(a.x, b.x) })
	var out []level
	for _, s := range all {
		if n := len(out); n == 0 || out[n-1].x != s.x {
			out = append(out, level{x: s.x})
		}
		out[len(out)-1].add(s.refused)
	}
	return out
}

func (l *level) add(refused bool) {
	if refused {
		l.no++
	} else {
		l.ok++
	}
}

// maxCells is from how many sights on they are counted in as many cells of the
// same width instead of being sorted.
const maxCells = 16_384

func cells(all []sight) []level {
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range all {
		low, high = min(low, s.x), max(high, s.x)
	}
	width := max((high-low)/(maxCells-1), 1)
	grid := make([]level, int((high-low)/width)+1)
	for _, s := range all {
		l := &grid[int((s.x-low)/width)]
		l.x += s.x
		l.add(s.refused)
	}
	out := grid[:0]
	for _, l := range grid {
		if n := l.ok + l.no; n > 0 {
			l.x /= n
			out = append(out, l)
		}
	}
	return out
}

// likelihood is log P of the sights when the limit is at c and blurred by s:
// a call is refused with lapse + (1-2 lapse) / (1 + exp(-(x-c-half)/s)), where
// half puts the middle between the last that fits and the first that does not.
func likelihood(all []level, c, s, half float64) float64 {
	sum := 0.0
	for i := range all {
		z := (all[i].x - c - half) / s
		p := lapse
		switch {
		case z > 40:
			p = 1 - lapse
		case z > -40:
			p = lapse + (1-2*lapse)/(1+math.Exp(-z))
		}
		if all[i].no > 0 {
			sum += all[i].no * math.Log(p)
		}
		if all[i].ok > 0 {
			sum += all[i].ok * math.Log1p(-p)
		}
	}
	return sum
}

// maxLevels bounds the work of a fit: beyond, neighbours are put together.
const maxLevels = 160

func coarse(all []level) []level {
	for len(all) > maxLevels {
		out := all[:0]
		for i := 0; i < len(all); i += 2 {
			l := all[i]
			if i+1 < len(all) {
				o := all[i+1]
				n, m := l.ok+l.no, o.ok+o.no
				l.x = (l.x*n + o.x*m) / (n + m)
				l.ok, l.no = l.ok+o.ok, l.no+o.no
			}
			out = append(out, l)
		}
		all = out
	}
	return all
}

// threshold fits a limit. step is the least amount by which uses differ, scale
// how large one use is: both 1 for calls. The log-likelihood at the best value
// is returned beside.
func threshold(all []sight, step, scale float64) (Estimate, float64) {
	e := Estimate{}
	for _, s := range all {
		if s.refused {
			e.Refused++
		} else {
			e.Accepted++
		}
	}
	if len(all) == 0 {
		return Estimate{Open: true}, 0
	}
	ls := levels(all)
	if e.Refused == 0 {
		e.Open = true
		e.Low = ls[len(ls)-1].x
		e.Best = e.Low
		return e, 0
	}
	if len(ls) > maxLevels {
		ls = around(ls) // levels stay apart where it matters
	}
	ls = coarse(ls)
	candidates := make([]float64, 0, len(ls)+1)
	candidates = append(candidates, ls[0].x-step)
	for i := range ls {
		candidates = append(candidates, ls[i].x)
	}
	half := step / 2
	profile := make([]float64, len(candidates))
	best := math.Inf(-1)
	for i, c := range candidates {
		profile[i] = math.Inf(-1)
		for blur := 0.05 * scale; blur < 200*scale; blur *= 3 {
			profile[i] = max(profile[i], likelihood(ls, c, blur, half))
		}
		if profile[i] > best {
			best, e.Best = profile[i], c
		}
	}
	e.Low, e.High = math.Inf(1), math.Inf(-1)
	for i, c := range candidates {
		if profile[i] < best-ninety {
			continue
		}
		e.Low = min(e.Low, c)
		top := c // any limit up to just below the next use would do the same
		if i+1 < len(candidates) {
			top = max(c, candidates[i+1]-step)
		} else {
			e.Open = true // refused at most as it is at every higher value
		}
		e.High = max(e.High, top)
	}
	e.Low = max(e.Low, 0)
	if e.Open {
		e.High = 0
	}
	return e, best
}

// around keeps the levels near the change from accepted to refused as they are
// and puts the others together.
func around(ls []level) []level {
	lastOK, firstNo := 0, len(ls)-1
	for i := range ls {
		if ls[i].ok > 0 {
			lastOK = i
		}
	}
	for i, l := range slices.Backward(ls) {
		if l.no > 0 {
			firstNo = i
		}
	}
	from, to := min(lastOK, firstNo), max(lastOK, firstNo)
	from, to = max(from-maxLevels/4, 0), min(to+maxLevels/4, len(ls)-1)
	if to-from > maxLevels/2 {
		return ls
	}
	out := slices.Clone(coarse(slices.Clone(ls[:from])))
	out = append(out, ls[from:to+1]...)
	return append(out, coarse(slices.Clone(ls[to+1:]))...)
}

// split is the log-likelihood of the best hard limit, with as many lapses as
// there are: a first look that costs one pass.
func split(all []sight) float64 {
	ls := levels(all)
	var n, wrong float64
	for i := range ls {
		n += ls[i].ok + ls[i].no
		wrong += ls[i].ok // a limit below everything refuses everything
	}
	least := wrong
	for i := range ls {
		wrong += ls[i].no - ls[i].ok
		least = min(least, wrong)
	}
	share := max(least, 0.5) / max(n, 1)
	return least*math.Log(share) + (n-least)*math.Log1p(-min(share, 0.999))
}
