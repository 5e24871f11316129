package assert

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir/sim/world"
)

// made is a run of a hundred seconds at a rate beside an oracle at ten a
// second; shape may change a second.
func made(seed uint64, rate int64, shape func(i int, s *world.Second)) Run {
	var mine, best world.Result
	for i := range 100 {
		s := world.Second{At: i + 1, Completed: rate}
		if shape != nil {
			shape(i, &s)
		}
		mine.Seconds = append(mine.Seconds, s)
		best.Seconds = append(best.Seconds, world.Second{At: i + 1, Completed: 10})
	}
	return Run{Result: &mine, Oracle: &best, Figures: world.Figures{Seed: seed, GoodputRatio: float64(rate) / 10, Jain: 1}}
}

func recovered(r Run, s float64) Run {
	r.Figures.RecoverS = &s
	return r
}

// TestJudge holds each assertion to a run on which it holds, and to one that
// breaks just that.
func TestJudge(t *testing.T) {
	calm := made(1, 9, nil)
	sagging := made(2, 9, func(i int, s *world.Second) {
		if i >= 90 {
			s.Completed = 4
		}
	})
	swinging := made(3, 9, func(i int, s *world.Second) { s.Completed = 18 * int64(i/10%2) })
	with := func(set func(*world.Figures)) Run {
		r := made(4, 9, nil)
		set(&r.Figures)
		return r
	}
	for _, c := range []struct {
		text       string
		holds, not Run
		says       string
	}{
		{"no-collapse end=0.5", calm, sagging, "is 0.4 with seed 2"},
		{"recovers within=10s", recovered(calm, 10), recovered(calm, 10.5), "is 10.5"},
		{"recovers within=10s", recovered(calm, 0), calm, "is +Inf"},
		{"steady cv=0.2", calm, swinging, "is 1 with seed 3"},
		{"fair jain=0.9", calm, with(func(f *world.Figures) { f.Jain = 0.5 }), "is 0.5"},
		{"no-overshoot lease=1 provider=1.2", calm, with(func(f *world.Figures) { f.LeaseOvershoot = 1.001 }), "claims over the limit is 1.001"},
		{"no-overshoot lease=1 provider=1.2", calm, with(func(f *world.Figures) { f.ProviderOvershoot = 3 }), "cap is 3"},
		{"goodput least=0.9", calm, made(5, 8, nil), "is 0.8"},
		{"waste most=5e-2", calm, with(func(f *world.Figures) { f.WasteRatio = 0.06 }), "is 0.06"},
		{"calm flaps=2", calm, with(func(f *world.Figures) { f.Flaps = 3 }), "is 3"},
		{"goodput least=0", calm, with(func(f *world.Figures) { f.GoodputRatio = math.NaN() }), "NaN"},
	} {
		a, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if v := a.Judge([]Run{c.holds, c.holds}); !v.Holds() || v.Held != 2 {
			t.Errorf("%s: %+v, want it to hold", a, v)
		}
		if v := a.Judge([]Run{c.holds, c.not}); v.Holds() || v.Held != 1 || !strings.Contains(v.Worst, c.says) {
			t.Errorf("%s: %+v, want it to fail with %q", a, v, c.says)
		}
		if v := a.Judge(nil); v.Holds() {
			t.Errorf("%s holds of nothing", a)
		}
	}
}

// TestWarmUpIsLeftOut holds that a rate before the books opened is not judged.
func TestWarmUpIsLeftOut(t *testing.T) {
	r := made(1, 9, func(i int, s *world.Second) {
		if i < 20 {
			s.Completed = 0
		}
	})
	a, err := Parse("steady cv=0.1")
	if err != nil {
		t.Fatal(err)
	}
	if v := a.Judge([]Run{r}); v.Holds() {
		t.Errorf("a late start is steady: %+v", v)
	}
	r.Result.From = 20 * time.Second
	if v := a.Judge([]Run{r}); !v.Holds() {
		t.Errorf("the warm-up is judged: %+v", v)
	}
}

func TestParseFaults(t *testing.T) {
	for _, text := range []string{
		"", "quick", "recovers", "recovers within", "recovers within=soon", "recovers within=NaN", "recovers after=3s",
		"recovers within=3s within=4s", "no-overshoot lease=1", "fair jain=0.9 cv=1",
	} {
		if a, err := Parse(text); err == nil {
			t.Errorf("%q was read as %q", text, a)
		}
	}
	if a, err := Parse("  recovers   within=1m30s "); err != nil || a.String() != "recovers within=1m30s" || a.bounds["within"] != 90 {
		t.Errorf("got %+v, %v", a, err)
	}
	if got := strings.Join(Names(), "; "); !strings.Contains(got, "no-overshoot lease= provider=; recovers within=; steady cv=") {
		t.Errorf("names %s", got)
	}
}
