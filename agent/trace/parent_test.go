package trace

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	oteltrace "go.opentelemetry.io/otel/trace"
)

const (
	goodParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	goodState  = "vendor=value"
)

func TestPassWithoutSpan(t *testing.T) {
	parent := func(p ...string) http.Header { return http.Header{"Traceparent": p, "Tracestate": {goodState}} }
	for _, tt := range []struct {
		name string
		in   http.Header
		want http.Header
	}{
		{"nothing", http.Header{"A": {"b"}}, http.Header{"A": {"b"}}},
		{"good", parent(goodParent), parent(goodParent)},
		{"parent alone", http.Header{"Traceparent": {goodParent}}, http.Header{"Traceparent": {goodParent}}},
		{"state alone", http.Header{"Tracestate": {goodState}}, http.Header{}},
		{"two parents", parent(goodParent, goodParent), http.Header{}},
		{"empty", parent(""), http.Header{}},
		{"words", parent("tell me a story"), http.Header{}},
		{"no trace", parent("00-00000000000000000000000000000000-00f067aa0ba902b7-01"), http.Header{}},
		{"no span", parent("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"), http.Header{}},
		{"capitals", parent("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"), http.Header{}},
		{"version ff", parent("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), http.Header{}},
		{"more in version 0", parent(goodParent + "-x"), http.Header{}},
		{"short", parent(goodParent[:54]), http.Header{}},
		{"malformed state", http.Header{"Traceparent": {goodParent}, "Tracestate": {"a=b=c"}}, http.Header{"Traceparent": {goodParent}}},
		{"state in parts", http.Header{"Traceparent": {goodParent}, "Tracestate": {"a=1", "b=2"}}, http.Header{"Traceparent": {goodParent}, "Tracestate": {"a=1", "b=2"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			(*Span)(nil).Pass(tt.in)
			if diff := cmp.Diff(tt.want, tt.in); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNothingCostsNothing holds a call without spans to no allocation at all.
func TestNothingCostsNothing(t *testing.T) {
	tracer, h, ctx := New(nil), http.Header{"Content-Type": {"application/json"}}, context.Background()
	came := time.Now()
	n := testing.AllocsPerRun(100, func() {
		s := tracer.Start(ctx, h, came)
		s.Pass(h)
		if s.Recording() || s.Context(ctx) != ctx {
			t.Fatal("there is a span")
		}
		s.Attempt(Attempt{Channel: "main", Sent: came})
		s.End(Result{Route: "route"})
	})
	if n != 0 {
		t.Errorf("%v allocations for a call, want none", n)
	}
}

// TestParentIsTheCallers takes a span of the program before that of a header.
func TestParentIsTheCallers(t *testing.T) {
	out := &keeper{}
	e := export(Options{}, out)
	own, span := e.Provider().Tracer("program").Start(context.Background(), "own")
	h := http.Header{"Traceparent": {goodParent}}
	tracer := New(e.Provider())
	tracer.Start(own, h, time.Now()).End(Result{})
	tracer.Start(context.Background(), h, time.Now()).End(Result{})
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := out.all()
	if len(spans) != 2 {
		t.Fatalf("%d spans, want 2", len(spans))
	}
	if got, want := spans[0].Parent().SpanID(), span.SpanContext().SpanID(); got != want {
		t.Errorf("parent %s, want the program's %s", got, want)
	}
	if got, want := spans[1].Parent().SpanID(), (oteltrace.SpanID{0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7}); got != want {
		t.Errorf("parent %s, want the header's %s", got, want)
	}
}
