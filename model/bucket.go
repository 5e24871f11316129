package model

import "math/bits"

// bucket is one dimension of a budget: a token bucket that refills by Rate
// per minute up to Burst. A bucket without a rate has no limit.
type bucket struct {
	Rate, Burst int64
	// Level is what may be granted now. It goes below zero when an agent that
	// was cut off used more than was withheld for it.
	Level int64
	// Rem is the remainder of the refill, in units of Rate × ns, so that
	// refilling is exact however often it happens. Invariant: 0 ≤ Rem < 1 min.
	Rem int64
}

// limited reports whether the bucket limits anything.
func (b *bucket) limited() bool { return b.Rate > 0 }

// maxRate bounds a bucket's rate, so that sums of many stay within int64.
const maxRate = int64(1) << 50

// maxDebt is how many minutes of its rate a bucket can be in debt. Beyond, a
// report is nonsense, and must not close the budget for good.
const maxDebt = 10

// set gives the bucket a new rate and depth; a changed one goes on with what
// is left of the old, an unlimited one begins full.
func (b *bucket) set(rate, burst int64) {
	rate = min(rate, maxRate)
	burst = min(burst, rate)
	switch {
	case rate == b.Rate && burst == b.Burst:
		return
	case rate <= 0:
		b.Level, b.Rem = 0, 0
	case b.Rate == 0:
		b.Level, b.Rem = burst, 0
	case rate < b.Rate:
		b.Level = min(b.Level, burst)
	}
	b.Rate, b.Burst = rate, burst
}

// credit gives back n if it is positive, as far as the depth.
func (b *bucket) credit(n int64) {
	if n > 0 {
		b.Level = max(b.Level, min(b.Level+n, b.Burst))
	}
}

// debit takes n, which is not negative.
func (b *bucket) debit(n int64) { b.Level -= max(min(n, b.Level+maxDebt*b.Rate), 0) }

// advance refills for a span at Rate minus withheld, up to top.
func (b *bucket) advance(span Nanos, withheld, top int64) {
	if !b.limited() || span <= 0 {
		return
	}
	if b.Level >= top {
		b.Rem = 0
		return
	}
	rate := max(b.Rate-withheld, 0)
	whole := mulDiv(rate, int64(span), int64(Minute))
	part := mulMod(rate, int64(span), int64(Minute)) + b.Rem
	if whole >= top-b.Level || b.Level+whole+part/int64(Minute) >= top {
		b.Level, b.Rem = top, 0
		return
	}
	b.Level += whole + part/int64(Minute)
	b.Rem = part % int64(Minute)
}

// after returns how long until the level is at least need, if it is refilled
// at Rate minus withheld; ok is false when it never gets there.
func (b *bucket) after(need, withheld int64) (wait Nanos, ok bool) {
	if !b.limited() || b.Level >= need {
		return 0, true
	}
	rate := b.Rate - withheld
	if rate <= 0 || need > b.Burst {
		return 0, false
	}
	missing := need - b.Level
	return Nanos(mulDiv(missing, int64(Minute), rate)) + 1, true
}

// mulMod returns x*y mod z for non-negative operands.
func mulMod(x, y, z int64) int64 {
	if x <= 0 || y <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	_, rem := bits.Div64(hi%uint64(z), lo, uint64(z))
	return int64(rem)
}
