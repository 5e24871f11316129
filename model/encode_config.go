package model

func (c *coder) config(cfg *Config) {
	c.str(&cfg.Fleet)
	num(c, &cfg.Mode)
	list(c, &cfg.Channels, (*coder).channelConfig)
	list(c, &cfg.Groups, func(c *coder, g *GroupConfig) {
		c.str(&g.Name)
		c.limits(&g.Limits)
	})
	list(c, &cfg.Routes, (*coder).route)
	list(c, &cfg.Tenants, (*coder).tenant)
	r := &cfg.Retry
	num(c, &r.MaxAttempts)
	num(c, &r.Base)
	num(c, &r.Max)
	num(c, &r.Multiplier)
	num(c, &r.Jitter)
	num(c, &r.Budget)
	num(c, &r.Total)
	num(c, &cfg.Timeouts.Connect)
	num(c, &cfg.Timeouts.FirstToken)
	num(c, &cfg.Timeouts.Total)
	if c.reading && c.at == len(c.b) {
		return // written before tenants had these
	}
	for i := range cfg.Tenants {
		t := &cfg.Tenants[i]
		num(c, &t.RequestsPerDaySoft)
		num(c, &t.RequestsPerDayHard)
		num(c, &t.DayReset)
	}
}

func (c *coder) channelConfig(ch *ChannelConfig) {
	c.str(&ch.Name)
	c.str(&ch.Provider)
	c.str(&ch.Model)
	list(c, &ch.Groups, (*coder).str)
	c.limits(&ch.Limits)
	c.flag(&ch.ChargeMax)
	num(c, &ch.Price.Input)
	num(c, &ch.Price.Cached)
	num(c, &ch.Price.Output)
	num(c, &ch.OnLoss)
	num(c, &ch.Alone)
	num(c, &ch.Mode)
	c.flag(&ch.HasMode)
}

func (c *coder) limits(l *Limits) {
	num(c, &l.RequestsPerMinute)
	num(c, &l.TokensPerMinute)
	num(c, &l.InputTokensPerMinute)
	num(c, &l.OutputTokensPerMinute)
	num(c, &l.ImagesPerMinute)
	num(c, &l.RequestsPerDay)
	num(c, &l.TokensPerDay)
	num(c, &l.Concurrency)
	num(c, &l.DayReset)
}

func (c *coder) route(r *RouteConfig) {
	c.str(&r.Name)
	list(c, &r.Tiers, func(c *coder, t *TierConfig) {
		list(c, &t.Channels, func(c *coder, w *WeightedChannel) {
			c.str(&w.Channel)
			num(c, &w.Weight)
		})
		c.str(&t.Capability)
		c.str(&t.Rule)
	})
	num(c, &r.DegradeCore)
	num(c, &r.DegradeOther)
}

func (c *coder) tenant(t *TenantConfig) {
	c.str(&t.Name)
	num(c, &t.Priority)
	num(c, &t.Share)
	num(c, &t.TokensPerDaySoft)
	num(c, &t.TokensPerDayHard)
	num(c, &t.CostPerDaySoft)
	num(c, &t.CostPerDayHard)
}
