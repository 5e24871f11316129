package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/cmd/weir/compare"
	"weir/cmd/weir/simreport"
	"weir/sim/incident"
	"weir/sim/world"
)

func TestSimList(t *testing.T) {
	got := weir(t, "", "sim", "list")
	if got.code != exitOK {
		t.Fatal(got.stderr)
	}
	var names []string
	for line := range strings.Lines(got.stdout) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			t.Errorf("line %q has no sentence", line)
			continue
		}
		names = append(names, fields[0]+" "+fields[1])
	}
	var want []string
	for _, name := range incident.List() {
		want = append(want, "incident "+name)
	}
	for _, p := range world.Policies() {
		want = append(want, "policy "+p.Name)
	}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// decode decodes the JSON lines of a run and takes what may differ out.
func decode(t *testing.T, out string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(out) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if wall, ok := one["wall_s"].(float64); !ok || wall < 0 {
			t.Errorf("wall_s is %v", one["wall_s"])
		}
		delete(one, "wall_s")
		all = append(all, one)
	}
	return all
}

// TestSimRun runs the same simulations twice: every line in its place, and
// every figure the same.
func TestSimRun(t *testing.T) {
	args := []string{"sim", "run", "testdata/quick.yaml", "2064-quota", "--compress", "20s", "--books-from", "5s", "--seeds", "2", "--seed", "7", "--json", "--policy", "weir,none,oracle"}
	got := weir(t, "", args...)
	if got.code != exitOK || got.stderr != "" {
		t.Fatalf("exit code %d: %s", got.code, got.stderr)
	}
	all := decode(t, got.stdout)
	var order []string
	for _, one := range all {
		order = append(order, one["incident"].(string)+" "+one["policy"].(string)+" "+string(rune('0'+int(one["seed"].(float64)))))
	}
	want := []string{
		"quick none 7", "quick none 8", "quick weir 7", "quick weir 8", "quick oracle 7", "quick oracle 8",
		"2064-quota none 7", "2064-quota none 8", "2064-quota weir 7", "2064-quota weir 8", "2064-quota oracle 7", "2064-quota oracle 8",
	}
	if d := cmp.Diff(want, order); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	for _, one := range all[:6] {
		if one["completed"].(float64) < 200 || one["goodput_ratio"].(float64) < 0.9 || one["virtual_s"] != 20.0 || len(one["digest"].(string)) != 16 {
			t.Errorf("got %v", one)
		}
	}
	for _, one := range all {
		if one["policy"] == "oracle" && one["goodput_ratio"] != 1.0 {
			t.Errorf("the oracle is not what it is measured by: %v", one)
		}
	}
	if all[0]["digest"] == all[1]["digest"] {
		t.Error("two seeds lived through the same events")
	}
	if d := cmp.Diff(all, decode(t, weir(t, "", args...).stdout)); d != "" {
		t.Errorf("the second run differs:\n%s", d)
	}
}

// TestSimRunParallel: every policy's runs, on one processor and on two, come to
// the same bytes but for wall_s, also when the next incident's oracle runs
// beside this one's policies.
func TestSimRunParallel(t *testing.T) {
	if testing.Short() {
		t.Skip("simulations, which take long under the race detector")
	}
	args := []string{"sim", "run", "testdata/quick.yaml", "2064-quota", "two-models", "--compress", "8s", "--seeds", "2", "--json", "--policy", "all"}
	wall := regexp.MustCompile(`"wall_s":[0-9.e-]+`)
	var outs []string
	for _, n := range []int{1, 2, 2} {
		before := runtime.GOMAXPROCS(n)
		got := weir(t, "", args...)
		runtime.GOMAXPROCS(before)
		if got.code != exitOK {
			t.Fatalf("exit code %d on %d processors: %s", got.code, n, got.stderr)
		}
		if lines := strings.Count(got.stdout, "\n"); lines != 3*2*len(world.Policies()) {
			t.Fatalf("%d lines on %d processors", lines, n)
		}
		outs = append(outs, wall.ReplaceAllString(got.stdout, ""))
	}
	for i, out := range outs[1:] {
		if d := cmp.Diff(strings.Split(outs[0], "\n"), strings.Split(out, "\n")); d != "" {
			t.Errorf("run %d differs:\n%s", i+2, d)
		}
	}
}

func TestSimRunTable(t *testing.T) {
	got := weir(t, "", "sim", "run", "testdata/quick.yaml", "--compress", "10s", "--policy", "weir")
	rows := strings.Split(strings.TrimSpace(got.stdout), "\n")
	if got.code != exitOK || len(rows) != 2 || !strings.Contains(rows[1], "quick") {
		t.Errorf("exit code %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// TestSimRunSeeds holds that several seeds make one row, with chances.
func TestSimRunSeeds(t *testing.T) {
	got := weir(t, "", "sim", "run", "testdata/quick.yaml", "--compress", "10s", "--policy", "weir,none", "--seeds", "3")
	rows := strings.Split(strings.TrimSpace(got.stdout), "\n")
	if got.code != exitOK || len(rows) != 3 || !strings.Contains(rows[1], "0/3 (0–56 %)") {
		t.Errorf("exit code %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// TestSimRunOut holds that the folder has what standard output has, and a page
// that the same command line makes again.
func TestSimRunOut(t *testing.T) {
	var pages [2]string
	for i := range pages {
		dir := filepath.Join(t.TempDir(), "deep", "out")
		got := weir(t, "", "sim", "run", "testdata/quick.yaml", "row-step", "--compress", "20s", "--seeds", "2", "--json", "--out", dir)
		if got.code != exitOK || got.stderr != "" {
			t.Fatalf("exit code %d: %s", got.code, got.stderr)
		}
		if lines := slurp(t, filepath.Join(dir, simLinesFile)); lines != got.stdout {
			t.Errorf("%s differs from standard output", simLinesFile)
		}
		pages[i] = slurp(t, filepath.Join(dir, simReportFile))
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
			t.Errorf("%v in the folder, %v", entries, err)
		}
	}
	if pages[0] != pages[1] {
		t.Error("the second page differs")
	}
	for _, want := range []string{`"incident":"row-step","policy":"none","seed":1,"t_s":[1,`, `"incident":"quick","policy":"weir","seed":1,"t_s":[1,`} {
		if !strings.Contains(pages[0], want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

// TestSimReportIsBounded holds that many incidents and policies still make a
// page of few timelines, among them the two that matter of each incident.
func TestSimReportIsBounded(t *testing.T) {
	const incidents = 100
	study := simreport.Study{Seeds: []uint64{1, 2, 3}}
	for i := range incidents {
		study.Incidents = append(study.Incidents, simreport.Incident{Name: fmt.Sprint("i", i)})
	}
	r, err := newSimReport(t.TempDir(), study)
	if err != nil {
		t.Fatal(err)
	}
	for i := range incidents {
		for _, policy := range []string{"a", "none", "weir", "z"} {
			for seed := uint64(1); seed <= 3; seed++ {
				f := world.Figures{Incident: fmt.Sprint("i", i), Policy: policy, Seed: seed}
				run := &world.Result{Incident: f.Incident, Policy: policy, Seed: seed, Series: &world.Series{Step: 1}}
				if err := r.add(&f, run); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	if n := len(r.study.Timelines); n != 2*incidents {
		t.Fatalf("%d timelines, want two an incident", n)
	}
	for i, line := range r.study.Timelines {
		if want := []string{"none", "weir"}[i%2]; line.Policy != want || line.Seed != 1 || line.Incident != fmt.Sprint("i", i/2) {
			t.Errorf("timeline %d is of %s, %s, seed %d", i, line.Incident, line.Policy, line.Seed)
		}
	}
}

// TestSimReportShowsTheWorst holds that the seed on which Weir did worst is
// there beside the first.
func TestSimReportShowsTheWorst(t *testing.T) {
	r, err := newSimReport(t.TempDir(), simreport.Study{Seeds: []uint64{1, 2, 3}, Incidents: []simreport.Incident{{Name: "i"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range []string{"none", "weir"} {
		for seed, ratio := range []float64{0.9, 0.8, 0.4} {
			f := world.Figures{Incident: "i", Policy: policy, Seed: uint64(seed + 1), GoodputRatio: ratio}
			if policy == "none" {
				f.GoodputRatio = 1 - ratio
			}
			run := &world.Result{Incident: "i", Policy: policy, Seed: f.Seed, Series: &world.Series{Step: 1}}
			if err := r.add(&f, run); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range r.study.Timelines {
		got = append(got, fmt.Sprint(line.Policy, line.Seed))
	}
	if d := cmp.Diff([]string{"none1", "weir1", "none3", "weir3"}, got); d != "" {
		t.Errorf("timelines (-want +got):\n%s", d)
	}
}

func TestSimOutFaults(t *testing.T) {
	in := file(t, "taken", "a file")
	got := weir(t, "", "sim", "run", "testdata/quick.yaml", "--compress", "5s", "--out", in)
	if got.code != exitUsage || !strings.Contains(got.stderr, "--out=") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}

func slurp(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSimParams holds that a parameter file decides.
func TestSimParams(t *testing.T) {
	calm := file(t, "p.yaml", "params: {window_start: 1000, plateau: 20s}\n")
	hash := func(args ...string) any {
		got := weir(t, "", append([]string{"sim", "run", "testdata/quick.yaml", "--compress", "10s", "--policy", "weir", "--json"}, args...)...)
		return decode(t, got.stdout)[0]["params"]
	}
	if a, b := hash(), hash("--params", calm); a == b || a == "" {
		t.Errorf("parameters %v and %v", a, b)
	}
}

func TestSimStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := weirIn(ctx, "", "sim", "run", "testdata/quick.yaml", "--seeds", "100")
	if got.code != exitFailed || !strings.Contains(got.stderr, "stopped before their end") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}

func TestSimCompareFaults(t *testing.T) {
	for want, args := range map[string][]string{
		"no such file":          {"no-such"},
		"--tolerance=-1":        {"2064-cascade", "--tolerance=-1"},
		"--tolerance=NaN":       {"2064-cascade", "--tolerance=NaN"},
		"--count-from":          {"2064-cascade", "--count-from=-1s"},
		"want 1 to 10":          {"2064-cascade", "--speed=60"},
		"is not played live":    {"controller-down"},
		"policy oracle":         {"2064-cascade", "--policy", "oracle"},
		"expected \"<incident>": {},
	} {
		got := weir(t, "", append([]string{"sim", "compare-live"}, args...)...)
		if got.code != exitUsage || got.stdout != "" || !strings.Contains(got.stderr, want) {
			t.Errorf("%v: exit code %d, %s%s", args, got.code, got.stdout, got.stderr)
		}
	}
}

func TestSimCompareJudges(t *testing.T) {
	c := simCompareCommand{Tolerance: 5}
	near, far, none := compare.Result{WasteOff: -5}, compare.Result{Incident: "i", Policy: "weir", GoodputOff: 5.1}, compare.Result{GoodputOff: math.NaN()}
	if err := c.judge([]compare.Result{near}); err != nil {
		t.Error(err)
	}
	if err := c.judge([]compare.Result{near, far}); err == nil || err.Error() != "live and simulated differ by more than 5 points: i with weir by 5.1 points" {
		t.Errorf("got %v", err)
	}
	if c.judge([]compare.Result{none}) == nil {
		t.Error("a difference that is no number is within the tolerance")
	}
}

func TestSimCompareShows(t *testing.T) {
	r := compare.Result{Incident: "i", Policy: "weir", Live: compare.Side{GoodputRatio: 0.955}, Simulated: compare.Side{GoodputRatio: 0.93}, GoodputOff: 2.5}
	for json, want := range map[bool]string{true: `"goodput_off_points":2.5,`, false: "95.5 %     93.0 %    +2.5"} {
		var out strings.Builder
		show, end := (&simCompareCommand{JSON: json}).show(&out)
		if err := errors.Join(show(&r), end()); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("got %v\n%s", err, out.String())
		}
	}
}
