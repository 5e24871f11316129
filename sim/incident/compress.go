package incident

import (
	"math/bits"
	"slices"
	"time"
)

// Compress returns the same script played in another total time: the instants
// and lengths of the script (changes of providers and fleet, starts and stops
// of workloads, the rest of the provider's day) are scaled by to/Duration.
// What belongs to the world stays real: service times, timeouts, deadlines,
// arrival rates, the bus, windows of limits and bans. to must be positive; i
// is not changed.
func (i *Incident) Compress(to time.Duration) *Incident {
	scale := func(d time.Duration) time.Duration { return scaled(d, to, i.Duration) }
	out := *i
	out.Duration = to
	out.Fleet.Changes = slices.Clone(i.Fleet.Changes)
	for k := range out.Fleet.Changes {
		c := &out.Fleet.Changes[k]
		c.At, c.For = scale(c.At), scale(c.For)
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
	}
	return &out
}

// compressDay moves the first reset of the day to the same point of the script.
func (l *Law) compressDay(scale func(time.Duration) time.Duration) {
	const day = 24 * time.Hour
	l.DayElapsed = day - min(day, max(1, scale(day-l.DayElapsed)))
}

// scaled is d*to/from without overflow, at most the largest duration.
func scaled(d, to, from time.Duration) time.Duration {
	if d <= 0 || to <= 0 || from <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(d), uint64(to))
	if hi >= uint64(from) {
		return maxSpan
	}
	q, _ := bits.Div64(hi, lo, uint64(from))
	return time.Duration(min(q, uint64(maxSpan)))
}
