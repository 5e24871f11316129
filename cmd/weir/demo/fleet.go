package demo

import (
	"slices"

	"weir/model"
	"weir/sim/incident"
)

// fleetName is the demo's fleet.
const fleetName = "demo"

// fleetConfig is what a weir.yaml for the incident would say: its channels
// with what is told about them, its routes, its tenants, and the defaults.
func fleetConfig(inc *incident.Incident) *model.Config {
	c := &model.Config{
		Fleet: fleetName,
		Retry: model.RetryConfig{
			MaxAttempts: 3, Base: model.Second, Multiplier: 2 * model.One, Max: 30 * model.Second,
			Jitter: model.One / 5, Budget: model.One / 10, Total: 120 * model.Second,
		},
		Timeouts: model.TimeoutConfig{Connect: 2 * model.Second, FirstToken: 15 * model.Second, Total: 120 * model.Second},
	}
	for i := range inc.Channels {
		ch := &inc.Channels[i]
		c.Channels = append(c.Channels, model.ChannelConfig{
			Name: ch.Name, Provider: string(inc.ProviderByName(ch.Provider).Law.Refusal.Shape), Model: ch.Name,
			Groups: ch.Groups, Limits: told(&ch.Limits), ChargeMax: ch.Charge == incident.ChargeMaxTokens,
		})
	}
	for i := range inc.Groups {
		c.Groups = append(c.Groups, model.GroupConfig{Name: inc.Groups[i].Name, Limits: told(&inc.Groups[i].Limits)})
	}
	// An incident that lists no groups still names them: nothing is told of
	// such a group's limits.
	for i := range inc.Channels {
		for _, name := range inc.Channels[i].Groups {
			if !slices.ContainsFunc(c.Groups, func(g model.GroupConfig) bool { return g.Name == name }) {
				c.Groups = append(c.Groups, model.GroupConfig{Name: name})
			}
		}
	}
	for i := range inc.Routes {
		c.Routes = append(c.Routes, route(&inc.Routes[i]))
	}
	seen := map[string]bool{"": true}
	for i := range inc.Workloads {
		w := &inc.Workloads[i]
		if seen[w.Tenant] {
			continue
		}
		seen[w.Tenant] = true
		priority, _ := model.ParsePriority(string(w.Priority))
		c.Tenants = append(c.Tenants, model.TenantConfig{Name: w.Tenant, Priority: priority, Share: 1})
	}
	c.Normalize()
	return c
}

func route(r *incident.Route) model.RouteConfig {
	out := model.RouteConfig{Name: r.Name, DegradeCore: -1, DegradeOther: 30 * model.Second}
	for _, t := range r.Tiers {
		tier := model.TierConfig{Capability: t.Capability, Rule: t.Rule}
		for _, ch := range t.Channels {
			tier.Channels = append(tier.Channels, model.WeightedChannel{
				Channel: ch.Channel, Weight: uint32(max(1, ch.Weight*100/incident.PPM)),
			})
		}
		out.Tiers = append(out.Tiers, tier)
	}
	return out
}

// told turns limits of an incident, where negative is hidden, into those of a
// configuration, where 0 is.
func told(l *incident.Limits) model.Limits {
	return model.Limits{
		RequestsPerMinute: max(0, l.RPM), TokensPerMinute: model.Tokens(max(0, l.TPM)),
		InputTokensPerMinute: model.Tokens(max(0, l.InputTPM)), OutputTokensPerMinute: model.Tokens(max(0, l.OutputTPM)),
		Concurrency: max(0, l.Concurrency), RequestsPerDay: max(0, l.RequestsPerDay), TokensPerDay: model.Tokens(max(0, l.TokensPerDay)),
	}
}
