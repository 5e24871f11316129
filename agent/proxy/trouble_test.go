package proxy

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/agent"
	"weir/events/memlog"
	"weir/model"
)

// TestObserve wants a proxy that only observes to pass everything as it is,
// and to hold nothing back that enforcing would.
func TestObserve(t *testing.T) {
	const refusal = `{"error":{"code":"rate_limit_exceeded","message":"slow down"}}`
	for _, tt := range []struct {
		name, body string
		script     script
		status     int
		want       string
	}{
		{"status", plainBody, func(_ int, w http.ResponseWriter, _ *http.Request) { say(w, 429, refusal, "Retry-After", "7") }, 429, refusal},
		{"body", plainBody, func(_ int, w http.ResponseWriter, _ *http.Request) { say(w, 200, busyAnswer) }, 200, busyAnswer},
		{"event", streamBody, func(_ int, w http.ResponseWriter, _ *http.Request) { stream(w, busyFrame, doneFrame) }, 200, busyFrame + doneFrame},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.script, func(c *agent.Config) {
				c.Mode = model.ModeObserve
				c.Fleet.Channels[0].Alone = 0 // enforcing would let nothing through
			})
			for range 3 {
				got := w.post("/v1/chat/completions", tt.body)
				if got.status != tt.status || got.body != tt.want || got.header.Get("X-Should-Retry") != "" {
					t.Errorf("status %d, body %q, headers %v", got.status, got.body, got.header)
				}
			}
			if text := w.get("/metrics"); !strings.Contains(text, `weir_would_refuse_total{channel="main"} 3`) || !strings.Contains(text, `weir_mode{mode="observe"} 1`) {
				t.Errorf("metrics do not tell what enforcing would have done:\n%s", text)
			}
			if n := len(w.attempts()); n != 3 {
				t.Errorf("%d attempts, want 3: nothing is repeated", n)
			}
		})
	}
}

// waitGone waits for the provider to see that its caller went.
func waitGone(t *testing.T, gone <-chan struct{}) {
	t.Helper()
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Fatal("the provider still works for a client that left")
	}
}

func TestClientLeaves(t *testing.T) {
	t.Run("before the answer", func(t *testing.T) {
		started, gone := make(chan struct{}), make(chan struct{})
		w := newWorld(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
			close(started)
			<-r.Context().Done()
			close(gone)
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-started; cancel() }()
		if resp, err := w.server.Client().Do(w.request(ctx, "/v1/chat/completions", plainBody)); err == nil {
			resp.Body.Close()
			t.Fatal("got an answer")
		}
		waitGone(t, gone)
		w.wantClasses(t, model.ClassCanceled)
	})

	t.Run("mid-stream", func(t *testing.T) {
		gone := make(chan struct{})
		w := newWorld(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			stream(w, textFrame)
			<-r.Context().Done()
			close(gone)
		})
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := w.server.Client().Do(w.request(ctx, "/v1/chat/completions", streamBody))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || line+"\n" != textFrame {
			t.Fatalf("line %q, %v", line, err)
		}
		cancel()
		waitGone(t, gone)
		w.wantClasses(t, model.ClassCanceled)
		if a := w.attempts()[0]; a.UsageKnown || a.In == 0 || a.Out == 0 {
			t.Errorf("the part that was sent is not counted: %+v", a)
		}
	})

	t.Run("in the queue", func(t *testing.T) {
		w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) }, func(c *agent.Config) { c.Fleet.Channels[0].Alone = 0 })
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for !strings.Contains(w.get("/weir/queue"), `"waiting":1`) {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		if resp, err := w.server.Client().Do(w.request(ctx, "/v1/chat/completions", plainBody)); err == nil {
			resp.Body.Close()
			t.Fatal("got an answer")
		}
		for !strings.Contains(w.get("/weir/queue"), `"waiting":0`) {
			time.Sleep(time.Millisecond)
		}
		if len(w.seen) != 0 {
			t.Error("the provider was called")
		}
	})
}

func (w *world) wantClasses(t *testing.T, want ...model.Class) {
	t.Helper()
	var got []model.Class
	for _, a := range w.attempts() {
		got = append(got, a.Class)
	}
	if !equal(got, want) {
		t.Errorf("reported %v, want %v", got, want)
	}
	for _, c := range w.lastReport().Channels {
		if c.InFlight != 0 {
			t.Errorf("at the end %+v", c)
		}
	}
}

func TestTimeouts(t *testing.T) {
	hang := func(_ int, w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept-Encoding"), "identity") {
			stream(w, roleFrame)
		}
		<-r.Context().Done()
	}
	once := func(c *agent.Config) { c.Fleet.Retry.MaxAttempts = 1 }
	for _, tt := range []struct {
		name, body string
		edit       func(*model.Config)
		header     []string
		class      model.Class
		rule       string
	}{
		{"first token", streamBody, func(c *model.Config) { c.Timeouts.FirstToken = 50 * model.Millisecond }, nil, model.ClassTransport, "agent/first-token@1"},
		{"total", plainBody, func(c *model.Config) { c.Timeouts.Total = 50 * model.Millisecond }, nil, model.ClassTransport, "agent/timeout@1"},
		{"the client's deadline", plainBody, func(*model.Config) {}, []string{"X-Weir-Deadline-Ms", "50"}, model.ClassCanceled, "agent/deadline@1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, hang, once, func(c *agent.Config) { tt.edit(c.Fleet) })
			got := w.post("/v1/chat/completions", tt.body, tt.header...)
			if e := errorOf(t, got); got.status != 503 || e.Weir.Class != tt.class.String() || e.Weir.Channel != "main" {
				t.Errorf("status %d, %+v", got.status, e)
			}
			w.wantClasses(t, tt.class)
			if a := w.attempts()[0]; a.Rule != tt.rule {
				t.Errorf("decided by %s, want %s", a.Rule, tt.rule)
			}
		})
	}

	t.Run("the queue", func(t *testing.T) {
		w := newWorld(t, hang, func(c *agent.Config) { c.Fleet.Channels[0].Alone = 0 })
		got := w.post("/v1/chat/completions", plainBody, "X-Weir-Deadline-Ms", "50")
		if e := errorOf(t, got); got.status != 503 && got.status != 429 || got.header.Get("Retry-After") == "" || e.Message == "" {
			t.Errorf("status %d, %+v, headers %v", got.status, e, got.header)
		}
	})

	t.Run("a stream that stays open", func(t *testing.T) {
		w := newWorld(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			stream(w, textFrame, finishFrame, doneFrame)
			<-r.Context().Done()
		})
		if got := w.post("/v1/chat/completions", streamBody); got.body != textFrame+finishFrame+doneFrame || got.err != nil {
			t.Errorf("got %q, %v", got.body, got.err)
		}
		w.wantClasses(t, model.ClassOK)
	})
}

func TestRedirectIsNotFollowed(t *testing.T) {
	w := newWorldOf(t, map[string]script{
		"main": func(_ int, w http.ResponseWriter, _ *http.Request) {
			say(w, 307, "", "Location", "http://127.0.0.1:1/v1/chat/completions")
		},
	})
	got := w.post("/v1/chat/completions", plainBody)
	if got.status < 400 || got.header.Get("Location") != "" || len(w.seen) != 1 {
		t.Errorf("status %d, headers %v, %d calls", got.status, got.header, len(w.seen))
	}
}

// TestSecrets looks for the provider's key, the client's, the prompt and the
// answer in everything that leaves the call.
func TestSecrets(t *testing.T) {
	const prompt, text = "my-secret-prompt", "my-secret-answer"
	leak := `{"error":{"code":"` + providerKey + `","type":"Bearer ` + providerKey + `","message":"key ` + providerKey + ` in ` + prompt + `"}}`
	w := newWorld(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1:
			say(w, 500, leak)
		case 2:
			say(w, 200, strings.Replace(goodAnswer, `"hi"`, `"`+text+`"`, 1))
		default:
			reset(w)
		}
	})
	w.earn(4)
	body := strings.Replace(plainBody, "hello there", prompt, 1)
	var answers []string
	for range 3 {
		got := w.post("/v1/chat/completions", body)
		answers = append(answers, fmt.Sprint(got.header))
		if got.status != 200 {
			answers = append(answers, got.body)
		}
	}
	places := map[string]string{"metrics": w.get("/metrics"), "queue": w.get("/weir/queue"), "refusals": strings.Join(answers, "\n")}
	places["log"] = w.log.String()
	places["events"] = fmt.Sprintf("%+v", w.attempts())
	for place, content := range places {
		for _, secret := range []string{providerKey, "client-key", prompt, text} {
			if strings.Contains(content, secret) {
				t.Errorf("%s hold %q:\n%s", place, secret, content)
			}
		}
	}
	for _, s := range w.seen {
		if strings.Contains(fmt.Sprint(s.header), "client-key") {
			t.Errorf("the provider got the client's key: %v", s.header)
		}
	}
}

func TestClientKeys(t *testing.T) {
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) })
	w.proxy.SetKeys(Keys{
		sha256.Sum256([]byte("client-key")): {Tenant: "content", Priority: model.PriorityNormal},
		sha256.Sum256([]byte("other-key")):  {Priority: model.PriorityInteractive},
	})
	for _, tt := range []struct {
		name   string
		header []string
		status int
	}{
		{"bound", []string{"X-Weir-Tenant", "someone", "X-Weir-Priority", "interactive"}, 200},
		{"free", []string{"Authorization", "", "X-Api-Key", "other-key", "X-Weir-Tenant", "content"}, 200},
		{"wrong", []string{"Authorization", "Bearer wrong"}, 401},
		{"none", []string{"Authorization", ""}, 401},
	} {
		if got := w.post("/v1/chat/completions", plainBody, tt.header...); got.status != tt.status {
			t.Errorf("%s: status %d, want %d: %s", tt.name, got.status, tt.status, got.body)
		}
	}
	all := w.attempts()
	if len(all) != 2 || all[0].Tenant != "content" || all[0].Priority != model.PriorityNormal || all[1].Tenant != "content" || all[1].Priority != model.PriorityBatch {
		t.Errorf("reported %+v", all)
	}
}

// TestControllerAway cuts the agent off while it works: no call may notice,
// and every attempt must arrive once when the bus is back.
func TestControllerAway(t *testing.T) {
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) })
	const calls = 30
	for i := range calls {
		switch i {
		case 5:
			w.bus.SetFaults(memlog.Faults{Cut: []string{"agent-1"}})
		case 25:
			w.bus.SetFaults(memlog.Faults{})
		}
		if got := w.post("/v1/chat/completions", plainBody); got.status != 200 {
			t.Fatalf("call %d: status %d: %s", i, got.status, got.body)
		}
	}
	seen := map[uint64]int{}
	next := uint64(1)
	for _, a := range w.attempts() {
		seen[a.Request]++
	}
	for _, f := range w.facts {
		r, ok := f.(*model.Attempts)
		if !ok || r.Seq != next {
			t.Fatalf("got %+v, want report %d", f, next)
		}
		next++
	}
	if len(seen) != calls {
		t.Errorf("%d requests are reported, want %d", len(seen), calls)
	}
}

// TestLargeAnswer passes an answer that is larger than anything that is kept.
func TestLargeAnswer(t *testing.T) {
	const parts, size = 600, 10_000
	filler := strings.Repeat("x", size)
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":["`)
		for range parts {
			_, _ = io.WriteString(w, filler)
		}
		_, _ = io.WriteString(w, `"],"usage":{"prompt_tokens":5,"total_tokens":5}}`)
	})
	got := w.post("/v1/embeddings", `{"model":"route","input":"x"}`)
	if got.status != 200 || got.err != nil || len(got.body) < parts*size || !strings.HasSuffix(got.body, "}}") {
		t.Errorf("status %d, %d bytes, %v", got.status, len(got.body), got.err)
	}
	if a := w.attempts(); len(a) != 1 || a[0].Class != model.ClassOK || a[0].In != 5 {
		t.Errorf("reported %+v", a)
	}
}

func TestBackPressure(t *testing.T) {
	frame := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("y", 50_000) + `"}}]}` + "\n\n"
	const frames = 2000 // 100 MB
	written := make(chan int, frames)
	w := newWorld(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range frames {
			if _, err := io.WriteString(w, frame); err != nil {
				return
			}
			written <- i
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := w.server.Client().Do(w.request(ctx, "/v1/chat/completions", streamBody))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, len(frame))); err != nil {
		t.Fatal(err)
	}
	// The client reads no more: the provider must come to a stop, with what
	// the sockets between them hold.
	for last := -1; ; last = len(written) {
		time.Sleep(200 * time.Millisecond)
		if len(written) == last {
			break
		}
	}
	if len(written) > frames/2 {
		t.Errorf("%d of %d frames were taken from the provider", len(written), frames)
	}
}

func TestMessages(t *testing.T) {
	const (
		start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n"
		block = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
		delta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n"
		end   = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":4}}\n\n"
		stop  = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
		busy  = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
	)
	body := `{"model":"route","stream":true,"max_tokens":40,"messages":[{"role":"user","content":"hello"}]}`
	w := newWorld(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1:
			stream(w, start, busy)
		case 2:
			stream(w, start, block, delta, end, stop)
		default:
			stream(w, start, block, delta)
			pauseShort()
			reset(w)
		}
	})
	w.earn(4)
	got := w.post("/v1/messages", body, "Anthropic-Version", "2023-06-01")
	if want := start + block + delta + end + stop; got.body != want {
		t.Errorf("got %q", got.body)
	}
	got = w.post("/v1/messages", body)
	if !strings.HasPrefix(got.body, start+block+delta+"event: error\ndata: {\"type\":\"error\",\"error\":{") {
		t.Errorf("got %q", got.body)
	}
	if up := w.seen[0]; up.header.Get("X-Api-Key") != providerKey || up.header.Get("Authorization") != "" || up.header.Get("Anthropic-Version") == "" || strings.Contains(up.body, "stream_options") {
		t.Errorf("the provider got %v %s", up.header, up.body)
	}
	w.wantClasses(t, model.ClassOverloaded, model.ClassOK, model.ClassTransport)
	if a := w.attempts()[1]; a.In != 7 || a.Out != 4 {
		t.Errorf("reported %+v", a)
	}
}

func TestPages(t *testing.T) {
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) })
	w.post("/v1/chat/completions", plainBody)
	for path, want := range map[string]string{
		"/healthz":         "ok\n",
		"/v1/models":       `"id":"route"`,
		"/v1/models/route": `"object":"model"`,
		"/v1/models/other": "model_not_found",
		"/weir/queue":      `"channel":"main"`,
		"/weir/quota":      `{"channels":[{"channel":"main","slots":8,"wait_s":0,"reason":"","minute":null,"day":null}],"pools":[],"groups":[],"tenants":[]}`,
		"/metrics":         `weir_request_seconds_count{route="route",outcome="ok"} 1`,
		"/v1/embeddings":   "method_not_allowed",
		"/elsewhere":       "unknown_path",
	} {
		if got := w.get(path); !strings.Contains(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
	text := w.get("/metrics")
	for _, name := range []string{"weir_queue_depth{", "weir_queue_seconds_bucket{", "weir_retries_total{", "weir_would_refuse_total{", "weir_lease_slots{", `weir_pool_connections{channel="main",state="idle"} 1`, `weir_mode{mode="enforce"} 1`, "weir_spool_events "} {
		if !strings.Contains(text, name) {
			t.Errorf("metrics lack %s", name)
		}
	}
}

// TestObservedFleet holds that a mode that the fleet sets shows as what it is.
func TestObservedFleet(t *testing.T) {
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) }, func(c *agent.Config) { c.Fleet.Mode = model.ModeObserve })
	if text, page := w.get("/metrics"), w.get("/weir/queue"); !strings.Contains(text, `weir_mode{mode="observe"} 1`) || !strings.Contains(text, `weir_mode{mode="enforce"} 0`) || !strings.HasPrefix(page, `{"mode":"observe"`) {
		t.Errorf("the page says %s", page)
	}
}

// TestForecast holds what a request is told before it is sent and when it is
// refused: its place and how long it may take.
func TestForecast(t *testing.T) {
	release := make(chan struct{})
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { <-release; good(w) }, func(c *agent.Config) { c.Fleet.Channels[0].Alone = 1 })
	type ahead struct {
		Position int
		MinS     float64  `json:"wait_min_s"`
		MaxS     *float64 `json:"wait_max_s"`
	}
	look := func() map[string]ahead {
		var page struct {
			Routes []struct{ Next map[string]ahead }
		}
		if err := json.Unmarshal([]byte(w.get("/weir/queue")), &page); err != nil || len(page.Routes) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		return page.Routes[0].Next
	}
	if n := look()["normal"]; n.Position != 1 || n.MaxS == nil || *n.MaxS != 0 {
		t.Errorf("with room: %+v", n)
	}
	var all sync.WaitGroup
	for _, priority := range []string{"normal", "normal", "batch", "interactive"} {
		all.Go(func() { w.post("/v1/chat/completions", plainBody, "X-Weir-Priority", priority) })
		for !strings.Contains(w.get("/weir/queue"), `"running":1`) {
			time.Sleep(time.Millisecond)
		}
	}
	for !strings.Contains(w.get("/weir/queue"), `"waiting":3`) {
		time.Sleep(time.Millisecond)
	}
	n := look()
	if n["interactive"].Position != 2 || n["normal"].Position != 3 || n["batch"].Position != 4 || n["normal"].MaxS != nil {
		t.Errorf("behind others and with no pace known: %+v", n)
	}
	got := w.post("/v1/chat/completions", plainBody, "X-Weir-Deadline-Ms", "30")
	if e := errorOf(t, got); got.status != 503 || e.Weir.Position != 2 { // its deadline puts it before the others of its priority
		t.Errorf("status %d, %+v", got.status, e)
	}
	close(release)
	all.Wait()
}

// TestStops ends a sidecar while a call runs and another waits: the first ends
// well, and the other, like what comes later, is told that it may be repeated.
func TestStops(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(_ int, rw http.ResponseWriter, _ *http.Request) { close(begun); <-release; good(rw) },
		func(c *agent.Config) { c.Fleet.Channels[0].Alone = 1 })
	answers := make(chan answer, 2)
	go func() { answers <- w.post("/v1/chat/completions", plainBody) }()
	<-begun
	go func() { answers <- w.post("/v1/chat/completions", plainBody) }()
	for !strings.Contains(w.get("/weir/queue"), `"waiting":1`) {
		time.Sleep(time.Millisecond)
	}
	closed := make(chan struct{})
	go func() { defer close(closed); w.close() }()
	refused := <-answers
	for _, got := range []answer{refused, w.post("/v1/chat/completions", plainBody)} {
		if e := errorOf(t, got); got.status != 503 || e.Code != "agent_stopping" || e.Type != "server_error" || got.header.Get("Retry-After") != "1" || got.header.Get("X-Should-Retry") != "" {
			t.Errorf("%d %v %s", got.status, got.header, got.body)
		}
	}
	close(release)
	if got := <-answers; got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	<-closed
}
