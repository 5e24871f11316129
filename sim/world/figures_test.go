package world

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"weir/model"
	"weir/sim/incident"
)

// rates is a run with so many completions in each second.
func rates(change time.Duration, perSecond ...int64) *Result {
	r := &Result{LastChange: change, FirstChange: change, Params: model.DefaultParams()}
	for i, n := range perSecond {
		r.Seconds = append(r.Seconds, Second{At: i + 1, Completed: n, InFlight: n, Capacity: 100})
		r.Completed += n
	}
	return r
}

// repeat is n seconds of one rate after another.
func repeat(parts ...int64) (out []int64) {
	for i := 0; i < len(parts); i += 2 {
		for range parts[i] {
			out = append(out, parts[i+1])
		}
	}
	return out
}

func TestRecovered(t *testing.T) {
	const change = 10 * time.Second
	oracle := rates(change, repeat(100, 100)...)
	for name, tc := range map[string]struct {
		run  *Result
		want float64 // negative for never
	}{
		"at once":                    {rates(change, repeat(100, 95)...), 0},
		"after a while":              {rates(change, repeat(30, 20, 70, 95)...), 19}, // the fifth second below is made up for by four
		"a burst is no recovery":     {rates(change, repeat(30, 20, 5, 100, 65, 20)...), -1},
		"a burst, and then for good": {rates(change, repeat(20, 20, 5, 100, 25, 20, 50, 100)...), 40},
		"never":                      {rates(change, repeat(100, 80)...), -1},
		"nothing changes":            {rates(0, repeat(7, 0, 93, 100)...), 7},
	} {
		got := recovered(tc.run, oracle)
		switch {
		case tc.want < 0 && got != nil:
			t.Errorf("%s: recovered after %v s, want never", name, *got)
		case tc.want >= 0 && (got == nil || math.Abs(*got-tc.want) > 1):
			t.Errorf("%s: recovered after %v, want %v s", name, got, tc.want)
		}
	}
	if got := recovered(oracle, oracle); got == nil || *got != 0 {
		t.Errorf("the oracle recovered after %v, want 0", got)
	}
}

func TestDetect(t *testing.T) {
	const change = 10 * time.Second
	rise := rates(change, repeat(20, 100, 80, 115)...)
	for i := 10; i < 100; i++ {
		rise.Seconds[i].Capacity = 200
	}
	for name, tc := range map[string]struct {
		run  *Result
		want float64
	}{
		"falls":           {rates(change, repeat(14, 100, 86, 50)...), 5},
		"rises":           {rise, 11},
		"never":           {rates(change, repeat(100, 100)...), 90},
		"nothing changes": {rates(0, repeat(100, 100)...), 0},
	} {
		if got := detect(tc.run); got != tc.want {
			t.Errorf("%s: detected after %v s, want %v", name, got, tc.want)
		}
	}
}

// TestFiguresAreWhole: every figure of every policy is a number; only the time
// to recover may be absent. The oracle is 1 by definition.
func TestFiguresAreWhole(t *testing.T) {
	idle := cascade(t)
	idle.Workloads[0].Start = idle.Duration // nobody wants anything
	for name, inc := range map[string]*incident.Incident{"cascade": cascade(t), "idle": idle} {
		oracle := run(t, Config{Incident: inc, Seed: 1, Policy: PolicyOracle})
		for _, policy := range []string{PolicyNone, PolicyWeir, "google-throttle", "weir-no-latency"} {
			r := run(t, Config{Incident: inc, Seed: 1, Policy: policy})
			whole(t, name+" "+policy, Measure(r, oracle, time.Second))
		}
		f := Measure(oracle, oracle, time.Second)
		whole(t, name+" oracle", f)
		if f.GoodputRatio != 1 || f.Collapsed || f.RecoverS == nil || *f.RecoverS != 0 {
			t.Errorf("%s: the oracle beside itself: %+v", name, f)
		}
	}
}

func whole(t *testing.T, what string, f Figures) {
	t.Helper()
	if _, err := json.Marshal(f); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	v := reflect.ValueOf(f)
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Name, v.Field(i)
		if field.CanFloat() {
			if n := field.Float(); math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
				t.Errorf("%s: %s is %v", what, name, n)
			}
		}
		if field.Kind() == reflect.String && field.Len() == 0 {
			t.Errorf("%s: %s is empty", what, name)
		}
	}
}

// TestParamsInForce: a run names the parameters it was lived under, which an
// ablation moves.
func TestParamsInForce(t *testing.T) {
	given := model.DefaultParams()
	given.RotateEvery = 3 * model.Second
	hash := map[string]string{}
	for _, policy := range []string{PolicyNone, PolicyWeir, "weir-no-latency", "weir-no-float"} {
		inc := cascade(t)
		inc.Duration = time.Second
		r := run(t, Config{Incident: inc, Seed: 1, Policy: policy, Params: &given})
		hash[policy] = Measure(r, r, 0).Params
	}
	if hash[PolicyWeir] != given.Hash() || hash[PolicyNone] != given.Hash() {
		t.Errorf("the given parameters %s are shown as %v", given.Hash(), hash)
	}
	if a, b := hash["weir-no-latency"], hash["weir-no-float"]; a == given.Hash() || b == given.Hash() || a == b {
		t.Errorf("ablations have the parameters %s and %s", a, b)
	}
}

func TestFairness(t *testing.T) {
	for name, tc := range map[string]struct {
		got, wanted []int64
		least, most float64
	}{
		"all alike":                     {[]int64{50, 50, 50}, []int64{90, 90, 90}, 1, 1},
		"one has all":                   {[]int64{90, 0, 0}, []int64{90, 90, 90}, 1.0 / 3, 0.34},
		"who wants less has it":         {[]int64{10, 70, 70}, []int64{10, 90, 200}, 1, 1},
		"all have what they want":       {[]int64{10, 90, 300}, []int64{10, 90, 300}, 1, 1},
		"in proportion is not max-min":  {[]int64{10, 50, 90}, []int64{20, 100, 180}, 0.5, 0.95},
		"who wants nothing is left out": {[]int64{0, 40, 40}, []int64{0, 90, 90}, 1, 1},
		"nobody gets anything":          {[]int64{0, 0}, []int64{90, 90}, 1, 1},
		"nobody wants anything":         {nil, nil, 1, 1},
	} {
		if got := jain(fairness(tc.got, tc.wanted)); got < tc.least || got > tc.most {
			t.Errorf("%s: %.4f, want %.4f to %.4f", name, got, tc.least, tc.most)
		}
	}
}

// TestBooksOpenLater: what was wanted, wasted and missed before the books
// opened is in no figure.
func TestBooksOpenLater(t *testing.T) {
	inc := *builtin(t, "brownout")
	half := inc.Duration / 2
	all := run(t, Config{Incident: &inc, Seed: 1, Policy: PolicyNone})
	late := run(t, Config{Incident: &inc, Seed: 1, Policy: PolicyNone, BooksFrom: half})
	inc.Duration = half
	early := run(t, Config{Incident: &inc, Seed: 1, Policy: PolicyNone})
	for name, n := range map[string][3]int64{
		"wanted":        {early.Requests, late.Requests, all.Requests},
		"completed":     {early.Completed, late.Completed, all.Completed},
		"wasted tokens": {early.WastedTokens, late.WastedTokens, all.WastedTokens},
		"missed":        {early.Missed, late.Missed, all.Missed},
		"timeouts":      {early.Timeouts, late.Timeouts, all.Timeouts},
		"abandoned":     {early.Abandoned, late.Abandoned, all.Abandoned},
		"tokens":        {early.Tokens, late.Tokens, all.Tokens},
		"attempts":      {early.Attempts, late.Attempts, all.Attempts},
	} {
		if n[0]+n[1] != n[2] || n[2] == 0 {
			t.Errorf("%s: %d before, %d after, %d in all", name, n[0], n[1], n[2])
		}
	}
}

// TestTokensAreTheProviders: tokens of completed requests are those that the
// provider's books say it served.
func TestTokensAreTheProviders(t *testing.T) {
	inc := *builtin(t, "max-tokens")
	inc.Duration = time.Minute
	r := run(t, Config{Incident: &inc, Seed: 1, Policy: PolicyNone})
	if b := r.Books[0]; r.Tokens != b.ServedInput+b.ServedOutput || r.Tokens == 0 {
		t.Errorf("%d tokens completed, %d served", r.Tokens, b.ServedInput+b.ServedOutput)
	}
}
