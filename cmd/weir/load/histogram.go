package load

import (
	"math"
	"math/bits"
	"time"
)

// Histogram counts durations in buckets that are 3 % wide, from a microsecond
// to twelve days. The zero value is empty.
type Histogram struct {
	counts [histOctaves * histSteps]uint32
	n      int64
	most   time.Duration
}

const (
	histBits    = 5
	histSteps   = 1 << histBits // buckets per doubling
	histOctaves = 36
)

// Add counts one duration; a negative one counts as 0.
func (h *Histogram) Add(d time.Duration) {
	h.most = max(h.most, d)
	h.n++
	if k := histIndex(d); h.counts[k] < math.MaxUint32 {
		h.counts[k]++
	}
}

// N returns how many durations were added.
func (h *Histogram) N() int64 { return h.n }

// Max returns the longest duration added, or 0.
func (h *Histogram) Max() time.Duration { return h.most }

// Quantile returns the duration that the share q of all does not exceed, up to
// the width of a bucket; ok is false for an empty histogram.
func (h *Histogram) Quantile(q float64) (d time.Duration, ok bool) {
	if h.n == 0 {
		return 0, false
	}
	rank := max(1, int64(math.Ceil(q*float64(h.n))))
	for k, c := range h.counts {
		if rank -= int64(c); rank <= 0 && c > 0 {
			return min(histUpper(k), h.most), true
		}
	}
	return h.most, true
}

// histIndex is the bucket of a duration: exact below 32 µs, then 32 buckets
// for each doubling.
func histIndex(d time.Duration) int {
	v := uint64(max(0, d.Microseconds()))
	if v < histSteps {
		return int(v)
	}
	shift := bits.Len64(v) - histBits - 1
	return min((shift+1)*histSteps+int(v>>shift)-histSteps, histOctaves*histSteps-1)
}

// histUpper is the upper end of a bucket.
func histUpper(k int) time.Duration {
	if k < histSteps {
		return time.Duration(k) * time.Microsecond
	}
	shift := k/histSteps - 1
	return time.Duration((uint64(k%histSteps+histSteps+1)<<shift)-1) * time.Microsecond
}
