package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

func TestSimRunTable(t *testing.T) {
	got := weir(t, "", "sim", "run", "testdata/quick.yaml", "--compress", "10s", "--policy", "weir")
	rows := strings.Split(strings.TrimSpace(got.stdout), "\n")
	if got.code != exitOK || len(rows) != 2 || !strings.Contains(rows[1], "quick") {
		t.Errorf("exit code %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
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
