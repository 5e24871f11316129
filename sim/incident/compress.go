package incident

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"weir/sim/strict"
)

// Compress returns the same script played in another total time: the instants
// and lengths of the script (changes of providers and fleet, starts, stops and
// jumps of workloads, the rest of the provider's day) are scaled by to/Duration.
// What belongs to the world stays real: service times, timeouts, deadlines,
// arrival rates, the bus, windows of limits and bans. to must be positive; i
// is not changed.
func (i *Incident) Compress(to time.Duration) *Incident {
	scale := func(d time.Duration) time.Duration {
		return min(strict.MaxSpan, time.Duration(Scale(int64(d), int64(to), int64(i.Duration))))
	}
	out := *i
	out.Duration = to
	out.Fleet.Changes = slices.Clone(i.Fleet.Changes)
	for k := range out.Fleet.Changes {
		c := &out.Fleet.Changes[k]
		c.At, c.For, c.Over = scale(c.At), scale(c.For), scale(c.Over)
	}
	out.Providers = slices.Clone(i.Providers)
	for k := range out.Providers {
		p := &out.Providers[k]
		p.Law.compressDay(scale)
		p.Changes = slices.Clone(p.Changes)
		for j := range p.Changes {
			c := &p.Changes[j]
			c.At, c.Over = scale(c.At), scale(c.Over)
			c.To.DayElapsed = p.Law.DayElapsed
		}
	}
	out.Workloads = slices.Clone(i.Workloads)
	for k := range out.Workloads {
		w := &out.Workloads[k]
		w.Start, w.Stop = scale(w.Start), scale(w.Stop)
		w.Arrivals.Walk = w.Arrivals.Walk.compress(scale)
	}
	return &out
}

// compress scales the instants of the jumps.
func (w *Walk) compress(scale func(time.Duration) time.Duration) *Walk {
	if w == nil {
		return nil
	}
	out := *w
	out.Jumps = slices.Clone(w.Jumps)
	for k := range out.Jumps {
		out.Jumps[k].At = scale(out.Jumps[k].At)
	}
	return &out
}

// compressDay moves the first reset of the day to the same point of the script.
func (l *Law) compressDay(scale func(time.Duration) time.Duration) {
	const day = 24 * time.Hour
	l.DayElapsed = day - min(day, max(1, scale(day-l.DayElapsed)))
}

// Scale is x*num/den for non-negative numbers, rounded down, without overflow
// on the way; what does not fit is the largest int64. den must be positive.
func Scale(x, num, den int64) int64 {
	hi, lo := bits.Mul64(uint64(x), uint64(num))
	if hi == 0 { // as nearly always: then a constant den costs no division
		return int64(min(lo/uint64(den), math.MaxInt64))
	}
	return wide(hi, lo, uint64(den))
}

// wide is the quotient of a product that has two words.
func wide(hi, lo, den uint64) int64 {
	if hi >= den {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, den)
	return int64(min(q, math.MaxInt64))
}
