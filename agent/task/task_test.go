package task_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
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
	t    testing.TB
	nats *natstest.Server
	url  string // of a cluster, in place of nats
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

func newHouse(t testing.TB, l natslog.TaskLimits) *house {
	t.Helper()
	h := &house{t: t, nats: natstest.Start(t, nil)}
	h.open(l)
	return h
}

// connect connects to the house's NATS.
func (h *house) connect(o natslog.Options) *nats.Conn {
	h.t.Helper()
	if h.nats != nil {
		o.Extra = append(o.Extra, h.nats.Option())
	}
	nc, err := natslog.Connect(h.url, o)
	if err != nil {
		h.t.Fatal(err)
	}
	return nc
}

// open starts the provider and makes the streams.
func (h *house) open(l natslog.TaskLimits) {
	t := h.t
	t.Helper()
	h.dir, h.calls = t.TempDir(), map[string]int{}
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
	nc := h.connect(natslog.Options{Name: "controller"})
	t.Cleanup(nc.Close)
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) { // a cluster needs a moment to elect
		err := natslog.OpenTasks(t.Context(), nc, "test", l)
		if err == nil {
			return
		}
		if h.nats != nil || time.Now().After(end) {
			t.Fatal(err)
		}
	}
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
	t     testing.TB
	url   string
	proxy *proxy.Proxy
	set   *metrics.Set
	stop  func()
}

// sidecar starts an agent; idle ones only take tasks in.
func (h *house) sidecar(name string, idle bool) *sidecar {
	h.t.Helper()
	return h.sidecarOf(name, idle, "")
}

// sidecarOf starts an agent that may use the rooms of some tenants.
func (h *house) sidecarOf(name string, idle bool, tenants ...string) *sidecar {
	h.t.Helper()
	nc := h.connect(natslog.Options{Name: name, Agent: name})
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
	var keep []*natslog.Tasks
	for _, tenant := range tenants {
		k, err := natslog.NewTasks(nc, "test", name, tenant)
		if err != nil {
			h.t.Fatal(err)
		}
		keep = append(keep, k)
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
	for _, s := range []*sidecar{a, b} {
		var text bytes.Buffer
		if s.set.WritePrometheus(&text); strings.Contains(text.String(), "hello") || strings.Contains(text.String(), got.task.ID) {
			t.Errorf("the metrics tell of it: %s", &text)
		}
	}
}

// TestJob leaves a job of several items, some of which fail, and repeats those.
func TestJob(t *testing.T) {
	t.Parallel()
	h := newHouse(t, room)
	h.script(func(n int, prompt string, w http.ResponseWriter, _ *http.Request) {
		if strings.HasPrefix(prompt, "bad") && n == 1 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"no such tool","type":"invalid_request_error","code":"bad_tool"}}`)
			return
		}
		good(w, "re: "+prompt)
	})
	s := h.sidecar("a", false)
	lines := fmt.Sprintf(`{"custom_id":"x","method":"POST","url":"/v1/chat/completions","body":%s}`+"\n\n"+`{"custom_id":"y","url":"/v1/chat/completions","body":%s}`+"\n", chat("one"), chat("bad two"))
	got := s.ask("POST", "/weir/tasks", lines, "Content-Type", "application/jsonl")
	if got.code != 202 {
		t.Fatalf("%d %s", got.code, got.body)
	}
	id := got.task.ID
	end := s.await(id)
	if end.task.State != "failed" || end.task.Counts["completed"] != 1 || end.task.Counts["failed"] != 1 || len(end.task.Items) != 2 || end.task.Items[1].ID != "y" || end.task.Items[1].State != "failed" {
		t.Fatalf("%s", end.body)
	}
	out := s.ask("GET", "/weir/tasks/"+id+"/results", "").body
	if n := strings.Count(out, "\n"); n != 2 || !strings.Contains(out, "re: one") || !strings.Contains(out, "bad_tool") {
		t.Errorf("%d lines: %s", n, out)
	}
	again := s.ask("POST", "/weir/tasks/"+id+"/repeat", "")
	if again.code != 202 || again.header.Get("X-Weir-Repeated-Items") != "1" {
		t.Fatalf("%d %s %v", again.code, again.body, again.header)
	}
	if end = s.await(id); end.task.State != "completed" || h.called("one") != 1 || h.called("bad two") != 2 {
		t.Errorf("%s, called %d and %d times", end.body, h.called("one"), h.called("bad two"))
	}
	if again = s.ask("POST", "/weir/tasks/"+id+"/repeat", ""); again.header.Get("X-Weir-Repeated-Items") != "0" {
		t.Errorf("nothing failed, and %v", again.header)
	}
}

// TestSameKey leaves the same task many times at once.
func TestSameKey(t *testing.T) {
	t.Parallel()
	h := newHouse(t, room)
	all := []*sidecar{h.sidecar("a", false), h.sidecar("b", false)}
	var mu sync.Mutex
	ids := map[string]int{}
	var posts sync.WaitGroup
	for i := range 20 {
		posts.Go(func() {
			got := all[i%2].ask("POST", "/weir/tasks", single("once"), "Idempotency-Key", "k 1")
			mu.Lock()
			defer mu.Unlock()
			if ids[got.task.ID]++; got.code != 202 {
				t.Errorf("%d %s", got.code, got.body)
			}
		})
	}
	posts.Wait()
	if len(ids) != 1 {
		t.Fatalf("ids %v", ids)
	}
	for id := range ids {
		all[0].await(id)
		all[1].await(id)
	}
	if n := h.called("once"); n != 1 {
		t.Errorf("%d calls", n)
	}
	for _, header := range [][]string{{"Idempotency-Key", "k 1"}, {"Idempotency-Key", "k 1", "X-Weir-Core", "false"}} {
		text := single("another")
		if len(header) > 2 {
			text = single("once")
		}
		if got := all[1].ask("POST", "/weir/tasks", text, header...); got.code != 422 || got.task.Error.Code != "idempotency_key_reuse" {
			t.Errorf("%v: %d %s", header, got.code, got.body)
		}
	}
	own := `{"id":"mine","items":[{"path":"/v1/chat/completions","request":` + chat("own") + `}]}`
	for range 2 {
		if got := all[0].ask("POST", "/weir/tasks", own); got.code != 202 || got.task.ID != "mine" {
			t.Errorf("%d %s", got.code, got.body)
		}
	}
}

// TestRefusedWaits is refused by the provider and tried again until it is not.
func TestRefusedWaits(t *testing.T) {
	t.Parallel()
	h := newHouse(t, room)
	h.script(func(n int, prompt string, w http.ResponseWriter, _ *http.Request) {
		if n < 3 {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"message":"too many","type":"rate_limit_error","code":"rate_limit_exceeded"}}`)
			return
		}
		good(w, "re: "+prompt)
	})
	s := h.sidecar("a", false)
	id := s.ask("POST", "/weir/tasks", single("patience")).task.ID
	waited := false
	for !waited {
		got := s.ask("GET", "/weir/tasks/"+id, "")
		waited = got.task.State == "waiting" && got.task.Class == "rate_limited" && got.task.Waits > 0
		if got.task.State == "failed" || got.task.State == "completed" {
			t.Fatalf("%s", got.body)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if end := s.await(id); end.task.State != "completed" || end.task.Waits < 1 {
		t.Errorf("%s", end.body)
	}
}

// TestCancel cancels a task of which one item runs and others wait.
func TestCancel(t *testing.T) {
	t.Parallel()
	h := newHouse(t, room)
	running, left := make(chan struct{}, 10), make(chan struct{}, 10)
	h.script(func(_ int, _ string, _ http.ResponseWriter, r *http.Request) {
		running <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	})
	a := h.sidecar("a", true)
	var items []string
	for i := range 12 {
		items = append(items, fmt.Sprintf(`{"path":"/v1/chat/completions","request":%s}`, chat(fmt.Sprint("long ", i))))
	}
	id := a.ask("POST", "/weir/tasks", `{"items":[`+strings.Join(items, ",")+`]}`).task.ID
	got := a.ask("GET", "/weir/tasks/"+id, "")
	if got.task.State != "queued" || got.task.Place == nil || *got.task.Place != 12 && *got.task.Place != 0 && *got.task.Place > 12 || got.task.MinS == nil {
		t.Errorf("%s", got.body)
	}
	b := h.sidecar("b", false)
	<-running
	if got = b.ask("POST", "/weir/tasks/"+id+"/cancel", ""); got.code != 200 {
		t.Fatalf("%d %s", got.code, got.body)
	}
	<-left
	if end := a.await(id); end.task.State != "canceled" || end.task.Counts["canceled"] != 12 {
		t.Errorf("%s", end.body)
	}
	if got = b.ask("POST", "/weir/tasks/"+id+"/repeat", ""); got.code != 409 {
		t.Errorf("repeat: %d %s", got.code, got.body)
	}
	if got = b.ask("POST", "/weir/tasks/"+id+"/cancel", ""); got.code != 200 {
		t.Errorf("twice: %d %s", got.code, got.body)
	}
}

// TestTenants looks for another's tasks.
func TestTenants(t *testing.T) {
	t.Parallel()
	h := newHouse(t, room)
	s := h.sidecar("a", false)
	s.proxy.SetKeys(proxy.Keys{
		sha256.Sum256([]byte("one")):    {Tenant: "t1", Priority: model.PriorityInteractive},
		sha256.Sum256([]byte("one-b")):  {Tenant: "t1", Priority: model.PriorityNormal},
		sha256.Sum256([]byte("two")):    {Tenant: "t2", Priority: model.PriorityNormal},
		sha256.Sum256([]byte("free")):   {Priority: model.PriorityNormal},
		sha256.Sum256([]byte("free-b")): {Priority: model.PriorityNormal},
	})
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key, "X-Weir-Tenant", "t1"} }
	post := func(key, prompt string) string {
		text := `{"id":"same","path":"/v1/chat/completions","request":` + chat(prompt) + `}`
		got := s.ask("POST", "/weir/tasks", text, as(key)...)
		if got.code != 202 {
			t.Fatalf("%s: %d %s", key, got.code, got.body)
		}
		return got.task.ID
	}
	if id := post("one", "secret of one"); id != "same" {
		t.Fatal(id)
	}
	for _, key := range []string{"two", "free", "free-b"} {
		for _, try := range []string{"GET ", "GET /results", "POST /repeat", "POST /cancel"} {
			method, path, _ := strings.Cut(try, " ")
			if got := s.ask(method, "/weir/tasks/same"+path, "", as(key)...); got.code != 404 || strings.Contains(got.body, "secret") {
				t.Errorf("%s of %s: %d %s", try, key, got.code, got.body)
			}
		}
	}
	if got := s.ask("GET", "/weir/tasks/same", ""); got.code != 401 {
		t.Errorf("without a key: %d", got.code)
	}
	if got := s.await("same", as("one-b")...); !strings.Contains(got.body, "secret of one") {
		t.Errorf("the same tenant: %s", got.body)
	}
	for _, key := range []string{"two", "free", "free-b"} { // the same id is another task
		post(key, "of "+key)
		if got := s.await("same", as(key)...); !strings.Contains(got.body, "of "+key) {
			t.Errorf("%s: %s", key, got.body)
		}
	}
}

// TestBadTasks is refused with a word that says why.
func TestBadTasks(t *testing.T) {
	t.Parallel()
	h := newHouse(t, room)
	s := h.sidecar("a", true)
	long := strings.Repeat("x", task.MaxRequest)
	for name, c := range map[string]struct {
		body string
		code int
		word string
		head []string
	}{
		"nothing":          {"", 400, "invalid_body", nil},
		"no JSON":          {"{", 400, "invalid_body", nil},
		"a list":           {"[]", 400, "invalid_body", nil},
		"items no list":    {`{"items":{}}`, 400, "invalid_body", nil},
		"a bad item":       {`{"items":[{},7]}`, 400, "invalid_body", nil},
		"items null":       {`{"items":null}`, 400, "no_path", nil},
		"no items":         {`{"items":[]}`, 400, "no_items", nil},
		"no path":          {`{"request":{}}`, 400, "no_path", nil},
		"files":            {`{"path":"/v1/files","request":{}}`, 400, "unknown_path", nil},
		"elsewhere":        {`{"path":"/v1/../admin","request":{}}`, 400, "unknown_path", nil},
		"no request":       {`{"path":"/v1/chat/completions"}`, 400, "no_request", nil},
		"no model":         {`{"path":"/v1/chat/completions","request":{}}`, 400, "invalid_request", nil},
		"null":             {`{"path":"/v1/chat/completions","request":null}`, 400, "invalid_request", nil},
		"another model":    {`{"path":"/v1/chat/completions","request":{"model":"none"}}`, 404, "model_not_found", nil},
		"a stream":         {`{"path":"/v1/chat/completions","request":{"model":"route","stream":true}}`, 400, "no_stream", nil},
		"GET":              {`{"method":"GET","url":"/v1/chat/completions","body":{"model":"route"}}`, 400, "invalid_method", nil},
		"twice an id":      {`{"path":"/v1/chat/completions","items":[{"id":"a","request":` + chat("a") + `},{"id":"a","request":` + chat("b") + `}]}`, 400, "duplicate_id", nil},
		"a long id":        {`{"items":[{"id":"` + strings.Repeat("i", 65) + `"}]}`, 400, "invalid_id", nil},
		"a path of no URL": {`{"path":"/v1/images/\u0001","request":` + chat("a") + `}`, 400, "unknown_path", nil},
		"an odd id":        {`{"id":"../x","path":"/v1/chat/completions","request":` + chat("a") + `}`, 400, "invalid_id", nil},
		"a large item":     {single(long), 413, "request_too_large", nil},
		"a large task":     {`{"x":"` + strings.Repeat("x", task.MaxPost) + `"}`, 413, "request_too_large", nil},
		"many items":       {`{"items":[` + strings.Repeat("{},", task.MaxItems) + `{}]}`, 413, "too_many_items", nil},
		"many lines":       {strings.Repeat("{}\n", task.MaxItems+1), 413, "too_many_items", []string{"Content-Type", "application/x-ndjson"}},
		"a bad line":       {"{}\n[", 400, "invalid_body", []string{"Content-Type", "application/jsonl"}},
		"a long key":       {single("a"), 400, "invalid_idempotency_key", []string{"Idempotency-Key", strings.Repeat("k", 257)}},
		"a long header":    {single("a"), 400, "invalid_header", []string{"X-Weir-Capability", strings.Repeat("k", 257)}},
		"an odd header":    {single("a"), 400, "invalid_priority", []string{"X-Weir-Priority", "first"}},
	} {
		if got := s.ask("POST", "/weir/tasks", c.body, c.head...); got.code != c.code || got.task.Error.Code != c.word || got.task.Error.Message == "" {
			t.Errorf("%s: %d %.300s, want %d %s", name, got.code, got.body, c.code, c.word)
		}
	}
	for path, want := range map[string]int{"/weir/tasks/none": 404, "/weir/tasks/none/results": 404, "/weir/tasks/none?wait=x": 400, "/weir/tasks/none?wait=-1s": 400} {
		if got := s.ask("GET", path, ""); got.code != want {
			t.Errorf("%s: %d %s", path, got.code, got.body)
		}
	}
	s.proxy.SetTasks(nil)
	if got := s.ask("POST", "/weir/tasks", single("a")); got.code != 501 || got.task.Error.Code != "tasks_off" {
		t.Errorf("off: %d %s", got.code, got.body)
	}
}

// TestRoomsOfTenants leaves tasks at a sidecar that may use all rooms and at two
// that each may use a tenant's alone: these work on that tenant's, and neither
// take in nor find another's.
func TestRoomsOfTenants(t *testing.T) {
	t.Parallel()
	l := room
	l.Tenants = []string{"ads", "content.cn"}
	h := newHouse(t, l)
	all := h.sidecarOf("all", true, "", "ads", "content.cn")
	of := map[string]*sidecar{"ads": h.sidecarOf("a", false, "ads"), "content.cn": h.sidecarOf("c", false, "content.cn")}
	as := func(tenant string) []string { return []string{"X-Weir-Tenant", tenant} }
	ids := map[string]string{}
	for _, tenant := range []string{"ads", "content.cn", "other"} {
		got := all.ask("POST", "/weir/tasks", single("of "+tenant), as(tenant)...)
		if got.code != 202 {
			t.Fatalf("%s: %d %s", tenant, got.code, got.body)
		}
		ids[tenant] = got.task.ID
	}
	own := map[string]string{}
	for tenant, s := range of {
		own[tenant] = s.ask("POST", "/weir/tasks", single("own of "+tenant), as(tenant)...).task.ID
	}
	for tenant, s := range of {
		if end := s.await(ids[tenant], as(tenant)...); end.task.State != "completed" || !strings.Contains(end.body, "re: of "+tenant) {
			t.Errorf("%s: %s", tenant, end.body)
		}
		if got := all.ask("GET", "/weir/tasks/"+ids[tenant], "", as(tenant)...); got.task.State != "completed" {
			t.Errorf("%s, seen from elsewhere: %s", tenant, got.body)
		}
		if end := all.await(own[tenant], as(tenant)...); end.task.State != "completed" {
			t.Errorf("%s, left at its own: %s", tenant, end.body)
		}
		for owner, id := range ids {
			if owner == tenant {
				continue
			}
			for _, try := range []string{"GET ", "GET /results", "POST /repeat", "POST /cancel"} {
				method, path, _ := strings.Cut(try, " ")
				if got := s.ask(method, "/weir/tasks/"+id+path, "", as(owner)...); got.code != 403 || !strings.Contains(got.body, "tasks_elsewhere") {
					t.Errorf("%s of %s at the sidecar of %s: %d %s", try, owner, tenant, got.code, got.body)
				}
			}
			if got := s.ask("POST", "/weir/tasks", single("strange"), as(owner)...); got.code != 403 {
				t.Errorf("a task of %s left at the sidecar of %s: %d", owner, tenant, got.code)
			}
		}
	}
	if got := all.ask("GET", "/weir/tasks/"+ids["other"], "", as("other")...); got.task.State != "queued" || h.called("of other") != 0 {
		t.Errorf("nobody works on the tasks of all others, and: %s", got.body)
	}
}

// TestRecordsOfAHostileWorker puts records into the room that no sidecar writes,
// which would break what reads them: the sidecar goes on, and makes no call of
// them.
func TestRecordsOfAHostileWorker(t *testing.T) {
	t.Parallel()
	l := room
	l.Tenants = []string{"ads"}
	h := newHouse(t, l)
	h.script(func(n int, prompt string, w http.ResponseWriter, r *http.Request) {
		if prompt == "shift" && n < 3 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		good(w, "re: "+prompt)
	})
	nc := h.connect(natslog.Options{Name: "hostile"})
	t.Cleanup(nc.Close)
	keep, err := natslog.NewTasks(nc, "test", "hostile", "ads")
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, path, header, state, prompt string) {
		t.Helper()
		expires := time.Now().Add(time.Hour).UnixNano()
		records := map[string]string{
			"job." + name:             fmt.Sprintf(`{"v":1,"id":"x","owner":"o","uid":%q,"items":1,"expires":%d,"header":%s}`, name, expires, header),
			"state." + name + ".0.0":  state,
			"todo.0." + name + ".0.0": fmt.Sprintf(`{"v":1,"key":%q,"uid":%q,"path":%s,"route":"route"}`+"\n%s", name, name, path, chat(prompt)),
		}
		for _, key := range []string{"job.", "state.", "todo.0."} {
			for k, text := range records {
				if strings.HasPrefix(k, key) && text != "" {
					if err := keep.Set(t.Context(), k, []byte(text)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	const chats = `"/v1/chat/completions"`
	put("path", `"/v1/images/\u0001"`, `{}`, "", "path")
	put("host", `".evil.example/v1/chat/completions"`, `{}`, "", "host")
	put("header", chats, `{"X-Weir-Tenant":"a\nb","Evil":"x"}`, "", "header")
	put("shift", chats, `{}`, `{"v":1,"state":"waiting","waits":-9,"size":-5}`, "shift")
	s := h.sidecarOf("a", false, "", "ads")
	got := s.ask("POST", "/weir/tasks", single("well"), "X-Weir-Tenant", "ads")
	if end := s.await(got.task.ID, "X-Weir-Tenant", "ads"); end.task.State != "completed" {
		t.Errorf("%s", end.body)
	}
	for _, prompt := range []string{"path", "host", "header", "shift"} {
		if n := h.called(prompt); n != 0 {
			t.Errorf("%d calls of %q", n, prompt)
		}
	}
}

// TestRoom fills the room for tasks, and finds it free when they are done.
func TestRoom(t *testing.T) {
	t.Parallel()
	h := newHouse(t, natslog.TaskLimits{Bytes: 4 << 20, Age: time.Hour})
	a := h.sidecar("a", true)
	var ids []string
	for {
		got := a.ask("POST", "/weir/tasks", single(strings.Repeat("long ", 100_000)+fmt.Sprint(len(ids))))
		if got.code != 202 {
			if got.code != 503 || got.task.Error.Code != "tasks_full" || got.header.Get("Retry-After") == "" {
				t.Errorf("%d %s", got.code, got.body)
			}
			break
		}
		if ids = append(ids, got.task.ID); len(ids) > 10 {
			t.Fatal("the room has no end")
		}
	}
	b := h.sidecar("b", false)
	for _, id := range ids {
		if end := b.await(id); end.task.State != "completed" && end.task.State != "expired" { // an answer may have given way
			t.Errorf("%.300s", end.body)
		}
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if got := a.ask("POST", "/weir/tasks", single(strings.Repeat("long ", 100_000))); got.code == 202 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%d %s", got.code, got.body)
		}
	}
}

// TestBusRestartsDuringCall restarts NATS while one agent has a call in flight
// that outlasts the patience of the queue: nobody makes it again.
func TestBusRestartsDuringCall(t *testing.T) {
	t.Parallel()
	h := newHouse(t, room)
	begun := make(chan struct{}, 10)
	h.script(func(_ int, prompt string, w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		select {
		case <-time.After(15 * time.Second):
		case <-r.Context().Done():
		}
		good(w, "re: "+prompt)
	})
	a, b := h.sidecar("a", false), h.sidecar("b", false)
	id := a.ask("POST", "/weir/tasks", single("slow")).task.ID
	<-begun
	h.nats.Stop()
	time.Sleep(time.Second)
	h.nats.Restart(t)
	var end reply
	for end.task.State != "completed" {
		if end = b.ask("GET", "/weir/tasks/"+id+"?wait=5s", ""); end.task.State == "failed" {
			t.Fatal(end.body)
		}
	}
	if n := h.called("slow"); n != 1 || !strings.Contains(end.body, "re: slow") {
		t.Errorf("%d calls: %s", n, end.body)
	}
}

// TestAgentEndsDuringCall ends an agent in order while it has a call in
// flight: another makes it again, at once, and it is counted.
func TestAgentEndsDuringCall(t *testing.T) {
	t.Parallel()
	h := newHouse(t, room)
	begun := make(chan struct{}, 10)
	h.script(func(n int, prompt string, w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		if n == 1 {
			<-r.Context().Done()
			return
		}
		good(w, "re: "+prompt)
	})
	a := h.sidecar("a", false)
	id := a.ask("POST", "/weir/tasks", single("cut")).task.ID
	<-begun
	b := h.sidecar("b", false)
	a.stop()
	end := b.await(id)
	if end.task.State != "completed" || !strings.Contains(end.body, `"repeated":1`) || h.called("cut") != 2 {
		t.Errorf("%d calls: %s", h.called("cut"), end.body)
	}
	var text bytes.Buffer
	b.set.WritePrometheus(&text)
	if !strings.Contains(text.String(), "weir_task_repeated_calls_total 1\n") {
		t.Errorf("metrics: %s", &text)
	}
}

// TestPostsAreBoundedTogether lets four of the largest tasks stand at the door:
// a fifth is refused until one of them is gone.
func TestPostsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	s := newHouse(t, natslog.TaskLimits{Bytes: 4 << 20, Age: time.Hour}).sidecar("a", true)
	var doors []net.Conn
	for range 4 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := fmt.Fprintf(c, "POST /weir/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n{", task.MaxPost); err != nil {
			t.Fatal(err)
		}
		doors = append(doors, c)
	}
	shown := func() string {
		var text strings.Builder
		s.set.WritePrometheus(&text)
		return text.String()
	}
	for !strings.Contains(shown(), `weir_bound_used_ratio{bound="task_bodies"} 1`+"\n") {
		time.Sleep(time.Millisecond)
	}
	if got := s.ask("POST", "/weir/tasks", single("hello")); got.code != 503 || got.task.Error.Code != "too_many_tasks" || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", got.code, got.body)
	}
	_ = doors[0].Close()
	for {
		if got := s.ask("POST", "/weir/tasks", single("hello")); got.code == 202 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestWaitingClientsAreBounded has as many clients wait for a task as may: one
// more is answered at once.
func TestWaitingClientsAreBounded(t *testing.T) {
	t.Parallel()
	s := newHouse(t, natslog.TaskLimits{Bytes: 4 << 20, Age: time.Hour}).sidecar("a", true)
	id := s.ask("POST", "/weir/tasks", single("hello")).task.ID
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost/weir/tasks/"+id+"?wait=5m", nil)
			s.proxy.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
	defer func() { cancel(); all.Wait() }()
	for {
		var text strings.Builder
		s.set.WritePrometheus(&text)
		if strings.Contains(text.String(), `weir_bound_used_ratio{bound="task_waiters"} 1`+"\n") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if got := s.ask("GET", "/weir/tasks/"+id+"?wait=5m", ""); got.code != 200 || got.task.State != "queued" {
		t.Errorf("%d %s", got.code, got.body)
	}
}
