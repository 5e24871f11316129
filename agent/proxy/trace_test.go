package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"weir/agent"
	"weir/agent/trace"
	"weir/model"
)

const (
	parentID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentOf  = "00-" + parentID + "-00f067aa0ba902b7-01"
	stateOf   = "vendor=value"
	secretAsk = "my very secret prompt"
)

// collector is a collector of OTLP over HTTP.
type collector struct {
	t        *testing.T
	server   *httptest.Server
	exporter *trace.Exporter

	mu    sync.Mutex
	spans []*tracepb.Span
	raw   []byte
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw = append(c.raw, body...)
		for _, resource := range data.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.server.Close)
	c.exporter = exporterTo(t, c.server.URL)
	return c
}

func exporterTo(t *testing.T, base string) *trace.Exporter {
	t.Helper()
	to, err := trace.Endpoint(base)
	if err != nil {
		t.Fatal(err)
	}
	e, err := trace.Export(trace.Options{URL: to, Agent: "agent-1", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Close(ctx)
	})
	return e
}

// use makes the agent's spans go to the collector.
func (c *collector) use(cfg *agent.Config) { cfg.Traces = c.exporter.Provider() }

// got returns the spans that came, after the last.
func (c *collector) got(w *world) []*tracepb.Span {
	c.t.Helper()
	w.close()
	if err := c.exporter.Close(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans
}

// values are attributes as they are named, those that differ from run to run
// left out.
func values(all []*commonpb.KeyValue) map[string]any {
	out := map[string]any{}
	for _, kv := range all {
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			out[kv.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			out[kv.Key] = v.IntValue
		case *commonpb.AnyValue_BoolValue:
			out[kv.Key] = v.BoolValue
		case *commonpb.AnyValue_DoubleValue:
			out[kv.Key] = v.DoubleValue >= 0
		}
	}
	delete(out, "weir.request")
	return out
}

// TestTraceOfARepeatedCall makes a call that is refused once and then answered.
func TestTraceOfARepeatedCall(t *testing.T) {
	c := newCollector(t)
	w := newWorld(t, func(n int, rw http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			say(rw, http.StatusOK, busyAnswer)
			return
		}
		good(rw)
	}, c.use)
	w.earn(12)
	body := strings.Replace(plainBody, "hello there", secretAsk, 1)
	if got := w.post("/v1/chat/completions", body, "Traceparent", parentOf, "Tracestate", stateOf); got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	sent := w.got()
	spans := c.got(w)
	spans = slices.DeleteFunc(spans, func(s *tracepb.Span) bool { return len(s.ParentSpanId) == 0 })
	if len(spans) != 1 {
		t.Fatalf("%d spans have the client's as their parent, want 1", len(spans))
	}
	s := spans[0]
	if s.Name != "chat route" || s.Kind != tracepb.Span_SPAN_KIND_CLIENT || s.TraceState != stateOf || s.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET {
		t.Errorf("span %q of kind %v, state %q, status %v", s.Name, s.Kind, s.TraceState, s.Status)
	}
	want := map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "minimax", "gen_ai.request.model": "main-model", "gen_ai.response.model": "main-model",
		"gen_ai.usage.input_tokens": int64(9), "gen_ai.usage.output_tokens": int64(3), "http.response.status_code": int64(200),
		"weir.attempts": int64(2), "weir.channel": "main", "weir.class": "ok", "weir.degraded": false, "weir.route": "route", "weir.tier": int64(0), "weir.waited": true,
	}
	if diff := cmp.Diff(want, values(s.Attributes)); diff != "" {
		t.Error(diff)
	}
	var events []map[string]any
	for _, e := range s.Events {
		events = append(events, values(e.Attributes))
	}
	if diff := cmp.Diff([]map[string]any{
		{"error.type": "overloaded", "http.response.status_code": int64(200), "weir.channel": "main", "weir.class": "overloaded", "weir.code": "2064", "weir.tier": int64(0), "weir.took": true, "weir.try": int64(1)},
		{
			"gen_ai.usage.input_tokens": int64(9), "gen_ai.usage.output_tokens": int64(3), "http.response.status_code": int64(200),
			"weir.channel": "main", "weir.class": "ok", "weir.tier": int64(0), "weir.took": true, "weir.try": int64(2),
		},
	}, events); diff != "" {
		t.Error(diff)
	}
	for _, call := range sent {
		if got, want := call.header.Get("Traceparent"), "00-"+parentID+"-"+hexOf(s.SpanId)+"-01"; got != want || call.header.Get("Tracestate") != stateOf {
			t.Errorf("the provider got %q %q, want %q %q", got, call.header.Get("Tracestate"), want, stateOf)
		}
	}
	for _, secret := range []string{secretAsk, providerKey, "client-key", "Bearer", "high load"} {
		if strings.Contains(string(c.raw), secret) {
			t.Errorf("%q came to the collector", secret)
		}
	}
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var s []byte
	for _, c := range b {
		s = append(s, digits[c>>4], digits[c&15])
	}
	return string(s)
}

// TestTracesOfOtherEnds makes calls that end in the ways that are left.
func TestTracesOfOtherEnds(t *testing.T) {
	c := newCollector(t)
	w := newWorld(t, func(n int, rw http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1:
			stream(rw, `data: {"id":"1","model":"main-model-1","choices":[{"index":0,"delta":{"content":"hi"}}]}`+"\n\n", finishFrame, usageFrame, doneFrame)
		case 2:
			say(rw, http.StatusUnauthorized, `{"error":{"message":"no such key: `+secretAsk+`","code":"invalid_api_key"}}`)
		default:
			good(rw)
		}
	}, c.use)
	w.post("/v1/chat/completions", streamBody)
	w.post("/v1/chat/completions", strings.Replace(plainBody, `"route"`, `"`+secretAsk+`"`, 1))
	w.post("/v1/embeddings", `{"model":"route","input":"`+secretAsk+`"}`)
	type end struct {
		Name, Error, Made, Code string
		Attempts                int64
	}
	var got []end
	for _, s := range c.got(w) {
		v := values(s.Attributes)
		text := func(key string) string { s, _ := v[key].(string); return s }
		n, _ := v["weir.attempts"].(int64)
		got = append(got, end{s.Name, text("error.type"), text("gen_ai.response.model"), text("weir.code"), n})
	}
	want := []end{
		{"chat route", "", "main-model-1", "", 1},
		{"chat", "invalid", "", "model_not_found", 0},
		{"embeddings route", "auth", "", "invalid_api_key", 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(string(c.raw), secretAsk) {
		t.Error("a request's text came to the collector")
	}
}

// TestTraceOfAKeptAnswer gives the second call what the first was answered.
func TestTraceOfAKeptAnswer(t *testing.T) {
	c := newCollector(t)
	w := newWorld(t, func(_ int, rw http.ResponseWriter, _ *http.Request) { good(rw) }, c.use)
	for range 2 {
		w.post("/v1/chat/completions", plainBody, "Idempotency-Key", "one")
	}
	var got []any
	for _, s := range c.got(w) {
		v := values(s.Attributes)
		got = append(got, v["weir.cache"], v["weir.attempts"])
	}
	if diff := cmp.Diff([]any{nil, int64(1), "hit", int64(0)}, got); diff != "" {
		t.Error(diff)
	}
}

// TestTraceWithoutCollector makes calls while spans reach nobody.
func TestTraceWithoutCollector(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	e := exporterTo(t, gone.URL)
	w := newWorld(t, func(_ int, rw http.ResponseWriter, _ *http.Request) { good(rw) }, func(cfg *agent.Config) { cfg.Traces = e.Provider() })
	for range 20 {
		if got := w.post("/v1/chat/completions", plainBody); got.status != http.StatusOK || got.header.Get("X-Weir-Attempts") != "1" {
			t.Fatalf("status %d after %s attempts: %s", got.status, got.header.Get("X-Weir-Attempts"), got.body)
		}
	}
}

// TestContextPasses holds what a provider gets where no spans are made.
func TestContextPasses(t *testing.T) {
	w := newWorld(t, func(_ int, rw http.ResponseWriter, _ *http.Request) { good(rw) })
	w.post("/v1/chat/completions", plainBody, "Traceparent", parentOf, "Tracestate", stateOf)
	w.post("/v1/chat/completions", plainBody, "Traceparent", "00-"+secretAsk, "Tracestate", stateOf)
	var got []string
	for _, call := range w.got() {
		got = append(got, call.header.Get("Traceparent"), call.header.Get("Tracestate"))
	}
	if diff := cmp.Diff([]string{parentOf, stateOf, "", ""}, got); diff != "" {
		t.Error(diff)
	}
}

// TestTraceOfDo makes spans of the library's calls, to which what a call does
// belongs.
func TestTraceOfDo(t *testing.T) {
	c := newCollector(t)
	w := newWorld(t, func(_ int, rw http.ResponseWriter, _ *http.Request) { good(rw) }, c.use)
	inner := c.exporter.Provider().Tracer("program")
	err := w.client.Do(t.Context(), agent.Request{Route: "route"}, func(ctx context.Context, _ *agent.Permit) model.Outcome {
		_, span := inner.Start(ctx, "inner")
		span.End()
		return model.Outcome{Class: model.ClassOK, UsageKnown: true, In: 5, Out: 7}
	})
	if err != nil {
		t.Fatal(err)
	}
	var refusal *agent.RefusedError
	if err := w.client.Do(t.Context(), agent.Request{Route: secretAsk}, nil); !errors.As(err, &refusal) {
		t.Fatalf("a route that is not there: %v", err)
	}
	spans := c.got(w)
	if len(spans) != 3 {
		t.Fatalf("%d spans, want 3", len(spans))
	}
	if string(spans[0].ParentSpanId) != string(spans[1].SpanId) || spans[1].Name != "other route" || len(spans[1].Events) != 1 {
		t.Errorf("span %v with %d events is not the parent of %v", spans[1].Name, len(spans[1].Events), spans[0].Name)
	}
	if v := values(spans[1].Attributes); v["gen_ai.usage.output_tokens"] != int64(7) || v["weir.class"] != "ok" {
		t.Errorf("attributes %v", v)
	}
	if spans[2].Name != "other" || spans[2].Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("the refused one is %q with %v", spans[2].Name, spans[2].Status)
	}
}
