package task_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/agent/proxy"
	"weir/events/natslog"
	"weir/model"
)

// FuzzSidecar sends anything to a sidecar with tasks and client keys: with and
// without one of them, whole and broken off. It holds that the sidecar never
// panics, refuses with a reason and never for a fault of its own, answers within
// bounds, reflects no markup and does not say its provider's key, that nobody
// finds another tenant's task, and that without a key nothing is done.
func FuzzSidecar(f *testing.F) {
	h := newHouse(f, natslog.TaskLimits{Bytes: 64 << 20, Age: time.Hour})
	s := h.sidecar("a1", true)
	const one = `{"id":"job","path":"/v1/chat/completions","request":{"model":"route","messages":[{"role":"user","content":"sesame"}]}}`
	if got := s.ask("POST", "/weir/tasks", one, "X-Weir-Tenant", "mine"); got.code != http.StatusAccepted {
		f.Fatalf("status %d: %s", got.code, got.body)
	}
	s.proxy.SetKeys(proxy.Keys{sha256.Sum256([]byte("client-key")): {Tenant: "content", Priority: model.PriorityNormal}})
	seed(f, one)
	f.Fuzz(func(t *testing.T, method, target, header string, body []byte, who byte) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + strings.ReplaceAll(header, "\n", "\r\n") + "\r\n")))
		if err != nil {
			return // the server's own parser refuses it
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body, r.ContentLength, r.RemoteAddr = io.NopCloser(bytes.NewReader(body)), int64(len(body)), "192.0.2.1:1"
		if who&1 != 0 {
			r.Header.Set("Authorization", "Bearer client-key")
		}
		if who&2 != 0 {
			r.ContentLength = -1
		}
		if who&4 != 0 {
			r.Body = io.NopCloser(io.MultiReader(r.Body, brokenOff{}))
		}
		known := strings.Contains(strings.Join(append(r.Header.Values("Authorization"), r.Header.Get("X-Api-Key"), r.Header.Get("Api-Key")), " "), "client-key")
		calls, w := h.all(), httptest.NewRecorder()
		if !serves(s.proxy, w, r) {
			return
		}
		check(t, w, ctx.Err() != nil)
		if strings.Contains(w.Body.String(), "sesame") && !strings.Contains(target+header+string(body), "sesame") {
			t.Errorf("finds another's task: %s", w.Body)
		}
		open := r.URL.Path == "/healthz" || r.URL.Path == "/metrics"
		if !known && (h.all() > calls || w.Code < 300 && !open) {
			t.Errorf("%s %s without a key: status %d, %d calls", r.Method, r.URL, w.Code, h.all()-calls)
		}
	})
}

func seed(f *testing.F, one string) {
	for _, target := range []string{
		"/healthz", "/metrics", "/weir/queue", "/weir/quota", "/v1/models", "/v1/models/route", "/v1/models/<b>", "/v1/files?limit=2",
		"//<script>", "/v1/../weir/queue", "/v1/a/../<b>?<i>", "/v1/%2e%2e/x", "http://evil.example/v1/models", "*",
		"/weir/tasks/job", "/weir/tasks/job?wait=1ms", "/weir/tasks/job?wait=NaN", "/weir/tasks/job/results", "/weir/tasks/%3E/results", "/weir/tasks/<b>?wait=<i>", "/weir/tasks/",
	} {
		f.Add("GET", target, "X-Weir-Tenant: mine\n", []byte(nil), byte(1))
		f.Add("GET", target, "X-Weir-Tenant: mine\n", []byte(nil), byte(0))
	}
	const typed = "Content-Type: application/json\n"
	const chat = `{"model":"route","messages":[{"role":"user","content":"hello"}],"max_tokens":5}`
	f.Add("POST", "/v1/chat/completions", typed+"X-Weir-Deadline-Ms: 1000\nX-Weir-Priority: interactive\nX-Weir-Tenant: other\nX-Weir-Task: t\n", []byte(chat), byte(1))
	f.Add("POST", "/v1/chat/completions", typed, []byte(chat), byte(0))
	f.Add("POST", "/v1/chat/completions", typed, []byte(chat), byte(5))
	f.Add("POST", "/v1/messages", typed+"X-Weir-Deadline-Ms: -1\n", []byte(`{"model":"route","messages":[]}`), byte(1))
	f.Add("POST", "/v1/embeddings", "Content-Type: multipart/form-data; boundary=x\n", []byte("--x\r\n"), byte(1))
	f.Add("CONNECT", "evil.example:443", "Connection: x-a\nX-A: 1\nExpect: 100-continue\n", []byte(nil), byte(1))
	for _, body := range []string{
		one, `{"items":[]}`, `{"path":"/v1/chat/completions","items":[{"request":{"model":"route"}},{"id":"1","body":{"model":"route","stream":true}}]}`,
		`{"id":"a.b*>","path":"/v1/embeddings","request":{}}`, `{"path":"http://evil.example","request":{}}`, `[]`, `{"items":[{"id":"1"},{"id":"1"}]}`,
	} {
		f.Add("POST", "/weir/tasks", typed+"X-Weir-Priority: normal\n", []byte(body), byte(1))
	}
	f.Add("POST", "/weir/tasks", "Content-Type: application/jsonl\nIdempotency-Key: k\n", []byte(`{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"route"}}`+"\n\n{"), byte(3))
	f.Add("POST", "/weir/tasks", typed, []byte(one), byte(7))
	f.Add("POST", "/weir/tasks/job/repeat", "", []byte(nil), byte(1))
	f.Add("POST", "/weir/tasks/job/cancel", "", []byte(nil), byte(1))
}

// brokenOff is the body of a client that went away.
type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// all is how many calls the provider got.
func (h *house) all() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		n += c
	}
	return n
}

// serves reports whether a request got an answer: for a client that is gone the
// handler ends otherwise.
func serves(h http.Handler, w http.ResponseWriter, r *http.Request) (answered bool) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // as the server compares it
			panic(p)
		}
	}()
	h.ServeHTTP(w, r)
	return true
}

// mostAnswer is more than a small sidecar has to say, in bytes.
const mostAnswer = 1 << 20

// check looks at an answer; late says that the client's patience was over.
func check(t *testing.T, a *httptest.ResponseRecorder, late bool) {
	t.Helper()
	text := a.Body.String()
	if len(text) > mostAnswer || strings.Contains(text, "sk-provider") {
		t.Errorf("answer of %d bytes: %.1000s", len(text), text)
	}
	kind, _, _ := strings.Cut(a.Header().Get("Content-Type"), ";")
	var body struct {
		Error struct{ Code, Message string }
	}
	err := json.Unmarshal([]byte(text), &body)
	switch {
	case a.Code >= 500 && a.Code != http.StatusServiceUnavailable, body.Error.Code == "tasks_unreachable" && !late:
		t.Errorf("status %d: %s", a.Code, text)
	case a.Code >= 400 && kind == "application/json" && (err != nil || body.Error.Message == ""):
		t.Errorf("status %d without a reason: %s", a.Code, text)
	case a.Code >= 400 && kind != "application/json" && kind != "text/plain" && text != "": // the multiplexer's own are plain
		t.Errorf("status %d is said in %q", a.Code, kind)
	case kind == "text/html" && strings.Count(text, "<") > 2: // the link of a redirect
		t.Errorf("markup: %s", text)
	}
}
