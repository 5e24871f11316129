package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/weir/pagetest"
)

// TestReportsInABrowser looks at the reports of a simulation, a study and a
// replayed journal.
func TestReportsInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("simulations, which take long under the race detector")
	}
	t.Parallel()
	dir := t.TempDir()
	made := func(name string, args ...string) string {
		t.Helper()
		if got := weir(t, "", args...); got.code != exitOK {
			t.Fatalf("%v: exit code %d: %s", args, got.code, got.stderr)
		}
		return filepath.Join(dir, name, simReportFile)
	}
	if err := os.Mkdir(filepath.Join(dir, "tune"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := []string{
		made("sim", "sim", "run", "row-step-8", "--policy", "none,weir", "--seeds", "2", "--compress", "10s", "--out", filepath.Join(dir, "sim")),
		made("tune", "sim", "tune", "--incidents", "row-step-8", "--compress", "10s", "--trials", "6", "--seeds", "2", "--report", filepath.Join(dir, "tune", simReportFile)),
		made("replay", "sim", "replay", livedJournal(t), "--out", filepath.Join(dir, "replay")),
	}
	for _, v := range pagetest.Look(t, map[string]string{"REPORTS": strings.Join(files, "\n"), "PICTURES": os.Getenv("WEIR_PICTURES")}, "reports") {
		if v.Fault != "" {
			t.Error(v.Fault)
		}
		t.Log(v.Figures)
	}
}
