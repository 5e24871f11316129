package tune

import (
	"math/bits"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSobolDirections checks what every row of the table must be: a primitive
// polynomial, and odd initial values below 2^k.
func TestSobolDirections(t *testing.T) {
	seen := map[uint32]bool{}
	for d, p := range directions() {
		degree := len(p.m)
		poly := 1<<degree | p.a<<1 | 1
		if seen[poly] {
			t.Errorf("dimension %d: its polynomial stands twice", d+2)
		}
		seen[poly] = true
		x, period := uint32(1), 0
		for first := true; first || x != 1; first = false {
			if x <<= 1; x>>degree != 0 {
				x ^= poly
			}
			period++
		}
		if want := 1<<degree - 1; period != want {
			t.Errorf("dimension %d: the polynomial's period is %d, want %d", d+2, period, want)
		}
		for k, m := range p.m {
			if m%2 == 0 || bits.Len32(m) > k+1 {
				t.Errorf("dimension %d: m_%d is %d", d+2, k+1, m)
			}
		}
	}
	if got := len(seen); got != sobolDims-1 {
		t.Errorf("got %d rows, want %d", got, sobolDims-1)
	}
}

// TestSobolPublished compares with the first points as Joe and Kuo print them.
func TestSobolPublished(t *testing.T) {
	s := newSobol(3, 0)
	var got [][3]float64
	for n := range uint32(8) {
		var x [3]float64
		for d := range x {
			x[d] = float64(s.raw(d, n)) / (1 << 32)
		}
		got = append(got, x)
	}
	want := [][3]float64{
		{0, 0, 0},
		{0.5, 0.5, 0.5},
		{0.75, 0.25, 0.25},
		{0.25, 0.75, 0.75},
		{0.375, 0.375, 0.625},
		{0.875, 0.875, 0.125},
		{0.625, 0.125, 0.875},
		{0.125, 0.625, 0.375},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestSobolStrata: of 2^k points each of 2^k parts of an axis has one, and so
// it stays when scrambled.
func TestSobolStrata(t *testing.T) {
	const n = 64
	for _, seed := range []uint64{1, 99} {
		s := newSobol(sobolDims+2, seed)
		strata := make([][n]int, sobolDims)
		for i := range uint32(n) {
			u := s.at(i)
			for d := range strata {
				strata[d][int(u[d]*n)]++
			}
			for _, v := range u {
				if v <= 0 || v >= 1 {
					t.Fatalf("coordinate %v", v)
				}
			}
		}
		for d := range strata {
			for k, c := range strata[d] {
				if c != 1 {
					t.Fatalf("seed %d, dimension %d: part %d has %d points", seed, d, k, c)
				}
			}
		}
	}
}
