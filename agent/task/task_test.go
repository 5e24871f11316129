package task_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/nats-io/nats.go"

	"weir/agent"
	"weir/agent/proxy"
	"weir/agent/task"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
	"weir/model"
)

// house is a fleet's NATS and a provider, beside which sidecars stand.
type house struct {
	t    *testing.T
	nats *natstest.Server
	up   *httptest.Server
	dir  string

	mu    sync.Mutex
	calls map[string]int // by prompt
	do    func(n int, prompt string, w http.ResponseWriter, r *http.Request)
}

// good answers as a provider does.
func good(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`, text)
}

func newHouse(t *testing.T, l natslog.TaskLimits) *house {
	t.Helper()
	h := &house{t: t, nats: natstest.Start(t, nil), dir: t.TempDir(), calls: map[string]int{}}
	h.do = func(_ int, prompt string, w http.ResponseWriter, _ *http.Request) { good(w, "re: "+prompt) }
	h.up = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var asked struct {
			Messages []struct {
				Content string `json:"content"`
			} `json:"messages"`
		}
		if json.Unmarshal(body, &asked) != nil || len(asked.Messages) == 0 {
			http.Error(w, "no", 400)
			return
		}
		prompt := asked.Messages[0].Content
		h.mu.Lock()
		h.calls[prompt]++
		n, do := h.calls[prompt], h.do
		h.mu.Unlock()
		do(n, prompt, w, r)
	}))
	t.Cleanup(h.up.Close)
	if err := os.WriteFile(filepath.Join(h.dir, "key"), []byte("sk-provider"), 0o600); err != nil {
		t.Fatal(err)
	}
	nc, err := natslog.Connect("", natslog.Options{Name: "controller", Extra: []nats.Option{h.nats.Option()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if err := natslog.OpenTasks(t.Context(), nc, "test", l); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) called(prompt string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[prompt]
}

func (h *house) script(do func(n int, prompt string, w http.ResponseWriter, r *http.Request)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.do = do
}

// sidecar is one agent with its desk.
type sidecar struct {
	t     *testing.T
	url   string
	proxy *proxy.Proxy
	set   *metrics.Set
	stop  func()
}

// sidecar starts an agent; idle ones only take tasks in.
func (h *house) sidecar(name string, idle bool) *sidecar {
	h.t.Helper()
	nc, err := natslog.Connect("", natslog.Options{Name: name, Agent: name, Extra: []nats.Option{h.nats.Option()}})
	if err != nil {
		h.t.Fatal(err)
	}
	fleet := &model.Config{
		Fleet:    "test",
		Retry:    model.RetryConfig{MaxAttempts: 1, Base: model.Millisecond, Max: 5 * model.Millisecond, Multiplier: 2 * model.One, Budget: model.One, Total: 20 * model.Second},
		Timeouts: model.TimeoutConfig{Connect: 2 * model.Second, FirstToken: 5 * model.Second, Total: 30 * model.Second},
		Channels: []model.ChannelConfig{{Name: "main", Provider: "openai", Model: "m", Alone: 8}},
		Routes:   []model.RouteConfig{{Name: "route", Tiers: []model.TierConfig{{Channels: []model.WeightedChannel{{Channel: "main", Weight: 1}}}}}},
	}
	set := metrics.NewSet()
	client, err := agent.New(agent.Config{
		Agent: name, Fleet: fleet, Metrics: set,
		Upstreams: map[string]agent.Upstream{"main": {BaseURL: h.up.URL + "/v1", KeyFile: filepath.Join(h.dir, "key")}},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	keep, err := natslog.NewTasks(nc, "test", name)
	if err != nil {
		h.t.Fatal(err)
	}
	p := proxy.New(client, set)
	desk := task.New(task.Options{Keep: keep, Client: client, Calls: p.Calls(), Age: time.Hour, Metrics: set})
	p.SetTasks(desk)
	server := httptest.NewServer(p)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	if !idle {
		all.Go(func() { desk.Run(ctx) })
	}
	stop := sync.OnceFunc(func() {
		cancel()
		all.Wait()
		server.Close()
		wait, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		_ = client.Close(wait) // nobody reads its reports
		nc.Close()
	})
	h.t.Cleanup(stop)
	return &sidecar{t: h.t, url: server.URL, proxy: p, set: set, stop: stop}
}

// reply is what a client got.
type reply struct {
	code   int
	header http.Header
	body   string
	task   shown
}

// shown is a task as a client reads it.
type shown struct {
	ID     string         `json:"id"`
	State  string         `json:"state"`
	Counts map[string]int `json:"counts"`
	Place  *uint64        `json:"place"`
	MinS   *float64       `json:"wait_min_s"`
	MaxS   *float64       `json:"wait_max_s"`
	Class  string         `json:"class"`
	Reason string         `json:"reason"`
	Waits  int            `json:"waits"`
	Result *struct {
		Status int             `json:"status_code"`
		Body   json.RawMessage `json:"body"`
	} `json:"result"`
	Items []struct {
		ID    string `json:"custom_id"`
		State string `json:"state"`
	} `json:"items"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (s *sidecar) ask(method, path, body string, header ...string) reply {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	got := reply{code: resp.StatusCode, header: resp.Header, body: string(text)}
	if bytes.HasPrefix(text, []byte("{")) && !strings.Contains(path, "/results") {
		if err := json.Unmarshal(text, &got.task); err != nil {
			s.t.Fatalf("%s: %v", text, err)
		}
	}
	return got
}

// await waits until a task has ended.
func (s *sidecar) await(id string, header ...string) reply {
	s.t.Helper()
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); {
		got := s.ask("GET", "/weir/tasks/"+id+"?wait=30s", "", header...)
		switch got.task.State {
		case "completed", "failed", "canceled", "expired":
			return got
		}
		if got.code != 200 {
			s.t.Fatalf("%d %s", got.code, got.body)
		}
	}
	s.t.Fatalf("task %s does not end: %s", id, s.ask("GET", "/weir/tasks/"+id, "", header...).body)
	return reply{}
}

func chat(prompt string) string {
	return fmt.Sprintf(`{"model":"route","messages":[{"role":"user","content":%q}]}`, prompt)
}

func single(prompt string) string {
	return fmt.Sprintf(`{"path":"/v1/chat/completions","request":%s}`, chat(prompt))
}

var room = natslog.TaskLimits{Bytes: 64 << 20, Age: time.Hour}

// TestOneRequest leaves one request at one agent, and gets its answer at
// another.
func TestOneRequest(t *testing.T) {
	h := newHouse(t, room)
	a, b := h.sidecar("a", true), h.sidecar("b", false)
	got := a.ask("POST", "/weir/tasks", single("hello"))
	if got.code != http.StatusAccepted || got.task.ID == "" || got.header.Get("Location") != "/weir/tasks/"+got.task.ID {
		t.Fatalf("%d %s %v", got.code, got.body, got.header)
	}
	for _, s := range []*sidecar{a, b} {
		end := s.await(got.task.ID)
		if end.task.State != "completed" || end.task.Result == nil || end.task.Result.Status != 200 || !strings.Contains(string(end.task.Result.Body), "re: hello") {
			t.Errorf("%s", end.body)
		}
	}
	if n := h.called("hello"); n != 1 {
		t.Errorf("%d calls", n)
	}
}
