package page_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/cmd/weir/pagetest"
	"weir/cmd/weir/rig"
	"weir/sim/incident"
)

// told is a fleet of which each part of the page has something to show.
const told = `
name: told
duration: 1h
fleet: {agents: 2}
channels:
  - {name: main, provider: p, groups: [account], limits: {rpm: 6000, tpm: 6000000}}
  - {name: spare, provider: p}
  - {name: far-away-and-long-named-channel, provider: p}
routes:
  - {name: default, tiers: [[{channel: main}], [{channel: spare}]]}
  - {name: other, tiers: [[{channel: far-away-and-long-named-channel}]]}
providers: [{name: p, concurrency: 200, tokens_per_day: 50000000}]
workload: [{name: w, route: default, tenant: content, arrivals: {kind: poisson, rate: 1}, input_tokens: {kind: fixed, value: 1}, output_tokens: {kind: fixed, value: 1}}]
`

const token = "operator-token"

// provider answers each channel as it is told to: PUT /CHANNEL with a status
// and a code, of which 200 lets calls through.
type provider struct {
	*httptest.Server
	mu    sync.Mutex
	state map[string]string // by channel: the body of a refusal, "" for answers
}

func newProvider(t testing.TB) *provider {
	p := &provider{state: map[string]string{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// ServeHTTP implements http.Handler.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	channel, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch refusal := p.state[channel]; {
	case r.Method == http.MethodPut:
		p.state[channel] = string(body)
	case refusal != "":
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, refusal) // the client went away
	default:
		_, _ = io.WriteString(w, `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"yes"}}],"usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}}`)
	}
}

// running is a fleet under a light load.
type running struct {
	stack    *rig.Stack
	provider *provider
	url      string
}

func run(t testing.TB) *running {
	t.Helper()
	inc, err := incident.Parse("told", strings.NewReader(told))
	if err != nil {
		t.Fatal(err)
	}
	config := inc.Told("night")
	f := &running{provider: newProvider(t)}
	upstreams := map[string]string{}
	for i := range config.Channels {
		config.Channels[i].Provider = "openai"
		upstreams[config.Channels[i].Name] = f.provider.URL + "/" + config.Channels[i].Name + "/v1"
	}
	if f.stack, err = rig.Start(t.Context(), rig.Options{Dir: t.TempDir(), Config: config, Agents: 2, Upstreams: upstreams, Version: "test", Token: token}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.stack.Close(); err != nil {
			t.Error(err)
		}
	})
	if f.url, err = f.stack.Web(slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for i, route := range []string{"default", "other"} {
		calls.Go(func() { call(ctx, f.stack.Sidecars[i], route) })
	}
	t.Cleanup(func() { cancel(); calls.Wait() })
	return f
}

// call calls a sidecar twenty times a second until ctx ends.
func call(ctx context.Context, sidecar, route string) {
	body := fmt.Sprintf(`{"model":%q,"max_tokens":20,"messages":[{"role":"user","content":"hello"}]}`, route)
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, sidecar+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // what became of it is the controller's to show
			_ = resp.Body.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// TestPage looks at a running fleet's page with a browser; each case is in
// cases.mjs.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("another program looks at what other tests of the same parts run")
	}
	f := run(t)
	env := map[string]string{"URL": f.url, "TOKEN": token, "PROVIDER": f.provider.URL, "PICTURES": os.Getenv("WEIR_PICTURES")}
	for _, v := range pagetest.Look(t, env, "quiet", "breaker", "past", "order", "parameters", "keyboard", "axe", "phone", "stale") {
		t.Run(v.Case, func(t *testing.T) {
			if v.Fault != "" {
				t.Error(v.Fault)
			}
			t.Log(v.Figures)
		})
	}
}
