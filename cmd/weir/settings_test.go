package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// TestSidecarSettings starts a sidecar with a token that its NATS refuses: it
// works alone, by what weir.yaml says of members, kept answers and tasks, and
// tells of the refusal once, and connects when it is let in.
func TestSidecarSettings(t *testing.T) {
	if testing.Short() {
		t.Skip("left out under -short, to keep the race detector within its time; a whole run has it")
	}
	t.Parallel()
	options := &server.Options{Host: "127.0.0.1", Port: -1, Authorization: "right", NoLog: true, NoSigs: true}
	bus, err := server.NewServer(options.Clone())
	if err != nil {
		t.Fatal(err)
	}
	bus.Start()
	defer bus.Shutdown()
	if !bus.ReadyForConnections(patience) {
		t.Fatal("nats does not start")
	}
	var mu sync.Mutex
	var bodies []string
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		bodies = append(bodies, string(body))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(body), "trouble") {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"message":"overloaded"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
	}))
	defer provider.Close()

	dir, address := t.TempDir(), freeAddress(t)
	text := fmt.Sprintf(`
nats: {url: %q, embedded: false, token_env: WEIR_TOKEN}
agent: {listen: %q, task: {retries: 0}, cache: {bytes: 1000000}}
channels:
  - {name: main, base_url: "%s/v1", model: m, alone: 8, fields: {drop: [seed], refuse: [tools]}}
routes: [{name: default, tiers: [[main]]}]
retry: {base: 1ms, max: 1ms}
`, "nats://"+bus.Addr().String(), address, provider.URL)
	if err := os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sidecar := start(t, dir, "agent", "--id", "sidecar")
	sidecar.said("trouble with nats")

	post := func(body string, header ...string) (int, string, http.Header) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(got), resp.Header
	}
	for i, cache := range []string{"", "hit"} {
		if status, body, h := post(`{"model":"default","seed":1,"messages":[]}`); status != 200 || h.Get("X-Weir-Cache") != cache {
			t.Errorf("call %d: status %d, %v: %s", i, status, h, body)
		}
	}
	if status, body, _ := post(`{"model":"default","tools":[],"messages":[]}`); status != 400 || !strings.Contains(body, "unsupported_field") {
		t.Errorf("a refused member: status %d: %s", status, body)
	}
	for i, want := range []string{"overloaded", "task_retries_exhausted"} {
		if status, body, _ := post(`{"model":"default","messages":[{"role":"user","content":"trouble"}]}`, "X-Weir-Task", "t"); status != 503 || !strings.Contains(body, want) {
			t.Errorf("step %d: status %d: %s", i, status, body)
		}
	}
	mu.Lock()
	if len(bodies) != 2 || bodies[0] != `{"model":"m","messages":[]}` {
		t.Errorf("the provider got %q", bodies)
	}
	mu.Unlock()

	time.Sleep(3 * time.Second) // in which it tries again some times
	log := sidecar.err.String()
	if n := strings.Count(strings.ToLower(log), "authorization"); n > 3 {
		t.Errorf("the refusal is told %d times", n)
	}
	if n := strings.Count(log, "level=WARN"); n > 6 {
		t.Errorf("%d warnings in some seconds", n)
	}
	options.Port, options.Authorization = bus.Addr().(*net.TCPAddr).Port, "operator-token"
	if err := bus.ReloadOptions(options); err != nil {
		t.Fatal(err)
	}
	sidecar.said("connected to nats")
}
