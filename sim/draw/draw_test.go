package draw

import (
	"math"
	"testing"
)

const samples = 200_000

// moments draws many numbers and returns their mean and standard deviation.
func moments(next func(n uint64) int64) (mean, sd float64) {
	sum, squares := 0.0, 0.0
	for n := range uint64(samples) {
		v := float64(next(n))
		sum += v
		squares += v * v
	}
	mean = sum / samples
	return mean, math.Sqrt(squares/samples - mean*mean)
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*math.Abs(want) {
		t.Errorf("%s: got %.4g, want %.4g ± %.1f %%", what, got, want, tolerance*100)
	}
}

func TestMomentsOfTheLaws(t *testing.T) {
	seed := Seed(1)
	mean, sd := moments(func(n uint64) int64 { return seed.Below(1_000_000, InputSize, 7, n) })
	near(t, "uniform mean", mean, 500_000, 0.005)
	near(t, "uniform sd", sd, 1_000_000/math.Sqrt(12), 0.01)

	mean, sd = moments(func(n uint64) int64 { return seed.Exp(1_000_000, ArrivalGap, 7, n) })
	near(t, "exponential mean", mean, 1_000_000, 0.01)
	near(t, "exponential sd", sd, 1_000_000, 0.02)

	for _, cv := range []float64{0.1, 0.3, 1, 1.5} {
		spread := SpreadOf(int64(cv * 1_000_000))
		mean, sd = moments(func(n uint64) int64 { return seed.Lognormal(1_000_000, spread, ServiceTime, 7, n) })
		near(t, "log-normal mean", mean, 1_000_000, 0.01)
		near(t, "log-normal cv", sd/mean, cv, 0.08) // the sum of twelve has thinner tails
	}
}

func TestDrawsDependOnEveryPartOfTheKey(t *testing.T) {
	base := Seed(1).Bits(Noise, 2, 3)
	for what, other := range map[string]uint64{
		"seed":    Seed(2).Bits(Noise, 2, 3),
		"purpose": Seed(1).Bits(ServiceTime, 2, 3),
		"entity":  Seed(1).Bits(Noise, 3, 3),
		"n":       Seed(1).Bits(Noise, 2, 4),
		"swap":    Seed(1).Bits(Noise, 3, 2),
	} {
		if other == base {
			t.Errorf("another %s gave the same bits", what)
		}
	}
	if again := Seed(1).Bits(Noise, 2, 3); again != base {
		t.Errorf("the same key gave %x, then %x", base, again)
	}
}

// TestFrozen holds what a seed means: a change here makes every recorded
// digest of a run worthless.
func TestFrozen(t *testing.T) {
	s := Seed(42)
	got := [4]int64{
		int64(s.Bits(Noise, 1, 2) >> 1),
		s.Below(1000, InputSize, 1, 2),
		s.Exp(1_000_000, ArrivalGap, 1, 2),
		s.Lognormal(1_000_000, SpreadOf(300_000), ServiceTime, 1, 2),
	}
	want := [4]int64{8415439242279166242, 561, 861132, 1152038}
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestIntegerFunctionsAgreeWithFloats(t *testing.T) {
	for _, x := range []uint64{1, 2, 3, 1000, 1 << 40, math.MaxUint64} {
		near(t, "log2", float64(log2(x))/one32+1, math.Log2(float64(x))+1, 1e-8)
	}
	for _, x := range []float64{-20, -1, -0.001, 0, 0.001, 1, 10} {
		near(t, "exp", float64(scaleExp(1_000_000_000_000, int64(x*one32))), 1e12*math.Exp(x), 1e-3)
	}
	for _, x := range []uint64{0, 1, 15, 16, 17, 1 << 62, math.MaxUint64} {
		r := sqrt(x)
		if r*r > x || r+1 < 1<<32 && (r+1)*(r+1) <= x {
			t.Errorf("sqrt(%d) = %d", x, r)
		}
	}
}

func TestHostileArguments(t *testing.T) {
	s := Seed(0)
	huge := SpreadOf(math.MaxInt64)
	for n := range uint64(1000) {
		for _, v := range []int64{
			s.Below(math.MaxInt64, Noise, 0, n), s.Exp(math.MaxInt64/100, Noise, 0, n),
			s.Lognormal(math.MaxInt64/100, huge, Noise, 0, n),
		} {
			if v < 0 {
				t.Fatalf("negative draw %d", v)
			}
		}
	}
	if got := s.Below(-1, Noise, 0, 0) + s.Exp(-1, Noise, 0, 0) + s.Lognormal(-1, huge, Noise, 0, 0); got != 0 {
		t.Errorf("draws below nothing: %d", got)
	}
}

func BenchmarkBits(b *testing.B) {
	for n := range b.N {
		Seed(1).Bits(Noise, 1, uint64(n))
	}
}

func BenchmarkExp(b *testing.B) {
	for n := range b.N {
		Seed(1).Exp(1_000_000, ArrivalGap, 1, uint64(n))
	}
}

func BenchmarkLognormal(b *testing.B) {
	spread := SpreadOf(300_000)
	for n := range b.N {
		Seed(1).Lognormal(1_000_000, spread, ServiceTime, 1, uint64(n))
	}
}
