package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/model"
	"weir/sim/incident"
)

// watched is a fleet of which each query of the dashboard finds something.
const watched = `
name: watched
duration: 1h
fleet: {agents: 2}
channels: [{name: main, provider: main, limits: {rpm: 6000, tpm: 6000000}}, {name: spare, provider: main}]
routes: [{name: default, tiers: [[{channel: main}], [{channel: spare}]]}]
providers: [{name: main, concurrency: 200, service: {base: 50ms, output_tokens_per_s: 1000}}]
workload: [{name: w, route: default, tenant: content, arrivals: {kind: poisson, rate: 1}, input_tokens: {kind: fixed, value: 1}, output_tokens: {kind: fixed, value: 1}}]
`

// TestPrometheus has a real Prometheus scrape a controller and its agents,
// load the alert rules, and answer every query of the dashboard.
func TestPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("another program looks at what other tests of the same parts run")
	}
	t.Parallel()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no prometheus on this machine")
	}
	inc, err := incident.Parse("watched", strings.NewReader(watched))
	if err != nil {
		t.Fatal(err)
	}
	p, err := StartProviders(inc, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	config := inc.Told("test")
	for i := range config.Channels {
		config.Channels[i].Price = model.Price{Input: 300_000, Output: 1_200_000}
	}
	s, err := Start(t.Context(), Options{Dir: t.TempDir(), Config: config, Agents: 2, Upstreams: p.Upstreams(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	controller, err := s.Web(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for _, sidecar := range s.Sidecars {
		calls.Go(func() { callOn(ctx, sidecar) })
	}
	defer func() { cancel(); calls.Wait() }()

	prom := startPrometheus(t, program, append(slices.Clone(s.Sidecars), controller))
	for _, expr := range dashboard(t) {
		waitFor(t, "data for "+expr, func() bool {
			var found struct{ Result []json.RawMessage }
			return prom.ask("query?query="+url.QueryEscape(expr), &found) && len(found.Result) > 0
		})
	}
	var targets struct {
		ActiveTargets []struct{ Health, ScrapeURL, LastError string }
	}
	if !prom.ask("targets", &targets) || len(targets.ActiveTargets) != 3 {
		t.Fatalf("targets %+v", targets)
	}
	for _, one := range targets.ActiveTargets {
		if one.Health != "up" {
			t.Errorf("%s is %s: %s", one.ScrapeURL, one.Health, one.LastError)
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, State, LastError string }
		}
	}
	waitFor(t, "the rules", func() bool {
		return prom.ask("rules", &rules) && len(rules.Groups) == 1 && !slices.ContainsFunc(rules.Groups[0].Rules, func(r struct{ Name, Health, State, LastError string }) bool { return r.Health == "unknown" })
	})
	for _, one := range rules.Groups[0].Rules {
		if one.Health != "ok" || one.State == "firing" {
			t.Errorf("rule %s is %s and %s: %s", one.Name, one.Health, one.State, one.LastError)
		}
	}
}

// dashboard is every query of the dashboard, for all channels.
func dashboard(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../deploy/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			all = append(all, regexp.MustCompile(`\$\{?channel\}?`).ReplaceAllString(target.Expr, ".*"))
		}
	}
	if len(all) < 20 {
		t.Fatalf("%d queries", len(all))
	}
	return all
}

// prometheus is a running one, by the address of its API.
type prometheus string

// startPrometheus scrapes the targets once a second until the test ends.
func startPrometheus(t *testing.T, program string, targets []string) prometheus {
	t.Helper()
	rules, err := filepath.Abs("../deploy/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	for i := range targets {
		targets[i] = strings.TrimPrefix(targets[i], "http://")
	}
	list, err := json.Marshal(targets)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs: [{job_name: weir, static_configs: [{targets: %s}]}]\n", rules, list)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Log(said.String())
		}
	})
	return prometheus("http://" + address + "/api/v1/")
}

// ask asks the API and reports whether it answered.
func (p prometheus) ask(path string, into any) bool {
	resp, err := http.Get(string(p) + path)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct{ Data json.RawMessage }
	return json.NewDecoder(resp.Body).Decode(&answer) == nil && resp.StatusCode == http.StatusOK && json.Unmarshal(answer.Data, into) == nil
}
