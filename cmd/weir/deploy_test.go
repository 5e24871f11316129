package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestAlertRules runs the rules against written series on which each must fire,
// against those of a healthy fleet, and against what live fleets showed while
// something was wrong with them, and while nothing was.
func TestAlertRules(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool here")
	}
	for _, args := range [][]string{{"check", "rules", "deploy/alerts.yml"}, {"test", "rules", "deploy/testdata/alerts_test.yml"}, {"test", "rules", "deploy/testdata/recorded_test.yml"}} {
		if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// TestWatchedMetricsExist holds that rules and dashboard ask for nothing that
// a running fleet does not show.
func TestWatchedMetricsExist(t *testing.T) {
	f := newFleet(t)
	resp, err := http.Post(f.baseURL()+"/chat/completions", "application/json", strings.NewReader(`{"model":"default","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	shown := map[string]bool{}
	name := regexp.MustCompile(`weir_[a-z_]+`)
	for _, from := range []string{f.http, f.agent} {
		for _, one := range name.FindAllString(scrape(t, "http://"+from+"/metrics"), -1) {
			shown[one] = true
		}
	}
	// These appear with their first event, or with a configuration that has a
	// budget or a price.
	for _, later := range []string{"weir_budget_remaining", "weir_cost_total", "weir_degraded_total", "weir_log_faults_total", "weir_tenant_tokens_total"} {
		shown[later] = true
	}
	rules, err := os.ReadFile("deploy/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	board, err := os.ReadFile("deploy/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(board) {
		t.Error("the dashboard is no JSON")
	}
	for _, one := range name.FindAllString(string(rules)+string(board), -1) {
		if !shown[one] {
			t.Errorf("nothing shows %s", one)
		}
	}
}

func scrape(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
