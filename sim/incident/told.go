package incident

import (
	"slices"

	"weir/model"
)

// Told returns what a weir.yaml for the incident would say, in normal form:
// its channels with what is told about them, its groups, routes and tenants,
// and the file's defaults for all else. A channel's provider names the rules
// that read its answers, so it is the shape of the true provider's refusals.
// The simulator and the live emulation both run with it.
func (i *Incident) Told(fleet string) *model.Config {
	c := &model.Config{
		Fleet: fleet,
		Retry: model.RetryConfig{
			MaxAttempts: 3, Base: model.Second, Multiplier: 2 * model.One, Max: 30 * model.Second,
			Jitter: model.One / 5, Budget: model.One / 10, Total: 120 * model.Second,
		},
		Timeouts: model.TimeoutConfig{Connect: 2 * model.Second, FirstToken: 15 * model.Second, Total: 120 * model.Second},
	}
	for k := range i.Channels {
		c.Channels = append(c.Channels, i.toldChannel(&i.Channels[k]))
	}
	for k := range i.Groups {
		g := model.GroupConfig{Name: i.Groups[k].Name, Limits: i.Groups[k].Limits.told()}
		for n := range i.Channels {
			if ch := &i.Channels[n]; slices.Contains(ch.Groups, g.Name) {
				g.Limits.DayReset = i.dayReset(ch.Provider)
			}
		}
		c.Groups = append(c.Groups, g)
	}
	// An incident that lists no groups still names them: nothing is told of
	// such a group's limits.
	for k := range i.Channels {
		for _, name := range i.Channels[k].Groups {
			if !slices.ContainsFunc(c.Groups, func(g model.GroupConfig) bool { return g.Name == name }) {
				c.Groups = append(c.Groups, model.GroupConfig{Name: name})
			}
		}
	}
	for k := range i.Routes {
		c.Routes = append(c.Routes, i.Routes[k].told())
	}
	c.Tenants = i.tenants()
	c.Normalize()
	return c
}

func (i *Incident) toldChannel(ch *Channel) model.ChannelConfig {
	c := model.ChannelConfig{
		Name: ch.Name, Model: ch.Name, Groups: slices.Clone(ch.Groups), Limits: ch.Limits.told(),
		ChargeMax: ch.Charge == ChargeMaxTokens, Alone: uint32(ch.Alone),
		Price: model.Price(ch.Price),
	}
	c.Limits.DayReset = i.dayReset(ch.Provider)
	if p := i.ProviderByName(ch.Provider); p != nil {
		c.Provider = string(p.Law.Refusal.Shape)
	}
	switch ch.Loss {
	case LossZero:
		c.OnLoss = model.OnLossZero
	case LossLast:
		c.OnLoss = model.OnLossLast
	case LossSafe:
		c.OnLoss = model.OnLossSafe
	}
	return c
}

// dayReset is when a provider's day ends by the simulator's log, which begins a
// second after midnight; a second late rather than early.
func (i *Incident) dayReset(provider string) model.Nanos {
	const day = 24 * model.Hour
	p := i.ProviderByName(provider)
	if p == nil {
		return 0
	}
	return (day - model.Nanos(p.Law.DayElapsed) + 2*model.Second) % day
}

func (r *Route) told() model.RouteConfig {
	out := model.RouteConfig{Name: r.Name, DegradeCore: -1, DegradeOther: 30 * model.Second}
	for _, t := range r.Tiers {
		tier := model.TierConfig{Capability: t.Capability, Rule: t.Rule}
		for _, ch := range t.Channels {
			tier.Channels = append(tier.Channels, model.WeightedChannel{
				Channel: ch.Channel, Weight: uint32(max(1, ch.Weight*100/PPM)),
			})
		}
		out.Tiers = append(out.Tiers, tier)
	}
	return out
}

// told turns limits of an incident, where negative is hidden, into those of a
// configuration, where 0 is.
func (l *Limits) told() model.Limits {
	return model.Limits{
		RequestsPerMinute: max(0, l.RPM), TokensPerMinute: model.Tokens(max(0, l.TPM)),
		InputTokensPerMinute: model.Tokens(max(0, l.InputTPM)), OutputTokensPerMinute: model.Tokens(max(0, l.OutputTPM)),
		Concurrency: max(0, l.Concurrency), RequestsPerDay: max(0, l.RequestsPerDay), TokensPerDay: model.Tokens(max(0, l.TokensPerDay)),
	}
}
