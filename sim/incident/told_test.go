package incident

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"weir/model"
)

// TestTold holds that every built-in incident makes a configuration that a
// controller takes, with nothing lost on the way.
func TestTold(t *testing.T) {
	for _, name := range List() {
		inc, err := Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		c := inc.Told("test")
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(c.Routes) != len(inc.Routes) || len(c.Channels) != len(inc.Channels) || c.Fleet != "test" {
			t.Errorf("%s: fleet %s with %d routes and %d channels", name, c.Fleet, len(c.Routes), len(c.Channels))
		}
	}
}

func TestToldSaysWhatTheFileSays(t *testing.T) {
	inc, err := Parse("told", strings.NewReader(`
name: told
duration: 1m
fleet: {agents: 1}
channels:
  - {name: a, provider: p, groups: [g], limits: {rpm: 60, concurrency: 7}, charge: max_tokens, price: {input: 0.3, cached: 0.03, output: 1.2}, on_controller_loss: last, alone: 3}
  - {name: b, provider: p, on_controller_loss: zero}
routes:
  - {name: r, tiers: [[{channel: a, weight: 2}], {rule: later}]}
providers:
  - name: p
    concurrency: 10
    service: {base: 1s}
    refusal: {status: 429, shape: anthropic}
workload:
  - {name: w, route: r, tenant: t, priority: interactive, arrivals: {kind: poisson, rate: 1}, input_tokens: {kind: fixed, value: 9}, output_tokens: {kind: fixed, value: 9}}
  - {name: v, route: r, tenant: t, priority: batch, arrivals: {kind: poisson, rate: 1}, input_tokens: {kind: fixed, value: 9}, output_tokens: {kind: fixed, value: 9}}
tenants:
  - {name: t, share: 3, requests_per_day: {hard: 50}, tokens_per_day: {soft: 900, hard: 1000}, cost_per_day: {soft: 0.25, hard: 8}}
`))
	if err != nil {
		t.Fatal(err)
	}
	c := inc.Told("f")
	a, b := &c.Channels[0], &c.Channels[1]
	if a.Provider != "anthropic" || a.Limits.RequestsPerMinute != 60 || a.Limits.Concurrency != 7 || a.Limits.TokensPerMinute != 0 ||
		!a.ChargeMax || a.OnLoss != model.OnLossLast || a.Alone != 3 || b.OnLoss != model.OnLossZero {
		t.Errorf("channels %+v", c.Channels)
	}
	if len(c.Groups) != 1 || c.Groups[0].Name != "g" {
		t.Errorf("groups %+v, want the one that is only named", c.Groups)
	}
	if tiers := c.Routes[0].Tiers; len(tiers) != 2 || tiers[0].Channels[0].Weight != 200 || tiers[1].Rule != "later" {
		t.Errorf("tiers %+v", tiers)
	}
	if len(c.Tenants) != 1 || c.Tenants[0].Priority != model.PriorityInteractive {
		t.Errorf("tenants %+v, want one with its first workload's priority", c.Tenants)
	}
	if got := c.Tenants[0]; got.Share != 3 || got.RequestsPerDayHard != 50 || got.RequestsPerDaySoft != 0 || got.TokensPerDaySoft != 900 || got.TokensPerDayHard != 1000 {
		t.Errorf("tenant %+v", got)
	} else if got.CostPerDaySoft != 250_000 || got.CostPerDayHard != 8_000_000 {
		t.Errorf("cost of tenant %+v", got)
	}
	if got, want := a.Price, (model.Price{Input: 300_000, Cached: 30_000, Output: 1_200_000}); got != want || b.Price != (model.Price{}) {
		t.Errorf("prices %+v and %+v, want %+v and none", got, b.Price, want)
	}
	var text bytes.Buffer
	if err := Write(&text, inc); err != nil {
		t.Fatal(err)
	}
	again, err := Parse("again.yaml", &text)
	if err != nil || !slices.Equal(again.Tenants, inc.Tenants) || again.Channels[0].Price != inc.Channels[0].Price {
		t.Errorf("read again: %+v, %v", again, err)
	}
}
