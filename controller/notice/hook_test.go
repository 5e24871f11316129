package notice_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/google/go-cmp/cmp"

	"weir/controller"
	"weir/controller/notice"
	"weir/model"
)

// receiver is an address that remembers what came, and answers as it is told.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	answer func(n int, w http.ResponseWriter)
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter)) *receiver {
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.bodies = append(r.bodies, string(body))
		n := len(r.bodies)
		r.mu.Unlock()
		if r.answer != nil {
			r.answer(n, w)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.bodies...)
}

// send sends notices through a hook and returns its counters and log when all
// are done with.
func send(t *testing.T, o notice.HookOptions, notices ...notice.Notice) (counters, log string) {
	t.Helper()
	var text bytes.Buffer
	set := metrics.NewSet()
	o.Name, o.Pause = "HOOK", time.Millisecond
	h := notice.NewHook(o, set, slog.New(slog.NewTextHandler(&text, nil)))
	for _, n := range notices {
		h.Tell(n)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { h.Run(ctx); close(done) }()
	sum := func() (n uint64) {
		for _, result := range []string{"sent", "dropped"} {
			n += set.GetOrCreateCounter(`weir_notices_total{hook="HOOK",result="` + result + `"}`).Get()
		}
		return n
	}
	for start := time.Now(); sum() < uint64(len(notices)); time.Sleep(time.Millisecond) {
		if time.Since(start) > 30*time.Second {
			t.Fatal("a notice is neither sent nor dropped")
		}
	}
	stop()
	<-done
	var b bytes.Buffer
	set.WritePrometheus(&b)
	return b.String(), text.String()
}

var stopped = notice.Notice{
	Fleet: "prod", State: notice.Firing, Kind: notice.KindBreaker, Subject: "main", Text: "channel main takes no calls: 5 of 5 \"refused\" <!all>",
	At: time.Unix(100, 0).UTC(), Since: time.Unix(90, 0).UTC(), Link: "https://weir.example",
}

func TestShapes(t *testing.T) {
	over := stopped
	over.State, over.Again = notice.Resolved, 2
	for shape, want := range map[notice.Shape][]string{
		notice.Generic: {
			`{"fleet":"prod","state":"firing","kind":"breaker","subject":"main","text":"channel main takes no calls: 5 of 5 \"refused\" \u003c!all\u003e","at":"1970-01-01T00:01:40Z","since":"1970-01-01T00:01:30Z","link":"https://weir.example"}`,
			`{"fleet":"prod","state":"resolved","kind":"breaker","subject":"main","text":"channel main takes no calls: 5 of 5 \"refused\" \u003c!all\u003e","at":"1970-01-01T00:01:40Z","since":"1970-01-01T00:01:30Z","again":2,"link":"https://weir.example"}`,
		},
		notice.Slack: {
			`{"text":"🔴 weir prod: channel main takes no calls: 5 of 5 \"refused\" \u0026lt;!all\u0026gt; https://weir.example"}`,
			`{"text":"🟢 over: weir prod: channel main takes no calls: 5 of 5 \"refused\" \u0026lt;!all\u0026gt; (came and went 2 times since the last notice) (lasted 10s) https://weir.example"}`,
		},
		notice.Feishu: {
			`{"content":{"text":"🔴 weir prod: channel main takes no calls: 5 of 5 \"refused\" ＜!all\u003e https://weir.example"},"msg_type":"text"}`,
			`{"content":{"text":"🟢 over: weir prod: channel main takes no calls: 5 of 5 \"refused\" ＜!all\u003e (came and went 2 times since the last notice) (lasted 10s) https://weir.example"},"msg_type":"text"}`,
		},
	} {
		r := newReceiver(t, nil)
		send(t, notice.HookOptions{URL: r.URL, Shape: shape}, stopped, over)
		if diff := cmp.Diff(want, r.got()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", shape, diff)
		}
	}
}

// TestTries: what may pass is tried again, what cannot is not, and the address
// is told to nobody.
func TestTries(t *testing.T) {
	status := func(codes ...int) func(int, http.ResponseWriter) {
		return func(n int, w http.ResponseWriter) {
			code := codes[min(n, len(codes))-1]
			if code == http.StatusFound {
				w.Header().Set("Location", "/elsewhere")
			}
			w.WriteHeader(code)
		}
	}
	for name, c := range map[string]struct {
		answer func(int, http.ResponseWriter)
		shape  notice.Shape
		calls  int
		sent   bool
	}{
		"busy":     {status(503, 429, 200), notice.Generic, 3, true},
		"down":     {status(500), notice.Generic, 4, false},
		"gone":     {status(404), notice.Generic, 1, false},
		"redirect": {status(302), notice.Generic, 1, false},
		"refused":  {func(_ int, w http.ResponseWriter) { _, _ = io.WriteString(w, `{"code":19001}`) }, notice.Feishu, 1, false},
		"taken":    {func(_ int, w http.ResponseWriter) { _, _ = io.WriteString(w, `{"code":0}`) }, notice.Feishu, 1, true},
		"long":     {func(_ int, w http.ResponseWriter) { _, _ = w.Write(make([]byte, 1<<20)) }, notice.Slack, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, c.answer)
			counters, log := send(t, notice.HookOptions{URL: r.URL + "/services/secret-token", Shape: c.shape}, stopped)
			if got := r.got(); len(got) != c.calls {
				t.Errorf("%d calls, want %d", len(got), c.calls)
			}
			if sent := strings.Contains(counters, `result="sent"} 1`); sent != c.sent {
				t.Errorf("sent %t, want %t:\n%s", sent, c.sent, counters)
			}
			if strings.Contains(log+counters, "secret-token") || strings.Contains(log, r.URL) {
				t.Errorf("the address is told: %s%s", log, counters)
			}
		})
	}
	_, log := send(t, notice.HookOptions{URL: "http://127.0.0.1:1/secret-token"}, stopped)
	if strings.Contains(log, "secret-token") || !strings.Contains(log, "HOOK") {
		t.Errorf("log %q", log)
	}
}

func TestHookIsBounded(t *testing.T) {
	set := metrics.NewSet()
	h := notice.NewHook(notice.HookOptions{Name: "H", Only: []notice.Kind{notice.KindBreaker}}, set, slog.New(slog.DiscardHandler))
	for range 250 {
		h.Tell(stopped)
		h.Tell(notice.Notice{Kind: notice.KindLog})
	}
	if n := set.GetOrCreateCounter(`weir_notices_total{hook="H",result="dropped"}`).Get(); n != 150 {
		t.Errorf("%d dropped, want 150", n)
	}
}

func TestWrong(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &controller.Status{Telling: "no answer", Faults: []controller.Fault{{At: now.Add(-time.Hour), Text: "old"}, {At: now.Add(-time.Second), Text: "it ends at 3"}}}
	v := &model.FleetView{
		Channels: []model.FleetChannel{
			{Name: "a", State: model.BreakerOpen, Reason: "5 failures"},
			{Name: "b", State: model.BreakerClosed},
			{Name: "c", State: model.BreakerMisconfigured, Reason: "401"},
			{Name: "d", State: model.BreakerHalfOpen, Reason: "probe"},
		},
		Days: []model.FleetDay{{Name: "tenant/t", At: model.StageSpent, Reason: "5000 of 5000 tokens"}, {Name: "channel/b", At: model.StageSoft}},
		Routes: []model.FleetRoute{
			{Name: "well", Tiers: []model.FleetTier{{Channels: []string{"a", "b"}}}},
			{Name: "lesser", Tiers: []model.FleetTier{{Channels: []string{"a", "c"}}, {Channels: []string{"b"}}}},
			{Name: "text", Tiers: []model.FleetTier{{Channels: []string{"a"}}, {Channels: []string{"d"}}, {Rule: true}}},
			{Name: "gone", Tiers: []model.FleetTier{{Channels: []string{"a"}}}},
		},
		Agents: []model.FleetAgent{{Agent: "x", State: "here"}, {Agent: "y", State: "away"}, {Agent: "z", State: "left"}},
	}
	want := []notice.Condition{
		{Kind: notice.KindBreaker, Subject: "a", Text: "channel a takes no calls: 5 failures"},
		{Kind: notice.KindCredential, Subject: "c", Text: "channel c: its key is refused: 401"},
		{Kind: notice.KindBreaker, Subject: "d", Text: "channel d takes no calls: probe"},
		{Kind: notice.KindQuota, Subject: "tenant/t", Text: "the day of tenant/t is spent: 5000 of 5000 tokens"},
		{Kind: notice.KindRoute, Subject: "lesser", Text: "route lesser is served by tier 1"},
		{Kind: notice.KindRoute, Subject: "text", Text: "route text is served by tier 2"},
		{Kind: notice.KindRoute, Subject: "gone", Text: "nothing serves route gone"},
		{Kind: notice.KindAgents, Text: "1 of 3 agents are not heard: y"},
		{Kind: notice.KindLog, Text: "the event log lost entries: it ends at 3"},
		{Kind: notice.KindBus, Text: "the agents cannot be told: no answer"},
	}
	if diff := cmp.Diff(want, notice.Wrong(now, s, v)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := notice.Wrong(now, &controller.Status{}, &model.FleetView{Channels: v.Channels[1:2], Agents: v.Agents[:1]}); got != nil {
		t.Errorf("a healthy fleet: %+v", got)
	}
}

// source is a controller that leads and has decided what it is told to have.
type source struct {
	mu      sync.Mutex
	decided []controller.Decision
}

func (*source) Status(context.Context) (controller.Status, error) {
	return controller.Status{Leads: true, CaughtUp: true}, nil
}

func (s *source) View(context.Context) (model.FleetView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return model.FleetView{Seq: uint64(len(s.decided))}, nil
}

func (s *source) Decisions(q controller.DecisionQuery) (found []controller.Decision, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.decided {
		if d.Seq >= q.From && d.Rule == q.Rule {
			found = append(found, d)
		}
	}
	return found, nil
}

// TestTakenBack holds that a push that its guard took back is told once, and
// neither a kept one nor what was before the controller led.
func TestTakenBack(t *testing.T) {
	r := newReceiver(t, func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusOK) })
	h := notice.NewHook(notice.HookOptions{Name: "H", URL: r.URL}, metrics.NewSet(), slog.New(slog.DiscardHandler))
	back := func(seq uint64) controller.Decision {
		return controller.Decision{Seq: seq, Rule: "params", Reason: "bad (1) taken back after 10s"}
	}
	s := &source{decided: []controller.Decision{back(1)}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go (&notice.Teller{Source: s, Hooks: []*notice.Hook{h}}).Run(ctx)
	time.Sleep(1500 * time.Millisecond) // it has looked once
	s.mu.Lock()
	s.decided = append(s.decided, controller.Decision{Seq: 2, Rule: "params", Reason: "good (2) stays"}, back(3))
	s.mu.Unlock()
	for len(r.got()) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(1500 * time.Millisecond) // it looks again, and has no more news
	if got := r.got(); len(got) != 1 || !strings.Contains(got[0], `"guard"`) || !strings.Contains(got[0], "bad (1) taken back") {
		t.Errorf("told %v", got)
	}
}
