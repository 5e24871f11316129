package calibrate

import (
	"math"
	"slices"

	"weir/model"
)

// Interval is a number with its interval of 90 %.
type Interval struct {
	Best float64 `json:"best"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Latency is the time that calls take.
type Latency struct {
	// Calls is how many it rests on.
	Calls int `json:"calls"`
	// BaseMS is the time of an empty call on an idle provider.
	BaseMS Interval `json:"base_ms"`
	// Input and Output are tokens a second; a Best of 0 means that their
	// number does not tell.
	Input  Interval `json:"prefill_tokens_per_s"`
	Output Interval `json:"output_tokens_per_s"`
	// CV is the coefficient of variation of what is left.
	CV float64 `json:"cv"`
	// Load says how much longer calls take by what was in flight.
	Load []LoadPoint `json:"load"`
	// From and Factor are the slowdown of an incident file, where a cap is
	// known; Factor 1 is none.
	From   float64 `json:"slowdown_from"`
	Factor float64 `json:"slowdown_factor"`
}

// LoadPoint is one load.
type LoadPoint struct {
	InFlight float64 `json:"in_flight"`
	Ratio    float64 `json:"ratio"`
	Calls    int     `json:"calls"`
}

// maxFit bounds the calls of the fit.
const maxFit = 50_000

// sample is one call's size, time and load.
type sample struct {
	in, out, took, load float64
	// at is the middle of its life, in seconds since the log's first call.
	at  float64
	bin int
}

// latency fits the time of successful calls: base + input/p + output/q, times
// a factor of the load. Both are fitted in turn, errors being relative.
// load is what was in flight when each call was sent.
func latency(calls []call, load []float64) Latency {
	all := samples(calls, load, 0)
	l := Latency{Calls: len(all), Factor: 1}
	if len(all) < 10 {
		if len(all) > 0 {
			base := all[len(all)/2].took
			l.BaseMS = Interval{base * 1e3, 0, base * 1e4}
		}
		return l
	}
	bins := byLoad(all)
	factor := make([]float64, bins)
	for i := range factor {
		factor[i] = 1
	}
	var b fit
	b.one = meanOf(all)
	for range 8 {
		b = regress(all, factor, b)
		factor = factors(all, bins, b)
	}
	l.BaseMS = b.interval(0, 1e3)
	l.Input, l.Output = b.speed(1), b.speed(2)
	l.CV = variation(all, factor, b)
	for i := range bins {
		p := LoadPoint{Ratio: factor[i]}
		for k := range all {
			if all[k].bin == i {
				p.Calls++
				p.InFlight += all[k].load
			}
		}
		p.InFlight /= float64(max(p.Calls, 1))
		l.Load = append(l.Load, p)
	}
	return l
}

// samples are the answered calls, load being what was in flight beside each.
func samples(calls []call, load []float64, begin model.Nanos) []sample {
	n := 0
	for i := range calls {
		if model.Class(calls[i].class) == model.ClassOK && calls[i].took > 0 {
			n++
		}
	}
	every := n/maxFit + 1
	var all []sample
	for i := range calls {
		c := &calls[i]
		if model.Class(c.class) != model.ClassOK || c.took <= 0 {
			continue
		}
		if n--; n%every == 0 {
			all = append(all, sample{
				in: float64(c.input), out: float64(c.output), took: c.took.Duration().Seconds(), load: load[i],
				at: (c.sent + c.took/2 - begin).Duration().Seconds(),
			})
		}
	}
	return all
}

func meanOf(all []sample) float64 {
	sum := 0.0
	for i := range all {
		sum += all[i].took
	}
	return sum / float64(len(all))
}

// byLoad sorts samples into bins of equal size by their load and returns how
// many there are.
func byLoad(all []sample) int {
	sorted := make([]float64, len(all))
	for i := range all {
		sorted[i] = all[i].load
	}
	slices.Sort(sorted)
	most := min(12, max(len(all)/20, 1))
	var edges []float64
	for k := 1; k < most; k++ {
		if e := sorted[k*len(sorted)/most]; len(edges) == 0 && e > sorted[0] || len(edges) > 0 && e > edges[len(edges)-1] {
			edges = append(edges, e)
		}
	}
	for i := range all {
		all[i].bin, _ = slices.BinarySearch(edges, all[i].load+1e-9)
	}
	return len(edges) + 1
}

// fit is took = one + in*input + out*output, in seconds.
type fit struct {
	one, in, out float64
	deviation    [3]float64
}

func (f *fit) at(s *sample) float64 { return f.one + f.in*s.in + f.out*s.out }

func (f *fit) interval(k int, scale float64) Interval {
	v := [3]float64{f.one, f.in, f.out}[k]
	d := 1.645 * f.deviation[k]
	return Interval{v * scale, max(v-d, 0) * scale, (v + d) * scale}
}

// speed is the inverse of a coefficient.
func (f *fit) speed(k int) Interval {
	i := f.interval(k, 1)
	if i.Best <= 0 {
		return Interval{}
	}
	s := Interval{Best: 1 / i.Best, Low: 1 / i.High}
	if i.Low > 0 {
		s.High = 1 / i.Low
	}
	return s
}

// regress is least squares with relative errors; a size that would make calls
// faster has no part in them.
func regress(all []sample, factor []float64, before fit) fit {
	use := [3]bool{true, true, true}
	for {
		f, ok := solve(all, factor, before, use)
		switch {
		case ok && f.in < 0 && use[1]:
			use[1] = false
		case ok && f.out < 0 && use[2]:
			use[2] = false
		case ok && f.one < 0 && use[0] && (use[1] || use[2]):
			use[0] = false
		case ok:
			return f
		case use[2]:
			use[2] = false
		case use[1]:
			use[1] = false
		default:
			return before
		}
	}
}

func solve(all []sample, factor []float64, before fit, use [3]bool) (fit, bool) {
	var a [3][3]float64
	var b [3]float64
	var squares float64
	for i := range all {
		s := &all[i]
		y := s.took / factor[s.bin]
		p := max(before.at(s), 1e-6)
		w := 1 / (p * p)
		x := [3]float64{1, s.in, s.out}
		for j := range x {
			for k := range x {
				a[j][k] += w * x[j] * x[k]
			}
			b[j] += w * x[j] * y
		}
		squares += w * y * y
	}
	for j := range use {
		if !use[j] {
			a[j], b[j] = [3]float64{}, 0
			for k := range use {
				a[k][j] = 0
			}
			a[j][j] = 1
		}
	}
	inverse, ok := invert(a)
	if !ok {
		return before, false
	}
	var v [3]float64
	left := squares
	for j := range v {
		for k := range v {
			v[j] += inverse[j][k] * b[k]
		}
		left -= v[j] * b[j]
	}
	f := fit{one: v[0], in: v[1], out: v[2]}
	variance := max(left, 0) / float64(max(len(all)-3, 1))
	for j := range v {
		if use[j] {
			f.deviation[j] = math.Sqrt(max(inverse[j][j]*variance, 0))
		}
	}
	return f, true
}

// invert inverts by Gauss and Jordan, with scaled pivots.
func invert(a [3][3]float64) (out [3][3]float64, ok bool) {
	var scale [3]float64
	for i := range a {
		if a[i][i] <= 0 {
			return out, false
		}
		scale[i] = math.Sqrt(a[i][i])
	}
	for i := range a {
		for j := range a {
			a[i][j] /= scale[i] * scale[j]
		}
		out[i][i] = 1
	}
	for i := range a {
		p := a[i][i]
		if math.Abs(p) < 1e-9 {
			return out, false
		}
		for j := range a {
			a[i][j] /= p
			out[i][j] /= p
		}
		for k := range a {
			if k == i {
				continue
			}
			m := a[k][i]
			for j := range a {
				a[k][j] -= m * a[i][j]
				out[k][j] -= m * out[i][j]
			}
		}
	}
	for i := range out {
		for j := range out {
			out[i][j] /= scale[i] * scale[j]
		}
	}
	return out, true
}

// factors is the mean ratio in each bin, that of the least load being 1.
func factors(all []sample, bins int, f fit) []float64 {
	sum, n := make([]float64, bins), make([]float64, bins)
	for i := range all {
		sum[all[i].bin] += all[i].took / max(f.at(&all[i]), 1e-6)
		n[all[i].bin]++
	}
	for i := range sum {
		sum[i] /= max(n[i], 1)
	}
	first := max(sum[0], 1e-6)
	for i := range sum {
		sum[i] = max(sum[i]/first, 1e-3)
	}
	return sum
}

func variation(all []sample, factor []float64, f fit) float64 {
	var sum, squares float64
	for i := range all {
		r := math.Log(max(all[i].took, 1e-9) / (max(f.at(&all[i]), 1e-9) * factor[all[i].bin]))
		sum += r
		squares += r * r
	}
	n := float64(len(all))
	variance := max(squares/n-sum*sum/(n*n), 0)
	return min(math.Sqrt(math.Exp(min(variance, 4))-1), 5)
}

// slow fits an incident file's slowdown to the load points, for a cap:
// ratio = a + b·curve. What the least load is slowed already is taken off the
// time of an idle provider.
func (l *Latency) slow(limit float64) {
	l.From, l.Factor = 0, 1
	if limit <= 0 || len(l.Load) < 3 {
		return
	}
	best, idle := math.Inf(1), 1.0
	for from := 0.0; from < 0.96; from += 0.05 {
		a, b, rest, ok := l.line(limit, from)
		if ok && rest < best && a > 0.05 && b > 0 {
			best, idle, l.From, l.Factor = rest, a, from, min(1+b/a, 100)
		}
	}
	if l.Factor < 1.05 {
		l.From, l.Factor = 0, 1
		return
	}
	for _, v := range []*float64{&l.BaseMS.Best, &l.BaseMS.Low, &l.BaseMS.High} {
		*v *= idle
	}
	for _, v := range []*float64{&l.Input.Best, &l.Input.Low, &l.Input.High, &l.Output.Best, &l.Output.Low, &l.Output.High} {
		*v /= idle
	}
}

// line is the weighted least squares of the load points over the curve.
func (l *Latency) line(limit, from float64) (a, b, rest float64, ok bool) {
	var n, x1, y1, xx, xy float64
	for _, p := range l.Load {
		w, x := float64(p.Calls), curve(p.InFlight/limit, from)
		n, x1, y1, xx, xy = n+w, x1+w*x, y1+w*p.Ratio, xx+w*x*x, xy+w*x*p.Ratio
	}
	d := n*xx - x1*x1
	if d <= 1e-9*n*n {
		return 0, 0, 0, false
	}
	b = (n*xy - x1*y1) / d
	a = (y1 - b*x1) / n
	for _, p := range l.Load {
		r := p.Ratio - a - b*curve(p.InFlight/limit, from)
		rest += float64(p.Calls) * r * r
	}
	return a, b, rest, true
}

func curve(load, from float64) float64 {
	x := (min(load, 1) - from) / (1 - from)
	if x <= 0 {
		return 0
	}
	return x * x
}
