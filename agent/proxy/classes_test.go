package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir/agent"
	"weir/model"
)

// refusal is one kind of trouble as each API writes it.
type refusal struct {
	class          model.Class
	status         int // of the client's answer when all attempts failed
	openai         string
	anthropic      string
	again          bool // another attempt may be made
	kind, anthKind string
}

func refusals() []refusal {
	return []refusal{
		{model.ClassRateLimited, 429, `{"message":"Rate limit reached on requests per min","type":"requests","code":"rate_limit_exceeded"}`, `{"type":"rate_limit_error","message":"Number of requests exceeds your rate limit"}`, true, "rate_limit_error", "rate_limit_error"},
		{model.ClassOverloaded, 503, `{"message":"The server is overloaded","type":"server_error","code":"server_is_overloaded"}`, `{"type":"overloaded_error","message":"Overloaded"}`, true, "server_error", "overloaded_error"},
		{model.ClassQuotaExhausted, 429, `{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}`, `{"type":"billing_error","message":"Your credit balance is too low"}`, false, "insufficient_quota", "rate_limit_error"},
		{model.ClassAuth, 503, `{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}`, `{"type":"authentication_error","message":"invalid x-api-key"}`, false, "server_error", "api_error"},
		{model.ClassInvalid, 400, `{"message":"maximum context length exceeded","type":"invalid_request_error","code":"context_length_exceeded"}`, `{"type":"invalid_request_error","message":"prompt is too long"}`, false, "invalid_request_error", "invalid_request_error"},
	}
}

// envelope writes a refusal as a body, or as an event of a stream.
func (r refusal) envelope(path string, asEvent bool) string {
	switch {
	case path == "/v1/messages" && asEvent:
		return event(`{"type":"error","error":` + r.anthropic + `}`)
	case path == "/v1/messages":
		return `{"type":"error","error":` + r.anthropic + `}`
	case path == "/v1/responses" && asEvent:
		return event(`{"type":"response.failed","response":{"id":"r","object":"response","status":"failed","error":` + r.openai + `,"output":[]}}`)
	case asEvent:
		return `data: {"error":` + r.openai + `}` + "\n\n"
	}
	return `{"error":` + r.openai + `}`
}

// TestClassesOfEveryAPI puts each kind of trouble into a body that promised
// success, into the first event of a stream and into its middle, in each API:
// it is known for what it is, made again only where that can help, and told to
// the client with the status, the type and the class of its kind.
func TestClassesOfEveryAPI(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses"} {
		for _, r := range refusals() {
			for _, at := range []string{"body", "first event", "mid-stream"} {
				t.Run(fmt.Sprint(strings.TrimPrefix(path, "/v1/"), " ", r.class, " ", at), func(t *testing.T) {
					t.Parallel()
					playClass(t, path, r, at)
				})
			}
		}
	}
}

func playClass(t *testing.T, path string, r refusal, at string) {
	s := shapeOf(path)
	seen := make(chan struct{}) // the client has its first byte
	w := newWorld(t, func(_ int, w http.ResponseWriter, req *http.Request) {
		switch at {
		case "body":
			say(w, 200, r.envelope(path, false))
		case "first event":
			stream(w, slices.Concat(s.start, []string{r.envelope(path, true)})...)
		default:
			stream(w, slices.Concat(s.start, s.delta)...)
			select {
			case <-seen:
			case <-req.Context().Done():
			}
			more(w, r.envelope(path, true))
		}
	}, func(c *agent.Config) {
		c.Fleet.Channels[0].Provider = ""
		c.Fleet.Retry.MaxAttempts = 2
	})
	w.earn(4)
	got := w.watch(w.request(t.Context(), path, `{"model":"route","max_tokens":40,"messages":[],"input":"x","stream":`+fmt.Sprint(at != "body")+`}`), seen)
	attempts := 1
	if at == "mid-stream" {
		if got.status != 200 || !strings.HasSuffix(got.body, r.envelope(path, true)) || got.err != nil {
			t.Errorf("status %d, %q, %v", got.status, got.body, got.err)
		}
	} else {
		kind := r.kind
		if path == "/v1/messages" {
			kind = r.anthKind
		}
		e := errorOf(t, got)
		if got.status != r.status || e.Type != kind || e.Weir.Class != r.class.String() || e.Weir.Channel != "main" || e.Code == "" || e.Message == "" || got.header.Get("X-Should-Retry") != "false" {
			t.Errorf("status %d, %v, %s", got.status, got.header, got.body)
		}
		if r.again {
			attempts = 2
		}
	}
	all := w.attempts()
	if len(all) != attempts {
		t.Errorf("%d attempts are reported, want %d", len(all), attempts)
	}
	for _, a := range all {
		if a.Class != r.class || a.Rule == "" {
			t.Errorf("reported %+v, want %v", a, r.class)
		}
	}
}
