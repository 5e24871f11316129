package tune

import "math/bits"

// sobol is a Sobol' sequence with hash-based Owen scrambling: points that fill
// the unit cube evenly however many are taken, and with another seed others
// that do as well. Directions are those of S. Joe and F. Y. Kuo, "Constructing
// Sobol sequences with better two-dimensional projections", SIAM J. Sci.
// Comput. 30 (2008), table new-joe-kuo-6.21201; the scrambling is B. Burley's,
// "Practical Hash-based Owen Scrambling", JCGT 9 (2020). Coordinates beyond
// the table are independent draws.
type sobol struct {
	dims int
	seed uint64
	cols [][32]uint32
}

func newSobol(dims int, seed uint64) *sobol {
	s := &sobol{dims: dims, seed: seed}
	for d := range min(dims, sobolDims) {
		s.cols = append(s.cols, sobolColumns(d))
	}
	return s
}

// at is point n, each coordinate inside (0, 1).
func (s *sobol) at(n uint32) []float64 {
	u := make([]float64, s.dims)
	for d := range u {
		seed := mix(s.seed + uint64(d)*0x9e3779b97f4a7c15)
		x := uint32(mix(seed^uint64(n)) >> 32)
		if d < len(s.cols) {
			x = owen(s.raw(d, n), uint32(seed))
		}
		u[d] = (float64(x) + 0.5) / (1 << 32)
	}
	return u
}

// raw is coordinate d of point n before scrambling, as a fraction of 2^32, in
// the order of the Gray code.
func (s *sobol) raw(d int, n uint32) uint32 {
	x := uint32(0)
	for gray, k := n^n>>1, 0; gray != 0; gray, k = gray>>1, k+1 {
		if gray&1 != 0 {
			x ^= s.cols[d][k]
		}
	}
	return x
}

// owen permutes each half of the interval, each half of the halves, and so on.
func owen(x, seed uint32) uint32 {
	x = bits.Reverse32(x)
	x += seed
	x ^= x * 0x6c50b47c
	x ^= x * 0xb82f1e52
	x ^= x * 0xc7afe638
	x ^= x * 0x8d22f6e6
	return bits.Reverse32(x)
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// sobolColumns is the generator matrix of a dimension from 0.
func sobolColumns(d int) (v [32]uint32) {
	if d == 0 {
		for k := range v {
			v[k] = 1 << (31 - k)
		}
		return v
	}
	p := directions()[d-1]
	degree := len(p.m)
	for k := range v {
		if k < degree {
			v[k] = p.m[k] << (31 - k)
			continue
		}
		v[k] = v[k-degree] ^ v[k-degree]>>degree
		for i := 1; i < degree; i++ {
			if p.a>>(degree-1-i)&1 != 0 {
				v[k] ^= v[k-i]
			}
		}
	}
	return v
}

// direction is one dimension: the inner coefficients of its primitive
// polynomial, whose degree is the number of initial values m.
type direction struct {
	a uint32
	m []uint32
}

// sobolDims is how many dimensions the table has, the first included.
const sobolDims = 51

// directions are dimensions 2 to 51.
func directions() []direction {
	return []direction{
		{0, []uint32{1}},
		{1, []uint32{1, 3}},
		{1, []uint32{1, 3, 1}},
		{2, []uint32{1, 1, 1}},
		{1, []uint32{1, 1, 3, 3}},
		{4, []uint32{1, 3, 5, 13}},
		{2, []uint32{1, 1, 5, 5, 17}},
		{4, []uint32{1, 1, 5, 5, 5}},
		{7, []uint32{1, 1, 7, 11, 19}},
		{11, []uint32{1, 1, 5, 1, 1}},
		{13, []uint32{1, 1, 1, 3, 11}},
		{14, []uint32{1, 3, 5, 5, 31}},
		{1, []uint32{1, 3, 3, 9, 7, 49}},
		{13, []uint32{1, 1, 1, 15, 21, 21}},
		{16, []uint32{1, 3, 1, 13, 27, 49}},
		{19, []uint32{1, 1, 1, 15, 7, 5}},
		{22, []uint32{1, 3, 1, 15, 13, 25}},
		{25, []uint32{1, 1, 5, 5, 19, 61}},
		{1, []uint32{1, 3, 7, 11, 23, 15, 103}},
		{4, []uint32{1, 3, 7, 13, 13, 15, 69}},
		{7, []uint32{1, 1, 3, 13, 7, 35, 63}},
		{8, []uint32{1, 3, 5, 9, 1, 25, 53}},
		{14, []uint32{1, 3, 1, 13, 9, 35, 107}},
		{19, []uint32{1, 3, 1, 5, 27, 61, 31}},
		{21, []uint32{1, 1, 5, 11, 19, 41, 61}},
		{28, []uint32{1, 3, 5, 3, 3, 13, 69}},
		{31, []uint32{1, 1, 7, 13, 1, 19, 1}},
		{32, []uint32{1, 3, 7, 5, 13, 19, 59}},
		{37, []uint32{1, 1, 3, 9, 25, 29, 41}},
		{41, []uint32{1, 3, 5, 13, 23, 1, 55}},
		{42, []uint32{1, 3, 7, 3, 13, 59, 17}},
		{50, []uint32{1, 3, 1, 3, 5, 53, 69}},
		{55, []uint32{1, 1, 5, 5, 23, 33, 13}},
		{56, []uint32{1, 1, 7, 7, 1, 61, 123}},
		{59, []uint32{1, 1, 7, 9, 13, 61, 49}},
		{62, []uint32{1, 3, 3, 5, 3, 55, 33}},
		{14, []uint32{1, 3, 1, 15, 31, 13, 49, 245}},
		{21, []uint32{1, 3, 5, 15, 31, 59, 63, 97}},
		{22, []uint32{1, 3, 1, 11, 11, 11, 77, 249}},
		{38, []uint32{1, 3, 1, 11, 27, 43, 71, 9}},
		{47, []uint32{1, 1, 7, 15, 21, 11, 81, 45}},
		{49, []uint32{1, 3, 7, 3, 25, 31, 65, 79}},
		{50, []uint32{1, 3, 1, 1, 19, 11, 3, 205}},
		{52, []uint32{1, 1, 5, 9, 19, 21, 29, 157}},
		{56, []uint32{1, 3, 7, 11, 1, 33, 89, 185}},
		{67, []uint32{1, 3, 3, 3, 15, 9, 79, 71}},
		{70, []uint32{1, 3, 7, 11, 15, 39, 119, 27}},
		{84, []uint32{1, 1, 3, 1, 11, 31, 97, 225}},
		{97, []uint32{1, 1, 1, 3, 23, 43, 57, 177}},
		{103, []uint32{1, 3, 7, 7, 17, 17, 37, 71}},
	}
}
