package load

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name, want string
		status     int
		stream     bool
		body       string
	}{
		{"good", "", 200, false, good},
		{"minimax envelope in a 200", "2064", 200, false, `{"base_resp":{"status_code":2064,"status_msg":"busy"}}`},
		{"minimax good", "", 200, false, `{"choices":[{}],"base_resp":{"status_code":0}}`},
		{"openai code", "rate_limit_exceeded", 429, false, `{"error":{"code":"rate_limit_exceeded","type":"requests"}}`},
		{"openai type", "server_error", 500, false, `{"error":{"code":null,"type":"server_error"}}`},
		{"null error", "", 200, false, `{"choices":[{}],"error":null}`},
		{"gemini", "RESOURCE_EXHAUSTED", 429, false, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}`},
		{"anthropic", "overloaded_error", 529, false, `{"type":"error","error":{"type":"overloaded_error"}}`},
		{"flat", "busy", 503, false, `{"code":"busy","message":"later"}`},
		{"error text", "no", 400, false, `{"error":"no"}`},
		{"page of a gateway", "http_502", 502, false, `<html>`},
		{"page in a 200", "not_json", 200, false, `<html>`},
		{"nothing chosen", "empty", 200, false, `{}`},
		{"stream", "", 200, true, "data: {\"choices\":[{\"delta\":{}}]}\n\ndata: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"},
		{"stream cut", "broken", 200, true, "data: {\"choices\":[{\"delta\":{}}]}\n\n"},
		{"stream with a fault", "2064", 200, true, "data: {\"base_resp\":{\"status_code\":2064}}\n\n"},
		{"stream of noise", "not_json", 200, true, ": hello\n\ndata: ?\n\n"},
	} {
		resp := &http.Response{StatusCode: c.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(c.body))}
		if c.stream {
			resp.Header.Set("Content-Type", "text/event-stream")
		}
		if got := judge(resp); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestJudgeBoundsWhatItReads(t *testing.T) {
	endless := io.NopCloser(io.MultiReader(strings.NewReader(`"`), zeros{}))
	if got := judge(&http.Response{StatusCode: 200, Header: http.Header{}, Body: endless}); got != "too_long" {
		t.Errorf("got %q for an endless answer, want too_long", got)
	}
	torn := io.NopCloser(io.MultiReader(strings.NewReader(`{"choices"`), failing{}))
	if got := judge(&http.Response{StatusCode: 200, Header: http.Header{}, Body: torn}); got != "broken" {
		t.Errorf("got %q for a torn answer, want broken", got)
	}
	long := `{"error":{"code":"` + strings.Repeat("x", 1000) + `"}}`
	if got := judge(&http.Response{StatusCode: 400, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(long))}); len(got) > 40 {
		t.Errorf("a code of %d bytes was kept", len(got))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("torn") }
