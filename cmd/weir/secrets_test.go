package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What must be found nowhere after a run.
const (
	plantedKey    = "sk-planted-0123456789abcdef"
	plantedToken  = "planted-operator-token"
	plantedPrompt = "planted prompt about the merger"
	plantedAnswer = "planted answer about the merger"
	plantedClient = "planted-client-key"
)

// gossip is a provider that says everything back: in answers, streams, headers
// and errors.
func gossip(t *testing.T) *httptest.Server {
	t.Helper()
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what there is
		n++
		w.Header().Set("X-Request-Id", plantedPrompt)
		switch key := r.Header.Get("Authorization"); {
		case !strings.Contains(key, plantedKey):
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s","type":"invalid_request_error","code":"invalid_api_key"}}`, key)
		case n%8 == 3:
			w.Header().Set("Retry-After-Ms", "20")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprintf(w, `{"error":{"message":"rate limit for key %s at %q","type":"rate_limit","code":"%s"}}`, key, body, plantedPrompt)
		case n%4 == 2:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":"cannot read %q of %s","type":"invalid_request_error"}}`, body, key)
		case bytes.Contains(body, []byte(`"stream":true`)):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\ndata: {\"error\":{\"message\":%q}}\n\n", plantedAnswer, plantedPrompt+key)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"x","choices":[{"message":{"content":%q}}],"usage":{"prompt_tokens":5,"completion_tokens":5}}`, plantedAnswer)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestSecretsAreFoundNowhere greps all that a run leaves: files, logs, metrics,
// the API's answers and an exported journal.
func TestSecretsAreFoundNowhere(t *testing.T) {
	if testing.Short() {
		t.Skip("left out under -short, to keep the race detector within its time; a whole run has it")
	}
	w := newTrouble(t)
	t.Setenv("WEIR_TOKEN", plantedToken)
	t.Setenv("WEIR_TEST_KEY", plantedKey)
	provider := gossip(t)
	httpAt, sidecar, bus := freeAddress(t), freeAddress(t), freeAddress(t)
	w.write("weir.yaml", fmt.Sprintf(`
nats: {listen: %q}
controller: {listen: %q}
agent: {listen: %q}
channels: [{name: main, base_url: "%s/v1", api_key_env: WEIR_TEST_KEY, alone: 2}]
routes: [{name: default, tiers: [[main]]}]
retry: {max_attempts: 2, base: 10ms, max: 20ms}
`, bus, httpAt, sidecar, provider.URL))
	ctl := start(t, w.dir, "--log-level", "debug", "controller")
	ctl.said("controller runs")
	agent := start(t, w.dir, "--log-level", "debug", "agent", "--id", "a1")
	agent.said("connected to nats")

	told := 0
	for i := range 24 {
		body := fmt.Sprintf(`{"model":"default","stream":%v,"messages":[{"role":"user","content":%q}]}`, i%3 == 0, plantedPrompt)
		req, err := http.NewRequest(http.MethodPost, "http://"+sidecar+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+plantedClient)
		req.Header.Set("X-Weir-Deadline-Ms", "1000")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body) // also half of a stream
		_ = resp.Body.Close()
		if bytes.Contains(answer, []byte(plantedAnswer)) {
			told++
		}
		if bytes.Contains(answer, []byte(plantedToken)) {
			t.Error("a client is told the operator's token")
		}
	}
	if told == 0 {
		t.Fatal("nobody was answered, so nothing was tried")
	}
	said := map[string]string{}
	for _, path := range []string{"/metrics", "/api/v1/status", "/api/v1/channels", "/api/v1/agents", "/api/v1/decisions", "/api/v1/params", "/"} {
		said["controller"+path] = scrape(t, "http://"+httpAt+path)
	}
	for _, path := range []string{"/metrics", "/v1/models", "/weir/queue", "/weir/quota"} {
		said["agent"+path] = scrape(t, "http://"+sidecar+path)
	}
	if got := w.run("log", "export", "run.journal"); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	said["log tail"] = w.run("log", "tail", "--no-wait", "--last", "1000").stdout
	if !strings.Contains(said["log tail"], "main") {
		t.Errorf("the log shows no attempt: %s", said["log tail"])
	}
	agent.stop()
	ctl.stop()
	said["controller's log"], said["agent's log"] = ctl.err.String()+ctl.out.String(), agent.err.String()+agent.out.String()
	err := filepath.WalkDir(w.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		said[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range said {
		for _, secret := range []string{plantedKey, plantedToken, plantedPrompt, plantedAnswer, plantedClient} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %q", where, secret)
			}
		}
	}
}
