package trace

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	oteltrace "go.opentelemetry.io/otel/trace"

	"weir/model"
)

// scope is the instrumentation scope of all spans.
const scope = "weir/agent"

// The attributes that no convention has a name for.
const (
	keyRequest  = attribute.Key("weir.request") // the id that clients see, in hex
	keyChannel  = attribute.Key("weir.channel") // of the last attempt
	keyRoute    = attribute.Key("weir.route")
	keyTier     = attribute.Key("weir.tier")   // 0 is the main one
	keyClass    = attribute.Key("weir.class")  // what became of it
	keyCode     = attribute.Key("weir.code")   // the provider's, or the sidecar's own for a refusal
	keyWaited   = attribute.Key("weir.waited") // for a slot, in seconds
	keyDegraded = attribute.Key("weir.degraded")
	keyAttempts = attribute.Key("weir.attempts")
	keyCache    = attribute.Key("weir.cache") // hit or similar
	keyTry      = attribute.Key("weir.try")   // from 1
	keyTook     = attribute.Key("weir.took")  // of an attempt, in seconds
	keyStatus   = attribute.Key("http.response.status_code")
)

// attemptEvent is the name of an attempt's event, whose time is when it was
// sent.
const attemptEvent = "weir.attempt"

// Tracer makes spans; a nil one makes none.
type Tracer struct{ tracer oteltrace.Tracer }

// New returns a tracer whose spans p makes, nil for a nil p.
func New(p oteltrace.TracerProvider) *Tracer {
	if p == nil {
		return nil
	}
	return &Tracer{p.Tracer(scope, oteltrace.WithSchemaURL(semconv.SchemaURL))}
}

// Start begins the span of a request that came at that time. Its parent is the
// span in ctx, or else the one that the headers name, which may be nil.
func (t *Tracer) Start(ctx context.Context, h http.Header, came time.Time) *Span {
	if t == nil {
		return nil
	}
	if !oteltrace.SpanContextFromContext(ctx).IsValid() {
		ctx = oteltrace.ContextWithRemoteSpanContext(ctx, remote(h))
	}
	s := &Span{}
	s.ctx, s.span = t.tracer.Start(ctx, "request", oteltrace.WithTimestamp(came), oteltrace.WithSpanKind(oteltrace.SpanKindClient))
	return s
}

// Span is one request; a nil one holds nothing.
type Span struct {
	ctx   context.Context
	span  oteltrace.Span
	ended atomic.Bool
}

// Context returns ctx with the span, so that what is made of it belongs to it.
func (s *Span) Context(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	return oteltrace.ContextWithSpan(ctx, s.span)
}

// Recording reports whether what is told to the span comes to be seen.
func (s *Span) Recording() bool { return s != nil && s.span.IsRecording() }

// Attempt is one try of a request.
type Attempt struct {
	Channel   string
	Tier, Try int
	Degraded  bool
	Sent      time.Time
	Outcome   model.Outcome
}

// Attempt notes an attempt that ended now.
func (s *Span) Attempt(a Attempt) {
	if !s.Recording() {
		return
	}
	o := &a.Outcome
	set := append(make([]attribute.KeyValue, 0, 12), keyChannel.String(a.Channel), keyTier.Int(a.Tier), keyTry.Int(a.Try),
		keyClass.String(o.Class.String()), keyTook.Float64(time.Since(a.Sent).Seconds()))
	if o.Code != "" {
		set = append(set, keyCode.String(o.Code))
	}
	if o.Status != 0 {
		set = append(set, keyStatus.Int(int(o.Status)))
	}
	if a.Degraded {
		set = append(set, keyDegraded.Bool(true))
	}
	if o.Class != model.ClassOK {
		set = append(set, semconv.ErrorTypeKey.String(o.Class.String()))
	}
	s.span.AddEvent(attemptEvent, oteltrace.WithTimestamp(a.Sent), oteltrace.WithAttributes(usage(set, o)...))
}

// Result is what became of a request.
type Result struct {
	// Request is its id as clients see it, Operation what the API calls it.
	Request, Operation string
	// Route is what was asked for, empty where the fleet has no such route.
	Route string
	// Model is what the last attempt's channel calls it, Provider whose rules
	// judged it, Made the model that says it made the answer.
	Model, Provider, Made string
	Stream                bool
	// Channel is where the last attempt was made, empty for none.
	Channel  string
	Tier     int
	Degraded bool
	Waited   time.Duration
	Attempts int
	// Cache says that a kept answer was given: hit or similar.
	Cache string
	// Answered is set where the client got an answer, be it a fixed one.
	Answered bool
	// Outcome is the last attempt's or, without one, class and code of the
	// refusal.
	Outcome model.Outcome
}

// End ends the span; what comes later changes nothing.
func (s *Span) End(r Result) {
	if s == nil || !s.ended.CompareAndSwap(false, true) {
		return
	}
	defer s.span.End()
	if !s.span.IsRecording() {
		return
	}
	s.span.SetName(strings.TrimSuffix(r.Operation+" "+r.Route, " "))
	if !r.Answered {
		s.span.SetStatus(codes.Error, r.Outcome.Class.String())
	}
	s.span.SetAttributes(r.attributes()...)
}

func (r *Result) attributes() []attribute.KeyValue {
	o := &r.Outcome
	set := append(make([]attribute.KeyValue, 0, 24), semconv.GenAIOperationNameKey.String(r.Operation),
		keyClass.String(o.Class.String()), keyAttempts.Int(r.Attempts), keyWaited.Float64(r.Waited.Seconds()), keyDegraded.Bool(r.Degraded))
	for _, text := range []struct {
		key   attribute.Key
		value string
	}{
		{keyRequest, r.Request},
		{keyRoute, r.Route},
		{keyChannel, r.Channel},
		{keyCode, o.Code},
		{keyCache, r.Cache},
		{semconv.GenAIRequestModelKey, r.Model},
		{semconv.GenAIResponseModelKey, r.Made},
		{semconv.GenAIProviderNameKey, provider(r.Provider)},
	} {
		if text.value != "" {
			set = append(set, text.key.String(text.value))
		}
	}
	if r.Stream {
		set = append(set, semconv.GenAIRequestStreamKey.Bool(true))
	}
	if r.Channel != "" || r.Degraded {
		set = append(set, keyTier.Int(r.Tier))
	}
	if o.Status != 0 {
		set = append(set, keyStatus.Int(int(o.Status)))
	}
	if !r.Answered {
		set = append(set, semconv.ErrorTypeKey.String(o.Class.String()))
	}
	return usage(set, o)
}

// usage adds the tokens that a provider said it counted.
func usage(set []attribute.KeyValue, o *model.Outcome) []attribute.KeyValue {
	if !o.UsageKnown || o.In+o.Out == 0 {
		return set
	}
	set = append(set, semconv.GenAIUsageInputTokensKey.Int64(int64(o.In)), semconv.GenAIUsageOutputTokensKey.Int64(int64(o.Out)))
	if o.Cached > 0 {
		set = append(set, semconv.GenAIUsageCacheReadInputTokensKey.Int64(int64(o.Cached)))
	}
	return set
}

// provider is the convention's word for the provider of a channel; one that it
// has none for stays what it is.
func provider(name string) string {
	switch low := strings.ToLower(name); low {
	case "google", "gemini":
		return semconv.GenAIProviderNameGCPGemini.Value.AsString()
	case "vertex":
		return semconv.GenAIProviderNameGCPVertexAI.Value.AsString()
	case "azure":
		return semconv.GenAIProviderNameAzureAIOpenAI.Value.AsString()
	case "bedrock", "aws":
		return semconv.GenAIProviderNameAWSBedrock.Value.AsString()
	case "mistral":
		return semconv.GenAIProviderNameMistralAI.Value.AsString()
	case "xai", "grok":
		return semconv.GenAIProviderNameXAI.Value.AsString()
	default:
		return low
	}
}
