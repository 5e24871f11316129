package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/controller"
	"weir/controller/store"
	"weir/controller/web"
	"weir/events"
	"weir/events/memlog"
	"weir/model"
)

const (
	fleet = "test"
	token = "s3cret"
)

// rig is a running controller and its API.
type rig struct {
	t    testing.TB
	bus  *memlog.Bus
	loop *controller.Loop
	api  http.Handler
	stop func()
}

func start(t testing.TB, change func(*web.Options)) *rig {
	t.Helper()
	s, err := store.Open("state", store.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	bus, set := memlog.New(fleet, memlog.Options{}), metrics.NewSet()
	loop, err := controller.New(controller.Options{
		Fleet: fleet, Log: bus.Log(), Outbox: bus.Outbox(), Store: s, Metrics: set, Version: "v1",
		Config: &model.Config{
			Fleet: fleet,
			Channels: []model.ChannelConfig{
				{Name: "a", Limits: model.Limits{RequestsPerMinute: 60, TokensPerMinute: 1000}, Price: model.Price{Input: 1_000_000, Output: 2_000_000}, Groups: []string{"g"}},
				{Name: `b"x`},
			},
			Groups:  []model.GroupConfig{{Name: "g", Limits: model.Limits{RequestsPerMinute: 600}}},
			Tenants: []model.TenantConfig{{Name: "known"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	r := &rig{t: t, bus: bus, loop: loop}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(r.stop)
	o := web.Options{Controller: loop, Metrics: set.WritePrometheus, Token: token, Hosts: []string{"weir.example"}}
	if change != nil {
		change(&o)
	}
	r.api = web.Handler(o)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if v, err := loop.View(t.Context()); err == nil && len(v.Channels) == 2 {
			return r
		}
	}
	t.Fatal("controller does not start")
	return nil
}

// do sends a request as this machine would.
func (r *rig) do(method, path, body string, change ...func(*http.Request)) (int, string) {
	r.t.Helper()
	q := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
	q.RemoteAddr = "127.0.0.1:5555"
	if method == http.MethodPost {
		q.Header.Set("Authorization", "Bearer "+token)
		q.Header.Set("Content-Type", "application/json")
	}
	for _, c := range change {
		c(q)
	}
	w := httptest.NewRecorder()
	r.api.ServeHTTP(w, q)
	if w.Header().Get("X-Content-Type-Options") != "nosniff" {
		r.t.Errorf("%s %s: no nosniff", method, path)
	}
	return w.Code, w.Body.String()
}

func (r *rig) want(status int, method, path, body, text string, change ...func(*http.Request)) string {
	r.t.Helper()
	got, answer := r.do(method, path, body, change...)
	if got != status || !strings.Contains(answer, text) {
		r.t.Errorf("%s %s %s = %d %s; want %d with %q", method, path, body, got, answer, status, text)
	}
	return answer
}

// report writes one report of an agent.
func (r *rig) report(attempts ...model.Attempt) {
	r.t.Helper()
	data := events.Encode(nil, &model.Attempts{
		Source:   model.Source{Agent: "x", Boot: 1, Seq: 1, Span: 1},
		Channels: []model.ChannelReport{{Channel: "a", InFlight: 2}}, Attempts: attempts,
	})
	if err := r.bus.Writer("x").Write(r.t.Context(), data); err != nil {
		r.t.Fatal(err)
	}
	info, err := r.bus.Log().Info(r.t.Context())
	if err == nil {
		err = r.loop.Wait(r.t.Context(), info.Last)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestReads(t *testing.T) {
	r := start(t, nil)
	r.report(
		model.Attempt{Class: model.ClassOK, Status: 200, Tenant: "known", In: 100, Out: 50, Took: model.Second, RetryAfter: -1},
		model.Attempt{Class: model.ClassOK, Status: 200, Tenant: "made up", In: 7, Took: model.Second, RetryAfter: -1},
		model.Attempt{Class: model.ClassOverloaded, Status: 529, RetryAfter: -1},
	)
	r.want(200, "GET", "/healthz", "", "ok")
	r.want(200, "GET", "/readyz", "", `"ready":true`)
	r.want(200, "GET", "/api/v1/status", "", `"log_faults":[]`)
	r.want(200, "GET", "/api/v1/status", "", `"attempts":3`)
	r.want(200, "GET", "/api/v1/channels/a", "", `"epoch":1`)
	r.want(404, "GET", "/api/v1/channels/none", "", "there is no channel")
	r.want(200, "GET", "/api/v1/agents", "", `"agent":"x"`)
	r.want(200, "GET", "/api/v1/params", "", `"window_start":`)
	r.want(400, "GET", "/api/v1/decisions?limit=many", "", "limit=")
	r.want(400, "GET", "/api/v1/decisions?from=-1", "", "from=")
	r.want(404, "GET", "/api/v2/status", "", "")
	r.want(405, "DELETE", "/api/v1/channels", "", "")

	var all struct {
		Channels []map[string]any
		Pools    []map[string]any
	}
	decode(t, r.want(200, "GET", "/api/v1/channels", "", ""), &all)
	if len(all.Channels) != 2 || len(all.Pools) != 2 || all.Channels[0]["name"] != "a" || all.Channels[0]["inflight"] != 2.0 {
		t.Errorf("channels %v", all)
	}
	for key := range all.Channels[0] {
		if key != strings.ToLower(key) {
			t.Errorf("field %q is not lower snake", key)
		}
	}
}

func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

func TestDecisions(t *testing.T) {
	r := start(t, nil)
	r.report(model.Attempt{Class: model.ClassOverloaded, Status: 529, RetryAfter: -1})
	var got struct{ Decisions []controller.Decision }
	for deadline := time.Now().Add(time.Minute); len(got.Decisions) == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		decode(t, r.want(200, "GET", "/api/v1/decisions?channel=a&rule=window.cut&limit=5", "", ""), &got)
	}
	if len(got.Decisions) != 1 || got.Decisions[0].Channel != "a" || got.Decisions[0].Reason == "" || got.Decisions[0].Seq == 0 {
		t.Errorf("decisions %+v, want the cut of a", got.Decisions)
	}
	var oldest struct{ Decisions []controller.Decision }
	decode(t, r.want(200, "GET", "/api/v1/decisions?oldest=1&limit=1", "", ""), &oldest)
	if len(oldest.Decisions) != 1 || oldest.Decisions[0].Rule != "term" {
		t.Errorf("oldest %+v, want the term", oldest.Decisions)
	}
}

func TestMetrics(t *testing.T) {
	r := start(t, nil)
	r.report(
		model.Attempt{Class: model.ClassOK, Status: 200, Tenant: "known", In: 100, Out: 50, Took: model.Second, RetryAfter: -1},
		model.Attempt{Class: model.ClassOK, Status: 200, Tenant: "made up", In: 7, Took: model.Second, RetryAfter: -1},
		model.Attempt{Class: model.ClassOverloaded, Status: 529, RetryAfter: -1},
	)
	text := r.want(200, "GET", "/metrics", "", "")
	for _, line := range []string{
		`weir_window_slots{channel="a"} `, `weir_inflight{channel="a"} 2`,
		`weir_budget_remaining{channel="a",dimension="requests"} `, `weir_budget_remaining{channel="a",dimension="tokens"} `,
		`weir_budget_remaining{group="g",dimension="requests"} `,
		`weir_weight{channel="a"} 0.7`, `weir_breaker_state{channel="a"} 0`, `weir_epoch_total{channel="a"} 1`,
		`weir_attempts_total{channel="a",class="ok"} 2`, `weir_attempts_total{channel="a",class="overloaded"} 1`,
		`weir_tokens_total{channel="a",direction="in"} 107`, `weir_tokens_total{channel="a",direction="out"} 50`,
		`weir_tenant_tokens_total{tenant="known"} 150`, `weir_tenant_tokens_total{tenant="other"} 7`,
		`weir_cost_total{tenant="known",channel="a"} 0.0002`,
		`weir_leased_slots{channel="b\"x"} `, `weir_agents{mode="enforce"} 1`, `weir_agents{mode="observe"} 0`,
		`weir_fold_events_total `, `weir_fold_lag_events 0`, `weir_fold_seconds_bucket{le="`, `weir_broadcast_total `,
		`weir_events_lost_total 0`, `weir_log_faults_total{kind="shortened"} 0`, `weir_leader 1`,
	} {
		if !strings.Contains("\n"+text, "\n"+line) {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
}

func TestHosts(t *testing.T) {
	r := start(t, nil)
	host := func(name string) func(*http.Request) { return func(q *http.Request) { q.Host = name } }
	for _, name := range []string{"localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:8080", "[::1]:8080", "10.0.0.5", "weir.example:80"} {
		r.want(200, "GET", "/healthz", "", "ok", host(name))
	}
	for _, name := range []string{"evil.example", "evil.example:8080", "", "localhost.evil.example", "weir.example.evil.example"} {
		r.want(421, "GET", "/api/v1/status", "", "not called by that name", host(name))
		r.want(421, "POST", "/api/v1/commands", `{"command":"pause","channel":"a"}`, "", host(name))
	}
}

func TestTokens(t *testing.T) {
	r := start(t, nil)
	far := func(q *http.Request) { q.RemoteAddr = "10.0.0.7:1234" }
	show := func(value string) func(*http.Request) {
		return func(q *http.Request) { q.Header.Set("Authorization", value) }
	}
	pause := `{"command":"pause","channel":"a","for":"1m"}`
	for _, value := range []string{"", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3crets", "Basic " + token, "bearer" + token} {
		r.want(401, "POST", "/api/v1/commands", pause, "bearer token", show(value))
		r.want(401, "GET", "/api/v1/status", "", "bearer token", far, show(value))
		r.want(401, "GET", "/metrics", "", "bearer token", far, show(value))
	}
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Forwarded-Proto", "Via"} { // a proxy on this machine
		r.want(401, "GET", "/api/v1/status", "", "bearer token", func(q *http.Request) { q.Header.Set(name, "for=10.0.0.7") })
	}
	r.want(200, "GET", "/healthz", "", "ok", far)
	r.want(200, "GET", "/metrics", "", "weir_leader", far, show("Bearer "+token))
	r.want(200, "POST", "/api/v1/commands", pause, `"seq":`, far)

	closed := start(t, func(o *web.Options) { o.Token = "" })
	for _, value := range []string{"", "Bearer ", "Bearer " + token} {
		closed.want(403, "POST", "/api/v1/commands", pause, "no token is configured", show(value))
		closed.want(403, "GET", "/api/v1/status", "", "no token is configured", far, show(value))
	}
	closed.want(200, "GET", "/api/v1/status", "", "")
}

func TestCommands(t *testing.T) {
	r := start(t, nil)
	r.report()
	r.want(200, "POST", "/api/v1/commands", `{"command":"pause","channel":"a","for":"1m","by":"ann","why":"test"}`, `"seq":`)
	r.want(200, "GET", "/api/v1/channels/a", "", "by ann: test")
	if c := view(t, r).Channels[0]; c.Wait <= 0 {
		t.Errorf("channel %+v, want paused", c)
	}
	r.want(200, "POST", "/api/v1/commands", `{"command":"resume","channel":"a"}`, `"seq":`)
	r.want(200, "POST", "/api/v1/commands", `{"command":"set_mode","mode":"observe"}`, `"seq":`)
	if c := view(t, r).Channels[0]; c.Wait != 0 || c.Mode != "observe" {
		t.Errorf("channel %+v, want resumed and observing", c)
	}
	r.want(200, "POST", "/api/v1/commands", `{"command":"set_mode","channel":"a","mode":"enforce"}`, `"seq":`)
	if c := view(t, r).Channels[0]; c.Mode != "enforce" {
		t.Errorf("channel %+v, want its own mode", c)
	}
	r.want(200, "POST", "/api/v1/commands", `{"command":"set_mode","channel":"a","value":-1}`, `"seq":`)
	if c := view(t, r).Channels[0]; c.Mode != "observe" {
		t.Errorf("channel %+v, want the fleet's mode again", c)
	}
	r.want(200, "POST", "/api/v1/commands", `{"command":"release","channel":"a"}`, `"seq":`)
	r.want(200, "POST", "/api/v1/commands", `{"command":"set_limit","channel":"a","value":3}`, `"seq":`)
	r.want(200, "POST", "/api/v1/commands", `{"command":"forget","agent":"x"}`, `"seq":`)
	for body, want := range map[string]string{
		``:                                     "not as expected",
		`{`:                                    "not as expected",
		`[]`:                                   "not as expected",
		`{"command":"pause","channel":"a"} {}`: "more than one",
		`{"command":"explode"}`:                "none of pause",
		`{"command":"pause"}`:                  "needs a channel",
		`{"command":"forget"}`:                 "needs an agent",
		`{"command":"set_mode","mode":"off"}`:  "none of enforce, observe",
		`{"command":"set_mode","value":2}`:     "needs a mode",
		`{"command":"set_mode","value":-1}`:    "needs a mode",
		`{"command":"set_mode","value":256}`:   "needs a mode",
		`{"command":"pause","channle":"a"}`:    "unknown field",
		`{"command":"pause","channel":"a","for":"soon"}`:         "not a time",
		`{"command":"pause","channel":"a","for":"-1s"}`:          "not a time",
		`{"command":"set_weight","channel":"a","value":2000000}`: "over 1000000",
		`{"command":"set_limit","channel":"a","value":2000000}`:  "over 1000000",
		`{"command":"force_breaker","channel":"a","value":7}`:    "1 opens",
		`{"command":"pause","channel":"a","value":1e100}`:        "not as expected",
	} {
		r.want(400, "POST", "/api/v1/commands", body, want)
	}
	r.want(404, "POST", "/api/v1/commands", `{"command":"pause","channel":"z"}`, `no channel \"z\"`)
	r.want(404, "POST", "/api/v1/commands", `{"command":"forget","agent":"z"}`, `no agent \"z\"`)
	r.want(415, "POST", "/api/v1/commands", `{}`, "application/json", func(q *http.Request) { q.Header.Set("Content-Type", "text/plain") })
	large := fmt.Sprintf(`{"why":%q}`, strings.Repeat("x", 2<<20))
	r.want(413, "POST", "/api/v1/commands", large, "too large")
	long := fmt.Sprintf(`{"command":"pause","channel":"a","why":%q}`, strings.Repeat("ä", 100_000))
	r.want(200, "POST", "/api/v1/commands", long, `"seq":`)
}

func view(t *testing.T, r *rig) model.FleetView {
	t.Helper()
	v, err := r.loop.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPushes(t *testing.T) {
	r := start(t, nil)
	r.want(200, "POST", "/api/v1/params", `{"name":"try","by":"ann","params":{"window_start":7000}}`, `"seq":`)
	r.want(200, "GET", "/api/v1/params", "", `"window_start":7000`)
	r.want(200, "GET", "/api/v1/params", "", `"name":"try"`)
	r.want(400, "POST", "/api/v1/params", `{"params":{"window_start":7}}`, "outside")
	r.want(400, "POST", "/api/v1/params", `{"params":{"window_stop":7}}`, `no parameter \"window_stop\"`)
	r.want(400, "POST", "/api/v1/params", `{}`, "no parameter is named")
	r.want(400, "POST", "/api/v1/params", `{"params":{"window_start":7000},"guard":{"for_ns":1}}`, "a guard watches for")
	r.want(400, "POST", "/api/v1/params", `{"params":{"window_start":7000},"guard":{"for_ns":60000000000},"canary":"none"}`, "no channel")
	r.want(200, "POST", "/api/v1/params", `{"name":"tried","params":{"window_start":8000},"guard":{"for_ns":60000000000,"goodput_ppm":-20000},"canary":"a"}`, `"seq":`)
	r.want(200, "GET", "/api/v1/params", "", `"name":"try"`)
	r.want(200, "GET", "/api/v1/params", "", `"window_start":8000`)
	r.want(200, "GET", "/api/v1/status", "", `"canary":"a"`)

	config := func(c *model.Config) string { return string(events.Encode(nil, c)) }
	r.want(200, "POST", "/api/v1/config", config(&model.Config{Fleet: fleet, Channels: []model.ChannelConfig{{Name: "new"}}, By: "me", Why: "it came"}), `"seq":`)
	var told string
	for deadline := time.Now().Add(time.Minute); !strings.Contains(told, "by me: it came") && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		told = r.want(200, "GET", "/api/v1/decisions?rule=config", "", "")
	}
	if !strings.Contains(told, "1 channels, 0 groups, 0 routes, by me: it came") {
		t.Errorf("decisions %s, want who pushed the configuration and why", told)
	}
	if v := view(t, r); len(v.Channels) != 1 || v.Channels[0].Name != "new" {
		t.Errorf("channels %+v, want the new one", v.Channels)
	}
	r.want(409, "POST", "/api/v1/config", config(&model.Config{Fleet: "other"}), "of fleet")
	r.want(400, "POST", "/api/v1/config", config(&model.Config{Fleet: fleet, Channels: []model.ChannelConfig{{Name: "a", Groups: []string{"none"}}}}), "unknown group")
	r.want(400, "POST", "/api/v1/config", "junk", "no configuration")
	r.want(400, "POST", "/api/v1/config", "", "decode")
	r.want(400, "POST", "/api/v1/config", string(events.Encode(nil, &model.Lead{Term: 99})), "kind lead")
	if v := view(t, r); v.Term != 1 {
		t.Errorf("term %d, want 1", v.Term)
	}
}

func TestStoppedController(t *testing.T) {
	r := start(t, nil)
	r.stop()
	r.want(503, "GET", "/healthz", "", "does not turn")
	r.want(503, "GET", "/readyz", "", "not running")
	r.want(503, "GET", "/api/v1/channels", "", "not running")
	r.want(500, "GET", "/api/v1/decisions", "", "closed")
	if text := r.want(200, "GET", "/metrics", "", "weir_fold_events_total"); strings.Contains(text, "weir_leader") {
		t.Error("a stopped controller shows a state")
	}
}

func TestServe(t *testing.T) {
	r := start(t, nil)
	l, err := web.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := web.Listen(l.Addr().String()); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("second listener: %v, want an error with the address", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- web.Serve(ctx, l, r.api, slog.New(slog.DiscardHandler)) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 200 || !bytes.Contains(body, []byte(`"leads":true`)) {
		t.Errorf("readyz = %d %s", resp.StatusCode, body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}
