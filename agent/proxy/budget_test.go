package proxy

import (
	"net/http"
	"strings"
	"testing"

	"weir/agent"
	"weir/model"
)

// TestOutputReserve asks for much, gets little, and then has little reserved;
// what the provider is asked stays what it was.
func TestOutputReserve(t *testing.T) {
	body := strings.Replace(plainBody, `{"model"`, `{"max_tokens":4000,"model"`, 1)
	for name, c := range map[string]struct {
		edit   func(*agent.Config)
		capped bool
	}{
		"by rule":         {func(*agent.Config) {}, true},
		"without":         {func(c *agent.Config) { c.Budgets = nil }, false},
		"charged for all": {func(c *agent.Config) { c.Fleet.Channels[0].ChargeMax = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { say(w, 200, goodAnswer) },
				func(c *agent.Config) { c.Budgets = map[string]agent.BudgetConfig{"route": {Margin: 2}} }, c.edit)
			for range 201 {
				if got := w.post("/v1/chat/completions", body); got.status != 200 {
					t.Fatalf("%+v", got)
				}
			}
			all := w.attempts()
			first, last := all[0].Reserved, all[len(all)-1].Reserved
			if first < 4000 || (last < 50) != c.capped || !c.capped && last < 4000 {
				t.Errorf("%d tokens are reserved at first, %d in the end", first, last)
			}
			w.mu.Lock()
			asked := w.seen[len(w.seen)-1].body
			w.mu.Unlock()
			if asked != strings.Replace(body, `"route"`, `"main-model"`, 1) {
				t.Errorf("the provider is asked %s", asked)
			}
			if text := w.get("/metrics"); strings.Contains(text, `weir_output_reserve_tokens{route="route"} `) != c.capped {
				t.Error("the metric is there or not")
			}
		})
	}
}

// TestInputBudget refuses what is too large for its route, with a word.
func TestInputBudget(t *testing.T) {
	long := question(strings.Repeat("so many words ", 500))
	rule := func(c *agent.Config) { c.Budgets = map[string]agent.BudgetConfig{"route": {Input: 1000}} }
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { say(w, 200, goodAnswer) }, rule)
	if got := w.post("/v1/chat/completions", plainBody); got.status != 200 {
		t.Errorf("%+v", got)
	}
	got := w.post("/v1/chat/completions", long)
	if e := errorOf(t, got); got.status != 400 || e.Code != "input_too_large" || !strings.Contains(got.body, "takes at most 1000") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if n := len(w.attempts()); n != 1 {
		t.Errorf("%d attempts", n)
	}
	seen := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { say(w, 200, goodAnswer) }, rule, func(c *agent.Config) { c.Mode = model.ModeObserve })
	if got := seen.post("/v1/chat/completions", long); got.status != 200 {
		t.Errorf("while it is only watched: %d %s", got.status, got.body)
	}
}

// TestHugeAnswersAskedFor asks for answers of millions of tokens: they take no
// more of a budget than a minute of it, and are refused where that much never
// passes.
func TestHugeAnswersAskedFor(t *testing.T) {
	body := strings.Replace(plainBody, `{"model"`, `{"max_tokens":16000000,"model"`, 1)
	minute := func(n model.Tokens) func(*agent.Config) {
		return func(c *agent.Config) { c.Fleet.Channels[0].Limits.TokensPerMinute = n }
	}
	charged := func(c *agent.Config) { c.Fleet.Channels[0].ChargeMax = true }
	for name, c := range map[string]struct {
		told  string // tokens a minute, by the answers
		edits []func(*agent.Config)
		least model.Tokens // reserved for the last call
		most  model.Tokens
	}{
		"nothing known":  {"", nil, 1 << 20, 1<<20 + 100},
		"a minute known": {"", []func(*agent.Config){minute(9000)}, 9000, 9000},
		"by a group": {"", []func(*agent.Config){minute(9000), func(c *agent.Config) {
			c.Fleet.Groups = []model.GroupConfig{{Name: "g", Limits: model.Limits{TokensPerMinute: 700}}}
			c.Fleet.Channels[0].Groups = []string{"g"}
		}}, 700, 700},
		"by answers":            {"5000", nil, 5000, 5000},
		"charged, told enough":  {"", []func(*agent.Config){minute(20_000_000), charged}, 16_000_000, 1 << 24},
		"charged, never passes": {"", []func(*agent.Config){minute(9000), charged}, 0, 0},
		"charged, only watched": {"", []func(*agent.Config){minute(9000), charged, func(c *agent.Config) { c.Mode = model.ModeObserve }}, 9000, 9000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				if c.told != "" {
					w.Header().Set("X-Ratelimit-Limit-Tokens", c.told)
				}
				say(w, 200, goodAnswer)
			}, c.edits...)
			for range 1 + min(len(c.told), 1) {
				got := w.post("/v1/chat/completions", body)
				if c.most == 0 {
					if e := errorOf(t, got); got.status != 400 || e.Code != "more_than_a_minute" || !strings.Contains(got.body, "at most 9000 through a minute") || got.header.Get("X-Should-Retry") != "false" {
						t.Fatalf("%d %s", got.status, got.body)
					}
				} else if got.status != 200 {
					t.Fatalf("%d %s", got.status, got.body)
				}
			}
			if c.most == 0 {
				if n := len(w.attempts()); n != 0 {
					t.Errorf("%d attempts", n)
				}
				return
			}
			all := w.attempts()
			if got := all[len(all)-1].Reserved; got < c.least || got > c.most {
				t.Errorf("%d tokens are reserved, want %d to %d", got, c.least, c.most)
			}
		})
	}
}

// TestHugeHeaders wants an answer of the SDK's own shape to header fields that
// are larger than any.
func TestHugeHeaders(t *testing.T) {
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { say(w, 200, goodAnswer) })
	got := w.post("/v1/chat/completions", plainBody, "X-Note", strings.Repeat("n", 100<<10))
	if e := errorOf(t, got); got.status != 431 || e.Code != "headers_too_large" || got.header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := w.post("/v1/chat/completions", plainBody, "X-Note", strings.Repeat("n", 60<<10)); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}
