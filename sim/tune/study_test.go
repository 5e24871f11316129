package tune

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/model"
)

// valley is a world with a closed form: it loses the more the further some
// parameters are from where they should be, each incident with its own luck.
type valley struct {
	best  map[string]float64 // where a parameter should be, in its unit
	price float64
	luck  float64
	// broken: more than this of the first parameter breaks an invariant.
	broken float64
	runs   int
}

func (v *valley) outcome(j Job) Outcome {
	v.runs++
	o := Outcome{Digest: uint64(j.Incident)<<32 ^ j.Seed}
	sum := 0.0
	for _, spec := range model.ParamSpecs() {
		if at, ok := v.best[spec.Name]; ok {
			d := Unit(&spec, spec.Get(&j.Params)) - at
			sum += d * d
			if v.broken > 0 && spec.Name == "cut_share" && at+d > v.broken {
				o.Broken = "too much"
			}
		}
	}
	// What all parameters of one pair share cancels out; what is left does not.
	shared := float64(mix(j.Seed+uint64(j.Incident))%1000) / 1000
	own := float64(mix(j.Seed^uint64(j.Params.CutShare)*977+uint64(j.Params.Plateau))%1000)/1000 - 0.5
	o.Losses[Lost] = round6(0.1 + v.price*sum + 0.2*shared + v.luck*own)
	o.Losses[Wasted] = round6(0.05 + v.price*sum/4)
	return o
}

func (v *valley) eval(jobs []Job, take func(Outcome) error) error {
	for _, j := range jobs {
		if err := take(v.outcome(j)); err != nil {
			return err
		}
	}
	return nil
}

func config(t *testing.T, trials, seeds int) Config {
	t.Helper()
	c := Config{
		Trials: trials, Seeds: seeds, Seed: 5, InForce: model.DefaultParams(), Weights: DefaultWeights(),
		Tail: 0.25, Tolerance: 0.02, Worth: 0.01, Cold: true,
	}
	for _, name := range []string{"one", "two", "three"} {
		c.Incidents = append(c.Incidents, Incident{name, name + "!"})
	}
	return c
}

// defaults are where the valley's parameters are by default.
func defaults(names ...string) map[string]float64 {
	at := map[string]float64{}
	for _, s := range model.ParamSpecs() {
		if slices.Contains(names, s.Name) {
			at[s.Name] = Unit(&s, s.Default)
		}
	}
	return at
}

// some are the names of n parameters, from all parts of the laws.
func some(n int) []string {
	specs := model.ParamSpecs()
	var names []string
	for i := range n {
		names = append(names, specs[i*len(specs)/n].Name)
	}
	return names
}

func set(t *testing.T, p *model.Params, name string, at float64) {
	t.Helper()
	for _, s := range model.ParamSpecs() {
		if s.Name == name {
			if err := s.Set(p, value(&s, at)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRunFindsTheValley starts far from where six of all the parameters should
// be and must find most of the way, and change little else.
func TestRunFindsTheValley(t *testing.T) {
	names := some(6)
	v := &valley{best: defaults(names...), price: 1, luck: 0.002}
	c := config(t, 250, 8)
	for _, n := range names {
		set(t, &c.InForce, n, math.Mod(v.best[n]+0.5, 1))
	}
	r, err := Run(c, NewJournal(nil), v.eval, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs of %d; %s; promised %.4f", r.Runs, 250*24, r.Verdict.Why, r.Verdict.Promised)
	p, d := c.InForce, model.DefaultParams()
	loss := func(p model.Params) float64 {
		o := v.outcome(Job{Seed: 1, Params: p})
		return c.Weights.loss(&o.Losses)
	}
	if share := (loss(p) - loss(r.Params)) / (loss(p) - loss(d)); !r.Verdict.Recommend || share < 0.9 {
		t.Errorf("recommend %v; %.2f of the possible gain", r.Verdict.Recommend, share)
	}
	if r.Runs > 250*24/2 {
		t.Errorf("%d runs: racing saved less than half", r.Runs)
	}
	var share, rest float64
	for _, i := range r.Importance {
		if slices.Contains(names, i.Name) {
			share = max(share, i.Share)
		} else {
			rest = max(rest, i.Share)
		}
	}
	if share <= rest {
		t.Errorf("a parameter that does nothing explains %.2f, the best of those that do %.2f", rest, share)
	}
}

// TestRunKeeps: where the defaults are right nothing is recommended.
func TestRunKeeps(t *testing.T) {
	for seed := range uint64(5) {
		v := &valley{best: defaults("cut_share", "plateau"), price: 1, luck: 0.01}
		c := config(t, 60, 4)
		c.Seed = seed
		r, err := Run(c, NewJournal(nil), v.eval, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict.Recommend || !strings.HasPrefix(r.Verdict.Why, "keep what you have") || r.Params != c.InForce {
			t.Errorf("seed %d: %s", seed, r.Verdict.Why)
		}
	}
}

// TestRunHoldsInvariants: the valley lies where an invariant breaks.
func TestRunHoldsInvariants(t *testing.T) {
	v := &valley{best: map[string]float64{"cut_share": 0.9}, price: 1, broken: 0.6}
	c := config(t, 40, 2)
	c.Only = []string{"cut_share"}
	r, err := Run(c, NewJournal(nil), v.eval, nil)
	if err != nil {
		t.Fatal(err)
	}
	if at := float64(r.Params.CutShare-300_000) / 680_000; at > 0.6 {
		t.Errorf("cut_share is %d, where an invariant breaks", r.Params.CutShare)
	}
	if !slices.ContainsFunc(r.Trials, func(t *Trial) bool { return t.Broken != "" && !t.Full && math.IsInf(t.Score, 1) }) {
		t.Error("no trial was killed")
	}
	for _, b := range r.Best {
		if b.Broken != "" {
			t.Errorf("trial %d was the best and broke %s", b.ID, b.Broken)
		}
	}
}

// TestRunOneIncidentWorse: a gain in the mean does not pay for one incident.
func TestRunOneIncidentWorse(t *testing.T) {
	c := config(t, 40, 4)
	c.Only = []string{"cut_share"}
	r, err := Run(c, NewJournal(nil), func(jobs []Job, take func(Outcome) error) error {
		for _, j := range jobs {
			at := float64(j.Params.CutShare-700_000) / 280_000
			o := Outcome{}
			o.Losses[Lost] = 0.5 - at*[]float64{0.3, 0.3, -0.1}[j.Incident]
			if err := take(o); err != nil {
				return err
			}
		}
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict.Recommend || !strings.Contains(r.Verdict.Why, "three") {
		t.Errorf("%s", r.Verdict.Why)
	}
}

// TestJournalResumes cuts a study's file at every so many bytes, as a kill
// does, and goes on: the file is the same in the end, and so is the verdict.
func TestJournalResumes(t *testing.T) {
	c := config(t, 24, 2)
	set(t, &c.InForce, "cut_share", 0.1)
	whole := func() (*valley, string, *Result) {
		v := &valley{best: defaults("cut_share", "plateau"), price: 1, luck: 0.01}
		var out bytes.Buffer
		r, err := Run(c, NewJournal(&out), v.eval, nil)
		if err != nil {
			t.Fatal(err)
		}
		return v, out.String(), r
	}
	v, text, want := whole()
	for cut := 0; cut < len(text); cut += 4001 {
		var out bytes.Buffer
		j, good, err := OpenJournal(strings.NewReader(text[:cut]), &out)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if good > int64(cut) || good > 0 && text[good-1] != '\n' {
			t.Fatalf("cut at %d: %d bytes are good", cut, good)
		}
		w := &valley{best: v.best, price: v.price, luck: v.luck}
		got, err := Run(c, j, w.eval, nil)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if text[:good]+out.String() != text {
			t.Fatalf("cut at %d: the file goes on otherwise", cut)
		}
		if d := cmp.Diff(want.Verdict, got.Verdict); d != "" {
			t.Fatalf("cut at %d (-want +got):\n%s", cut, d)
		}
		if left := strings.Count(text[good:], `"run":`); w.runs > left+1 {
			t.Fatalf("cut at %d: %d runs for the %d that were missing", cut, w.runs, left)
		}
	}
}

func TestJournalRefuses(t *testing.T) {
	c := config(t, 6, 1)
	v := &valley{best: defaults("cut_share"), price: 1}
	var out bytes.Buffer
	if _, err := Run(c, NewJournal(&out), v.eval, nil); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	again := func(c Config, v *valley) error {
		j, _, err := OpenJournal(strings.NewReader(text), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(c, j, v.eval, nil)
		return err
	}
	if err := again(c, v); err != nil {
		t.Errorf("the same study: %v", err)
	}
	other := c
	other.Seed++
	if err := again(other, v); !errors.Is(err, ErrOther) {
		t.Errorf("another seed: %v", err)
	}
	if err := again(c, &valley{best: map[string]float64{"plateau": 0.9}, price: 3}); !errors.Is(err, ErrOther) {
		t.Errorf("another world: %v", err)
	}
	for _, c := range []struct{ name, text string }{
		{"a flipped bit", strings.Replace(text, `"losses":[0`, `"losses":[1`, 1)},
		{"a line that is no record", "hello\n" + text},
		{"a line without end", strings.Repeat("x", 2<<20) + "\n" + text},
	} {
		if _, _, err := OpenJournal(strings.NewReader(c.text), nil); err == nil {
			t.Errorf("%s: taken", c.name)
		}
	}
}

// TestRunStops: an error of who evaluates ends the study and is kept.
func TestRunStops(t *testing.T) {
	stop := errors.New("stop")
	n := 0
	_, err := Run(config(t, 10, 1), NewJournal(nil), func([]Job, func(Outcome) error) error {
		if n++; n == 3 {
			return stop
		}
		return fmt.Errorf("only %d: %w", n, stop)
	}, nil)
	if !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	for _, c := range []Config{{}, {Incidents: []Incident{{"a", "b"}}}, {Incidents: []Incident{{"a", "b"}}, Trials: 1, Seeds: 1}} {
		if _, err := Run(c, NewJournal(nil), nil, nil); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	c := config(t, 1, 1)
	c.Only = []string{"nothing"}
	if _, err := Run(c, NewJournal(nil), nil, nil); err == nil {
		t.Error("a parameter that does not exist was taken")
	}
}

// TestSeedsAreDisjoint: no seed serves two parts of a study.
func TestSeedsAreDisjoint(t *testing.T) {
	s, err := newStudy(config(t, 10, 100), NewJournal(nil), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[pair]bool{}
	for _, part := range [][]pair{s.search, s.selection, s.verdict} {
		for _, p := range part {
			if seen[p] {
				t.Fatalf("%v stands twice", p)
			}
			seen[p] = true
		}
	}
}

func TestSpace(t *testing.T) {
	s, err := newSpace(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.specs {
		p := &s.specs[i]
		for _, v := range []int64{p.Min, p.Max, p.Default} {
			if u := Unit(p, v); u < 0 || u > 1 {
				t.Errorf("%s: %d is at %v", p.Name, v, u)
			}
		}
		last := int64(math.MinInt64)
		for k := -1; k <= 21; k++ {
			v := value(p, float64(k)/20)
			if v < p.Min || v > p.Max || v < last {
				t.Errorf("%s: %d at %d/20 after %d, in %d..%d", p.Name, v, k, last, p.Min, p.Max)
			}
			if back := Unit(p, v); v >= 1000 && math.Abs(back-min(max(float64(k)/20, 0), 1)) > 0.01 {
				t.Errorf("%s: %v becomes %v", p.Name, float64(k)/20, back)
			}
			last = v
		}
	}
}

// BenchmarkStudy is what a study of a thousand trials of six parameters costs
// beside its runs, for each trial, and how that compares with the strategy alone
// in the same run.
func BenchmarkStudy(b *testing.B) {
	c := Config{
		Trials: 1000, Seeds: 2, Seed: 1, InForce: model.DefaultParams(), Weights: DefaultWeights(), Tail: 0.25,
		Only:      some(6),
		Incidents: []Incident{{"one", "1"}, {"two", "2"}, {"three", "3"}},
	}
	v := &valley{best: defaults(c.Only...), price: 1, luck: 0.01}
	var runs, alone time.Duration
	eval := func(jobs []Job, take func(Outcome) error) error {
		began := b.Elapsed()
		out := make([]Outcome, len(jobs))
		for i := range jobs {
			out[i] = v.outcome(jobs[i])
		}
		runs += b.Elapsed() - began
		for _, o := range out {
			if err := take(o); err != nil {
				return err
			}
		}
		return nil
	}
	for b.Loop() {
		if _, err := Run(c, NewJournal(nil), eval, nil); err != nil {
			b.Fatal(err)
		}
		began := b.Elapsed()
		cma := NewCMA(make([]float64, len(c.Only)), 0.3, 0, 1)
		for n := 0; n < c.Trials; n += len(cma.Ask()) {
			costs := make([]float64, len(cma.Ask()))
			for i, x := range cma.Ask() {
				costs[i] = ellipsoid(x)
			}
			if err := cma.Tell(costs); err != nil {
				b.Fatal(err)
			}
		}
		alone += b.Elapsed() - began
	}
	own := (b.Elapsed() - runs - alone).Seconds()
	b.ReportMetric(1e6*own/float64(b.N*c.Trials), "us/trial")
	b.ReportMetric(own/alone.Seconds(), "x-strategy")
}
