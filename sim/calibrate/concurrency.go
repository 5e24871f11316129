package calibrate

import (
	"math"
	"slices"

	"weir/model"
)

// Span is a stretch of time in which a limit stood still.
type Span struct {
	// From and To are nanoseconds since the log's first call.
	From model.Nanos `json:"from_ns"`
	To   model.Nanos `json:"to_ns"`
	Estimate
}

// seen is a sight with its instant.
type seen struct {
	at model.Nanos
	sight
}

// blur is how exactly a log knows instants: reports take a while on their way
// to the log, and many logs round to milliseconds. Slots are taken again the
// moment they are free, so that two calls seem to have one at the same time.
const blur = 5 * model.Millisecond

// load is how many calls the provider had in hand when one was sent, itself
// included, at least and at most.
type load struct{ least, most int32 }

func (l load) mean() float64 { return float64(l.least+l.most) / 2 }

// loads returns the load at each call, in order. A refused call has no place; of
// one that broke nobody knows.
func loads(calls []call) []load {
	var sent, maySent, end, mayEnd []model.Nanos
	for i := range calls {
		c := &calls[i]
		broke := model.Class(c.class) == model.ClassTransport
		if c.accepted() {
			sent, end = append(sent, c.sent), append(end, c.end())
		}
		if c.accepted() || broke {
			maySent, mayEnd = append(maySent, c.sent), append(mayEnd, c.end())
		}
	}
	slices.Sort(end)
	slices.Sort(mayEnd)
	out := make([]load, len(calls))
	var a, b, c, d int
	for i := range calls {
		at := calls[i].sent
		a, b = upTo(sent, a, at-blur), upTo(end, b, at+blur)
		c, d = upTo(maySent, c, at+blur), upTo(mayEnd, d, at-blur)
		l := load{least: int32(max(a-b, 0)) + 1, most: int32(max(c-d, 0))}
		if !calls[i].accepted() && model.Class(calls[i].class) != model.ClassTransport {
			l.most++ // the others are counted themselves
		}
		l.most = max(l.most, l.least)
		out[i] = l
	}
	return out
}

// upTo goes on from place k to the first instant after t.
func upTo(list []model.Nanos, k int, t model.Nanos) int {
	for k < len(list) && list[k] <= t {
		k++
	}
	return k
}

// inFlight lists what was seen of a concurrency limit: an accepted call needs
// room for the least that was there, a refused one finds no room for the most.
func inFlight(calls []call, loads []load, refusal func(*call) bool) []seen {
	var all []seen
	for i := range calls {
		c := &calls[i]
		switch {
		case refusal(c):
			all = append(all, seen{c.sent, sight{float64(loads[i].most), true}})
		case c.accepted():
			all = append(all, seen{c.sent, sight{float64(loads[i].least), false}})
		}
	}
	return all
}

const (
	maxBins = 96
	// changeCost is what the log-likelihood must gain for another change.
	changeCost = 12
	// binBlur is the blur by which stretches are told apart, as a share of the
	// use, at least one half.
	binBlur = 0.02
)

// spans finds the stretches in which the limit stood still, by the piecewise
// constant limit of the largest likelihood with a cost for each change.
func spans(all []seen, from, to model.Nanos) []Span {
	if len(all) == 0 || to <= from {
		return nil
	}
	bins := int(min(max(int64(len(all))/50, 1), maxBins))
	width := (to-from)/model.Nanos(bins) + 1
	parts := make([][]sight, bins)
	var xs []float64
	for _, s := range all {
		i := min(max(int((s.at-from)/width), 0), bins-1)
		parts[i] = append(parts[i], s.sight)
		xs = append(xs, s.x)
	}
	grid := grid(xs)
	choice := path(parts, grid)
	var out []Span
	for i := range choice {
		if i == 0 || choice[i] != choice[i-1] {
			out = append(out, Span{From: from + model.Nanos(i)*width, Estimate: Estimate{Best: grid[choice[i]]}})
		}
	}
	for i := 1; i < len(out); i++ {
		out[i].From = boundary(all, out[i].From-width, out[i].From+width, out[i-1].Best, out[i].Best)
	}
	for i := range out {
		out[i].To = to
		if i+1 < len(out) {
			out[i].To = out[i+1].From
		}
		out[i].measure(all)
	}
	out = merge(out, all)
	for i := range out {
		out[i].From -= from
		out[i].To -= from
	}
	return out
}

// measure fits the limit of a stretch.
func (s *Span) measure(all []seen) {
	var mine []sight
	for i := range all {
		if all[i].at >= s.From && all[i].at <= s.To {
			mine = append(mine, all[i].sight)
		}
	}
	s.Estimate, _ = threshold(mine, 1, 1)
}

// merge puts neighbours together that may be the same, both being bounded.
func merge(list []Span, all []seen) []Span {
	for i := 0; i+1 < len(list); {
		a, b := &list[i], &list[i+1]
		if a.Open != b.Open || !a.Open && (a.Low > b.High || b.Low > a.High) {
			i++
			continue
		}
		a.To = b.To
		a.measure(all)
		list = slices.Delete(list, i+1, i+2)
		i = max(i-1, 0)
	}
	return list
}

// grid is what limits are tried: the uses that were seen, thinned out, and one
// that is never reached.
func grid(xs []float64) []float64 {
	slices.Sort(xs)
	xs = slices.Compact(xs)
	const most = 160
	var out []float64
	step := max(1, len(xs)/most)
	out = append(out, xs[0]-1)
	for i := step - 1; i < len(xs); i += step {
		out = append(out, xs[i])
	}
	return append(out, xs[len(xs)-1]*2+1)
}

// path chooses a limit for each bin.
func path(parts [][]sight, grid []float64) []int {
	score := make([]float64, len(grid))
	back := make([][]int, len(parts))
	for i, part := range parts {
		best := 0
		for k := range score {
			if score[k] > score[best] {
				best = k
			}
		}
		ls := levels(part)
		back[i] = make([]int, len(grid))
		next := make([]float64, len(grid))
		for k, c := range grid {
			back[i][k], next[k] = k, score[k]
			if i > 0 && score[best]-changeCost > score[k] {
				back[i][k], next[k] = best, score[best]-changeCost
			}
			next[k] += likelihood(ls, c, max(0.5, c*binBlur), 0.5)
		}
		score = next
	}
	choice := make([]int, len(parts))
	at := 0
	for k := range score {
		if score[k] > score[at] {
			at = k
		}
	}
	for i := len(parts) - 1; i >= 0; i-- {
		choice[i] = at
		at = back[i][at]
	}
	return choice
}

// boundary finds within a time where the limit went from a to b.
func boundary(all []seen, from, to model.Nanos, a, b float64) model.Nanos {
	const steps = 64
	best, at := math.Inf(-1), (from+to)/2
	var near []seen
	for _, s := range all {
		if s.at >= from && s.at < to {
			near = append(near, s)
		}
	}
	for k := range steps + 1 {
		t := from + (to-from)*model.Nanos(k)/steps
		var left, right []sight
		for _, s := range near {
			if s.at < t {
				left = append(left, s.sight)
			} else {
				right = append(right, s.sight)
			}
		}
		sum := likelihood(levels(left), a, max(0.5, a*binBlur), 0.5) + likelihood(levels(right), b, max(0.5, b*binBlur), 0.5)
		if sum > best {
			best, at = sum, t
		}
	}
	return at
}
