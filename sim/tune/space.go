package tune

import (
	"fmt"
	"math"
	"slices"

	"weir/model"
)

// point is one value for every parameter, in the order of model.ParamSpecs.
type point []int64

// space is what is searched: some of the parameters, each mapped to 0..1 by
// its declared range and scale.
type space struct {
	specs []model.ParamSpec
	axes  []int // indexes of specs
}

// newSpace returns the space of the parameters named; all when none is.
func newSpace(only []string) (*space, error) {
	s := &space{specs: model.ParamSpecs()}
	for i := range s.specs {
		if len(only) == 0 || slices.Contains(only, s.specs[i].Name) {
			s.axes = append(s.axes, i)
		}
	}
	for _, name := range only {
		if !slices.ContainsFunc(s.specs, func(p model.ParamSpec) bool { return p.Name == name }) {
			return nil, fmt.Errorf("there is no parameter %q", name)
		}
	}
	return s, nil
}

// of is the point of a parameter set.
func (s *space) of(p *model.Params) point {
	x := make(point, len(s.specs))
	for i := range s.specs {
		x[i] = s.specs[i].Get(p)
	}
	return x
}

// params is the parameter set of a point.
func (s *space) params(x point) model.Params {
	var p model.Params
	for i := range s.specs {
		if err := s.specs[i].Set(&p, x[i]); err != nil {
			panic("tune: BUG: " + err.Error())
		}
	}
	return p
}

// Unit is where a value lies in its parameter's range, 0..1.
func Unit(p *model.ParamSpec, v int64) float64 {
	if p.Max <= p.Min {
		return 0
	}
	if p.Scale == model.ScaleLog {
		shift := logShift(p)
		low := math.Log(float64(p.Min) + shift)
		return (math.Log(float64(v)+shift) - low) / (math.Log(float64(p.Max)+shift) - low)
	}
	return float64(v-p.Min) / float64(p.Max-p.Min)
}

// value is the inverse of Unit, rounded to three digits: nobody wants to read
// more, and none of the laws is as sharp.
func value(p *model.ParamSpec, u float64) int64 {
	u = min(max(u, 0), 1)
	v := float64(p.Min) + u*float64(p.Max-p.Min)
	if p.Scale == model.ScaleLog {
		shift := logShift(p)
		low := math.Log(float64(p.Min) + shift)
		v = math.Exp(low+u*(math.Log(float64(p.Max)+shift)-low)) - shift
	}
	return min(max(int64(round3(v)), p.Min), p.Max)
}

// logShift moves a range with zero in it to where it has a logarithm.
func logShift(p *model.ParamSpec) float64 {
	if p.Min > 0 {
		return 0
	}
	return 1 - float64(p.Min)
}

func round3(v float64) float64 {
	if v == 0 {
		return 0
	}
	step := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-2)
	if step <= 1 {
		return math.Round(v)
	}
	return math.Round(v/step) * step
}

// at is x with the axes' coordinates put in where use says so.
func (s *space) at(x point, axes []int, u []float64) point {
	out := slices.Clone(x)
	for k, i := range axes {
		out[i] = value(&s.specs[i], u[k])
	}
	return out
}

// units are the coordinates of a point on some axes.
func (s *space) units(x point, axes []int) []float64 {
	u := make([]float64, len(axes))
	for k, i := range axes {
		u[k] = Unit(&s.specs[i], x[i])
	}
	return u
}

// distance is the mean way between two points over the axes, 0..1.
func (s *space) distance(a, b point) float64 {
	sum := 0.0
	for _, i := range s.axes {
		sum += math.Abs(Unit(&s.specs[i], a[i]) - Unit(&s.specs[i], b[i]))
	}
	return sum / float64(max(1, len(s.axes)))
}

// changed are the axes on which two points differ.
func (s *space) changed(a, b point) []int {
	var axes []int
	for _, i := range s.axes {
		if a[i] != b[i] {
			axes = append(axes, i)
		}
	}
	return axes
}
