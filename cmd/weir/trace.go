package main

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"
	oteltrace "go.opentelemetry.io/otel/trace"

	"weir/agent/trace"
)

// lastSpansWithin bounds the wait for a collector at the end.
const lastSpansWithin = 2 * time.Second

// traces starts what sends spans to the collector that the file or the
// environment names, nil for none. What is wrong in the environment is told
// and no reason not to start: it may be meant for other programs.
func (p *agentProcess) traces(id string, set *metrics.Set) oteltrace.TracerProvider {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil
	}
	to, err := collector(p.file.Agent.Traces, os.Getenv)
	if to == "" && err == nil {
		return nil
	}
	if err == nil {
		p.spans, err = trace.Export(trace.Options{
			URL: to, Headers: collectorHeaders(os.Getenv), Agent: id, Version: version(), Metrics: set, Log: p.log,
		})
	}
	if err != nil {
		p.log.Warn("no spans are made: the collector's address in the environment is unfit", slog.Any("error", err))
		return nil
	}
	p.log.Info("spans of calls go to a collector", slog.String("url", to))
	return p.spans.Provider()
}

// collector returns the URL for traces: the file's endpoint, or else what the
// variables of OpenTelemetry say; empty for none.
func collector(endpoint string, env func(string) string) (string, error) {
	if endpoint == "" {
		if env("OTEL_TRACES_EXPORTER") == "none" {
			return "", nil
		}
		if own := env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); own != "" {
			return own, trace.CheckURL(own)
		}
		endpoint = env("OTEL_EXPORTER_OTLP_ENDPOINT")
	}
	if endpoint == "" {
		return "", nil
	}
	return trace.Endpoint(endpoint)
}

// collectorHeaders reads what a collector wants to be shown: name=value with
// commas between, values as in URLs. What is malformed is left out.
func collectorHeaders(env func(string) string) map[string]string {
	headers := map[string]string{}
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for pair := range strings.SplitSeq(env(variable), ",") {
			name, raw, ok := strings.Cut(pair, "=")
			value, err := url.PathUnescape(strings.TrimSpace(raw))
			if name = strings.TrimSpace(name); ok && err == nil && name != "" {
				headers[name] = value
			}
		}
	}
	return headers
}

// lastSpans sends the spans that are left, and ends.
func (p *agentProcess) lastSpans() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), lastSpansWithin)
	defer cancel()
	if err := p.spans.Close(ctx); err != nil {
		p.log.Warn("spans are lost", slog.Any("error", err))
	}
}
