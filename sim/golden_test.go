// Package sim_test holds chosen incidents to what their reports under testdata
// say of Weir, of no control and of a peer.
package sim_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/cockroachdb/datadriven"

	"weir/model"
	"weir/sim/assert"
	"weir/sim/incident"
	"weir/sim/world"
)

// TestReports reads testdata/*.txt. Each has
//
//	run INCIDENT for=60s from=5s seeds=3 policies=(none,weir,netflix-aimd)
//
// which prints what the policies came to over the seeds, and below it
//
//	holds POLICY
//	ASSERTION
//	...
//
// whose assertions hold on every seed, or
//
//	fails POLICY
//
// whose assertions hold on none: the incident bites those who do not see it.
// Figures are rewritten on purpose, with go test ./sim -rewrite, and read
// before they are committed. An assertion that is broken stays an error then:
// its bound is changed by hand, with a reason, or not at all.
func TestReports(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Parallel()
		r := report{runs: map[string][]assert.Run{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "run":
				return r.run(t, d, strings.TrimSuffix(filepath.Base(path), ".txt"))
			case "holds", "fails":
				return r.judge(t, d)
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
		if r.judged == 0 {
			t.Errorf("%s asserts nothing", path)
		}
	})
}

// report is one file's runs.
type report struct {
	runs   map[string][]assert.Run // by policy
	judged int
}

// run lives an incident through under every policy and seed.
func (r *report) run(t *testing.T, d *datadriven.TestData, name string) string {
	var length, from string
	var policies []string
	seeds := 1
	if len(d.CmdArgs) == 0 || d.CmdArgs[0].Key != name {
		d.Fatalf(t, "want the incident of the file's name first")
	}
	d.ScanArgs(t, "for", &length)
	d.MaybeScanArgs(t, "from", &from)
	d.ScanArgs(t, "seeds", &seeds)
	for _, a := range d.CmdArgs {
		if a.Key == "policies" {
			policies = a.Vals
		}
	}
	inc, err := incident.Builtin(name)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	inc = inc.Compress(span(t, d, length))
	clear(r.runs)
	for seed := range uint64(seeds) {
		c := world.Config{Incident: inc, Seed: seed + 1, BooksFrom: span(t, d, from)}
		oracle := live(t, c, world.PolicyOracle)
		for _, policy := range policies {
			result := live(t, c, policy)
			r.runs[policy] = append(r.runs[policy], assert.Run{Result: result, Oracle: oracle, Figures: world.Measure(result, oracle, 0)})
		}
	}
	return r.table(policies)
}

func span(t *testing.T, d *datadriven.TestData, text string) time.Duration {
	if text == "" {
		return 0
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return v
}

func live(t *testing.T, c world.Config, policy string) *world.Result {
	c.Policy = policy
	result, err := world.Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// table has a row for each policy: medians, and least and most over the seeds.
func (r *report) table(policies []string) string {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "policy\tof oracle %\twasted %\tp99 s\tcollapsed\trecovered\twithin s")
	for _, p := range policies {
		runs := r.runs[p]
		var recovery []float64
		collapsed := 0
		for i := range runs {
			if f := &runs[i].Figures; f.RecoverS != nil {
				recovery = append(recovery, *f.RecoverS)
			}
			if runs[i].Figures.Collapsed {
				collapsed++
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d of %d\t%d of %d\t%s\n", p,
			spread(runs, func(f *world.Figures) float64 { return 100 * f.GoodputRatio }),
			spread(runs, func(f *world.Figures) float64 { return 100 * f.WasteRatio }),
			spread(runs, func(f *world.Figures) float64 { return f.P99S }),
			collapsed, len(runs), len(recovery), len(runs), extent(recovery))
	}
	_ = w.Flush() // into memory
	var text strings.Builder
	for line := range strings.Lines(out.String()) {
		text.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return text.String()
}

func spread(runs []assert.Run, of func(*world.Figures) float64) string {
	var v []float64
	for i := range runs {
		v = append(v, of(&runs[i].Figures))
	}
	return extent(v)
}

// extent is the median and the range in whole numbers.
func extent(v []float64) string {
	if len(v) == 0 {
		return "-"
	}
	slices.Sort(v)
	return fmt.Sprintf("%.0f (%.0f-%.0f)", v[len(v)/2], v[0], v[len(v)-1])
}

// judge holds a policy's runs to the assertions of a block.
func (r *report) judge(t *testing.T, d *datadriven.TestData) string {
	if len(d.CmdArgs) != 1 || r.runs[d.CmdArgs[0].Key] == nil {
		d.Fatalf(t, "want one policy of the run")
	}
	policy := d.CmdArgs[0].Key
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		a, err := assert.Parse(line)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		r.judged++
		v := a.Judge(r.runs[policy])
		switch {
		case d.Cmd == "holds" && !v.Holds():
			t.Errorf("%s: %s: %s holds on %d of %d seeds: %s", d.Pos, policy, a, v.Held, v.All, v.Worst)
		case d.Cmd == "fails" && v.Held > 0:
			t.Errorf("%s: %s: %s should fail and holds on %d of %d seeds", d.Pos, policy, a, v.Held, v.All)
		}
		fmt.Fprintf(&out, "%s: %d of %d seeds\n", a, v.Held, v.All)
	}
	return out.String()
}

// TestReportsCatchAWrongLaw holds that the assertions are no ornament: with a
// law turned against its purpose Weir breaks what its report holds it to.
func TestReportsCatchAWrongLaw(t *testing.T) {
	for _, c := range []struct {
		incident string
		length   time.Duration
		wrong    func(*model.Params)
		breaks   string
	}{
		// Latency is looked at only when it has grown tenfold.
		{"2064-cascade", 30 * time.Second, func(p *model.Params) { p.LatencyHigh, p.LatencyCalm = 10*model.One, 3*model.One }, "no-collapse"},
		// A cut takes next to nothing and is forgotten at once.
		{"row-step-8", 2 * time.Minute, func(p *model.Params) {
			p.PinFloor, p.Plateau, p.ClimbDouble, p.UsedShare = 980_000, model.Second/2, model.Second/10, 500_000
		}, "waste"},
		// The window stops growing long before the provider is in use.
		{"row-steady-8", time.Minute, func(p *model.Params) { p.WindowMax = 20_000 }, "goodput"},
	} {
		t.Run(c.incident+" "+c.breaks, func(t *testing.T) {
			t.Parallel()
			inc, err := incident.Builtin(c.incident)
			if err != nil {
				t.Fatal(err)
			}
			params := model.DefaultParams()
			c.wrong(&params)
			config := world.Config{Incident: inc.Compress(c.length), Seed: 1, BooksFrom: 5 * time.Second, Params: &params}
			oracle, result := live(t, config, world.PolicyOracle), live(t, config, world.PolicyWeir)
			run := assert.Run{Result: result, Oracle: oracle, Figures: world.Measure(result, oracle, 0)}
			a := held(t, c.incident, c.breaks)
			if v := a.Judge([]assert.Run{run}); v.Holds() {
				t.Errorf("%s still holds: %s", a, v.Worst)
			}
		})
	}
}

// held is an assertion that a report holds Weir to.
func held(t *testing.T, incident, name string) assert.Assertion {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", incident+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "\nholds weir\n")
	block, _, _ = strings.Cut(block, "\n----")
	for line := range strings.Lines(block) {
		if strings.HasPrefix(line, name) {
			a, err := assert.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
	}
	t.Fatalf("the report of %s holds Weir to no %s", incident, name)
	return assert.Assertion{}
}
