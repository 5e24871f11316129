package assert

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/sim/world"
)

// Run is one seed of an incident under a policy, beside the oracle's.
type Run struct {
	Result  *world.Result
	Oracle  *world.Result
	Figures world.Figures
}

// Assertion is one line: a name and its bounds.
type Assertion struct {
	rule   *rule
	bounds map[string]float64
	text   string
}

// Verdict is what became of an assertion.
type Verdict struct {
	// Held counts the seeds on which it holds, of All.
	Held, All int
	// Worst says where it is farthest from holding, or nearest to failing.
	Worst string
}

// Holds reports whether it holds on every seed.
func (v *Verdict) Holds() bool { return v.Held == v.All && v.All > 0 }

// Names lists the assertions with their bounds, in order.
func Names() []string {
	var out []string
	for _, r := range rules() {
		words := []string{r.name}
		for _, b := range r.bounds {
			words = append(words, b.key+"=")
		}
		out = append(out, strings.Join(words, " "))
	}
	slices.Sort(out)
	return out
}

// Parse reads an assertion such as "recovers within=10s". Numbers may be
// durations; every bound must be given.
func Parse(text string) (Assertion, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return Assertion{}, fmt.Errorf("an empty assertion: want one of %s", strings.Join(Names(), ", "))
	}
	all := rules()
	i := slices.IndexFunc(all, func(r rule) bool { return r.name == fields[0] })
	if i < 0 {
		return Assertion{}, fmt.Errorf("assertion %q is unknown: want one of %s", fields[0], strings.Join(Names(), ", "))
	}
	a := Assertion{rule: &all[i], bounds: map[string]float64{}, text: strings.Join(fields, " ")}
	for _, f := range fields[1:] {
		key, value, ok := strings.Cut(f, "=")
		known := slices.ContainsFunc(a.rule.bounds, func(b bound) bool { return b.key == key })
		if _, twice := a.bounds[key]; !ok || !known || twice {
			return Assertion{}, fmt.Errorf("assertion %s: %q is no bound of it or stands there twice", a.rule.name, f)
		}
		v, err := number(value)
		if err != nil {
			return Assertion{}, fmt.Errorf("assertion %s: %w", a.rule.name, err)
		}
		a.bounds[key] = v
	}
	for _, b := range a.rule.bounds {
		if _, given := a.bounds[b.key]; !given {
			return Assertion{}, fmt.Errorf("assertion %s: want %s=", a.rule.name, b.key)
		}
	}
	return a, nil
}

// number reads a number, or a duration in seconds.
func number(text string) (float64, error) {
	if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) {
		return v, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return d.Seconds(), nil
	}
	return 0, fmt.Errorf("%q is neither a number nor a duration", text)
}

// String is the assertion as it was written.
func (a Assertion) String() string { return a.text }

// Judge judges every run.
func (a Assertion) Judge(runs []Run) Verdict {
	v := Verdict{All: len(runs)}
	worst := math.Inf(-1)
	for i := range runs {
		over, said := math.Inf(-1), ""
		for _, b := range a.rule.bounds {
			got := b.of(&runs[i])
			if by := b.excess(got, a.bounds[b.key]); by > over {
				over, said = by, fmt.Sprintf("%s is %.4g", b.what, got)
			}
		}
		if over <= 0 {
			v.Held++
		}
		if over > worst {
			worst, v.Worst = over, fmt.Sprintf("%s with seed %d", said, runs[i].Figures.Seed)
		}
	}
	return v
}
