package proxy

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/agent"
	"weir/model"
)

func refusing(status int, body string, header ...string) script {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { say(w, status, body, header...) }
}

// TestTierClosed holds that a tier that is held, shut or out of quota for
// longer than a request can wait is passed over, for core work too only when
// waiting could change nothing, and that the answer says so.
func TestTierClosed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		main   script
		core   bool
		other  model.Nanos
		tier   string
		header []string
	}{
		{"held longer than degrade_after", refusing(429, `{"error":{"code":"rate_limit_exceeded"}}`, "Retry-After", "10"), false, model.Second, "1", nil},
		{"held beyond the deadline", refusing(429, `{"error":{"code":"rate_limit_exceeded"}}`, "Retry-After", "10"), false, 30 * model.Second, "1", []string{"X-Weir-Deadline-Ms", "3000"}},
		{"quota used up", refusing(429, `{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}`), false, model.Second, "1", nil},
		{"credential refused", refusing(401, `{"error":{"code":"invalid_api_key"}}`), false, model.Second, "1", nil},
		{"core work waits", refusing(429, `{"error":{"code":"rate_limit_exceeded"}}`, "Retry-After", "10"), true, model.Second, "", []string{"X-Weir-Deadline-Ms", "500"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorldOf(t, map[string]script{"main": tt.main, "spare": func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) }}, func(c *agent.Config) {
				c.Fleet.Routes[0].DegradeOther = tt.other
				c.Fleet.Retry.MaxAttempts = 1
			})
			header := tt.header
			if tt.core {
				header = append(header, "X-Weir-Core", "true")
			}
			w.post("/v1/chat/completions", plainBody, header...) // learns it
			got := w.post("/v1/chat/completions", plainBody, header...)
			if tt.tier == "" {
				if e := errorOf(t, got); got.status != 429 || e.Weir.Class != "rate_limited" || got.header.Get("X-Weir-Degraded") != "" {
					t.Errorf("status %d, headers %v, %+v", got.status, got.header, e)
				}
				for _, s := range w.got() {
					if s.channel == "spare" {
						t.Error("core work was sent to the lesser tier")
					}
				}
				return
			}
			if got.status != 200 || got.header.Get("X-Weir-Tier") != tt.tier || got.header.Get("X-Weir-Degraded") != "true" || got.header.Get("X-Weir-Channel") != "spare" {
				t.Errorf("status %d, headers %v, %s", got.status, got.header, got.body)
			}
		})
	}
}

// TestDegradeAfter holds that work waits for its tier as long as the route
// says before it takes the next, and that core work goes on waiting.
func TestDegradeAfter(t *testing.T) {
	release := make(chan struct{})
	w := newWorldOf(t, map[string]script{
		"main":  func(_ int, w http.ResponseWriter, _ *http.Request) { <-release; good(w) },
		"spare": func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) },
	}, func(c *agent.Config) {
		c.Fleet.Channels[0].Alone = 1
		c.Fleet.Routes[0].DegradeOther = 200 * model.Millisecond
	})
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { w.post("/v1/chat/completions", plainBody) })
	for !strings.Contains(w.get("/weir/queue"), `"running":1`) {
		time.Sleep(time.Millisecond)
	}
	core := make(chan answer, 1)
	all.Go(func() { core <- w.post("/v1/chat/completions", plainBody, "X-Weir-Core", "1") })
	other := w.post("/v1/chat/completions", plainBody)
	if other.header.Get("X-Weir-Channel") != "spare" || other.header.Get("X-Weir-Degraded") != "true" || len(other.header.Get("X-Weir-Queued-Ms")) < 3 {
		t.Errorf("other work: status %d, headers %v", other.status, other.header)
	}
	select {
	case got := <-core:
		t.Errorf("core work did not wait: %v", got.header)
	default:
	}
	close(release)
	if got := <-core; got.status != 200 || got.header.Get("X-Weir-Channel") != "main" || got.header.Get("X-Weir-Degraded") != "" {
		t.Errorf("core work: status %d, headers %v", got.status, got.header)
	}
}

// TestCapability holds that a request that needs something goes only where it
// is.
func TestCapability(t *testing.T) {
	answers := func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) }
	w := newWorldOf(t, map[string]script{"main": answers, "spare": answers}, func(c *agent.Config) {
		c.Fleet.Routes[0].Tiers[0].Capability = "text"
		c.Fleet.Routes[0].Tiers[1].Capability = "vision"
	})
	for need, want := range map[string]string{"": "main", "text": "main", "vision": "spare"} {
		got := w.post("/v1/chat/completions", plainBody, "X-Weir-Capability", need)
		if got.status != 200 || got.header.Get("X-Weir-Channel") != want || got.header.Get("X-Weir-Degraded") != "" {
			t.Errorf("%q: status %d, headers %v", need, got.status, got.header)
		}
	}
	if got := w.post("/v1/chat/completions", plainBody, "X-Weir-Capability", "speech"); got.status != 400 || len(w.got()) != 3 {
		t.Errorf("status %d, %d calls: %s", got.status, len(w.got()), got.body)
	}
}

// TestRuleSaysSo reads a fixed answer in each API, whole and streamed.
func TestRuleSaysSo(t *testing.T) {
	w := newWorld(t, refusing(401, `{"error":{"code":"invalid_api_key"}}`), func(c *agent.Config) {
		c.Fleet.Routes[0].Tiers = append(c.Fleet.Routes[0].Tiers, model.TierConfig{Rule: "{route} is busy, \"later\""})
	})
	w.post("/v1/chat/completions", plainBody)
	for path, end := range map[string]string{
		"/v1/chat/completions": "data: [DONE]\n\n", "/v1/completions": "data: [DONE]\n\n", "/v1/responses": `"type":"response.completed"`, "/v1/messages": `"type":"message_stop"`,
	} {
		for _, body := range []string{plainBody, streamBody} {
			got := w.post(path, body)
			if got.status != 200 || !strings.Contains(got.body, `route is busy, \"later\"`) || !strings.Contains(got.body, `"weir":{"degraded":true,"fixed":true}`) ||
				got.header.Get("X-Weir-Degraded") != "true" || got.header.Get("X-Weir-Tier") != "1" || got.header.Get("X-Weir-Channel") != "" {
				t.Errorf("%s: status %d, headers %v, body %s", path, got.status, got.header, got.body)
			}
			streamed := got.header.Get("Content-Type") == "text/event-stream"
			if streamed != (body == streamBody) || streamed && !strings.Contains(got.body, end) || !streamed && !json.Valid([]byte(got.body)) {
				t.Errorf("%s: %s %s", path, got.header.Get("Content-Type"), got.body)
			}
		}
	}
	if got := w.post("/v1/embeddings", plainBody); got.status != 503 || !strings.Contains(errorOf(t, got).Message, "route is busy") {
		t.Errorf("embeddings: status %d: %s", got.status, got.body)
	}
}

// TestEveryChannelDown holds that with nothing to call each request ends in
// time with an answer that says the truth in its API's shape.
func TestEveryChannelDown(t *testing.T) {
	hang := func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, down := range map[string]script{
		"refused by all": refusing(503, `{"error":{"message":"overloaded"}}`),
		"rate limited":   refusing(429, `{"error":{"code":"rate_limit_exceeded"}}`, "Retry-After", "30"),
		"no credit":      refusing(402, `{"error":{"message":"Insufficient Balance"}}`),
		"no credential":  refusing(401, `{"error":{"code":"invalid_api_key"}}`),
		"reset":          func(_ int, w http.ResponseWriter, _ *http.Request) { reset(w) },
		"silent":         hang,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, map[string]script{"main": down, "spare": down, "light": down}, func(c *agent.Config) {
				for i := range c.Fleet.Channels {
					c.Fleet.Channels[i].Alone = 2
				}
			})
			const many, deadline = 30, 700 * time.Millisecond
			got := make(chan answer, many)
			began := time.Now()
			for i := range many {
				path, body := [...]string{"/v1/chat/completions", "/v1/messages", "/v1/responses"}[i%3], [...]string{plainBody, streamBody}[i%2]
				go func() { got <- w.post(path, body, "X-Weir-Deadline-Ms", "700") }()
			}
			for range many {
				a := <-got
				e := errorOf(t, a)
				if a.status != 429 && a.status != 503 || a.header.Get("Retry-After") == "" || a.header.Get("X-Should-Retry") != "false" || e.Type == "" || e.Message == "" || e.Weir.Class == "" || e.Weir.Class == "ok" {
					t.Errorf("status %d, headers %v, body %s", a.status, a.header, a.body)
				}
			}
			if took := time.Since(began); took > deadline+20*time.Second { // it would be for ever, not late
				t.Errorf("the last request took %v", took)
			}
			page := w.get("/weir/queue")
			for _, want := range []string{`"waiting":0`, `"running":0`, `"backoff":0`} {
				if !strings.Contains(page, want) {
					t.Errorf("at the end %s", page)
				}
			}
			for _, r := range requests(w.attempts()) {
				if r > 3 {
					t.Errorf("%d attempts of one request", r)
				}
			}
		})
	}
}

// TestBudgetSpent holds that a refusal for a spent budget says when there is
// more of it.
func TestBudgetSpent(t *testing.T) {
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) }, func(c *agent.Config) {
		c.Fleet.Channels[0].Limits.RequestsPerMinute = 2
	})
	w.post("/v1/chat/completions", plainBody)
	got := w.post("/v1/chat/completions", plainBody, "X-Weir-Deadline-Ms", "300")
	e := errorOf(t, got)
	if got.status != 429 || e.Weir.Class != "rate_limited" || e.Weir.WaitS == nil || *e.Weir.WaitS < 20 || *e.Weir.WaitS > 30 || len(got.header.Get("Retry-After")) != 2 {
		t.Errorf("status %d, Retry-After %s, %+v", got.status, got.header.Get("Retry-After"), e.Weir)
	}
}
