package trace

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// The headers of a W3C trace context, in canonical form.
const (
	headerParent = "Traceparent"
	headerState  = "Tracestate"
)

// remote returns the trace context that a request's headers carry, an invalid
// one where they carry none or a malformed one.
func remote(h http.Header) oteltrace.SpanContext {
	parents := h[headerParent]
	if len(parents) != 1 {
		return oteltrace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": parents[0], "tracestate": strings.Join(h[headerState], ",")}
	return oteltrace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// Pass makes the trace context in the headers of a request to a provider the
// one that its call belongs to: the span's, or without a span the one that
// came, unless it is malformed.
func (s *Span) Pass(h http.Header) {
	if s != nil {
		delete(h, headerState)
		propagation.TraceContext{}.Inject(s.ctx, propagation.HeaderCarrier(h))
		return
	}
	if len(h[headerParent]) == 0 && len(h[headerState]) == 0 {
		return
	}
	switch came := remote(h); {
	case !came.IsValid():
		delete(h, headerParent)
		delete(h, headerState)
	case came.TraceState().Len() == 0:
		delete(h, headerState)
	}
}
