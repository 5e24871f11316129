package proxy

import (
	"net/http"
	"strings"
	"testing"

	"weir/agent"
	"weir/model"
)

func TestPlainCall(t *testing.T) {
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) })
	got := w.post("/v1/chat/completions?x=1", plainBody, "X-Weir-Tenant", "content", "X-Weir-Core", "1", "Idempotency-Key", "i1")
	if got.status != http.StatusOK || got.body != goodAnswer {
		t.Fatalf("status %d, body %s", got.status, got.body)
	}
	for name, want := range map[string]string{"X-Weir-Channel": "main", "X-Weir-Tier": "0", "X-Weir-Attempts": "1", "X-Weir-Degraded": ""} {
		if v := got.header.Get(name); v != want {
			t.Errorf("%s is %q, want %q", name, v, want)
		}
	}
	if len(got.header.Get("X-Weir-Request")) != 16 || got.header.Get("X-Weir-Queued-Ms") == "" {
		t.Errorf("headers %v", got.header)
	}
	up := w.seen[0]
	if want := strings.Replace(plainBody, `"route"`, `"main-model"`, 1); up.body != want {
		t.Errorf("the provider got %s\nwant %s", up.body, want)
	}
	if up.path != "/v1/chat/completions?x=1" || up.header.Get("Authorization") != "Bearer "+providerKey ||
		up.header.Get("X-Weir-Tenant") != "" || up.header.Get("Idempotency-Key") != "i1" {
		t.Errorf("the provider got %s %v", up.path, up.header)
	}
	all := w.attempts()
	if len(all) != 1 {
		t.Fatalf("%d attempts, want 1", len(all))
	}
	a := all[0]
	if a.Class != model.ClassOK || a.In != 9 || a.Out != 3 || !a.UsageKnown || a.Tenant != "content" ||
		a.Priority != model.PriorityBatch || a.Route != "route" || a.Status != 200 || a.Try != 1 || a.Reserved < 50 || a.Rule == "" {
		t.Errorf("reported %+v", a)
	}
	r := w.lastReport()
	if !r.Leaving {
		t.Error("the last report does not say goodbye")
	}
	for _, p := range r.Pools {
		if p.Pool == model.PoolOfChannel("main") && p.UsedTokens != 12 {
			t.Errorf("%d tokens are used, want 12: %+v", p.UsedTokens, p)
		}
	}
}

func TestStreamPasses(t *testing.T) {
	frames := roleFrame + textFrame + textFrame + finishFrame
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		stream(w, roleFrame, textFrame, textFrame, finishFrame, usageFrame, doneFrame)
	})
	got := w.post("/v1/chat/completions", streamBody)
	if want := frames + doneFrame; got.body != want {
		t.Errorf("got %q\nwant %q", got.body, want)
	}
	if ct := got.header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("content type %q", ct)
	}
	asked := strings.Replace(streamBody, "{", `{"stream_options":{"include_usage":true},`, 1)
	got = w.post("/v1/chat/completions", asked)
	if want := frames + usageFrame + doneFrame; got.body != want {
		t.Errorf("with usage got %q\nwant %q", got.body, want)
	}
	for _, s := range w.seen {
		if strings.Count(s.body, "include_usage") != 1 || !strings.Contains(s.body, `"include_usage":true`) {
			t.Errorf("the provider got %s", s.body)
		}
	}
	for _, a := range w.attempts() {
		if a.Class != model.ClassOK || a.In != 9 || a.Out != 3 || !a.UsageKnown || a.FirstToken <= 0 {
			t.Errorf("reported %+v", a)
		}
	}
}

// TestPlaces puts each kind of trouble at each place where it can come and
// looks at what the client got and what was reported.
func TestPlaces(t *testing.T) {
	const (
		rpm    = `{"error":{"message":"Rate limit reached on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 1ms.","type":"requests","code":"rate_limit_exceeded"}}`
		broke  = `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`
		denied = `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`
		wrong  = `{"error":{"message":"messages: too long","type":"invalid_request_error","code":"context_length_exceeded"}}`
		server = `{"error":{"message":"overloaded","type":"server_error","code":"server_is_overloaded"}}`
	)
	answers := func(status int, body string) script {
		return func(_ int, w http.ResponseWriter, _ *http.Request) { say(w, status, body) }
	}
	first := func(bad script) script {
		return func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				bad(n, w, r)
				return
			}
			if strings.Contains(r.Header.Get("Accept-Encoding"), "identity") {
				stream(w, textFrame, finishFrame, doneFrame)
				return
			}
			good(w)
		}
	}
	for _, tt := range []struct {
		name    string
		body    string
		script  script
		status  int
		code    string        // of the error
		classes []model.Class // reported
		within  string        // the body has it
	}{
		{"rate limit, then ok", plainBody, first(answers(429, rpm)), 200, "", []model.Class{model.ClassRateLimited, model.ClassOK}, `"hi"`},
		{"busy in a 200, then ok", plainBody, first(answers(200, busyAnswer)), 200, "", []model.Class{model.ClassOverloaded, model.ClassOK}, `"hi"`},
		{"5xx, then ok", plainBody, first(answers(503, server)), 200, "", []model.Class{model.ClassOverloaded, model.ClassOK}, `"hi"`},
		{"reset before the header, then ok", plainBody, first(func(_ int, w http.ResponseWriter, _ *http.Request) { reset(w) }), 200, "", []model.Class{model.ClassTransport, model.ClassOK}, `"hi"`},
		{"body breaks off, then ok", plainBody, first(func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			say(w, 200, goodAnswer[:40])
		}), 200, "", []model.Class{model.ClassTransport, model.ClassOK}, `"hi"`},
		{"quota", plainBody, answers(429, broke), 429, "insufficient_quota", []model.Class{model.ClassQuotaExhausted}, ""},
		{"auth", plainBody, answers(401, denied), 503, "invalid_api_key", []model.Class{model.ClassAuth}, `"class":"auth"`},
		{"invalid", plainBody, answers(400, wrong), 400, "context_length_exceeded", []model.Class{model.ClassInvalid}, "messages: too long"},
		{"always busy in a 200", plainBody, answers(200, busyAnswer), 503, "2064", []model.Class{model.ClassOverloaded, model.ClassOverloaded, model.ClassOverloaded}, `"class":"overloaded"`},
		{"busy at the first event, then ok", streamBody, first(func(_ int, w http.ResponseWriter, _ *http.Request) { stream(w, busyFrame) }), 200, "", []model.Class{model.ClassOverloaded, model.ClassOK}, textFrame},
		{"busy after an empty event, then ok", streamBody, first(func(_ int, w http.ResponseWriter, _ *http.Request) { stream(w, roleFrame, busyFrame) }), 200, "", []model.Class{model.ClassOverloaded, model.ClassOK}, textFrame},
		{"stream refused before the header, then ok", streamBody, first(answers(429, rpm)), 200, "", []model.Class{model.ClassRateLimited, model.ClassOK}, textFrame},
		{"stream is a busy body in a 200, then ok", streamBody, first(answers(200, busyAnswer)), 200, "", []model.Class{model.ClassOverloaded, model.ClassOK}, textFrame},
		{"empty stream, then ok", streamBody, first(func(_ int, w http.ResponseWriter, _ *http.Request) { stream(w) }), 200, "", []model.Class{model.ClassTransport, model.ClassOK}, textFrame},
		{"busy mid-stream", streamBody, func(_ int, w http.ResponseWriter, _ *http.Request) {
			stream(w, textFrame)
			pauseShort()
			more(w, busyFrame)
		}, 200, "", []model.Class{model.ClassOverloaded}, textFrame + busyFrame},
		{"reset mid-stream", streamBody, func(_ int, w http.ResponseWriter, _ *http.Request) {
			stream(w, textFrame, `data: {"id":`)
			pauseShort()
			reset(w)
		}, 200, "", []model.Class{model.ClassTransport}, textFrame + `data: {"error":{`},
		{"cut mid-stream", streamBody, func(_ int, w http.ResponseWriter, _ *http.Request) { stream(w, textFrame); pauseShort() }, 200, "", []model.Class{model.ClassTransport}, textFrame + `data: {"error":{`},
		{"reset after the last event", streamBody, func(_ int, w http.ResponseWriter, _ *http.Request) {
			stream(w, textFrame, finishFrame)
			pauseShort()
			reset(w)
		}, 200, "", []model.Class{model.ClassOK}, textFrame + finishFrame + doneFrame},
		{"error after the last event", streamBody, func(_ int, w http.ResponseWriter, _ *http.Request) {
			stream(w, textFrame, finishFrame, doneFrame, busyFrame)
		}, 200, "", []model.Class{model.ClassOK}, textFrame + finishFrame + doneFrame + "$"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.script)
			w.earn(8)
			got := w.post("/v1/chat/completions", tt.body)
			if got.status != tt.status || !strings.Contains(got.body+"$", tt.within) || got.err != nil {
				t.Errorf("status %d, body %q, %v; want status %d with %q", got.status, got.body, got.err, tt.status, tt.within)
			}
			if tt.code != "" {
				if e := errorOf(t, got); e.Code != tt.code || e.Message == "" {
					t.Errorf("error %+v, want code %s", e, tt.code)
				}
				if got.header.Get("X-Should-Retry") != "false" {
					t.Error("the client's SDK will repeat it")
				}
			}
			if again := got.status == 429 || got.status == 503; again != (got.header.Get("Retry-After") != "") {
				t.Errorf("status %d with Retry-After %q", got.status, got.header.Get("Retry-After"))
			}
			var classes []model.Class
			for i, a := range w.attempts() {
				classes = append(classes, a.Class)
				if a.Try != uint8(i+1) || a.Request != w.attempts()[0].Request {
					t.Errorf("attempt %d is try %d of request %x", i, a.Try, a.Request)
				}
			}
			if !equal(classes, tt.classes) {
				t.Errorf("reported %v, want %v", classes, tt.classes)
			}
			for _, c := range w.lastReport().Channels {
				if c.InFlight != 0 || c.Queued != 0 {
					t.Errorf("at the end %+v", c)
				}
			}
		})
	}
}

func equal(a, b []model.Class) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestFallback(t *testing.T) {
	w := newWorldOf(t, map[string]script{
		"main": func(_ int, w http.ResponseWriter, _ *http.Request) {
			say(w, 401, `{"error":{"code":"invalid_api_key"}}`)
		},
		"spare": func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) },
	})
	w.post("/v1/chat/completions", plainBody) // learns that main's credential is wrong
	got := w.post("/v1/chat/completions", plainBody)
	if got.status != 200 || got.header.Get("X-Weir-Channel") != "spare" || got.header.Get("X-Weir-Tier") != "1" || got.header.Get("X-Weir-Degraded") != "true" {
		t.Errorf("status %d, headers %v, body %s", got.status, got.header, got.body)
	}
	var degraded bool
	for _, a := range w.attempts() {
		degraded = degraded || a.Degraded && a.Tier == 1
	}
	if !degraded {
		t.Error("the degraded attempt is not reported as such")
	}
}

func TestRule(t *testing.T) {
	for path, want := range map[string]string{"/v1/chat/completions": `"content":"busy, please try later"`, "/v1/messages": `"text":"busy, please try later"`} {
		w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			say(w, 401, `{"error":{"code":"invalid_api_key"}}`)
		},
			func(c *agent.Config) {
				c.Fleet.Routes[0].Tiers = append(c.Fleet.Routes[0].Tiers, model.TierConfig{Rule: "busy, please try later"})
			})
		w.post(path, plainBody)
		got := w.post(path, plainBody)
		if got.status != 200 || !strings.Contains(got.body, want) || got.header.Get("X-Weir-Degraded") != "true" {
			t.Errorf("%s: status %d, headers %v, body %s", path, got.status, got.header, got.body)
		}
	}
}

// TestPagesOfAnotherName asks as a page does whose name was pointed at this
// machine: its browser takes the sidecar for the page's own server, and says of
// a question that only reads neither who asks nor from where.
func TestPagesOfAnotherName(t *testing.T) {
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) })
	for _, path := range []string{"/v1/models", "/v1/models/route", "/weir/queue", "/weir/quota", "/v1/files?limit=2", "/v1/chat/completions"} {
		for host, want := range map[string]bool{"evil.example:8787": false, "evil.example": false, "127.0.0.1.evil.example": false, "localhost:8787": true, "LOCALHOST": true, "127.0.0.1:1": true, "[::1]:8787": true} {
			r := w.request(t.Context(), path, "")
			r.Method, r.Body, r.ContentLength, r.Host = http.MethodGet, nil, 0, host
			if got := w.do(r); (got.status != http.StatusMisdirectedRequest) != want {
				t.Errorf("%s at %s: status %d", host, path, got.status)
			}
		}
	}
}

func TestMistakes(t *testing.T) {
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) }, func(c *agent.Config) { c.MaxBody = 1000 })
	big := `{"model":"route","messages":"` + strings.Repeat("x", 1000) + `"}`
	for _, tt := range []struct {
		name, path, body string
		status           int
		code             string
		header           []string
	}{
		{"no JSON", "/v1/chat/completions", `hello`, 400, "invalid_body", nil},
		{"no model", "/v1/chat/completions", `{}`, 400, "invalid_body", nil},
		{"unknown route", "/v1/chat/completions", `{"model":"other"}`, 404, "model_not_found", nil},
		{"channel's model", "/v1/chat/completions", `{"model":"main-model"}`, 404, "model_not_found", nil},
		{"unknown path", "/v2/chat/completions", plainBody, 404, "unknown_path", nil},
		{"path tricks", "/v1/chat%2fcompletions", plainBody, 404, "unknown_path", nil},
		{"too large", "/v1/chat/completions", big, 413, "request_too_large", nil},
		{"deadline", "/v1/chat/completions", plainBody, 400, "invalid_deadline", []string{"X-Weir-Deadline-Ms", "-1"}},
		{"priority", "/v1/chat/completions", plainBody, 400, "invalid_priority", []string{"X-Weir-Priority", "highest"}},
		{"a WebSocket", "/v1/realtime", "", 501, "no_upgrade", []string{"Connection", "Upgrade", "Upgrade", "websocket"}},
		{"a page's script", "/v1/chat/completions", plainBody, 403, "forbidden_origin", []string{"Origin", "https://evil.example"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := w.post(tt.path, tt.body, tt.header...)
			if e := errorOf(t, got); got.status != tt.status || e.Code != tt.code {
				t.Errorf("status %d, %+v; want %d %s", got.status, e, tt.status, tt.code)
			}
		})
	}
	if len(w.seen) != 0 {
		t.Errorf("a provider was called: %+v", w.seen)
	}
	if got := w.post("/v1/messages", `{}`); !strings.HasPrefix(got.body, `{"type":"error","error":{`) {
		t.Errorf("the messages API got %s", got.body)
	}
}
