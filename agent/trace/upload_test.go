package trace

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"google.golang.org/protobuf/encoding/protowire"
)

func TestUpload(t *testing.T) {
	partial := protowire.AppendTag(nil, 1, protowire.VarintType)
	partial = protowire.AppendVarint(partial, 7)
	reply := protowire.AppendTag(nil, 1, protowire.BytesType)
	reply = protowire.AppendBytes(reply, partial)
	for _, tt := range []struct {
		name     string
		status   int
		header   string
		reply    []byte
		later    bool
		after    time.Duration
		failed   bool
		rejected uint64
	}{
		{name: "taken", status: 200},
		{name: "taken in part", status: 200, reply: reply, rejected: 7},
		{name: "nonsense", status: 200, reply: []byte("\xff\xff\xff"), rejected: 0},
		{name: "busy", status: 503, header: "7", later: true, after: 7 * time.Second, failed: true},
		{name: "too many", status: 429, header: "soon", later: true, failed: true},
		{name: "for ever", status: 429, header: "999999999999", later: true, after: time.Hour, failed: true},
		{name: "wrong", status: 400, failed: true},
		{name: "elsewhere", status: 307, failed: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				if r.Header.Get("X-Token") != "secret" {
					t.Error("the header is missing")
				}
				w.Header().Set("Location", "/elsewhere")
				w.Header().Set("Retry-After", tt.header)
				w.WriteHeader(tt.status)
				_, _ = w.Write(tt.reply)
			}))
			defer server.Close()
			set := metrics.NewSet()
			up, err := newUpload(server.URL, map[string]string{"X-Token": "secret"}, set)
			if err != nil {
				t.Fatal(err)
			}
			err = up.UploadTraces(t.Context(), nil)
			var later *laterError
			if errors.As(err, &later) != tt.later || (err != nil) != tt.failed {
				t.Fatalf("error %v, want failed %v, later %v", err, tt.failed, tt.later)
			}
			if tt.later && later.after != tt.after {
				t.Errorf("after %v, want %v", later.after, tt.after)
			}
			if got := count(t, set, "rejected"); got != tt.rejected || calls != 1 {
				t.Errorf("%d rejected in %d calls, want %d in 1", got, calls, tt.rejected)
			}
		})
	}
}

func TestEndpoint(t *testing.T) {
	for in, want := range map[string]string{
		"http://127.0.0.1:4318":     "http://127.0.0.1:4318/v1/traces",
		"https://a.example/otlp/":   "https://a.example/otlp/v1/traces",
		"127.0.0.1:4318":            "",
		"grpc://127.0.0.1:4317":     "",
		"http://user:pass@a.b:4318": "",
		"http://a.b:4318?key=x":     "",
		"":                          "",
	} {
		if got, err := Endpoint(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
}
