package provider

import (
	"math/bits"
	"time"

	"weir/sim/incident"
)

// rampSteps is in how many steps a number moves over a change: a cap that
// loses 160 slots then never jumps by more than one.
const rampSteps = 256

// schedule is the law as a function of time.
type schedule struct {
	base    incident.Law
	changes []incident.Change
	// from holds, for each change, the numbers of the law at its start.
	from [][incident.NumNumbers]int64
}

func newSchedule(p *incident.Provider) *schedule {
	s := &schedule{base: p.Law}
	for _, c := range p.Changes {
		law := s.at(int64(c.At))
		var numbers [incident.NumNumbers]int64
		for k, n := range law.Numbers() {
			numbers[k] = *n
		}
		s.changes = append(s.changes, c)
		s.from = append(s.from, numbers)
	}
	return s
}

// at returns the law at t. It is constant between the instants of next.
func (s *schedule) at(t int64) incident.Law {
	law := s.base
	moved := s.base
	for i := range s.changes {
		c := &s.changes[i]
		if int64(c.At) > t {
			break
		}
		law = c.To
		to, numbers := c.To.Numbers(), moved.Numbers()
		for k, n := range numbers {
			if c.Moves(k) {
				*n = between(s.from[i][k], *to[k], onGrid(t-int64(c.At), c.Over), int64(c.Over))
			}
		}
	}
	target := law.Numbers()
	for k, n := range moved.Numbers() {
		*target[k] = *n
	}
	return law
}

// next returns the first instant after t at which the law may differ.
func (s *schedule) next(t int64) int64 {
	next := Never
	for i := range s.changes {
		at, over := int64(s.changes[i].At), int64(s.changes[i].Over)
		switch {
		case t < at:
			next = min(next, at)
		case t < at+over:
			step := rampStep(s.changes[i].Over)
			next = min(next, at+over, at+((t-at)/step+1)*step)
		}
	}
	return next
}

func rampStep(over time.Duration) int64 {
	return max(int64(over)/rampSteps, int64(time.Millisecond))
}

// onGrid rounds the time since a change began down to its steps.
func onGrid(since int64, over time.Duration) int64 {
	if since >= int64(over) {
		return int64(over)
	}
	step := rampStep(over)
	return since / step * step
}

// between is the number at time t of a move from a to b over a time. A limit
// that appears or vanishes does so at once.
func between(a, b, t, over int64) int64 {
	if over <= 0 || t >= over || a < 0 || b < 0 {
		return b
	}
	if a <= b {
		return a + incident.Scale(b-a, t, over)
	}
	return a - incident.Scale(a-b, t, over)
}

// scaleUp is incident.Scale rounded up.
func scaleUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c-1), 0)
	hi += carry
	if hi == 0 { // as nearly always: then a constant c costs no division
		return int64(min(lo/uint64(c), uint64(Never)))
	}
	return wide(hi, lo, uint64(c))
}

// wide is the quotient of a product that has two words.
func wide(hi, lo, c uint64) int64 {
	if hi >= c {
		return Never
	}
	q, _ := bits.Div64(hi, lo, c)
	return int64(min(q, uint64(Never)))
}
