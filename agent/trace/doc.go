// Package trace makes one OpenTelemetry span of each request, with its attempts
// as events, passes W3C trace contexts on, and sends spans to a collector.
//
// A span holds the names of the GenAI semantic conventions (those of release
// 1.41, the last that OpenTelemetry's Go module has) and attributes of the same
// facts that the log gets: channel, route, tier, class, code, times. It never
// holds a prompt, an answer or a key, nor any text of a request but the route
// that it named.
//
// Tracer and Span are nil where no spans are made, and then cost nothing.
// Tracer works with any provider of OpenTelemetry; an Exporter is one that
// brings its own queue and way to a collector: OTLP in protobuf over HTTP, on a
// goroutine of its own that no call waits for: a span that finds the queue full
// is dropped and counted. The OTLP exporter of OpenTelemetry is not used, for it
// links gRPC; only its translation is.
package trace
