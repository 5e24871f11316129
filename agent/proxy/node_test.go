package proxy

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/agent"
	"weir/model"
)

const nodeFolder = "../../cmd/weir/sdktest"

// told is what a script in nodeFolder prints of one call.
type told struct {
	OK    any
	Error string
	API   bool `json:"is_api_error"`

	Status              int
	Code, Type, Message string
	Class               string
	RequestID           string `json:"request_id"`
	RetryAfter          string `json:"retry_after"`
}

// node runs a script against a proxy whose provider does what it is asked.
func node(t *testing.T, script string) (map[string]told, *prompted) {
	t.Helper()
	bin, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node on this machine")
	}
	if _, err := os.Stat(nodeFolder + "/node_modules/openai"); err != nil {
		t.Skip("the SDKs are not installed: npm ci --prefix cmd/weir/sdktest")
	}
	p := newPrompted(t)
	w := newWorld(t, p.serve, func(c *agent.Config) {
		c.Fleet.Channels[0].Provider = ""
		c.Fleet.Retry.MaxAttempts = 2
		troubled(c)
	})
	cmd := exec.CommandContext(t.Context(), bin, script, w.server.URL+"/v1")
	cmd.Dir = nodeFolder
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var got map[string]told
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return got, p
}

// troubled adds routes of their own for what makes trouble, all to the same
// provider: a refusal must not close the channel of the next call.
func troubled(c *agent.Config) {
	for _, name := range []string{"rate", "quota", "auth", "invalid", "overloaded", "hidden", "reset", "late-error", "breaks", "silent"} {
		for _, name := range []string{name, name + "-streamed"} {
			c.Fleet.Channels = append(c.Fleet.Channels, model.ChannelConfig{Name: name, Model: "m", Alone: 8})
			c.Fleet.Routes = append(c.Fleet.Routes, model.RouteConfig{
				Name: "route-" + name, DegradeCore: -1, Tiers: []model.TierConfig{{Channels: []model.WeightedChannel{{Channel: name, Weight: 1}}}},
			})
			c.Upstreams[name] = c.Upstreams["main"]
		}
	}
}

// wantAborted waits for the provider to see that its callers left.
func (p *prompted) wantAborted(t *testing.T, want ...string) {
	t.Helper()
	for range want {
		select {
		case got := <-p.left:
			if !strings.Contains(strings.Join(want, ","), got) {
				t.Errorf("a caller left %q", got)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the provider still works for callers that left")
		}
	}
}

// wantTold compares what an SDK made of an answer with what it should.
func wantTold(t *testing.T, got map[string]told, want map[string]told) {
	t.Helper()
	for name, w := range want {
		g, ok := got[name]
		switch {
		case !ok:
			t.Errorf("%s: nothing is said of it", name)
		case w.OK != nil:
			if g.OK != w.OK {
				t.Errorf("%s: got %+v, want %v", name, g, w.OK)
			}
		case g.Error != w.Error || g.Status != w.Status || g.Code != w.Code || g.Type != w.Type || g.Class != w.Class || !strings.Contains(g.Message, w.Message) || g.API != (w.Error != "DOMException"):
			t.Errorf("%s:\n got %+v\nwant %+v", name, g, w)
		case (g.Status == 429 || g.Status == 503) && (g.RetryAfter == "" || g.RequestID == ""):
			t.Errorf("%s: no Retry-After or request id: %+v", name, g)
		}
	}
}

// TestOpenAIForJavaScript holds what the official SDK makes of everything that
// may happen: its own errors with the right fields, and no repeats of its own.
func TestOpenAIForJavaScript(t *testing.T) {
	got, p := node(t, "openai.mjs")
	want := map[string]told{
		"plain": {OK: "hi"}, "stream": {OK: "hi"}, "tools": {OK: `{"city":"Oslo"}`}, "tools streamed": {OK: `{"city":"Oslo"}`},
		"embeddings": {OK: 3.0}, "responses": {OK: "hi"}, "responses streamed": {OK: "hi"}, "file": {OK: "file-1"}, "abort": {OK: "aborted"},
		"missing":         {Error: "NotFoundError", Status: 404, Code: "model_not_found", Type: "invalid_request_error", Class: "invalid", Message: "no-such-route"},
		"late error":      {Error: "APIError", Code: "2064", Type: "server_error", Message: "high load"},
		"breaks":          {Error: "APIError", Code: "upstream_unreachable", Type: "server_error", Class: "transport", Message: "broke off"},
		"responses break": {Error: "APIError", Code: "upstream_unreachable", Type: "server_error", Class: "transport", Message: "broke off"},
		"timeout":         {Error: "APIConnectionTimeoutError"},
	}
	for name, w := range map[string]told{
		"rate":       {Error: "RateLimitError", Status: 429, Code: "rate_limit_exceeded", Type: "rate_limit_error", Class: "rate_limited"},
		"quota":      {Error: "RateLimitError", Status: 429, Code: "insufficient_quota", Type: "insufficient_quota", Class: "quota_exhausted"},
		"auth":       {Error: "InternalServerError", Status: 503, Code: "invalid_api_key", Type: "server_error", Class: "auth"},
		"invalid":    {Error: "BadRequestError", Status: 400, Code: "context_length_exceeded", Type: "invalid_request_error", Message: "provider says invalid"},
		"overloaded": {Error: "InternalServerError", Status: 503, Code: "server_is_overloaded", Type: "server_error", Class: "overloaded"},
		"hidden":     {Error: "InternalServerError", Status: 503, Code: "2064", Type: "server_error", Class: "overloaded"},
		"reset":      {Error: "InternalServerError", Status: 503, Code: "upstream_unreachable", Type: "server_error", Class: "transport"},
	} {
		want[name], want[name+" streamed"] = w, w
	}
	wantTold(t, got, want)
	p.wantAborted(t, "hangs", "silent")
	p.wantCalls(t)
}

// TestAnthropicForJavaScript does the same with Anthropic's.
func TestAnthropicForJavaScript(t *testing.T) {
	got, p := node(t, "anthropic.mjs")
	want := map[string]told{
		"plain": {OK: "hi"}, "stream": {OK: "hi"}, "helper": {OK: 3.0}, "tools": {OK: "Oslo"}, "tools streamed": {OK: `{"city":"Oslo"}`},
		"count": {OK: 14.0}, "models": {OK: true}, "abort": {OK: "aborted"},
		"missing":    {Error: "NotFoundError", Status: 404, Code: "model_not_found", Type: "not_found_error", Class: "invalid", Message: "no-such-route"},
		"late error": {Error: "APIError", Type: "overloaded_error", Message: "Overloaded"},
		"breaks":     {Error: "APIError", Code: "upstream_unreachable", Type: "api_error", Class: "transport", Message: "broke off"},
		"timeout":    {Error: "APIConnectionTimeoutError"},
	}
	for name, w := range map[string]told{
		"rate":       {Error: "RateLimitError", Status: 429, Code: "rate_limit_error", Type: "rate_limit_error", Class: "rate_limited"},
		"quota":      {Error: "RateLimitError", Status: 429, Code: "billing_error", Type: "rate_limit_error", Class: "quota_exhausted"},
		"auth":       {Error: "ServiceUnavailableError", Status: 503, Code: "authentication_error", Type: "api_error", Class: "auth"},
		"invalid":    {Error: "BadRequestError", Status: 400, Type: "invalid_request_error", Message: "provider says invalid"},
		"overloaded": {Error: "ServiceUnavailableError", Status: 503, Code: "overloaded_error", Type: "overloaded_error", Class: "overloaded"},
		"reset":      {Error: "ServiceUnavailableError", Status: 503, Code: "upstream_unreachable", Type: "api_error", Class: "transport"},
	} {
		want[name], want[name+" streamed"] = w, w
	}
	wantTold(t, got, want)
	p.wantAborted(t, "hangs", "silent")
	p.wantCalls(t)
}

// wantCalls holds that nothing was called more often than the proxy's own
// retries allow: the SDKs, which repeat by themselves, did not.
func (p *prompted) wantCalls(t *testing.T) {
	t.Helper()
	for name, n := range p.counts() {
		most := 2 // as newWorld here allows
		switch strings.TrimSuffix(name, " streamed") {
		case "quota", "auth", "invalid", "late error", "hangs", "silent":
			most = 1
		case "breaks": // once by each of OpenAI's two APIs
		case "plain", "stream", "tools", "", "embed", "count":
			continue
		}
		if n > most {
			t.Errorf("%q reached the provider %d times, at most %d are allowed", name, n, most)
		}
	}
}
