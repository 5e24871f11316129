package calibrate

import (
	"cmp"
	"math"
	"slices"

	"weir/model"
)

// Capacity is what calls that were let through say of a provider: how many in
// flight get the most answers a second. More take longer than they are worth.
// It is looked for where refusals do not bound a limit all the time, in how much
// longer calls took the more there were beside them, as that moved with time.
type Capacity struct {
	// Bends are the capacity from one instant to the next, straight in between.
	Bends []Bend `json:"bends"`
	// Knee is from which share of the capacity on calls take longer, Steep by
	// how much: 1 + Steep·(v-1)² with v the load over the knee.
	Knee  float64 `json:"knee"`
	Steep float64 `json:"steep"`
	// Reach is the load over the knee beyond which calls wait for a slot, as far
	// as the log tells; where it is Open, Reach is the most that was seen.
	Reach     float64 `json:"reach"`
	ReachOpen bool    `json:"reach_open"`
	// idle is the logarithm of the time on an idle provider over that of the law
	// of sizes, noise the deviation of what is left.
	idle, noise float64
	fit         fit
	// slots are those of the world, over the capacity; queue are its places.
	slots float64
	queue int64
}

// Bend is the capacity at an instant.
type Bend struct {
	// At is nanoseconds since the log's first call.
	At model.Nanos `json:"at_ns"`
	Estimate
}

// Whole returns the estimate in whole calls, its bounds rounded outwards.
func (b *Bend) Whole() Estimate {
	e := b.Estimate
	e.Low, e.Best, e.High = math.Floor(e.Low), math.Round(e.Best), math.Ceil(e.High)
	return e
}

const (
	// tick is how finely loads and capacities are told apart, in logarithms.
	tick = 0.03
	// fine is into how many parts a table divides a tick.
	fine = 4
	// way is what a way of one tick costs a number that moves, before the bends
	// of its course are looked for.
	way = 0.6
	// leastStrains is from how many answered calls on anything is looked for,
	// perBin how many a bin of time has.
	leastStrains, perBin = 200, 24
	// surer is by how much the load must explain times better than a provider
	// that is slow by itself.
	surer = 6
	// leastRise is how much longer calls must have taken, in logarithms.
	leastRise = 0.05
	// partsOfBin is how finely what was in flight is followed.
	partsOfBin = 8
)

// strainLaw is how much longer calls take with v times the knee in flight.
type strainLaw struct{ steep, reach float64 }

// never is a reach beyond every load.
const never = 1e6

func (s strainLaw) at(v float64) float64 {
	if v <= 1 {
		return 1
	}
	x := min(v, s.reach) - 1
	return (1 + s.steep*x*x) * max(1, v/s.reach)
}

// best is the v with the most answers a second.
func (s strainLaw) best() float64 {
	if s.steep == 0 {
		return s.reach
	}
	return min(s.reach, math.Sqrt(1+1/s.steep))
}

// strainLaws are those that are tried.
func strainLaws() []strainLaw {
	all := []strainLaw{{0, 1}}
	for _, reach := range []float64{never, 3, 2.5, 2, 1.75, 1.5, 1.35, 1.2, 1.1} {
		for steep := 0.5; steep < 100; steep *= 2 {
			all = append(all, strainLaw{steep, reach})
		}
	}
	return all
}

// heap is what calls of one bin and load have in common.
type heap struct {
	level   int // of the load, in ticks
	n, long float64
}

// loaded is a channel's calls by time and load.
type loaded struct {
	all       []strain
	width     float64   // of a bin, in seconds
	flight    []float64 // in flight in each part of time
	part      float64   // of which that many seconds are one
	bins      [][]heap
	places    []place
	low, high int // of knees, in ticks
	weight    float64
	noise     float64
}

func newLoaded(all []strain, f flight, length float64) *loaded {
	took := make([]float64, len(all))
	for i := range all {
		took[i] = all[i].took
	}
	slices.Sort(took)
	// What is shorter than a call cannot be told from its luck.
	n := int(min(max(length/took[len(took)/2], 1), float64(len(all)/perBin), maxBins))
	l := &loaded{all: all, width: length/float64(n) + 1e-9, low: math.MaxInt, high: math.MinInt}
	l.part = l.width / partsOfBin
	l.flight = make([]float64, n*partsOfBin)
	for k := range l.flight {
		l.flight[k] = f.mean(float64(k)*l.part, float64(k+1)*l.part)
	}
	parts := make([][]*strain, n)
	for i := range all {
		s := &all[i]
		k := l.bin(s)
		parts[k] = append(parts[k], s)
		level := levelOf(s.load)
		l.low, l.high = min(l.low, level-40), max(l.high, level+2)
	}
	l.noise = max(clip(parts), 0.01)
	l.weight = 1 / (2 * l.noise * l.noise)
	l.sort()
	return l
}

// clip moves what is far off to where it is just unlikely, and returns the
// deviation of what is left within parts.
func clip(parts [][]*strain) float64 {
	var off []float64
	middles := make([]float64, len(parts))
	for i, part := range parts {
		long := make([]float64, len(part))
		for k := range part {
			long[k] = part[k].long
		}
		if slices.Sort(long); len(long) > 0 {
			middles[i] = long[len(long)/2]
		}
		for _, v := range long {
			off = append(off, math.Abs(v-middles[i]))
		}
	}
	slices.Sort(off)
	most := 3 * 1.4826 * off[len(off)/2]
	var squares float64
	for i, part := range parts {
		for k := range part {
			d := min(max(part[k].long-middles[i], -most), most)
			part[k].long = middles[i] + d
			squares += d * d
		}
	}
	return math.Sqrt(squares / float64(len(off)))
}

func levelOf(load float64) int { return int(math.Round(math.Log(load) / tick)) }

func (l *loaded) bin(s *strain) int {
	return min(max(int(s.at/l.width), 0), int(float64(len(l.flight))/partsOfBin)-1)
}

// place is a bin and a heap in it.
type place struct{ bin, heap int32 }

// sort gives each call its heap.
func (l *loaded) sort() {
	l.bins = make([][]heap, len(l.flight)/partsOfBin)
	l.places = make([]place, len(l.all))
	by := map[[2]int]place{}
	for i := range l.all {
		bin, level := l.bin(&l.all[i]), levelOf(l.all[i].load)
		at, known := by[[2]int{bin, level}]
		if !known {
			at = place{int32(bin), int32(len(l.bins[bin]))}
			by[[2]int{bin, level}] = at
			l.bins[bin] = append(l.bins[bin], heap{level: level})
		}
		h := &l.bins[at.bin][at.heap]
		h.n++
		h.long += l.all[i].long
		l.places[i] = at
	}
	for _, bin := range l.bins {
		for k := range bin {
			bin[k].long /= bin[k].n
		}
	}
}

// within is the level between the middles of two bins.
func within(levels []float64, at float64) float64 {
	at = min(max(at, 0), float64(len(levels)-1))
	k := min(int(at), max(len(levels)-2, 0))
	return levels[k] + (levels[min(k+1, len(levels)-1)]-levels[k])*(at-float64(k))
}

// lived puts the calls together anew for a law and a course of the knee: the
// load moves while a call runs, and what it was in the mean is not what made
// the call long.
func (l *loaded) lived(s *strained, levels []float64) {
	work := make([]float64, len(l.flight)+1) // done by the end of each part
	for k, n := range l.flight {
		work[k+1] = work[k] + l.part*math.Exp(-s.long(math.Log(max(n, 1))/tick, within(levels, (float64(k)+0.5)/partsOfBin-0.5)))
	}
	until := func(t float64) float64 {
		at := min(max(t/l.part, 0), float64(len(l.flight)))
		k := min(int(at), len(l.flight)-1)
		return work[k] + (at-float64(k))*(work[k+1]-work[k])
	}
	s.bins = make([][]heap, len(l.bins))
	for i, bin := range l.bins {
		s.bins[i] = slices.Clone(bin)
		for k := range bin {
			h := &s.bins[i][k]
			h.long += s.long(float64(h.level), levels[i])
		}
	}
	for i := range l.all {
		c := &l.all[i]
		done := until(c.at+c.took/2) - until(c.at-c.took/2)
		h := &s.bins[l.places[i].bin][l.places[i].heap]
		h.long -= math.Log(c.took/max(done, 1e-9)) / h.n
	}
}

// strained is one law and what came of it.
type strained struct {
	law strainLaw
	// alone: not the load but the provider by itself makes calls long, by how
	// far the level is below 0. There is no law then.
	alone     bool
	low, high int       // of levels, which are knees otherwise
	table     []float64 // logarithms of the law by ticks over the knee, in fine parts
	idle      float64
	bins      [][]heap
	path      []int
	bends     []bend
	cost      float64
}

func (l *loaded) strained(law strainLaw) *strained {
	s := &strained{law: law, bins: l.bins, low: l.low, high: l.high, table: make([]float64, (l.high-l.low)*fine+1)}
	for i := range s.table {
		s.table[i] = math.Log(law.at(math.Exp(float64(i) * tick / fine)))
	}
	return s
}

// long is how much longer calls take, in logarithms, with a load at a level.
func (s *strained) long(load, level float64) float64 {
	if s.alone {
		return -tick * level
	}
	k := int((load-level)*fine + 0.5)
	if k <= 0 {
		return 0
	}
	return s.table[min(k, len(s.table)-1)]
}

// costOf is minus the log-likelihood of bins from..to at levels, the first being
// that of from.
func (l *loaded) costOf(s *strained, from, to int, levels []float64) float64 {
	sum := 0.0
	for i := from; i <= to; i++ {
		for _, h := range s.bins[i] {
			d := h.long - s.idle - s.long(float64(h.level), levels[i-from])
			sum += h.n * d * d
		}
	}
	return sum * l.weight
}

// settle sets the time of an idle provider to the likeliest.
func (l *loaded) settle(s *strained, levels []float64) {
	if s.alone {
		return
	}
	var n, sum float64
	for i := range s.bins {
		for _, h := range s.bins[i] {
			n += h.n
			sum += h.n * (h.long - s.long(float64(h.level), levels[i]))
		}
	}
	s.idle = sum / n
}

// follow finds a course under a law.
func (l *loaded) follow(s *strained) {
	costs := make([][]float64, len(s.bins))
	for range 2 {
		for i, bin := range s.bins {
			costs[i] = make([]float64, s.high-s.low+1)
			for k := range costs[i] {
				for _, h := range bin {
					d := h.long - s.idle - s.long(float64(h.level), float64(s.low+k))
					costs[i][k] += h.n * d * d * l.weight
				}
			}
		}
		s.path, s.cost = course(costs, way)
		for i := range s.path {
			s.path[i] += s.low
		}
		l.settle(s, floats(s.path))
		l.lived(s, floats(s.path))
	}
}

func floats(list []int) []float64 {
	out := make([]float64, len(list))
	for i, v := range list {
		out[i] = float64(v)
	}
	return out
}

// capacity looks for one; nil when times do not tell of any.
func capacity(calls []call, begin, end model.Nanos) *Capacity {
	inHand := newFlight(calls, begin)
	all, f := strains(calls, inHand, begin, end)
	if len(all) == 0 || end <= begin {
		return nil
	}
	l := newLoaded(all, inHand, (end - begin).Duration().Seconds())
	var tried []*strained
	for _, law := range strainLaws() {
		s := l.strained(law)
		l.follow(s)
		tried = append(tried, s)
	}
	slices.SortStableFunc(tried, byCost)
	// Where no load came to a law's reach, another one is the same.
	tried = slices.CompactFunc(tried, func(a, b *strained) bool { return a.law.steep == b.law.steep && math.Abs(a.cost-b.cost) < 0.01 })
	l.doubt(tried[0])
	alone := l.strained(strainLaw{})
	alone.alone, alone.low, alone.high = true, -130, 30
	l.follow(alone)
	l.straighten(alone)
	near := l.near(tried)
	if !l.rises(near[0]) || near[0].cost+surer > alone.cost {
		return nil
	}
	return l.capacity(near, f, begin, end)
}

// near are the laws that explain times best, each with its course: some find
// their own, all are tried with the best of those.
func (l *loaded) near(tried []*strained) []*strained {
	const some = 6
	for _, s := range tried[:min(len(tried), some)] {
		l.straighten(s)
	}
	best := *slices.MinFunc(tried[:min(len(tried), some)], byCost)
	for _, s := range tried {
		t := *s
		if l.like(&t, &best); len(s.bends) == 0 || t.cost < s.cost {
			*s = t
		}
	}
	slices.SortStableFunc(tried, byCost)
	for _, s := range tried[:min(len(tried), some)] {
		for l.shift(s) || l.take(s) {
		}
		l.score(s)
	}
	tried = l.closer(tried)
	slices.SortStableFunc(tried, byCost)
	cost := tried[0].cost
	return slices.DeleteFunc(tried, func(s *strained) bool { return s.cost > cost+surer })
}

// closer adds laws beside the best until none is better.
func (l *loaded) closer(tried []*strained) []*strained {
	best := slices.MinFunc(tried, byCost)
	for by := math.Sqrt2; by > 1.08; by = math.Sqrt(by) {
		for rounds, better := 0, true; better && rounds < 6; rounds++ {
			better = false
			law := best.law
			for _, try := range []strainLaw{{law.steep * by, law.reach}, {law.steep / by, law.reach}, {law.steep, 1 + (law.reach-1)*by}, {law.steep, 1 + (law.reach-1)/by}} {
				if try == law || try.reach > never {
					continue
				}
				s := l.strained(try)
				l.like(s, best)
				tried = append(tried, s)
				if s.cost < best.cost-0.1 {
					best, better = s, true
				}
			}
		}
	}
	return tried
}

func byCost(a, b *strained) int { return cmp.Compare(a.cost, b.cost) }

// rises reports whether enough calls took longer for their load.
func (l *loaded) rises(s *strained) bool {
	n := 0.0
	levels := line(s.bends, len(s.bins))
	for i, bin := range s.bins {
		for _, h := range bin {
			if s.long(float64(h.level), levels[i]) >= leastRise {
				n += h.n
			}
		}
	}
	return n >= leastStrains/4
}

// doubt takes what the best law leaves unexplained beyond the noise of single
// calls for noise that calls of the same time share.
func (l *loaded) doubt(s *strained) {
	sum := 0.0
	for i, bin := range s.bins {
		var n, off float64
		for _, h := range bin {
			n += h.n
			off += h.n * (h.long - s.idle - s.long(float64(h.level), float64(s.path[i])))
		}
		sum += 2 * l.weight * off * off / max(n, 1)
	}
	l.weight /= max(1, sum/float64(len(s.bins)))
}
