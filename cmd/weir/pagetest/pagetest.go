// Package pagetest looks at pages with a browser, for tests: cases.mjs holds
// what is looked for. It needs node, chromium and what npm ci fetches here.
package pagetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Verdict is a line of cases.mjs: what became of one case.
type Verdict struct {
	Case    string             `json:"case"`
	Fault   string             `json:"fault"`
	Figures map[string]float64 `json:"figures"`
}

// Look runs the named cases in a browser. It skips the test where the browser
// or what drives it is missing.
func Look(t testing.TB, env map[string]string, cases ...string) (verdicts []Verdict) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node on this machine")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium on this machine")
	}
	here := "../pagetest" // from the folder of a package beside this one, where its tests run
	if _, err := os.Stat(here); err != nil {
		here = "pagetest" // from the one above
	}
	if _, err := os.Stat(filepath.Join(here, "node_modules", "playwright-core")); err != nil {
		t.Skip("what drives the browser is not installed: npm ci --prefix cmd/weir/pagetest")
	}
	cmd := exec.CommandContext(t.Context(), node, append([]string{"cases.mjs"}, cases...)...)
	cmd.Dir = here
	cmd.Env = append(os.Environ(), "CHROMIUM="+chromium)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, said.String())
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var v Verdict
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		verdicts = append(verdicts, v)
	}
	if len(verdicts) != len(cases) {
		t.Fatalf("%d verdicts of %d cases\n%s", len(verdicts), len(cases), said.String())
	}
	return verdicts
}
