package proxy

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/agent"
	"weir/model"
)

// toldWorld makes a world whose controller told it l.
func toldWorld(t *testing.T, scripts map[string]script, l *model.LimitSet, edit ...func(*agent.Config)) *world {
	t.Helper()
	w := newWorldOf(t, scripts, edit...)
	out := w.bus.Outbox()
	if err := out.PutTerm(t.Context(), &model.TermNotice{Term: 1, Seq: 1, Controller: "test"}); err != nil {
		t.Fatal(err)
	}
	l.Term, l.Seq = 1, 5
	for i := range l.Channels {
		l.Channels[i].Revision, l.Channels[i].Weight = 5, model.One
	}
	if err := out.PutLimits(t.Context(), l, true); err != nil {
		t.Fatal(err)
	}
	var v model.GateView
	for range 500 {
		if w.client.View(&v); v.Term == 1 && heard(&v, l) {
			return w
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the agent did not hear what it was told")
	return nil
}

// heard reports whether all of l was heard.
func heard(v *model.GateView, l *model.LimitSet) bool {
	seen := map[string]bool{}
	for _, c := range v.Channels {
		seen[c.Channel] = c.Wait > 0
	}
	for _, q := range v.Quotas {
		seen[q.Name] = q.Reset > 0
	}
	for _, c := range l.Channels {
		if !seen[c.Channel] {
			return false
		}
	}
	for _, q := range l.Quotas {
		if !seen[q.Name] {
			return false
		}
	}
	return true
}

func goods(_ int, w http.ResponseWriter, _ *http.Request) { good(w) }

func TestTenantCeilings(t *testing.T) {
	const why = "tenant content: tokens_per_day 500 reached; nothing starts for 90s"
	tenant := model.Quota{Name: model.DayOfTenant("content"), Reset: 90 * model.Second, Used: [model.NumDaily]int64{3, 450, 1_500_000}, Soft: [model.NumDaily]int64{0, 400, 0}, Hard: [model.NumDaily]int64{0, 500, 0}}

	soft := tenant
	soft.Stage, soft.Reason = model.StageSoft, "tenant content: tokens_per_day 400 passed"
	w := toldWorld(t, map[string]script{"main": goods}, &model.LimitSet{Quotas: []model.Quota{soft}})
	got := w.post("/v1/chat/completions", plainBody, "X-Weir-Tenant", "content")
	if got.status != 200 || got.header.Get("X-Weir-Warning") != soft.Reason {
		t.Errorf("status %d, warning %q; want 200 and %q", got.status, got.header.Get("X-Weir-Warning"), soft.Reason)
	}
	if other := w.post("/v1/chat/completions", plainBody); other.status != 200 || other.header.Get("X-Weir-Warning") != "" {
		t.Errorf("another client: status %d, warning %q", other.status, other.header.Get("X-Weir-Warning"))
	}

	hard := tenant
	hard.Stage, hard.Reason, hard.Used[model.DailyTokens] = model.StageSpent, why, 512
	w = toldWorld(t, map[string]script{"main": goods}, &model.LimitSet{Quotas: []model.Quota{hard}}, func(c *agent.Config) {
		c.Fleet.Routes[0].Tiers = append(c.Fleet.Routes[0].Tiers, model.TierConfig{Rule: "busy"})
		c.Fleet.Routes[0].DegradeCore, c.Fleet.Routes[0].DegradeOther = 0, 0
	})
	for path, kind := range map[string]string{"/v1/chat/completions": "insufficient_quota", "/v1/messages": "rate_limit_error"} {
		got := w.post(path, plainBody, "X-Weir-Tenant", "content")
		e := errorOf(t, got)
		if got.status != 429 || e.Type != kind || e.Weir.Class != "quota_exhausted" || e.Message != why || got.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: status %d, %+v", path, got.status, e)
		}
		if wait := got.header.Get("Retry-After"); wait != "90" && wait != "89" || e.Weir.WaitS == nil || *e.Weir.WaitS > 90 || *e.Weir.WaitS < 80 {
			t.Errorf("%s: Retry-After %s, wait %v", path, wait, e.Weir.WaitS)
		}
	}
	if other := w.post("/v1/chat/completions", plainBody); other.status != 200 {
		t.Errorf("another client: status %d: %s", other.status, other.body)
	}
	if n := len(w.got()); n != 1 {
		t.Errorf("the provider saw %d calls, want that of the other client alone", n)
	}
}

func TestSpentDay(t *testing.T) {
	spent := model.LimitSet{
		Channels: []model.ChannelLimit{{Channel: "main", Wait: 2 * model.Hour, Spent: true, Reason: "budget.day: used up"}},
		Quotas:   []model.Quota{{Name: "channel/main", Stage: model.StageSpent, Reset: 2 * model.Hour, Used: [model.NumDaily]int64{100, 9, 0}, Hard: [model.NumDaily]int64{100, 0, 0}}},
	}
	limited := func(c *agent.Config) { c.Fleet.Channels[0].Limits.RequestsPerDay = 100 }
	w := toldWorld(t, map[string]script{"main": goods, "spare": goods}, &spent, limited)
	if got := w.post("/v1/chat/completions", plainBody); got.status != 200 || got.header.Get("X-Weir-Channel") != "spare" || got.header.Get("X-Weir-Degraded") != "true" {
		t.Errorf("status %d from %s: %s", got.status, got.header.Get("X-Weir-Channel"), got.body)
	}
	w = toldWorld(t, map[string]script{"main": goods}, &spent, limited)
	got := w.post("/v1/chat/completions", plainBody)
	e := errorOf(t, got)
	if wait := got.header.Get("Retry-After"); got.status != 429 || e.Weir.Class != "quota_exhausted" || wait != "7200" && wait != "7199" || e.Weir.Channel != "main" {
		t.Errorf("status %d, Retry-After %s, %+v", got.status, got.header.Get("Retry-After"), e)
	}
	if len(w.got()) != 0 {
		t.Error("the provider was called")
	}
}

func TestQuotaPage(t *testing.T) {
	w := toldWorld(t, map[string]script{"main": goods}, &model.LimitSet{Quotas: []model.Quota{
		{Name: "channel/main", Reset: model.Hour, Used: [model.NumDaily]int64{40, 9000, 0}, Hard: [model.NumDaily]int64{100, 0, 0}},
		{Name: "group/acct", Reset: model.Hour, Used: [model.NumDaily]int64{40, 9000, 0}, Hard: [model.NumDaily]int64{0, 10_000, 0}},
		{Name: model.DayOfTenant("content"), Stage: model.StageSoft, Reset: model.Hour, Used: [model.NumDaily]int64{7, 700, 2_500_000}, Soft: [model.NumDaily]int64{0, 0, 2_000_000}, Hard: [model.NumDaily]int64{0, 0, 3_000_000}},
		{Name: model.DayOfTenant("other"), Reset: model.Hour, Used: [model.NumDaily]int64{1, 2, 3}},
	}}, func(c *agent.Config) {
		c.Fleet.Groups = []model.GroupConfig{{Name: "acct", Limits: model.Limits{TokensPerDay: 10_000, RequestsPerMinute: 600}}}
		c.Fleet.Channels[0].Groups, c.Fleet.Channels[0].Limits.RequestsPerDay = []string{"acct"}, 100
		c.Fleet.Tenants = append(c.Fleet.Tenants, model.TenantConfig{Name: "other"})
	})
	var page quotaPage
	if err := json.Unmarshal([]byte(w.get("/weir/quota")), &page); err != nil {
		t.Fatal(err)
	}
	if len(page.Channels) != 1 || page.Channels[0].Day == nil || len(page.Groups) != 1 || page.Groups[0].Day == nil || page.Groups[0].Minute == nil || len(page.Tenants) != 2 {
		t.Fatalf("got %+v", page)
	}
	if d := page.Channels[0].Day; *d.Requests.Left != 60 || *d.Requests.Hard != 100 || d.Tokens.Left != nil || *d.ResetS > 3600 || *d.ResetS < 3500 {
		t.Errorf("channel: %+v", d)
	}
	if d := page.Groups[0].Day; *d.Tokens.Left != 1000 {
		t.Errorf("group: %+v", d)
	}
	if d := page.Tenants[0].Day; d.Stage != "soft" || d.Cost.Used != 2.5 || *d.Cost.Left != 0.5 || *d.Cost.Soft != 2 || d.Tokens.Used != 700 {
		t.Errorf("tenant: %+v", d)
	}

	w.proxy.SetKeys(Keys{sha256.Sum256([]byte("client-key")): {Tenant: "content"}})
	r := w.request(t.Context(), "/weir/quota", "")
	r.Method = http.MethodGet
	if got := w.do(r); got.status != 200 || !strings.Contains(got.body, `"content"`) || strings.Contains(got.body, `"other"`) {
		t.Errorf("a client sees other tenants: %s", got.body)
	}
}
