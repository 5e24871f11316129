package tune

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/sim/incident"
	"weir/sim/world"
)

// TestWorse compares with the published table of the signed-rank test and with
// counting out by another way.
func TestWorse(t *testing.T) {
	for _, c := range []struct {
		d    []float64
		want float64
	}{
		{nil, 1},
		{[]float64{0, 0}, 1},
		{[]float64{1, 2, 3, 4, 5, 6}, 1.0 / 64},
		{[]float64{-1, 2, 3, 4, 5, 6}, 2.0 / 64},
		{[]float64{1, 1, 1, 1, 1}, 1.0 / 32},              // ties
		{[]float64{-1, -2, -3}, 1},                        // all better
		{[]float64{-3, -4, 1, 2, 5, 6, 7, 8}, 19.0 / 256}, // 29 of 36, the other way 7
	} {
		if got := worse(c.d); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: got %v, want %v", c.d, got, c.want)
		}
	}
	dice := rand.New(rand.NewPCG(1, 1))
	for range 20 { // the normal law continues the exact one
		d := make([]float64, exactRanks+1)
		for i := range d {
			d[i] = dice.NormFloat64() + 0.2
		}
		total, plus := signs(d)
		if got := worse(d); math.Abs(got-plus/total) > 0.01 {
			t.Errorf("%v: got %v, counted %v", d, got, plus/total)
		}
	}
}

// signs counts out in how many of all choices of signs the positive ranks sum
// to at least as much.
func signs(d []float64) (total, plus float64) {
	ranks, have, _ := signedRanks(d)
	for set := range 1 << len(ranks) {
		sum := 0
		for i, r := range ranks {
			if set>>i&1 != 0 {
				sum += r
			}
		}
		total++
		if sum >= have {
			plus++
		}
	}
	return total, plus
}

// TestJackknife: the interval of a mean is Student's, and that of a mean with
// its worst tenth holds the truth about as often as it says.
func TestJackknife(t *testing.T) {
	x := []float64{3, 5, 4, 6, 2}
	avg := func(x []float64) float64 { return blend(x, 0) }
	without := func(x []float64, i int) []float64 {
		var out []float64
		for k, v := range x {
			if k != i {
				out = append(out, v)
			}
		}
		return out
	}
	all, low, high := jackknife(len(x), func(i int) float64 { return avg(without(x, i)) })
	if half := 2.776 * math.Sqrt(2.5/5); math.Abs(all-4) > 1e-12 || math.Abs(low-4+half) > 1e-9 || math.Abs(high-4-half) > 1e-9 {
		t.Errorf("got %v (%v to %v)", all, low, high)
	}
	dice := rand.New(rand.NewPCG(2, 2))
	missed := 0
	for range 400 {
		a := make([]float64, 96)
		for i := range a {
			a[i] = dice.NormFloat64()
		}
		gain := func(i int) float64 { return blend(without6(a, i), 0.25) }
		truth := 0.25 * 1.755 // the mean of a normal law's worst tenth
		if _, low, high := jackknife(16, gain); truth < low || truth > high {
			missed++
		}
	}
	if missed > 40 {
		t.Errorf("the interval missed %d of 400 times, want about 20", missed)
	}
	if _, low, high := jackknife(1, func(int) float64 { return 1 }); !math.IsInf(low, -1) || !math.IsInf(high, 1) {
		t.Errorf("one group gives %v to %v", low, high)
	}
}

func without6(a []float64, i int) []float64 {
	if i < 0 {
		return a
	}
	return append(append([]float64{}, a[:i*6]...), a[(i+1)*6:]...)
}

func TestStudent(t *testing.T) {
	for df, want := range map[int]float64{1: 12.706, 10: 2.228, 30: 2.042, 40: 2.021, 60: 2.000, 120: 1.980} {
		if got := student(df); math.Abs(got-want) > 0.0015 {
			t.Errorf("%d: got %v, want %v", df, got, want)
		}
	}
	if got := student(0); !math.IsInf(got, 1) {
		t.Errorf("0: got %v", got)
	}
}

func TestBlend(t *testing.T) {
	ten := []float64{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}
	if got := blend(ten, 0.25); math.Abs(got-(0.075+0.25)) > 1e-12 {
		t.Errorf("got %v", got)
	}
	if got := blend(append(ten, 0), 1); math.Abs(got-1/1.1) > 1e-12 {
		t.Errorf("the worst tenth of eleven: got %v", got)
	}
}

func TestFront(t *testing.T) {
	trial := func(id int, lost, wasted float64) *Trial {
		return &Trial{ID: id, Full: true, Losses: Losses{Lost: lost, Wasted: wasted}}
	}
	broken, half := trial(7, 0, 0), trial(8, 0, 0)
	broken.Broken, half.Full = "x", false
	var got []int
	for _, f := range front([]*Trial{trial(0, 3, 3), trial(1, 1, 4), trial(2, 2, 2), trial(3, 2, 2), trial(4, 4, 1), broken, half, trial(5, 4, 4)}) {
		got = append(got, f.ID)
	}
	if d := cmp.Diff([]int{1, 2, 4}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestMeasure judges real runs: the oracle is its own measure, no control
// wastes, and nothing is broken.
func TestMeasure(t *testing.T) {
	inc, err := incident.Builtin("row-step-8")
	if err != nil {
		t.Fatal(err)
	}
	inc = inc.Compress(60e9)
	live := func(policy string) *world.Result {
		r, err := world.Run(world.Config{Incident: inc, Seed: 3, Policy: policy})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	oracle := live(world.PolicyOracle)
	own := Measure(oracle, oracle)
	if own.Losses[Lost] != 0 || own.Losses[Slow] != 0.5 || own.Losses[Collapse] != 0 {
		t.Errorf("the oracle: %+v", own)
	}
	none, weir := Measure(live(world.PolicyNone), oracle), Measure(live(world.PolicyWeir), oracle)
	if none.Broken != "" || weir.Broken != "" || none.Digest == weir.Digest {
		t.Errorf("%+v, %+v", none, weir)
	}
	if none.Losses[Wasted] < 2*weir.Losses[Wasted] {
		t.Errorf("no control wastes %v, Weir %v", none.Losses[Wasted], weir.Losses[Wasted])
	}
	bad := live(world.PolicyWeir)
	bad.LeaseOvershoot = 1_000_001
	if got := Measure(bad, oracle).Broken; got == "" {
		t.Error("claims above the limit pass")
	}
	bad = live(world.PolicyWeir)
	bad.Seconds[0].Completed += 1_000_000
	if got := Measure(bad, oracle).Broken; got == "" {
		t.Error("requests out of nothing pass")
	}
	w := DefaultWeights()
	if w.loss(&weir.Losses) > w.loss(&none.Losses) {
		t.Errorf("Weir %v is judged worse than no control %v", weir.Losses, none.Losses)
	}
	for o := range NumObjectives {
		if name := o.String(); name == "" || name[0] == 'o' {
			t.Errorf("objective %d has the name %q", o, name)
		}
	}
}
