package calibrate

import (
	"math"
	"slices"

	"weir/model"
)

// capacity is the best of laws that are nearly as likely, with what all of
// them leave possible.
func (l *loaded) capacity(near []*strained, f fit, begin, end model.Nanos) *Capacity {
	best := near[0]
	c := &Capacity{Steep: best.law.steep, idle: best.idle + l.noise*l.noise/2, noise: l.noise, fit: f}
	c.Knee = 1 / best.law.best()
	most := l.most(best)
	c.Reach, c.ReachOpen = best.law.reach, false
	for _, s := range near {
		if s.law.reach >= l.most(s) {
			c.ReachOpen = true
		}
	}
	if c.ReachOpen {
		c.Reach = max(most, best.law.best())
	}
	levels := line(best.bends, len(best.bins))
	best.bends = dense(best.bends, levels)
	width := (end - begin) / model.Nanos(len(best.bins))
	for k, b := range best.bends {
		at := begin + width*model.Nanos(b.bin) + width/2
		switch k {
		case 0:
			at = begin
		case len(best.bends) - 1:
			at = end
		}
		out := Bend{At: at - begin, Estimate: l.bounds(near, k)}
		out.Best = math.Exp(tick*levels[b.bin]) * best.law.best()
		out.Low = min(out.Low, out.Best)
		if !out.Open {
			out.High = max(out.High, out.Best)
		}
		c.Bends = append(c.Bends, out)
	}
	return c
}

// dense puts bends into long straight pieces, so that no bound is of more than a
// quarter of the log.
func dense(bends []bend, levels []float64) []bend {
	out := bends[:1:1]
	most := max(len(levels)/4, 1)
	for _, b := range bends[1:] {
		a := out[len(out)-1]
		for n, k := (b.bin-a.bin+most-1)/most, 1; k < n; k++ {
			bin := a.bin + (b.bin-a.bin)*k/n
			out = append(out, bend{bin, levels[bin]})
		}
		out = append(out, b)
	}
	return out
}

// most is the largest load over the knee that at least a few calls ran at.
func (l *loaded) most(s *strained) float64 {
	var over []float64
	levels := line(s.bends, len(s.bins))
	for i, bin := range s.bins {
		for _, h := range bin {
			for range int(h.n) {
				over = append(over, float64(h.level)-levels[i])
			}
		}
	}
	slices.Sort(over)
	return math.Exp(tick * over[(len(over)-1)*99/100])
}

// bounds is what a bend of the best may be at, all else being fitted anew, and
// what other laws and their courses have there that are nearly as likely. A
// course with few bends is a picture; what it was before they were taken away
// is another.
func (l *loaded) bounds(near []*strained, k int) Estimate {
	e := Estimate{Low: math.Inf(1)}
	best := near[0]
	bin := best.bends[k].bin
	for _, bin := range l.around(best, k) {
		for _, h := range bin {
			e.Accepted += int(h.n)
		}
	}
	may := func(s *strained, level float64) {
		v := math.Exp(tick*level) * s.law.best()
		e.Low, e.High = min(e.Low, v), max(e.High, v)
	}
	for _, s := range near {
		may(s, line(s.bends, len(s.bins))[bin])
	}
	for _, step := range []float64{-0.25, 0.25} {
		t := *best
		t.bends = slices.Clone(best.bends)
		l.fitBut(&t, k)
		for most := t.cost + ninety; t.cost <= most; l.fitBut(&t, k) {
			may(&t, t.bends[k].level)
			if t.bends[k].level >= float64(l.high) || t.bends[k].level <= float64(l.low) {
				break
			}
			t.bends[k].level += step
		}
		if t.bends[k].level >= float64(l.high) {
			e.Open = true
		}
		if t.bends[k].level <= float64(l.low) {
			e.Low = 0
		}
	}
	e.Low, e.High = e.Low*(1-shape), e.High*(1+shape)
	if e.Open = e.Open || l.boundless(best, bin); e.Open {
		e.High = 0
	}
	return e
}

// shape is what a law of this shape and a course of straight pieces leave out
// on each side, found with worlds whose capacity is known.
const shape = 0.08

// boundless reports whether what was seen around a bin bears any capacity
// above.
func (l *loaded) boundless(s *strained, bin int) bool {
	from, to := max(bin-1, 0), min(bin+1, len(s.bins)-1)
	levels := line(s.bends, len(s.bins))[from : to+1]
	was := l.costOf(s, from, to, levels)
	for i := range levels {
		levels[i] = float64(l.high)
	}
	return l.costOf(s, from, to, levels)-was < ninety
}

// around are the bins between the neighbours of a bend.
func (l *loaded) around(s *strained, k int) [][]heap {
	return s.bins[s.bends[max(k-1, 0)].bin : s.bends[min(k+1, len(s.bends)-1)].bin+1]
}

// at is the capacity at an instant since the log's first call.
func (c *Capacity) at(t model.Nanos) float64 {
	k := 0
	for k+1 < len(c.Bends) && c.Bends[k+1].At <= t {
		k++
	}
	a := &c.Bends[k]
	if k+1 == len(c.Bends) || t <= a.At {
		return a.Best
	}
	b := &c.Bends[k+1]
	share := float64(t-a.At) / float64(b.At-a.At)
	return a.Best + share*(b.Best-a.Best)
}

// anyQueue holds whatever finds no slot.
const anyQueue = 1_000_000

// meet sets slots and queue: as many slots as the log has seen in use and a
// little more, or where calls begin to wait; all else waits. What was refused in
// some spans bounds both.
func (c *Capacity) meet(spans []Span) {
	c.slots, c.queue = c.Reach*c.Knee, anyQueue
	if c.ReachOpen {
		c.slots *= 1.1
	}
	fits := 0.0
	for i := range spans {
		if s := &spans[i]; !s.Open {
			at := c.at((s.From + s.To) / 2)
			c.slots = min(c.slots, max(s.Best/at, 1))
			fits = max(fits, s.Best-c.slots*at)
			c.queue = int64(fits)
		}
	}
}

// law puts what the capacity tells of times into a latency.
func (c *Capacity) law(l *Latency) {
	idle := math.Exp(c.idle)
	l.BaseMS = c.fit.interval(0, 1e3*idle)
	l.Input, l.Output = c.fit.speed(1), c.fit.speed(2)
	for _, v := range []*float64{&l.Input.Best, &l.Input.Low, &l.Input.High, &l.Output.Best, &l.Output.Low, &l.Output.High} {
		*v /= idle
	}
	l.CV = math.Sqrt(math.Exp(c.noise*c.noise) - 1)
	reach := c.slots / c.Knee
	l.From, l.Factor = 0, 1
	if c.Steep > 0 && reach > 1 {
		l.From, l.Factor = 1/reach, min(1+c.Steep*(reach-1)*(reach-1), 100)
	}
}
