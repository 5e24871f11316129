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
