// Package draw is the simulator's dice: every random number is a function of
// (seed, purpose, entity, n) and of nothing else.
//
// Two runs with the same seed therefore meet the same world whatever they do
// in it and in whatever order: request 17 has the same size and the same luck
// under every policy, which is what makes their difference worth comparing.
// All arithmetic is on integers, so that the numbers are the same on every
// machine.
package draw

import "math/bits"

// Seed starts a world of draws.
type Seed uint64

// Purpose tells draws about the same entity apart. Every use in the simulator
// has its own here.
type Purpose uint64

// The purposes. Their numbers decide what a seed means and never change.
const (
	ServiceTime Purpose = iota + 1
	Noise
	WindowPhase
	ArrivalGap
	BatchPhase
	ThinkTime
	InputSize
	OutputSize
	TraceThin
	TraceTurn
	RetryJitter
	BusDelay
	BusLoss
	AgentChoice
	Policy
	Identity // names and contents of emulated answers
	Trickle  // who sends first after a pause
	DemandWalk
)

// Bits returns 64 random bits for a key.
func (s Seed) Bits(p Purpose, entity, n uint64) uint64 {
	h := mix(uint64(s) + 0x9e3779b97f4a7c15*uint64(p))
	h = mix(h ^ entity*0xd6e8feb86659fd93)
	return mix(h + n*0xa0761d6478bd642f)
}

// mix is the finalizer of splitmix64: each input bit moves half the output.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Name turns a name into an entity (FNV-1a).
func Name(name string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h
}

// Below returns a uniform number in [0, n), or 0 when n < 1.
func (s Seed) Below(n int64, p Purpose, entity, k uint64) int64 {
	if n < 1 {
		return 0
	}
	hi, _ := bits.Mul64(s.Bits(p, entity, k), uint64(n))
	return int64(hi)
}

// Exp returns an exponential time with that mean, or 0 when mean < 1.
func (s Seed) Exp(mean int64, p Purpose, entity, k uint64) int64 {
	if mean < 1 {
		return 0
	}
	minusLn := mulShift(64<<32-log2(s.Bits(p, entity, k)|1), ln2)
	return mulShift(minusLn, mean)
}

// Lognormal returns a log-normal number with that mean and spread.
func (s Seed) Lognormal(mean int64, spread Spread, p Purpose, entity, k uint64) int64 {
	if spread.sigma == 0 || mean < 1 {
		return max(0, mean)
	}
	// Twelve ten-bit uniforms sum to very nearly a normal with sd 1024.
	sum := int64(0)
	for _, b := range [2]uint64{s.Bits(p, entity, 2*k), s.Bits(p, entity, 2*k+1)} {
		for i := range 6 {
			sum += int64(b >> (10 * i) & 1023)
		}
	}
	z := (sum - 6*1023) << (32 - 10)
	return scaleExp(mean, mulShift(z, spread.sigma)-spread.half)
}

// Spread is the shape of a log-normal law; the zero value does not vary.
type Spread struct {
	sigma, half int64 // standard deviation of the logarithm and half its square, Q32
}

// SpreadOf returns the spread with that coefficient of variation in ppm.
func SpreadOf(cv int64) Spread {
	if cv <= 0 {
		return Spread{}
	}
	const one = 1_000_000
	cv = min(cv, 1000*one)
	square := mulShift(log2(uint64(one*one+cv*cv))-log2(one*one), ln2)
	// square is below 2^36, so that 28 more bits fit.
	return Spread{sigma: int64(sqrt(uint64(square)<<28)) << 2, half: square / 2}
}

const (
	one32 = 1 << 32
	ln2   = 2977044472 // Q32
	log2e = 6196328019 // Q32
)

// mulShift is a*b/2^32, rounded towards zero.
func mulShift(a, b int64) int64 {
	neg := (a < 0) != (b < 0)
	hi, lo := bits.Mul64(abs(a), abs(b))
	v := int64(hi<<32 | lo>>32)
	if hi>>31 != 0 {
		v = 1<<63 - 1
	}
	if neg {
		return -v
	}
	return v
}

func abs(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

// log2 is the binary logarithm of x > 0 as Q32, bit by bit: squaring the
// mantissa doubles its logarithm, and each time it passes 2 is one bit.
func log2(x uint64) int64 {
	lz := bits.LeadingZeros64(x)
	m := x << lz // Q63 in [1, 2)
	frac := int64(0)
	for range 32 {
		hi, lo := bits.Mul64(m, m) // Q62
		frac <<= 1
		if hi>>63 != 0 {
			frac |= 1
			m = hi
		} else {
			m = hi<<1 | lo>>63
		}
	}
	return int64(63-lz)<<32 | frac
}

// scaleExp is mean * e^x for x as Q32, at most the largest int64.
func scaleExp(mean, x int64) int64 {
	y := mulShift(x, log2e) // e^x = 2^y
	whole, frac := y>>32, y&(one32-1)
	v := mulShift(mean, exp(uint64(mulShift(frac, ln2))))
	switch {
	case whole <= -63:
		return 0
	case whole < 0:
		return v >> -whole
	case bits.LeadingZeros64(uint64(v)) <= int(whole)+1:
		return 1<<63 - 1
	}
	return v << whole
}

// exp is e^t as Q32 for 0 <= t < ln 2 as Q32: fourteen terms of its series by
// Horner's rule, one by one, since dividing by a constant is no division.
func exp(t uint64) int64 {
	r := horner(t, one32, 14)
	r = horner(t, r, 13)
	r = horner(t, r, 12)
	r = horner(t, r, 11)
	r = horner(t, r, 10)
	r = horner(t, r, 9)
	r = horner(t, r, 8)
	r = horner(t, r, 7)
	r = horner(t, r, 6)
	r = horner(t, r, 5)
	r = horner(t, r, 4)
	r = horner(t, r, 3)
	r = horner(t, r, 2)
	return int64(horner(t, r, 1))
}

// horner is 1 + t*r/i for Q32 below 2.
func horner(t, r, i uint64) uint64 {
	hi, lo := bits.Mul64(t, r)
	return one32 + (hi<<32|lo>>32)/i
}

// sqrt is the integer square root.
func sqrt(x uint64) uint64 {
	r := uint64(0)
	for bit := uint64(1) << 62; bit > 0; bit >>= 2 {
		if x >= r+bit {
			x -= r + bit
			r = r>>1 + bit
		} else {
			r >>= 1
		}
	}
	return r
}
