package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/controller/notice"
)

// TestNoticeOfARefusedKey has a provider that does not take the key: whoever is
// on call hears of it, and the address they hear at is told to nobody.
func TestNoticeOfARefusedKey(t *testing.T) {
	heard := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		heard <- r.URL.Path + " " + string(body)
	}))
	defer hook.Close()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`)
	}))
	defer provider.Close()
	t.Setenv("ON_CALL", hook.URL+"/hooks/planted-address")
	dir, sidecar := t.TempDir(), freeAddress(t)
	text := fmt.Sprintf(`
nats: {listen: %q}
controller: {listen: "127.0.0.1:0", page: "https://weir.example", notices: [{url_env: ON_CALL, only: [credential]}, {url_env: ON_CALL, shape: slack, only: [log]}]}
agent: {listen: %q}
channels: [{name: main, provider: openai, base_url: "%s/v1", alone: 1}]
routes: [{name: default, tiers: [[main]]}]
`, freeAddress(t), sidecar, provider.URL)
	if err := os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, dir, "controller")
	c.said("msg=leading")
	start(t, dir, "agent").said("connected to nats")
	calls := &callers{}
	calls.one("http://" + sidecar + "/v1/chat/completions")
	if len(calls.troubles) != 1 {
		t.Errorf("the call came to %v, want an error", calls.troubles)
	}
	var said string
	c.until("tell of the key", func() bool {
		select {
		case said = <-heard:
			return true
		default:
			return false
		}
	})
	path, body, _ := strings.Cut(said, " ")
	var n notice.Notice
	if err := json.Unmarshal([]byte(body), &n); err != nil || path != "/hooks/planted-address" ||
		n.Kind != notice.KindCredential || n.State != notice.Firing || n.Subject != "main" || n.Fleet != "default" || n.Link != "https://weir.example" {
		t.Errorf("heard %q at %s: %+v, %v", body, path, n, err)
	}
	if got := c.stop(); strings.Contains(got.stderr+got.stdout, "planted-address") {
		t.Errorf("the controller told the address:\n%s", got.stderr)
	}
	if left := len(heard); left > 0 {
		t.Errorf("%d notices more: %s", left, <-heard)
	}
}
