package tune

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// CMA is the covariance matrix adaptation evolution strategy with ask and tell:
// (mu/mu_w, lambda) with rank-one and rank-mu update and cumulative step-size
// adaptation, by N. Hansen, "The CMA Evolution Strategy: A Tutorial"
// (arXiv:1604.00772), with positive weights and the constants of its table 1.
// It minimises. It is for few parameters: each generation decomposes the
// covariance anew, so that nothing but the state decides what follows.
type CMA struct {
	s    CMAState
	pcg  *rand.PCG
	rand *rand.Rand
	rule cmaRule
	// basis and scale are the covariance's eigenvectors, by columns, and the
	// roots of its eigenvalues.
	basis, scale []float64
}

// CMAState is all there is to a CMA between two calls; it survives JSON.
type CMAState struct {
	// Lambda is how many points a generation has.
	Lambda int `json:"lambda"`
	// Mean and Sigma are the centre and the step, Cov the covariance by rows.
	Mean  []float64 `json:"mean"`
	Sigma float64   `json:"sigma"`
	Cov   []float64 `json:"cov"`
	// PathSigma and PathCov are the evolution paths.
	PathSigma  []float64 `json:"path_sigma"`
	PathCov    []float64 `json:"path_cov"`
	Generation int       `json:"generation"`
	// Asked are the points that have no answer yet.
	Asked [][]float64 `json:"asked,omitempty"`
	// Dice is the state of the random source.
	Dice []byte `json:"dice"`
}

// cmaRule are the strategy's constants.
type cmaRule struct {
	weights                        []float64 // of the best mu
	mueff, cc, cs, c1, cmu, d, chi float64
}

// NewCMA starts at mean with step sigma in each coordinate. Lambda 0 means the
// tutorial's 4 + 3 ln n. It panics when mean is empty.
func NewCMA(mean []float64, sigma float64, lambda int, seed uint64) *CMA {
	n := len(mean)
	if n == 0 {
		panic("tune: BUG: no coordinates")
	}
	if lambda < 2 {
		lambda = 4 + int(3*math.Log(float64(n)))
	}
	s := CMAState{
		Lambda: lambda, Mean: slices.Clone(mean), Sigma: sigma, Cov: make([]float64, n*n),
		PathSigma: make([]float64, n), PathCov: make([]float64, n),
	}
	for i := range n {
		s.Cov[i*n+i] = 1
	}
	c := &CMA{s: s, pcg: rand.NewPCG(seed, 0x636d61)}
	c.begin()
	return c
}

// RestoreCMA goes on from a state.
func RestoreCMA(s CMAState) (*CMA, error) {
	n := len(s.Mean)
	if n == 0 || len(s.Cov) != n*n || len(s.PathSigma) != n || len(s.PathCov) != n || s.Lambda < 2 {
		return nil, fmt.Errorf("state of the search has no consistent shape")
	}
	c := &CMA{s: s, pcg: &rand.PCG{}}
	if err := c.pcg.UnmarshalBinary(s.Dice); err != nil {
		return nil, fmt.Errorf("restore dice: %w", err)
	}
	c.begin()
	return c, nil
}

// State returns what RestoreCMA takes.
func (c *CMA) State() CMAState {
	s := c.s
	s.Mean, s.Cov = slices.Clone(s.Mean), slices.Clone(s.Cov)
	s.PathSigma, s.PathCov, s.Asked = slices.Clone(s.PathSigma), slices.Clone(s.PathCov), slices.Clone(s.Asked)
	s.Dice, _ = c.pcg.MarshalBinary() // never fails
	return s
}

func (c *CMA) begin() {
	c.rand = rand.New(c.pcg)
	c.rule = newRule(len(c.s.Mean), c.s.Lambda)
	c.decompose()
}

func newRule(dims, lambda int) cmaRule {
	n, mu := float64(dims), lambda/2
	r := cmaRule{weights: make([]float64, mu)}
	sum, squares := 0.0, 0.0
	for i := range r.weights {
		r.weights[i] = math.Log(float64(lambda+1)/2) - math.Log(float64(i+1))
		sum += r.weights[i]
	}
	for i := range r.weights {
		r.weights[i] /= sum
		squares += r.weights[i] * r.weights[i]
	}
	m := 1 / squares
	r.mueff = m
	r.cc = (4 + m/n) / (n + 4 + 2*m/n)
	r.cs = (m + 2) / (n + m + 5)
	r.c1 = 2 / ((n+1.3)*(n+1.3) + m)
	r.cmu = min(1-r.c1, 2*(0.25+m-2+1/m)/((n+2)*(n+2)+m))
	r.d = 1 + 2*max(0, math.Sqrt((m-1)/(n+1))-1) + r.cs
	r.chi = math.Sqrt(n) * (1 - 1/(4*n) + 1/(21*n*n))
	return r
}

// Ask returns the points of the next generation; the same until Tell.
func (c *CMA) Ask() [][]float64 {
	if len(c.s.Asked) > 0 {
		return c.s.Asked
	}
	n := len(c.s.Mean)
	z := make([]float64, n)
	for range c.s.Lambda {
		for i := range z {
			z[i] = c.rand.NormFloat64() * c.scale[i]
		}
		x := slices.Clone(c.s.Mean)
		for i := range x {
			for k, v := range z {
				x[i] += c.s.Sigma * c.basis[i*n+k] * v
			}
		}
		c.s.Asked = append(c.s.Asked, x)
	}
	return c.s.Asked
}

// Tell hands in what the points of Ask cost, in their order; only the order of
// the costs matters. NaN counts as the worst.
func (c *CMA) Tell(costs []float64) error {
	if len(costs) != len(c.s.Asked) || len(costs) == 0 {
		return fmt.Errorf("tell %d costs of %d points", len(costs), len(c.s.Asked))
	}
	order := make([]int, len(costs))
	for i := range order {
		order[i] = i
	}
	cost := func(i int) float64 {
		if math.IsNaN(costs[i]) {
			return math.Inf(1)
		}
		return costs[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(cost(a), cost(b)) })
	c.update(order[:len(c.rule.weights)])
	c.s.Asked = nil
	c.s.Generation++
	c.decompose()
	return nil
}

// update moves mean, paths, covariance and step by the best points.
func (c *CMA) update(best []int) {
	s, r, n := &c.s, &c.rule, len(c.s.Mean)
	steps := make([][]float64, len(best)) // (x - mean) / sigma
	mean := make([]float64, n)            // their weighted mean
	for k, p := range best {
		steps[k] = make([]float64, n)
		for i := range n {
			steps[k][i] = (s.Asked[p][i] - s.Mean[i]) / s.Sigma
			mean[i] += r.weights[k] * steps[k][i]
		}
	}
	for i := range n {
		s.Mean[i] += s.Sigma * mean[i]
	}
	norm := 0.0
	for i, v := range c.whiten(mean) {
		s.PathSigma[i] = (1-r.cs)*s.PathSigma[i] + math.Sqrt(r.cs*(2-r.cs)*r.mueff)*v
		norm += s.PathSigma[i] * s.PathSigma[i]
	}
	norm = math.Sqrt(norm)
	long := norm/math.Sqrt(1-math.Pow(1-r.cs, 2*float64(s.Generation+1))) >= (1.4+2/float64(n+1))*r.chi
	lost := 0.0 // variance that the stalled path would lose
	for i, v := range mean {
		s.PathCov[i] *= 1 - r.cc
		if !long {
			s.PathCov[i] += math.Sqrt(r.cc*(2-r.cc)*r.mueff) * v
		}
	}
	if long {
		lost = r.c1 * r.cc * (2 - r.cc)
	}
	for i := range n {
		for j := range i + 1 {
			v := (1 - r.c1 - r.cmu + lost) * s.Cov[i*n+j]
			v += r.c1 * s.PathCov[i] * s.PathCov[j]
			for k, y := range steps {
				v += r.cmu * r.weights[k] * y[i] * y[j]
			}
			s.Cov[i*n+j], s.Cov[j*n+i] = v, v
		}
	}
	s.Sigma *= math.Exp(min(1, r.cs/r.d*(norm/r.chi-1)))
}

// whiten is C^(-1/2) y.
func (c *CMA) whiten(y []float64) []float64 {
	n := len(y)
	z, out := make([]float64, n), make([]float64, n)
	for k := range z {
		for i, v := range y {
			z[k] += c.basis[i*n+k] * v
		}
		z[k] /= c.scale[k]
	}
	for i := range out {
		for k, v := range z {
			out[i] += c.basis[i*n+k] * v
		}
	}
	return out
}

// decompose sets basis and scale from the covariance.
func (c *CMA) decompose() {
	const least = 1e-14 // keeps a collapsed direction from dividing by zero
	n := len(c.s.Mean)
	c.scale, c.basis = eigen(c.s.Cov, n)
	for i, v := range c.scale {
		c.scale[i] = math.Sqrt(max(v, least))
	}
}

// Spread is the largest standard deviation of a coordinate.
func (c *CMA) Spread() float64 {
	n, most := len(c.s.Mean), 0.0
	for i := range n {
		most = max(most, c.s.Cov[i*n+i])
	}
	return c.s.Sigma * math.Sqrt(most)
}

// eigen returns the eigenvalues of a symmetric matrix and its eigenvectors by
// columns: Jacobi's rotations, which are exact for small matrices and need no
// choice (Golub and Van Loan, "Matrix Computations", 8.5).
func eigen(m []float64, n int) (values, vectors []float64) {
	a, v := slices.Clone(m), make([]float64, n*n)
	for i := range n {
		v[i*n+i] = 1
	}
	for range 60 {
		off, all := 0.0, 0.0
		for i := range n {
			for j := range i {
				off += a[i*n+j] * a[i*n+j]
			}
			all += a[i*n+i] * a[i*n+i]
		}
		if off <= 1e-30*all {
			break
		}
		for p := range n - 1 {
			for q := p + 1; q < n; q++ {
				rotate(a, v, n, p, q)
			}
		}
	}
	values = make([]float64, n)
	for i := range values {
		values[i] = a[i*n+i]
	}
	return values, v
}

// rotate makes a[p,q] zero.
func rotate(a, v []float64, n, p, q int) {
	if a[p*n+q] == 0 {
		return
	}
	theta := (a[q*n+q] - a[p*n+p]) / (2 * a[p*n+q])
	t := 1 / (math.Abs(theta) + math.Sqrt(theta*theta+1))
	if theta < 0 {
		t = -t
	}
	c := 1 / math.Sqrt(t*t+1)
	s := t * c
	for k := range n {
		x, y := a[k*n+p], a[k*n+q]
		a[k*n+p], a[k*n+q] = c*x-s*y, s*x+c*y
	}
	for k := range n {
		x, y := a[p*n+k], a[q*n+k]
		a[p*n+k], a[q*n+k] = c*x-s*y, s*x+c*y
		x, y = v[k*n+p], v[k*n+q]
		v[k*n+p], v[k*n+q] = c*x-s*y, s*x+c*y
	}
}
