package agent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/model"
)

// TestOutputs holds what nearly all answers took against the answers.
// TestOutputsAreBounded learns of ever new routes.
func TestOutputsAreBounded(t *testing.T) {
	var o outputs
	for n := range maxOutputs + 10 {
		o.learn(fmt.Sprint(n), 5)
	}
	if len(o.by) > maxOutputs || o.by[fmt.Sprint(maxOutputs+9)] == nil {
		t.Errorf("%d routes are learned", len(o.by))
	}
}

func TestOutputs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draws := map[string]func() model.Tokens{
		"the same":    func() model.Tokens { return 700 },
		"one":         func() model.Tokens { return 1 },
		"even":        func() model.Tokens { return model.Tokens(rng.IntN(2000)) },
		"heavy tails": func() model.Tokens { return model.Tokens(100 * rng.ExpFloat64() * rng.ExpFloat64()) },
		"endless":     func() model.Tokens { return 1 << 60 },
	}
	for name, draw := range draws {
		var o outputs
		var seen []model.Tokens
		for n := range 20_000 {
			if _, ok := o.within(name); ok != (n >= outputLeast) {
				t.Fatalf("%s: known is %v after %d", name, ok, n)
			}
			x := draw()
			o.learn(name, x)
			seen = append(seen, x)
		}
		got, _ := o.within(name)
		seen = seen[len(seen)-2*outputMemory:]
		slices.Sort(seen)
		least, most := seen[len(seen)*97/100], seen[len(seen)*997/1000]
		if name == "endless" {
			least, most = 1<<24, 1<<25
		}
		if float64(got) < float64(least) || float64(got) > float64(most)*outputStep+1 {
			t.Errorf("%s: %d, want about 99 of 100 within, %d to %d", name, got, least, most)
		}
	}
}

// TestOutputsForget follows answers that become shorter.
func TestOutputsForget(t *testing.T) {
	var o outputs
	for range 5 * outputMemory {
		o.learn("r", 4000)
	}
	for range 6 * outputMemory {
		o.learn("r", 100)
	}
	if got, _ := o.within("r"); got > 106 {
		t.Errorf("%d", got)
	}
	if _, ok := o.within("other"); ok {
		t.Error("another route is known")
	}
}
