package tune

import (
	"cmp"
	"math"
	"slices"
)

// What the search is made of.
const (
	// fewAxes is up to how many parameters the start moves all at once; beyond,
	// nearly every such point is bad for some reason and says nothing.
	fewAxes = 6
	// mostActive is how many parameters the strategy adapts together.
	mostActive = 8
	// firstStep is its step at the start, in shares of a range.
	firstStep = 0.2
	// stalled is the step below which it has nothing left to find.
	stalled = 0.004
)

// perBatch is how many points of the start are raced together.
const perBatch = 8

// start tries points of a Sobol' sequence. With few parameters they fill the
// space; with many, each moves some of the best so far, every parameter as
// often as the others, which shows which of them matter.
func (s *study) start() error {
	n := len(s.space.axes)
	budget := min(s.c.Trials/2, max(2*n, s.c.Trials/5))
	moved := n
	if n > fewAxes {
		moved = max(2, n/10)
	}
	seq := newSobol(n, mix(s.c.Seed^0x736f626f6c))
	var order []int
	for k := 0; k < budget && len(s.trials) < s.c.Trials; {
		parent := s.best
		var points []point
		var axes [][]int
		for ; k < budget && len(points) < perBatch && len(s.trials)+len(points) < s.c.Trials; k++ {
			if len(order) < moved {
				order = append(order, s.dice.Perm(n)...)
			}
			mask := slices.Compact(slices.Sorted(slices.Values(order[:moved])))
			order = order[moved:]
			u, at := seq.at(uint32(k)), []int{}
			var coordinates []float64
			for _, m := range mask {
				at = append(at, s.space.axes[m])
				coordinates = append(coordinates, u[m])
			}
			axes = append(axes, at)
			points = append(points, s.space.at(parent.Values, at, coordinates))
		}
		from := parent.Score
		trials, err := s.ask("start", points, nil)
		if err != nil {
			return err
		}
		if err := s.race(trials); err != nil {
			return err
		}
		for i, t := range trials {
			t.moved, t.effect = axes[i], min(1, math.Abs(t.Score-from))
		}
	}
	return nil
}

// effects is how much each parameter seems to move the score: the effects of
// the start's trials, each shared out among the parameters that it moved, by
// least squares with no negative shares.
func (s *study) effects() []float64 {
	share := make([]float64, len(s.space.specs))
	const ridge = 0.5 // draws parameters that were seldom moved to none
	for range 50 {
		for _, i := range s.space.axes {
			sum, weight := 0.0, ridge
			for _, t := range s.trials {
				if !slices.Contains(t.moved, i) {
					continue
				}
				rest := t.effect
				for _, k := range t.moved {
					if k != i {
						rest -= share[k]
					}
				}
				sum += rest
				weight++
			}
			share[i] = max(0, sum/weight)
		}
	}
	return share
}

// active are the parameters to adapt together: those with the largest effects,
// and in another round those that come after them.
func (s *study) active(round int) []int {
	axes := slices.Clone(s.space.axes)
	if len(axes) <= mostActive {
		return axes
	}
	effect := s.effects()
	slices.SortStableFunc(axes, func(a, b int) int { return cmp.Compare(effect[b], effect[a]) })
	from := min(round%2*mostActive, len(axes)-mostActive)
	out := slices.Clone(axes[from : from+mostActive])
	slices.Sort(out)
	return out
}

// adapt spends what is left of the trials on the evolution strategy, from the
// best so far. When it stalls it begins anew with twice as many points a
// generation (A. Auger and N. Hansen, "A restart CMA evolution strategy with
// increasing population size", CEC 2005), from what is the best then.
func (s *study) adapt() error {
	lambda := 0
	for round := 0; len(s.trials) < s.c.Trials && len(s.space.axes) > 0; round++ {
		from := s.best
		axes := s.active(round)
		c := NewCMA(s.space.units(from.Values, axes), firstStep, lambda, mix(s.c.Seed+uint64(round)))
		if err := s.generations(c, axes, from); err != nil {
			return err
		}
		lambda = 2 * c.s.Lambda
	}
	return nil
}

// generations runs a strategy until it stalls or the trials are spent.
func (s *study) generations(c *CMA, axes []int, from *Trial) error {
	for len(s.trials) < s.c.Trials && c.Spread() > stalled {
		asked := c.Ask()
		state := c.State()
		state.Asked = nil // the points stand beside it
		var points []point
		for _, x := range asked[:min(len(asked), s.c.Trials-len(s.trials))] {
			points = append(points, s.space.at(from.Values, axes, x))
		}
		trials, err := s.ask("search", points, &state)
		if err != nil {
			return err
		}
		if err := s.race(trials); err != nil {
			return err
		}
		if len(points) < len(asked) {
			return nil
		}
		costs := make([]float64, len(trials))
		flat := true
		for i, t := range trials {
			costs[i] = t.Score + outside(asked[i])
			flat = flat && costs[i] == costs[0]
		}
		if flat {
			return nil
		}
		if err := c.Tell(costs); err != nil {
			return err
		}
	}
	return nil
}

// outside is what a point pays for being repaired into the ranges: the square
// of its way (N. Hansen, the tutorial's appendix B.5).
func outside(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		d := v - min(max(v, 0), 1)
		sum += d * d
	}
	return sum
}
