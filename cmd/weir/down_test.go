package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// outage is a way for a provider to be of no use.
type outage struct {
	name string
	do   func(w http.ResponseWriter, r *http.Request)
	// mended is set when an operator must say that it is over.
	mended bool
}

func outages() []outage {
	says := func(status int, text string, header ...string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if len(header) == 2 {
				w.Header().Set(header[0], header[1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	return []outage{
		{"busy", says(503, `{"error":{"message":"The server is overloaded","type":"server_error"}}`), false},
		{"rate", says(429, `{"error":{"code":"rate_limit_exceeded","message":"Rate limit reached"}}`, "Retry-After", "1"), false},
		{"reset", func(w http.ResponseWriter, _ *http.Request) { resetAfter(w, 0) }, false},
		{"silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
		{"credit", says(402, `{"error":{"message":"Insufficient Balance"}}`), true},
		{"key", says(401, `{"error":{"code":"invalid_api_key","message":"Incorrect API key provided"}}`), true},
	}
}

// TestEveryChannelDownLive takes both channels of each route away from a fleet
// of processes, each route in another way: every request ends, with an answer
// that says the truth in its API's shape. Then the providers are back: so are
// the routes, and nothing was started anew.
func TestEveryChannelDownLive(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, dir: t.TempDir(), agent: freeAddress(t), http: freeAddress(t), nats: freeAddress(t)}
	var up atomic.Bool
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, o := range outages() {
			if !up.Load() && bytes.Contains(body, []byte(`"`+o.name+`"`)) {
				o.do(w, r)
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, placeWhole)
	}))
	t.Cleanup(provider.Close)
	channels, routes := "channels:\n", "routes:\n"
	for _, o := range outages() {
		for _, name := range []string{o.name, o.name + "-spare"} {
			channels += fmt.Sprintf("  - {name: %s, base_url: %q, model: %s, api_key_env: WEIR_TEST_KEY}\n", name, provider.URL+"/v1", o.name)
		}
		routes += fmt.Sprintf("  - {name: %s, tiers: [[%s], [%s-spare]]}\n", o.name, o.name, o.name)
	}
	text := fmt.Sprintf("fleet: test\nnats: {listen: %q}\ncontroller: {listen: %q}\nagent: {listen: %q}\nretry: {max_attempts: 3, base: 10ms, max: 50ms}\n", f.nats, f.http, f.agent)
	if err := os.WriteFile(filepath.Join(f.dir, "weir.yaml"), []byte(text+channels+routes), 0o600); err != nil {
		t.Fatal(err)
	}
	f.startController()
	f.sidecar = start(t, f.dir, "agent", "--id", "sidecar")
	f.sidecar.said("connected to nats")
	url := "http://" + f.http
	f.weir("params", "push", file(t, "p.yaml", "params: {breaker_wait: 200ms, breaker_wait_max: 1s, hold_default: 100ms}"), "--url", url, "--why", "a test that waits for it")

	var all sync.WaitGroup
	for _, o := range outages() {
		for i := range 6 {
			all.Go(func() {
				path := [...]string{"chat/completions", "messages", "responses"}[i%3]
				status, text, err := f.downCall(o.name, path, time.Second, i%2 == 1)
				var told struct {
					Error struct {
						Type, Message string
						Weir          struct{ Class string }
					}
				}
				if err != nil || status != 429 && status != 503 || json.Unmarshal([]byte(text), &told) != nil ||
					told.Error.Type == "" || told.Error.Message == "" || told.Error.Weir.Class == "" || told.Error.Weir.Class == "ok" {
					t.Errorf("%s %s: %d %s %v", o.name, path, status, text, err)
				}
			})
		}
	}
	all.Wait()
	up.Store(true)
	for _, o := range outages() {
		if o.mended {
			f.weir("channel", "resume", o.name, "--url", url, "--why", "paid")
		}
		f.sidecar.until("serve "+o.name+" again", func() bool {
			status, _, err := f.downCall(o.name, "chat/completions", 5*time.Second, false)
			return err == nil && status == http.StatusOK
		})
	}
}

// downCall makes a call and returns what its client got, which must come
// within the deadline and what a slow machine may take on top.
func (f *fleet) downCall(route, path string, deadline time.Duration, stream bool) (status int, text string, err error) {
	body := fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":40,"messages":[{"role":"user","content":"hello"}],"input":"hello"}`, route, stream)
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.baseURL()+"/"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Weir-Deadline-Ms", fmt.Sprint(deadline.Milliseconds()))
	client := http.Client{Timeout: deadline + patience}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}
