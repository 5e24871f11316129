package web_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"weir/controller/history"
	"weir/controller/web"
	"weir/events"
	"weir/model"
)

// caller is a client's end of a connection: it has deadlines, as a server's
// has, and goes away once something was flushed.
type caller struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

func (c *caller) SetReadDeadline(time.Time) error  { return nil }
func (c *caller) SetWriteDeadline(time.Time) error { return nil }
func (c *caller) FlushError() error                { c.leave(); return nil }

// FuzzAPI sends anything to a controller's API, with and without its token,
// from here and from elsewhere, whole and broken off. It holds that the API
// never panics, fails only where it says when to come again, answers within
// bounds, reflects no markup, and that without the token nothing gets into the
// log and from elsewhere nothing is read.
func FuzzAPI(f *testing.F) {
	r := start(f, func(o *web.Options) {
		o.Past = &past{}
		o.Rewind = rewind{}
		o.Page = http.NotFoundHandler()
	})
	const typed = "Content-Type: application/json\n"
	for _, path := range []string{
		"/healthz", "/readyz", "/metrics", "/", "//<script>", "/a/../<b>?<i>", "/api/v1/status", "/api/v1/live", "/api/v1/channels", "/api/v1/channels/b%22x", "/api/v1/channels/<b>",
		"/api/v1/agents", "/api/v1/params", "/api/v1/snapshot", "/api/v1/decisions?from=1&limit=9&oldest=1&rule=<b>", "/api/v1/history?channel=a&from=1&to=9&format=csv", "/api/v1/at?time=7",
		"http://evil.example/api/v1/status",
	} {
		f.Add("GET", path, "", []byte(nil), byte(3))
	}
	for _, body := range []string{
		`{"command":"pause","channel":"a","for":"5m","by":"me","why":"<b>"}`, `{"command":"set_mode","mode":"observe"}`, `{"command":"forget","agent":"x"}`,
		`{"command":"set_limit","channel":"b\"x","value":-9223372036854775808}`, `{"command":"<script>"}`, `{} {}`, `[`,
	} {
		f.Add("POST", "/api/v1/commands", typed, []byte(body), byte(3))
	}
	f.Add("POST", "/api/v1/params", typed, []byte(`{"name":"n","params":{"cut_share":900000},"canary":"a","guard":{"for_ns":60000000000,"goodput_ppm":-1,"waste_ppm":1}}`), byte(3))
	f.Add("POST", "/api/v1/config", "", events.Encode(nil, &model.Config{Fleet: fleet, Channels: []model.ChannelConfig{{Name: "a"}}}), byte(3))
	f.Add("POST", "/api/v1/config", "", []byte("x"), byte(7))
	f.Add("POST", "/api/v1/config", "", events.Encode(nil, &model.Tick{Term: 1}), byte(3))
	f.Add("GET", "/api/v1/at?time=1", "Content-Type: multipart/form-data; boundary=x\n", []byte("--x\r\n"), byte(7))
	f.Fuzz(func(t *testing.T, method, target, header string, body []byte, who byte) {
		q, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + strings.ReplaceAll(header, "\n", "\r\n") + "\r\n")))
		if err != nil {
			return // the server's own parser refuses it
		}
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		q = q.WithContext(ctx)
		q.Body, q.RemoteAddr = io.NopCloser(bytes.NewReader(body)), "192.0.2.1:1"
		if who&1 != 0 {
			q.Header.Set("Authorization", "Bearer "+token)
		}
		if who&2 != 0 {
			q.RemoteAddr = "127.0.0.1:1"
		}
		if who&4 != 0 {
			q.Body = io.NopCloser(io.MultiReader(q.Body, brokenOff{}))
		}
		w := &caller{httptest.NewRecorder(), leave}
		before := r.last()
		r.api.ServeHTTP(w, q)
		checkAnswer(t, q, w)
		r.checkLog(t, q, w.Code, before)
	})
}

// brokenOff is the body of a client that went away.
type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// rewind knows no moment.
type rewind struct{}

func (rewind) At(_ context.Context, at time.Time) (v model.FleetView, err error) {
	if at.Unix()%2 == 0 {
		return v, history.ErrBeyond
	}
	return v, nil
}

// last is the end of the log.
func (r *rig) last() uint64 {
	info, err := r.bus.Log().Info(context.Background())
	if err != nil {
		r.t.Error(err)
	}
	return info.Last
}

// mostAnswer is more than the API has to say about a small fleet, in bytes.
const mostAnswer = 8 << 20

func checkAnswer(t *testing.T, q *http.Request, w *caller) {
	t.Helper()
	status, answer, h := w.Code, w.Body.String(), w.Header()
	path := q.URL.Path
	late := status == http.StatusServiceUnavailable && (h.Get("Retry-After") != "" || path == "/healthz" || path == "/readyz")
	broken := path == "/api/v1/history" && strings.Contains(answer, "disk on fire") // as past is
	if status >= 500 && !late && !broken {
		t.Errorf("status %d: %s", status, answer)
	}
	if len(answer) > mostAnswer {
		t.Errorf("an answer of %d bytes", len(answer))
	}
	if h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("status %d without nosniff", status)
	}
	if to := h.Get("Location"); strings.HasPrefix(to, "//") || strings.HasPrefix(to, `/\`) || to != "" && to[0] != '/' {
		t.Errorf("sends the client to %q", to)
	}
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	if kind == "text/html" || kind == "" {
		for _, said := range []string{q.URL.Path, q.URL.RawQuery, unescaped(q.URL.RawQuery)} {
			if at := strings.IndexByte(said, '<'); at >= 0 && strings.Contains(answer, said[at:]) {
				t.Errorf("%q answers with what was asked: %s", kind, answer)
			}
		}
	}
}

func unescaped(query string) string {
	s, _ := url.QueryUnescape(query)
	return s
}

// checkLog holds that a request with the token brings at most one fact into
// the log, and none any other way.
func (r *rig) checkLog(t *testing.T, q *http.Request, status int, before uint64) {
	t.Helper()
	shown, _ := strings.CutPrefix(q.Header.Get("Authorization"), "Bearer ")
	brought := 0
	for seq := before + 1; seq <= r.last(); seq++ {
		e, err := r.bus.Log().At(t.Context(), seq)
		if errors.Is(err, events.ErrNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		switch f, err := events.Decode(e.Data); f.(type) {
		case *model.Command, *model.ParamSet, *model.Config:
			brought++
		case *model.Tick:
		default:
			t.Errorf("the log got %T, %v", f, err)
		}
	}
	switch {
	case shown != token && brought > 0:
		t.Errorf("%s %s brings %d facts into the log without the token", q.Method, q.URL, brought)
	case brought > 1, brought == 0 && q.Method == http.MethodPost && status == http.StatusOK:
		t.Errorf("%s %s is answered with %d and brings %d facts into the log", q.Method, q.URL, status, brought)
	case shown != token && !strings.HasPrefix(q.RemoteAddr, "127.") && status == http.StatusOK && strings.HasPrefix(q.URL.Path, "/api/"):
		t.Errorf("%s %s is answered to another machine without the token", q.Method, q.URL)
	}
}
