package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	oteltrace "go.opentelemetry.io/otel/trace"
)

const (
	// queueSize is how many ended spans may wait, batchSize how many are sent
	// at once; a span takes some kilobytes.
	queueSize = 2048
	batchSize = 512
	// gather is how long a span waits for others to be sent with.
	gather = 2 * time.Second
	// firstWait and lastWait bound the wait before a batch is sent again, and
	// maxTries how often it is.
	firstWait = time.Second
	lastWait  = 30 * time.Second
	maxTries  = 5
	// quiet is the least time between two lines of the log on one trouble.
	quiet = 10 * time.Minute
	// longestValue bounds the text of an attribute, in bytes.
	longestValue = 256
)

// Options say where spans go.
type Options struct {
	// URL is the collector's, with its path, such as
	// http://127.0.0.1:4318/v1/traces; see Endpoint.
	URL string
	// Headers are sent with every batch; they may hold a secret.
	Headers map[string]string
	// Agent is the process's id in the fleet, Version its software's.
	Agent, Version string
	// Metrics takes the exporter's; nil drops them. Log takes its trouble, at
	// most every ten minutes; nil drops it.
	Metrics *metrics.Set
	Log     *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Exporter sends spans to a collector. It samples as the variables
// OTEL_TRACES_SAMPLER and _ARG say, otherwise as a span's parent was.
type Exporter struct {
	provider *sdktrace.TracerProvider
	out      sdktrace.SpanExporter
	log      *slog.Logger
	sent     *metrics.Counter
	dropped  *metrics.Counter // they found the queue full
	failed   *metrics.Counter // the collector did not take them

	queue chan sdktrace.ReadOnlySpan
	end   chan struct{} // closed to send what there is and end
	once  sync.Once
	done  chan struct{}
	ctx   context.Context
	stop  context.CancelFunc

	told    time.Time // when trouble was logged last
	trouble bool
}

// Export starts an exporter, which belongs to the caller until Close.
func Export(o Options) (*Exporter, error) {
	o = o.withDefaults()
	up, err := newUpload(o.URL, o.Headers, o.Metrics)
	if err != nil {
		return nil, err
	}
	return export(o, otlptrace.NewUnstarted(up)), nil
}

func export(o Options, out sdktrace.SpanExporter) *Exporter {
	o = o.withDefaults()
	e := &Exporter{
		out: out, log: o.Log, queue: make(chan sdktrace.ReadOnlySpan, queueSize), end: make(chan struct{}), done: make(chan struct{}),
		sent:    o.Metrics.GetOrCreateCounter(`weir_trace_spans_total{result="sent"}`),
		dropped: o.Metrics.GetOrCreateCounter(`weir_trace_spans_total{result="dropped"}`),
		failed:  o.Metrics.GetOrCreateCounter(`weir_trace_spans_total{result="failed"}`),
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = longestValue
	e.provider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(e), sdktrace.WithResource(about(o)), sdktrace.WithRawSpanLimits(limits))
	e.ctx, e.stop = context.WithCancel(context.Background())
	go e.run()
	return e
}

// about says which process the spans are of. OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES overrule it; what is malformed in them is left out.
func about(o Options) *resource.Resource {
	r, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(
		semconv.ServiceName("weir-agent"), semconv.ServiceVersion(o.Version), semconv.ServiceInstanceID(o.Agent),
	), resource.WithFromEnv())
	if err != nil {
		o.Log.Warn("what the environment says about this service is not whole", slog.Any("error", err))
	}
	return r
}

// Provider makes the spans that are sent.
func (e *Exporter) Provider() oteltrace.TracerProvider { return e.provider }

// OnStart implements SpanProcessor of OpenTelemetry.
func (e *Exporter) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements SpanProcessor of OpenTelemetry. It never waits.
func (e *Exporter) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	select {
	case e.queue <- s:
	default:
		e.dropped.Inc()
	}
}

// ForceFlush implements SpanProcessor of OpenTelemetry. Nobody waits for spans
// before Close.
func (e *Exporter) ForceFlush(context.Context) error { return nil }

// Shutdown implements SpanProcessor of OpenTelemetry, as Close does.
func (e *Exporter) Shutdown(ctx context.Context) error { return e.Close(ctx) }

// Close sends what there is, once, and ends; when ctx ends first, the rest is
// lost and ctx's error returned.
func (e *Exporter) Close(ctx context.Context) error {
	e.once.Do(func() { close(e.end) })
	defer e.stop()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		e.stop()
		<-e.done
		return fmt.Errorf("send the last spans: %w", ctx.Err())
	}
}

// run sends batches until the end.
func (e *Exporter) run() {
	defer close(e.done)
	batch := make([]sdktrace.ReadOnlySpan, 0, batchSize)
	for {
		batch = e.gather(batch[:0])
		if len(batch) == 0 {
			return // only at the end
		}
		e.send(batch)
		clear(batch)
	}
}

// gather waits for the next batch, at the end only for what there is.
func (e *Exporter) gather(batch []sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	select {
	case s := <-e.queue:
		batch = append(batch, s)
	case <-e.end:
		return e.drain(batch)
	}
	late := time.NewTimer(gather)
	defer late.Stop()
	for len(batch) < batchSize {
		select {
		case s := <-e.queue:
			batch = append(batch, s)
		case <-late.C:
			return batch
		case <-e.end:
			return e.drain(batch)
		}
	}
	return batch
}

func (e *Exporter) drain(batch []sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	for len(batch) < batchSize {
		select {
		case s := <-e.queue:
			batch = append(batch, s)
		default:
			return batch
		}
	}
	return batch
}

// send sends a batch, again and again while that may help.
func (e *Exporter) send(batch []sdktrace.ReadOnlySpan) {
	wait := firstWait
	for try := 1; ; try++ {
		err := e.out.ExportSpans(e.ctx, batch)
		if err == nil {
			e.sent.Add(len(batch))
			e.well()
			return
		}
		e.say(err)
		var later *laterError
		if !errors.As(err, &later) || try == maxTries || !e.pause(min(max(wait, later.after), lastWait)) {
			e.failed.Add(len(batch))
			return
		}
		wait *= 2
	}
}

// pause waits; it reports false once the exporter is to end.
func (e *Exporter) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-e.end:
	case <-e.ctx.Done():
	}
	return false
}

func (e *Exporter) say(err error) {
	if e.trouble = true; !e.told.IsZero() && time.Since(e.told) < quiet {
		return
	}
	e.told = time.Now()
	e.log.Warn("spans do not reach the collector; calls go on", slog.Any("error", err))
}

func (e *Exporter) well() {
	if e.trouble {
		e.trouble = false
		e.log.Info("spans reach the collector again")
	}
}
