package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	// sendWithin bounds one try to send a batch.
	sendWithin = 10 * time.Second
	// maxReply bounds what is read of a collector's answer, in bytes.
	maxReply = 64 << 10
)

// Endpoint returns the URL of a collector's traces for its base address, such
// as http://127.0.0.1:4318.
func Endpoint(base string) (string, error) {
	if err := CheckURL(base); err != nil {
		return "", err
	}
	return strings.TrimSuffix(base, "/") + "/v1/traces", nil
}

// CheckURL returns what is wrong with a collector's URL. The text does not
// show it, for it may hold a secret.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must be http:// or https:// with a host, such as http://127.0.0.1:4318")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("must have neither user, query nor fragment; secrets go into OTEL_EXPORTER_OTLP_HEADERS")
	}
	return nil
}

// laterError says that the same batch may be taken later.
type laterError struct {
	err   error
	after time.Duration // at least; 0 where the collector does not say
}

// Error implements error.
func (e *laterError) Error() string { return e.err.Error() }

func (e *laterError) Unwrap() error { return e.err }

// upload is the client of OTLP over HTTP.
type upload struct {
	url      string
	headers  map[string]string
	http     http.Client
	rejected *metrics.Counter
}

func newUpload(to string, headers map[string]string, set *metrics.Set) (*upload, error) {
	if err := CheckURL(to); err != nil {
		return nil, fmt.Errorf("collector's URL: %w", err)
	}
	return &upload{
		url: to, headers: headers, rejected: set.GetOrCreateCounter(`weir_trace_spans_total{result="rejected"}`),
		http: http.Client{
			Timeout:       sendWithin,
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // headers stay with the one that was named
		},
	}, nil
}

// Start implements Client of otlptrace.
func (u *upload) Start(context.Context) error { return nil }

// Stop implements Client of otlptrace.
func (u *upload) Stop(context.Context) error {
	u.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements Client of otlptrace.
func (u *upload) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// On the wire a request to export is the same as the data it holds.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	for name, value := range u.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "weir")
	resp, err := u.http.Do(req)
	if err != nil {
		return &laterError{err: fmt.Errorf("send spans: %w", err)}
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	reply, _ := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if resp.StatusCode/100 == 2 {
		u.rejected.AddInt64(refused(reply))
		return nil
	}
	err = fmt.Errorf("send spans: the collector answers with status %d", resp.StatusCode)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return &laterError{err, time.Duration(min(max(0, seconds), 3600)) * time.Second}
	}
	return err
}

// refused reads from an answer how many spans the collector did not take: field
// 1 of the message in its field 1.
func refused(reply []byte) int64 {
	partial := field(reply, 1, protowire.BytesType)
	inner, n := protowire.ConsumeBytes(partial)
	if n < 0 {
		return 0
	}
	count := field(inner, 1, protowire.VarintType)
	v, n := protowire.ConsumeVarint(count)
	if n < 0 {
		return 0
	}
	return max(0, int64(v))
}

// field returns what stands from the value of the first field of that number
// and type on, nil where there is none.
func field(b []byte, number protowire.Number, kind protowire.Type) []byte {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		if b = b[n:]; num == number && typ == kind {
			return b
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return nil
		}
		b = b[n:]
	}
	return nil
}
