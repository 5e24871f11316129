package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"weir/agent"
	"weir/events"
	"weir/events/memlog"
	"weir/model"
)

const providerKey = "sk-provider-secret-key"

// world is a proxy between a client and scripted providers.
type world struct {
	t      *testing.T
	bus    *memlog.Bus
	client *agent.Client
	proxy  *Proxy
	server *httptest.Server
	set    *metrics.Set
	log    *lockedBuffer

	mu    sync.Mutex
	seen  []seen // what the providers got
	calls map[string]int
	warm  int // calls that were made to earn retries
	once  sync.Once
	facts []model.Fact
}

// seen is one request as a provider got it.
type seen struct {
	channel string
	path    string
	header  http.Header
	body    string
}

// script answers the nth call, from 1, of a channel.
type script func(n int, w http.ResponseWriter, r *http.Request)

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func fleetConfig(channels ...string) *model.Config {
	c := &model.Config{
		Fleet:    "test",
		Retry:    model.RetryConfig{MaxAttempts: 3, Base: model.Millisecond, Max: 5 * model.Millisecond, Multiplier: 2 * model.One, Budget: model.One, Total: 20 * model.Second},
		Timeouts: model.TimeoutConfig{Connect: 2 * model.Second, FirstToken: 5 * model.Second, Total: 10 * model.Second},
	}
	route := model.RouteConfig{Name: "route", DegradeCore: -1}
	for _, name := range channels {
		c.Channels = append(c.Channels, model.ChannelConfig{Name: name, Provider: "minimax", Model: name + "-model", Alone: 8})
		route.Tiers = append(route.Tiers, model.TierConfig{Channels: []model.WeightedChannel{{Channel: name, Weight: 1}}})
	}
	c.Routes = []model.RouteConfig{route}
	c.Tenants = []model.TenantConfig{{Name: "content", Priority: model.PriorityBatch, Share: 1}}
	return c
}

// newWorld starts a proxy whose one channel is answered by main.
func newWorld(t *testing.T, main script, edit ...func(*agent.Config)) *world {
	return newWorldOf(t, map[string]script{"main": main}, edit...)
}

func newWorldOf(t *testing.T, scripts map[string]script, edit ...func(*agent.Config)) *world {
	t.Helper()
	w := &world{t: t, bus: memlog.New("test", memlog.Options{}), set: metrics.NewSet(), log: &lockedBuffer{}, calls: map[string]int{}}
	cfg := agent.Config{
		Agent: "agent-1", Version: "test", Upstreams: map[string]agent.Upstream{}, Metrics: w.set,
		Writer: w.bus.Writer("agent-1"), Inbox: w.bus.Inbox("agent-1"), Log: slog.New(slog.NewTextHandler(w.log, nil)),
	}
	key := filepath.Join(t.TempDir(), "key") // a file, since tests that run side by side share the environment
	if err := os.WriteFile(key, []byte(providerKey), 0o600); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range []string{"light", "main", "spare"} {
		if s, ok := scripts[name]; ok {
			up := httptest.NewServer(w.provider(name, s))
			t.Cleanup(up.Close)
			cfg.Upstreams[name] = agent.Upstream{BaseURL: up.URL + "/v1", KeyFile: key}
			names = append(names, name)
		}
	}
	cfg.Fleet = fleetConfig(names...)
	if len(names) == 2 && names[0] == "light" {
		r := cfg.Fleet.Routes[0]
		r.Tiers[0], r.Tiers[1] = r.Tiers[1], r.Tiers[0]
	}
	for _, f := range edit {
		f(&cfg)
	}
	client, err := agent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.client = client
	w.proxy = New(client, w.set)
	w.server = httptest.NewServer(w.proxy)
	t.Cleanup(func() { w.close(); w.server.Close() })
	return w
}

func (w *world) provider(channel string, s script) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		if w.calls == nil {
			w.mu.Unlock()
			good(rw)
			return
		}
		w.calls[channel]++
		n := w.calls[channel]
		w.seen = append(w.seen, seen{channel, r.URL.RequestURI(), r.Header.Clone(), string(body)})
		w.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		s(n, rw, r)
	})
}

// got returns what the providers got.
func (w *world) got() []seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// earn makes some good calls, which are not part of the test, so that retries
// may be made.
func (w *world) earn(calls int) {
	w.t.Helper()
	w.mu.Lock()
	kept := w.calls
	w.calls = nil
	w.mu.Unlock()
	for range calls {
		if got := w.post("/v1/chat/completions", plainBody); got.status != http.StatusOK {
			w.t.Fatalf("status %d: %s", got.status, got.body)
		}
	}
	w.mu.Lock()
	w.calls, w.warm = kept, calls
	w.mu.Unlock()
}

// close ends the client and collects what it reported.
func (w *world) close() {
	w.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.client.Close(ctx); err != nil {
			w.t.Errorf("close the client: %v", err)
		}
		w.facts = readLog(w.t, w.bus)
	})
}

func readLog(t *testing.T, bus *memlog.Bus) (facts []model.Fact) {
	t.Helper()
	log := bus.Log()
	info, err := log.Info(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.First; seq <= info.Last; seq++ {
		e, err := log.At(context.Background(), seq)
		if err != nil {
			t.Fatal(err)
		}
		f, err := events.Decode(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		facts = append(facts, f)
	}
	return facts
}

// attempts closes the world and returns the attempts it reported.
func (w *world) attempts() (all []model.Attempt) {
	w.t.Helper()
	w.close()
	for _, f := range w.facts {
		if r, ok := f.(*model.Attempts); ok {
			all = append(all, r.Attempts...)
		}
	}
	if len(all) < w.warm {
		w.t.Fatalf("%d attempts are reported, %d were made before the test", len(all), w.warm)
	}
	return all[w.warm:]
}

// lastReport returns the last report, after closing the world.
func (w *world) lastReport() *model.Attempts {
	w.t.Helper()
	w.close()
	if len(w.facts) == 0 {
		w.t.Fatal("nothing was reported")
	}
	r, ok := w.facts[len(w.facts)-1].(*model.Attempts)
	if !ok {
		w.t.Fatalf("the last entry is a %v", w.facts[len(w.facts)-1].Kind())
	}
	return r
}

// answer is what the client got.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (w *world) post(path, body string, header ...string) answer {
	w.t.Helper()
	return w.do(w.request(context.Background(), path, body, header...))
}

func (w *world) request(ctx context.Context, path, body string, header ...string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer client-key")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func (w *world) do(r *http.Request) answer {
	w.t.Helper()
	return w.watch(r, make(chan struct{}))
}

// watch is do that closes seen once the client has the first byte of the answer.
func (w *world) watch(r *http.Request, seen chan struct{}) answer {
	w.t.Helper()
	resp, err := w.server.Client().Do(r)
	if err != nil {
		w.t.Fatalf("call the proxy: %v", err)
	}
	defer resp.Body.Close()
	var first [1]byte
	n, err := io.ReadFull(resp.Body, first[:])
	close(seen)
	switch {
	case errors.Is(err, io.EOF):
		return answer{resp.StatusCode, resp.Header, "", nil}
	case err != nil:
		return answer{resp.StatusCode, resp.Header, "", err}
	}
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(first[:n]) + string(b), err}
}

func (w *world) get(path string) string {
	w.t.Helper()
	resp, err := w.server.Client().Get(w.server.URL + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// errorOf reads the error of a refusal.
func errorOf(t *testing.T, a answer) (e struct {
	Type, Code, Message string
	Weir                struct {
		Class, Channel string
		WaitS          *float64 `json:"wait_s"`
		Position       int
	}
},
) {
	t.Helper()
	var body struct{ Error json.RawMessage }
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	if err := json.Unmarshal(body.Error, &e); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	return e
}

// The bodies of requests and answers.
const (
	plainBody  = `{"model":"route","messages":[{"role":"user","content":"hello there"}],"max_tokens":50}`
	streamBody = `{"model":"route","stream":true,"messages":[{"role":"user","content":"hello there"}]}`
	goodAnswer = `{"id":"1","object":"chat.completion","model":"main-model","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`
	busyAnswer = `{"id":"x","choices":null,"base_resp":{"status_code":2064,"status_msg":"server cluster is currently under high load"}}`
)

// The frames of a stream.
const (
	roleFrame   = `data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	textFrame   = `data: {"id":"1","choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\n"
	finishFrame = `data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usageFrame  = `data: {"id":"1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}` + "\n\n"
	doneFrame   = "data: [DONE]\n\n"
	busyFrame   = `data: {"error":{"type":"server_error","code":"2064","message":"server cluster is currently under high load"}}` + "\n\n"
)

func say(w http.ResponseWriter, status int, body string, header ...string) {
	w.Header().Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func stream(w http.ResponseWriter, frames ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	more(w, frames...)
}

// more goes on with a stream.
func more(w http.ResponseWriter, frames ...string) {
	for _, f := range frames {
		_, _ = io.WriteString(w, f)
		w.(http.Flusher).Flush()
	}
}

// reset resets the connection.
func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

func good(w http.ResponseWriter) { say(w, http.StatusOK, goodAnswer) }

// pauseShort lets what was sent arrive before what comes next.
func pauseShort() { time.Sleep(20 * time.Millisecond) }
