package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/weir/emulator"
	"weir/sim/incident"
)

// TestProbe runs the command against a provider that takes six calls at once
// and wants a key, which must reach it and nothing else.
func TestProbe(t *testing.T) {
	const secret = "sk-never-to-be-seen-0123456789"
	t.Setenv("WEIR_TEST_KEY", secret)
	inc, err := incident.Parse("test", strings.NewReader(`
name: six
duration: 1h
fleet: {agents: 1}
channels: [{name: big, provider: main}]
routes: [{name: r, tiers: [[{channel: big}]]}]
workload: [{name: w, route: r, arrivals: {kind: poisson, rate: 1}, input_tokens: {kind: fixed, value: 1}, output_tokens: {kind: fixed, value: 1}}]
providers: [{name: main, concurrency: 6, service: {base: 300ms, output_tokens_per_s: 1000}, refusal: {delay: 1ms}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := emulator.New(emulator.Config{Incident: inc, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	}))
	defer web.Close()
	path := filepath.Join(t.TempDir(), "found.yaml")
	got := weir(t, "", "probe", web.URL+"/v1", "--model", "big", "--only", "concurrency", "--max-in-flight", "16", "--key-env", "WEIR_TEST_KEY", "-o", path, "--json")
	if got.code != exitOK || !strings.Contains(got.stderr, "at most 1200 calls") {
		t.Fatalf("exit code %d: %s", got.code, got.stderr)
	}
	var found struct {
		Findings []struct {
			Dimension string
			Proposed  *int64
		}
		Fragment string
	}
	if err := json.Unmarshal([]byte(got.stdout), &found); err != nil {
		t.Fatalf("%v in %s", err, got.stdout)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Findings) != 1 || found.Findings[0].Proposed == nil || *found.Findings[0].Proposed > 6 || *found.Findings[0].Proposed < 2 {
		t.Errorf("found %s, want 6 at once", got.stdout)
	}
	if found.Fragment != string(written) || !strings.Contains(found.Fragment, `api_key_env: "WEIR_TEST_KEY"`) {
		t.Errorf("wrote %q, printed %q", written, found.Fragment)
	}
	if strings.Contains(got.stdout+got.stderr+string(written), secret) {
		t.Error("the key was shown")
	}
	t.Setenv("WEIR_TEST_KEY", "wrong")
	if got := weir(t, "", "probe", web.URL+"/v1", "--model", "big", "--key-env", "WEIR_TEST_KEY"); got.code != exitFailed || !strings.Contains(got.stderr, "refuses the key") {
		t.Errorf("with a wrong key: exit code %d, %s%s", got.code, got.stdout, got.stderr)
	}
	web.Close()
	if got := weir(t, "", "probe", web.URL+"/v1", "--model", "big", "--key-env", "WEIR_TEST_KEY"); got.code != exitFailed || !strings.Contains(got.stderr, "connection refused") || strings.Count(got.stderr, web.URL) > 0 {
		t.Errorf("with nobody there: exit code %d, %s%s", got.code, got.stdout, got.stderr)
	}
}
