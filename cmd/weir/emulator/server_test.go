package emulator

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/sim/incident"
	"weir/sim/provider"
)

// world parses an incident whose provider has the given lines.
func world(t *testing.T, lines string) *incident.Incident {
	t.Helper()
	text := `
name: test
duration: 1h
fleet: {agents: 1}
channels: [{name: big, provider: main}, {name: small, provider: main}]
routes: [{name: r, tiers: [[{channel: big}]]}]
workload: [{name: w, route: r, arrivals: {kind: poisson, rate: 1}, input_tokens: {kind: fixed, value: 1}, output_tokens: {kind: fixed, value: 1}}]
providers:
  - name: main
`
	for line := range strings.Lines(strings.TrimSpace(lines) + "\n") {
		text += "    " + strings.TrimSpace(line) + "\n"
	}
	inc, err := incident.Parse("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

func start(t *testing.T, lines string) *Server {
	t.Helper()
	s, err := New(Config{Incident: world(t, lines), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask makes a chat call in the handler's own goroutine; extra is more JSON.
func ask(ctx context.Context, s *Server, input, output int, extra string) *httptest.ResponseRecorder {
	body := `{"model": "big", "messages": [{"role": "user", "content": "hello"}]` + extra + `}`
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	r.Header.Set("X-Emulator-Input-Tokens", strconv.Itoa(input))
	r.Header.Set("X-Emulator-Output-Tokens", strconv.Itoa(output))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// field reads a value of a JSON answer by its path.
func field(t *testing.T, w *httptest.ResponseRecorder, path ...string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("answer %q: %v", w.Body, err)
	}
	for _, key := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(x) {
				t.Fatalf("answer %q has no %v", w.Body, path)
			}
			v = x[i]
		}
	}
	return v
}

func TestChatTakesItsServiceTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, `service: {base: 200ms, prefill_tokens_per_s: 1000, output_tokens_per_s: 100}`)
		defer s.Close()
		began := time.Now()
		w := ask(t.Context(), s, 300, 50, "")
		if got := time.Since(began); got != time.Second {
			t.Errorf("took %v, want 200ms + 300ms + 500ms", got)
		}
		if w.Code != http.StatusOK || field(t, w, "object") != "chat.completion" || field(t, w, "choices", "0", "finish_reason") != "stop" {
			t.Errorf("status %d, body %s", w.Code, w.Body)
		}
		want := map[string]any{"prompt_tokens": 300.0, "completion_tokens": 50.0, "total_tokens": 350.0}
		if d := cmp.Diff(want, field(t, w, "usage")); d != "" {
			t.Errorf("usage (-want +got):\n%s", d)
		}
		if text := field(t, w, "choices", "0", "message", "content"); len(strings.Fields(text.(string))) != 50 {
			t.Errorf("text of %d words, want one a token", len(strings.Fields(text.(string))))
		}
		w = ask(t.Context(), s, 0, 50, `, "max_tokens": 20`)
		if got := field(t, w, "usage", "completion_tokens"); got != 20.0 {
			t.Errorf("max_tokens 20 gave %v tokens", got)
		}
		if got := field(t, w, "choices", "0", "finish_reason"); got != "length" {
			t.Errorf("finish reason %v, want length", got)
		}
	})
}

func TestSizesAreEstimatedWithoutHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, ``)
		defer s.Close()
		body := `{"messages": [{"content": "12345678"}, {"content": [{"type": "text", "text": "1234"}, {"type": "image_url"}]}], "max_completion_tokens": 7}`
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
		if in, out := field(t, w, "usage", "prompt_tokens"), field(t, w, "usage", "completion_tokens"); in != 2+1+2*4.0 || out != 7.0 {
			t.Errorf("estimated %v and %v tokens, want 11 and 7", in, out)
		}
	})
}

func TestRefusalArrivesAfterItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, `
			concurrency: 0
			refusal: {status: 200, code: "2064", shape: minimax, delay: 70ms}`)
		defer s.Close()
		began := time.Now()
		w := ask(t.Context(), s, 1, 1, "")
		if got := time.Since(began); got != 70*time.Millisecond {
			t.Errorf("refused after %v, want 70ms", got)
		}
		want := map[string]any{"status_code": 2064.0, "status_msg": "cluster load high, retry later"}
		if d := cmp.Diff(want, field(t, w, "base_resp")); w.Code != 200 || d != "" {
			t.Errorf("status %d, verdict (-want +got):\n%s", w.Code, d)
		}
		if h := w.Header(); h.Get("Retry-After") != "" || h.Get("X-Ratelimit-Limit-Requests") != "" {
			t.Errorf("headers give hints: %v", h)
		}
	})
}

// chunks reads server-sent events with the time each came.
type chunks struct {
	http.ResponseWriter
	header http.Header
	at     []time.Duration
	data   []string
	began  time.Time
}

func (c *chunks) Header() http.Header { return c.header }
func (c *chunks) WriteHeader(int)     {}
func (c *chunks) Flush()              {}

func (c *chunks) Write(b []byte) (int, error) {
	in := bufio.NewScanner(strings.NewReader(string(b)))
	for in.Scan() {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			c.at = append(c.at, time.Since(c.began))
			c.data = append(c.data, data)
		}
	}
	return len(b), nil
}

func TestStreamIsSpreadOverTheOutputTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, `service: {base: 500ms, output_tokens_per_s: 100}`)
		defer s.Close()
		body := `{"messages": [{"content": "x"}], "stream": true, "stream_options": {"include_usage": true}}`
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
		r.Header.Set("X-Emulator-Output-Tokens", "100")
		w := &chunks{header: http.Header{}, began: time.Now()}
		s.ServeHTTP(w, r)
		last := len(w.data) - 1
		if w.at[0] != 500*time.Millisecond || w.at[last] != 1500*time.Millisecond {
			t.Errorf("first chunk at %v, last at %v; want 500ms and 1.5s", w.at[0], w.at[last])
		}
		if w.data[last] != "[DONE]" || !strings.Contains(w.data[last-1], `"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":100`) ||
			!strings.Contains(w.data[last-2], `"finish_reason":"stop"`) {
			t.Errorf("end of stream: %q", w.data[last-2:])
		}
		words, quarter := 0, 0
		for i, data := range w.data[:last] {
			var c completion
			if err := json.Unmarshal([]byte(data), &c); err != nil {
				t.Fatal(err)
			}
			for _, choice := range c.Choices {
				if choice.Delta.Content != nil {
					words += len(strings.Fields(*choice.Delta.Content))
				}
			}
			if w.at[i] <= 750*time.Millisecond {
				quarter = words
			}
		}
		if words != 100 || quarter < 20 || quarter > 25 {
			t.Errorf("%d words in all and %d in the first quarter, want 100 and about 25", words, quarter)
		}
	})
}

func TestDisconnectIsHeardAtOnce(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, `service: {base: 100ms, output_tokens_per_s: 100}`)
			defer s.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			ask(ctx, s, 1, 1000, fmt.Sprintf(`, "stream": %v`, stream))
			if b := s.Books(); b.Abandoned != 1 || b.Running != 0 || b.WastedTokens == 0 {
				t.Errorf("stream %v: books %+v", stream, b)
			}
		})
	}
}

func TestNoiseAndRateHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, `
			noise: {error_rate: 1, status: 502}
			rpm: {limit: 60, burst: 2}
			refusal: {headers: true, retry_after: exact}`)
		defer s.Close()
		w := ask(t.Context(), s, 1, 1, "")
		if w.Code != 502 || w.Header().Get("X-Ratelimit-Remaining-Requests") != "1" {
			t.Errorf("status %d, headers %v", w.Code, w.Header())
		}
		ask(t.Context(), s, 1, 1, "")
		w = ask(t.Context(), s, 1, 1, "")
		got := [...]string{
			strconv.Itoa(w.Code), w.Header().Get("Retry-After"), w.Header().Get("Retry-After-Ms"),
			w.Header().Get("X-Ratelimit-Limit-Requests"), w.Header().Get("X-Ratelimit-Reset-Requests"),
		}
		if want := [...]string{"429", "1", "1000", "60", "2s"}; got != want {
			t.Errorf("refusal: got %v, want %v", got, want)
		}
	})
}

func TestCloseAndResetEndWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, `service: {base: 10s}`)
		var wait sync.WaitGroup
		status := make([]int, 2)
		wait.Go(func() { status[0] = ask(t.Context(), s, 1, 1, "").Code })
		time.Sleep(time.Second)
		if b := s.Books(); b.Running != 1 {
			t.Errorf("before the reset: %+v", b)
		}
		s.Reset()
		if b, now := s.Books(), s.Now(); b.Offered != 0 || now != 0 {
			t.Errorf("after the reset, at %v: %+v", now, b)
		}
		wait.Go(func() { status[1] = ask(t.Context(), s, 1, 1, "").Code })
		time.Sleep(time.Second)
		s.Close()
		wait.Wait()
		if status[0] != 503 || status[1] != 503 {
			t.Errorf("statuses %v, want 503", status)
		}
		if code := ask(t.Context(), s, 1, 1, "").Code; code != 503 {
			t.Errorf("after close: status %d, want 503", code)
		}
		s.Close()
	})
}

// TestLiveIsTheModel offers the same calls at the same instants to the live
// server and to the model alone: their books agree.
func TestLiveIsTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := `
			concurrency: 8
			queue: 3
			service: {base: 100ms, output_tokens_per_s: 1000, cv: 0.3}
			slowdown: {from: 0.5, factor: 4}
			refusal: {delay: 10ms}
			changes:
			- {at: 2s, over: 2s, set: {concurrency: 3}}`
		s := start(t, lines)
		defer s.Close()
		model, truth := provider.New(provider.Config{Incident: world(t, lines).Providers[0], Seed: 1, Ideal: true})
		var wait sync.WaitGroup
		for i := range 500 {
			name := strconv.Itoa(i)
			c := identity(http.Header{"X-Emulator-Request": {name}})
			c.Input, c.Output = 5, 100
			model.Offer(int64(s.Now()), c)
			wait.Go(func() {
				r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"messages": [{"content": "x"}]}`))
				r.Header.Set("X-Emulator-Request", name)
				r.Header.Set("X-Emulator-Output-Tokens", "100")
				s.ServeHTTP(httptest.NewRecorder(), r)
			})
			time.Sleep(11 * time.Millisecond)
		}
		wait.Wait()
		model.Advance(int64(s.Now()), nil)
		if d := cmp.Diff(truth.Books(), s.Books()); d != "" {
			t.Errorf("books (-model +live):\n%s", d)
		}
		if b := s.Books(); b.Refused.Concurrency == 0 || b.Served == 0 {
			t.Errorf("nothing happened: %+v", b)
		}
	})
}

func TestReportAndModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, `
			concurrency: 100
			slowdown: {from: 0.7, factor: 4}
			changes:
			- {at: 10s, set: {concurrency: 50}}`)
		defer s.Close()
		time.Sleep(11 * time.Second)
		s.Demand(provider.Demand{Request: 1}, time.Second)
		get := func(path string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			return w
		}
		var r Report
		if err := json.Unmarshal(get("/emulator/books").Body.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r.AtS != 11 || r.Concurrency != 50 || r.BestInFlight != 36 || r.Slowdown != incident.PPM || r.Incident != "test" || r.Books.CouldHaveServed != 1 {
			t.Errorf("report %+v", r)
		}
		if w := get("/v1/models"); field(t, w, "data", "1", "id") != "small" {
			t.Errorf("models: %s", w.Body)
		}
		if w := get("/v1/nothing"); w.Code != http.StatusNotFound || field(t, w, "error", "type") != "invalid_request_error" {
			t.Errorf("unknown path: %d %s", w.Code, w.Body)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/emulator/reset", nil))
		if w.Code != http.StatusNoContent || s.Now() != 0 {
			t.Errorf("reset: %d, then at %v", w.Code, s.Now())
		}
	})
}

func TestHostileBodies(t *testing.T) {
	s := start(t, ``)
	defer s.Close()
	for name, c := range map[string]struct {
		path, body string
		want       int
	}{
		"no json":         {"chat/completions", "hello", 400},
		"null":            {"chat/completions", "null", 400},
		"no messages":     {"chat/completions", `{"model": "x"}`, 400},
		"wrong types":     {"chat/completions", `{"messages": 5}`, 400},
		"huge":            {"chat/completions", `{"messages": [{"content": "` + strings.Repeat("x", maxBody) + `"}]}`, 413},
		"odd content":     {"chat/completions", `{"messages": [{"content": {"a": [null, true]}}, {}]}`, 200},
		"negative max":    {"chat/completions", `{"messages": [{}], "max_tokens": -5}`, 200},
		"absurd max":      {"chat/completions", `{"messages": [{}], "max_tokens": 9223372036854775807}`, 200},
		"no input":        {"embeddings", `{}`, 400},
		"empty input":     {"embeddings", `{"input": []}`, 400},
		"odd input":       {"embeddings", `{"input": {"a": 1}}`, 400},
		"null input":      {"embeddings", `{"input": [null]}`, 200},
		"many inputs":     {"embeddings", `{"input": ["x"` + strings.Repeat(`,"x"`, maxInputs) + `]}`, 400},
		"many dimensions": {"embeddings", `{"input": "x", "dimensions": 1000000000}`, 400},
		"no dimensions":   {"embeddings", `{"input": "x", "dimensions": 0}`, 400},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/"+c.path, strings.NewReader(c.body)))
		if w.Code != c.want {
			t.Errorf("%s: status %d, want %d: %.200s", name, w.Code, c.want, w.Body)
		}
	}
}

func TestNewNamesAMissingProvider(t *testing.T) {
	if _, err := New(Config{Incident: world(t, ``), Provider: "gone"}); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("got %v", err)
	}
}
