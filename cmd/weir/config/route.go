package config

import (
	"time"

	"github.com/goccy/go-yaml/ast"

	"weir/agent"
	"weir/model"
	"weir/sim/strict"
)

func (r *reader) route(n ast.Node, path string) model.RouteConfig {
	c := model.RouteConfig{DegradeCore: -1, DegradeOther: 30 * model.Second}
	f := r.Mapping(n, path)
	if f == nil {
		return c
	}
	f.Need("name")
	r.modelName(f, "name", &c.Name)
	for _, t := range f.Tiers("tiers") {
		c.Tiers = append(c.Tiers, tier(&t))
	}
	if d := f.Child("degrade_after"); d != nil {
		r.degrade(d, "core", &c.DegradeCore)
		r.degrade(d, "other", &c.DegradeOther)
		d.Done()
	}
	if b := f.Child("budget"); b != nil {
		r.budget(b, c.Name)
	}
	f.Done()
	return c
}

// budget reads the rule on what a route's requests may take.
func (r *reader) budget(f *strict.Fields, route string) {
	var c agent.BudgetConfig
	count(f, "input", &c.Input, 1, maxLimit)
	margin := int64(0)
	f.Ratio("output_margin", &margin, strict.PPM, maxRatio)
	c.Margin = float64(margin) / strict.PPM
	f.Done()
	if r.file.Agent.Budgets == nil {
		r.file.Agent.Budgets = map[string]agent.BudgetConfig{}
	}
	r.file.Agent.Budgets[route] = c
}

// degrade reads how long work waits before it goes to the next tier: a
// duration or never.
func (r *reader) degrade(f *strict.Fields, key string, dst *model.Nanos) {
	n := f.Get(key)
	if n == nil {
		return
	}
	if n.GetToken().Value == "never" {
		*dst = -1
		return
	}
	if d, err := time.ParseDuration(n.GetToken().Value); err != nil || d < 0 || d > strict.MaxSpan {
		r.Fault(n, "%s: must be never or a duration from 0 such as 30s, got %s", f.Sub(key), strict.Show(n))
		return
	}
	span(f, key, dst, 0)
}

// weightUnit is a weight of 1: weights go down to a hundredth.
const weightUnit = 100

func tier(t *strict.Tier) model.TierConfig {
	out := model.TierConfig{Capability: t.Capability, Rule: t.Rule}
	for _, w := range t.Channels {
		out.Channels = append(out.Channels, model.WeightedChannel{Channel: w.Channel, Weight: uint32(w.Weight / (strict.PPM / weightUnit))})
	}
	return out
}

func (r *reader) tenant(n ast.Node, path string) model.TenantConfig {
	t := model.TenantConfig{Priority: model.PriorityNormal, Share: 1}
	f := r.Mapping(n, path)
	if f == nil {
		return t
	}
	f.Need("name")
	f.Name("name", &t.Name)
	t.Priority = priority(f, t.Priority)
	count(f, "share", &t.Share, 1, maxShare)
	if c := f.Child("tokens_per_day"); c != nil {
		count(c, "soft", &t.TokensPerDaySoft, 1, maxLimit)
		count(c, "hard", &t.TokensPerDayHard, 1, maxLimit)
		r.softFirst(c, int64(t.TokensPerDaySoft), int64(t.TokensPerDayHard))
	}
	if c := f.Child("requests_per_day"); c != nil {
		count(c, "soft", &t.RequestsPerDaySoft, 1, maxLimit)
		count(c, "hard", &t.RequestsPerDayHard, 1, maxLimit)
		r.softFirst(c, t.RequestsPerDaySoft, t.RequestsPerDayHard)
	}
	if c := f.Child("cost_per_day"); c != nil {
		ratio(c, "soft", &t.CostPerDaySoft, 1, maxLimit)
		ratio(c, "hard", &t.CostPerDayHard, 1, maxLimit)
		r.softFirst(c, t.CostPerDaySoft, t.CostPerDayHard)
	}
	r.reset(f, &t.DayReset)
	f.Done()
	return t
}

// softFirst ends a pair of limits: the one that warns must not be above the
// one that refuses.
func (r *reader) softFirst(f *strict.Fields, soft, hard int64) {
	if hard > 0 && soft > hard {
		r.Fault(f.Key("soft"), "%s: is above hard, so it would never warn", f.Sub("soft"))
	}
	f.Done()
}

func priority(f *strict.Fields, p model.Priority) model.Priority {
	word := p.String()
	strict.Choose(f, "priority", &word,
		model.PriorityInteractive.String(), model.PriorityNormal.String(), model.PriorityBatch.String())
	p, _ = model.ParsePriority(word)
	return p
}

func (r *reader) retry(f *strict.Fields, c *model.RetryConfig) {
	count(f, "max_attempts", &c.MaxAttempts, 1, 100)
	span(f, "base", &c.Base, time.Millisecond)
	ratio(f, "multiplier", &c.Multiplier, strict.PPM, maxRatio)
	c.Max = max(c.Max, c.Base)
	span(f, "max", &c.Max, c.Base.Duration())
	ratio(f, "jitter", &c.Jitter, 0, strict.PPM)
	ratio(f, "budget", &c.Budget, 0, strict.PPM)
	span(f, "total", &c.Total, time.Millisecond)
	f.Done()
}

func (r *reader) timeouts(f *strict.Fields, c *model.TimeoutConfig) {
	span(f, "connect", &c.Connect, time.Millisecond)
	span(f, "first_token", &c.FirstToken, time.Millisecond)
	span(f, "total", &c.Total, time.Millisecond)
	f.Done()
}
