package calibrate

import (
	"math"
	"slices"
)

// course is how a number moves with time: chooses a level for each bin so that
// the costs and price times the way between neighbours are least. It returns
// the levels and that sum.
func course(costs [][]float64, price float64) ([]int, float64) {
	levels := len(costs[0])
	score := make([]float64, levels)
	from := make([][]int32, len(costs))
	for i, cost := range costs {
		back := make([]int32, levels)
		for k := range back {
			back[k] = int32(k)
		}
		if i > 0 {
			spread(score, back, price)
		}
		for k, c := range cost {
			score[k] += c
		}
		from[i] = back
	}
	at := 0
	for k := range score {
		if score[k] < score[at] {
			at = k
		}
	}
	least := score[at]
	out := make([]int, len(costs))
	for i := len(costs) - 1; i >= 0; i-- {
		out[i] = at
		at = int(from[i][at])
	}
	return out, least
}

// spread lets each level be reached from any other at its price: two passes do.
func spread(score []float64, back []int32, price float64) {
	for k := 1; k < len(score); k++ {
		if v := score[k-1] + price; v < score[k] {
			score[k], back[k] = v, back[k-1]
		}
	}
	for k := len(score) - 2; k >= 0; k-- {
		if v := score[k+1] + price; v < score[k] {
			score[k], back[k] = v, back[k+1]
		}
	}
}

// bend is a point of a line through time: a bin and a level.
type bend struct {
	bin   int
	level float64
}

// line is the level at each of n bins between bends. Levels are logarithms of
// what moves evenly.
func line(bends []bend, n int) []float64 {
	out := make([]float64, n)
	at := 0
	for i := range out {
		for at+1 < len(bends) && bends[at+1].bin <= i {
			at++
		}
		a := bends[at]
		out[i] = a.level
		if at+1 < len(bends) && i > a.bin {
			b := bends[at+1]
			share := float64(i-a.bin) / float64(b.bin-a.bin)
			out[i] += math.Log1p(share*math.Expm1(tick*(b.level-a.level))) / tick
		}
	}
	return out
}

// straighten draws a course of few bends, each worth its price, and ends with
// the cost of all: once by taking bends away from the path, once by putting
// them into a straight line.
func (l *loaded) straighten(s *strained) {
	t := *s
	for i, v := range s.path {
		if s.bends = append(s.bends, bend{i, float64(v)}); i == 0 || i == len(s.path)-1 {
			t.bends = append(t.bends, bend{i, float64(v)})
		}
	}
	for l.add(&t) {
	}
	for _, s := range []*strained{s, &t} {
		for l.take(s) || l.shift(s) {
		}
		l.score(s)
	}
	if t.cost < s.cost {
		*s = t
	}
}

// score fits all bends and sets the cost to that of all.
func (l *loaded) score(s *strained) {
	l.fit(s)
	s.cost += l.price() * float64(len(s.bends))
}

// like gives a law the course of another.
func (l *loaded) like(s, other *strained) {
	by := math.Log(other.law.best()/s.law.best()) / tick
	s.bends, s.idle = slices.Clone(other.bends), other.idle
	for i := range s.bends {
		s.bends[i].level = min(max(s.bends[i].level+by, float64(s.low)), float64(s.high))
	}
	levels := line(s.bends, len(s.bins))
	l.settle(s, levels)
	l.lived(s, levels)
	l.score(s)
}

// price is what a bend must explain: an instant and a level.
func (l *loaded) price() float64 { return math.Log(float64(len(l.all))) }

// take takes away bends that are not worth their price and reports whether
// there were any.
func (l *loaded) take(s *strained) (some bool) {
	for next := len(s.bends) / 2; ; some = true {
		at, least, left := 0, l.price(), []bend(nil)
		for i := 1; i < len(s.bends)-1; i++ {
			if loss, bends := l.without(s, i); loss < least {
				at, least, left = i, loss, bends
			}
		}
		if at == 0 {
			l.fit(s)
			return some
		}
		if s.bends = left; len(s.bends) <= next {
			l.fit(s)
			next = len(s.bends) / 2
		}
	}
}

// add puts in the bend that explains most and reports whether it is worth it.
func (l *loaded) add(s *strained) bool {
	l.fit(s)
	most, best := l.price(), []bend(nil)
	for k := range len(s.bends) - 1 {
		from, to := max(k-1, 0), min(k+2, len(s.bends)-1)
		before := l.stretch(s, from, to)
		levels := line(s.bends, len(s.bins))
		for bin := s.bends[k].bin + 1; bin < s.bends[k+1].bin; bin++ {
			t := *s
			t.bends = slices.Insert(slices.Clone(s.bends), k+1, bend{bin, levels[bin]})
			for range 2 {
				l.move(&t, k+1)
				l.move(&t, k)
				l.move(&t, k+2)
			}
			if gain := before - l.stretch(&t, from, to+1); gain > most {
				most, best = gain, t.bends
			}
		}
	}
	if best == nil {
		return false
	}
	s.bends = best
	return true
}

// shift moves bends to other bins where that costs less, and reports whether
// any was.
func (l *loaded) shift(s *strained) (moved bool) {
	for k := 1; k < len(s.bends)-1; k++ {
		for _, way := range []int{-1, 1} {
			for l.try(s, k, way) {
				moved = true
			}
		}
	}
	return moved
}

// try moves a bend by bins if that costs less by more than a trifle.
func (l *loaded) try(s *strained, k, by int) bool {
	from, to := max(k-2, 0), min(k+2, len(s.bends)-1)
	at := s.bends[k].bin + by
	if at <= s.bends[k-1].bin || at >= s.bends[k+1].bin {
		return false
	}
	before, was := l.stretch(s, from, to), slices.Clone(s.bends[from:to+1])
	s.bends[k].bin = at
	for range 2 {
		for i := max(k-1, 0); i <= min(k+1, len(s.bends)-1); i++ {
			l.move(s, i)
		}
	}
	// The ends of the stretch may have moved as long as its own bins cost less.
	if l.stretch(s, from, to) < before-0.1 {
		return true
	}
	copy(s.bends[from:], was)
	return false
}

// without is what it costs to take a bend away, and what is left then: its
// neighbours move to where that costs least.
func (l *loaded) without(s *strained, i int) (loss float64, left []bend) {
	from, to := max(i-2, 0), min(i+2, len(s.bends)-1)
	before := l.stretch(s, from, to)
	t := *s
	t.bends = slices.Delete(slices.Clone(s.bends), i, i+1)
	for range 2 {
		l.move(&t, i-1)
		l.move(&t, i)
	}
	return l.stretch(&t, from, to-1) - before, t.bends
}

// stretch is the cost of the bins between two bends and of the way there.
func (l *loaded) stretch(s *strained, from, to int) float64 {
	first, last := s.bends[from].bin, s.bends[to].bin
	around := make([]bend, 0, to-from+1)
	sum := 0.0
	for k := from; k <= to; k++ {
		around = append(around, bend{s.bends[k].bin - first, s.bends[k].level})
		if k > from {
			sum += way * math.Abs(s.bends[k].level-s.bends[k-1].level)
		}
	}
	return sum + l.costOf(s, first, last, line(around, last-first+1))
}

// move moves the level of a bend to where it costs least and reports whether
// that was another.
func (l *loaded) move(s *strained, k int) bool {
	b := &s.bends[k]
	from, to := max(k-1, 0), min(k+1, len(s.bends)-1)
	was := b.level
	at, least := was, l.stretch(s, from, to)
	for _, step := range []float64{4, 1, 0.25} {
		for _, way := range []float64{-step, step} {
			for {
				b.level = min(max(at+way, float64(s.low)), float64(s.high))
				c := l.stretch(s, from, to)
				if c >= least-1e-9 {
					break
				}
				at, least = b.level, c
			}
		}
	}
	b.level = at
	return at != was
}

// fit moves the levels of all bends to where they cost least.
func (l *loaded) fit(s *strained) { l.fitBut(s, -1) }

// fitBut is fit for all bends but one.
func (l *loaded) fitBut(s *strained, held int) {
	for range 6 {
		moved := false
		for k := range s.bends {
			if k != held && l.move(s, k) {
				moved = true
			}
		}
		levels := line(s.bends, len(s.bins))
		l.settle(s, levels)
		l.lived(s, levels)
		if !moved {
			break
		}
	}
	s.cost = l.stretch(s, 0, len(s.bends)-1)
}
