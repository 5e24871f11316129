package events

import (
	"cmp"
	"math"
	"slices"

	"weir/model"
)

// Bounds of a configuration.
const (
	maxGroups       = 4096
	maxGroupsOf     = 64 // groups of one channel
	maxRoutes       = 4096
	maxTiers        = 64
	maxTierChannels = 1024
	maxTenants      = 65536
)

// encodeConfig writes the sections of a configuration. Its encoding is
// canonical: lists are sorted by name, every number has one form, so that
// equal configurations are equal bytes and a hash of them identifies one. The
// entry begins at start.
func encodeConfig(b []byte, start int, c *model.Config) []byte {
	b, at := open(b)
	b = appendString(b, c.Fleet, MaxName)
	b = append(b, byte(c.Mode))
	b = appendRetry(b, &c.Retry)
	b = appendCount(b, c.Timeouts.Connect)
	b = appendCount(b, c.Timeouts.FirstToken)
	b = shut(appendCount(b, c.Timeouts.Total), at)

	b = appendSorted(b, c.Channels, func(x *model.ChannelConfig) string { return x.Name }, appendChannelConfig)
	b = appendSorted(b, c.Groups, func(x *model.GroupConfig) string { return x.Name }, appendGroup)
	b = appendSorted(b, c.Routes, func(x *model.RouteConfig) string { return x.Name }, appendRoute)
	b = appendSorted(b, c.Tenants, func(x *model.TenantConfig) string { return x.Name }, appendTenant)
	pushed := c.By != "" || c.Why != ""
	if pushed || slices.ContainsFunc(c.Tenants, tenantHasMore) {
		added(b, start, 1)
		b = appendSorted(b, c.Tenants, func(x *model.TenantConfig) string { return x.Name }, appendTenantMore)
	}
	if pushed {
		added(b, start, 2)
		b, at = open(b)
		b = appendString(b, c.By, maxString)
		b = shut(appendString(b, c.Why, maxText), at)
	}
	return b
}

// tenantHasMore reports whether t says what the first layout has no place for.
func tenantHasMore(t model.TenantConfig) bool {
	return t.RequestsPerDaySoft > 0 || t.RequestsPerDayHard > 0 || t.DayReset > 0
}

func appendTenantMore(b []byte, t *model.TenantConfig) []byte {
	b = appendCount(b, t.RequestsPerDaySoft)
	b = appendCount(b, t.RequestsPerDayHard)
	return appendCount(b, min(t.DayReset, day-1))
}

// readTenantsMore reads what was added to tenants, which are those of c.
func readTenantsMore(r *reader, c *model.Config) {
	for _, t := range readSorted(r, "tenants", maxTenants, 5, func(r *reader, name string) model.TenantConfig {
		return model.TenantConfig{
			Name: name, RequestsPerDaySoft: r.count(), RequestsPerDayHard: r.count(),
			DayReset: model.Nanos(r.bounded("day reset", uint64(day-1))),
		}
	}) {
		i, ok := slices.BinarySearchFunc(c.Tenants, t.Name, func(x model.TenantConfig, name string) int { return cmp.Compare(x.Name, name) })
		if !ok {
			r.failf("more of tenant %q, which is not there", t.Name)
			return
		}
		to := &c.Tenants[i]
		to.RequestsPerDaySoft, to.RequestsPerDayHard, to.DayReset = t.RequestsPerDaySoft, t.RequestsPerDayHard, t.DayReset
	}
}

// appendSorted appends a section with the elements of a list by name.
func appendSorted[T any](b []byte, items []T, name func(*T) string, put func([]byte, *T) []byte) []byte {
	byName := func(x, y T) int { return cmp.Compare(name(&x), name(&y)) }
	if !slices.IsSortedFunc(items, byName) {
		items = slices.Clone(items)
		slices.SortStableFunc(items, byName)
	}
	b, at := open(b)
	b = appendUvarint(b, uint64(len(items)))
	for i := range items {
		b = appendString(b, name(&items[i]), maxString)
		b = put(b, &items[i])
	}
	return shut(b, at)
}

func appendRetry(b []byte, c *model.RetryConfig) []byte {
	b = append(b, c.MaxAttempts)
	b = appendCount(b, c.Base)
	b = appendCount(b, c.Max)
	b = appendCount(b, c.Multiplier)
	b = appendCount(b, c.Jitter)
	b = appendCount(b, c.Budget)
	return appendCount(b, c.Total)
}

func appendChannelConfig(b []byte, c *model.ChannelConfig) []byte {
	b = appendString(b, c.Provider, maxString)
	b = appendString(b, c.Model, maxString)
	groups := c.Groups
	if !slices.IsSorted(groups) {
		groups = slices.Sorted(slices.Values(groups))
	}
	b = appendUvarint(b, uint64(len(groups)))
	for _, g := range groups {
		b = appendString(b, g, maxString)
	}
	b = appendLimits(b, &c.Limits)
	b = appendBool(b, c.ChargeMax)
	b = appendCount(b, c.Price.Input)
	b = appendCount(b, c.Price.Cached)
	b = appendCount(b, c.Price.Output)
	b = append(b, byte(c.OnLoss))
	b = appendUvarint(b, uint64(c.Alone))
	if !c.HasMode {
		return append(b, 0)
	}
	return append(b, 1+byte(c.Mode))
}

func appendLimits(b []byte, l *model.Limits) []byte {
	b = appendCount(b, l.RequestsPerMinute)
	b = appendCount(b, l.TokensPerMinute)
	b = appendCount(b, l.InputTokensPerMinute)
	b = appendCount(b, l.OutputTokensPerMinute)
	b = appendCount(b, l.ImagesPerMinute)
	b = appendCount(b, l.RequestsPerDay)
	b = appendCount(b, l.TokensPerDay)
	b = appendCount(b, l.Concurrency)
	return appendCount(b, min(l.DayReset, day-1))
}

const day = 24 * model.Hour

func appendGroup(b []byte, g *model.GroupConfig) []byte { return appendLimits(b, &g.Limits) }

func appendRoute(b []byte, c *model.RouteConfig) []byte {
	b = appendUvarint(b, uint64(len(c.Tiers)))
	for i := range c.Tiers {
		t := &c.Tiers[i]
		b = appendUvarint(b, uint64(len(t.Channels)))
		for _, w := range t.Channels {
			b = appendString(b, w.Channel, maxString)
			b = appendUvarint(b, uint64(w.Weight))
		}
		b = appendString(b, t.Capability, maxString)
		b = appendString(b, t.Rule, maxText)
	}
	b = appendOptional(b, c.DegradeCore)
	return appendOptional(b, c.DegradeOther)
}

func appendTenant(b []byte, t *model.TenantConfig) []byte {
	b = append(b, byte(t.Priority))
	b = appendUvarint(b, uint64(t.Share))
	b = appendCount(b, t.TokensPerDaySoft)
	b = appendCount(b, t.TokensPerDayHard)
	b = appendCount(b, t.CostPerDaySoft)
	return appendCount(b, t.CostPerDayHard)
}

func readConfig(r *reader) *model.Config {
	c := new(model.Config)
	r.open()
	c.Fleet = r.str("fleet", MaxName)
	c.Mode = model.Mode(r.bounded("mode", uint64(model.ModeObserve)))
	c.Retry = readRetry(r)
	c.Timeouts.Connect = model.Nanos(r.count())
	c.Timeouts.FirstToken = model.Nanos(r.count())
	c.Timeouts.Total = model.Nanos(r.count())
	r.shut()

	c.Channels = readSorted(r, "channels", maxChannels, 19, readChannelConfig)
	c.Groups = readSorted(r, "groups", maxGroups, 10, func(r *reader, name string) model.GroupConfig {
		return model.GroupConfig{Name: name, Limits: readLimits(r)}
	})
	c.Routes = readSorted(r, "routes", maxRoutes, 4, readRoute)
	c.Tenants = readSorted(r, "tenants", maxTenants, 7, readTenant)
	if r.has(1) {
		readTenantsMore(r, c)
	}
	if r.has(2) {
		r.open()
		c.By, c.Why = r.str("by", maxString), r.str("why", maxText)
		r.shut()
	}
	return c
}

// readSorted reads a section of elements whose names rise.
func readSorted[T any](r *reader, what string, most, least int, read func(*reader, string) T) []T {
	r.open()
	var items []T
	items = list(&items, r.length(what, most, least))
	last := ""
	for i := range items {
		name := r.str("name", maxString)
		if r.err == nil && i > 0 && name <= last {
			r.failf("%s: %q after %q", what, name, last)
		}
		if r.err != nil {
			return nil
		}
		items[i] = read(r, name)
		last = name
	}
	r.shut()
	return items
}

func readRetry(r *reader) model.RetryConfig {
	return model.RetryConfig{
		MaxAttempts: r.octet(),
		Base:        model.Nanos(r.count()),
		Max:         model.Nanos(r.count()),
		Multiplier:  model.PPM(r.count()),
		Jitter:      model.PPM(r.count()),
		Budget:      model.PPM(r.count()),
		Total:       model.Nanos(r.count()),
	}
}

func readChannelConfig(r *reader, name string) model.ChannelConfig {
	c := model.ChannelConfig{
		Name:      name,
		Provider:  r.str("provider", maxString),
		Model:     r.str("model", maxString),
		Groups:    readGroupsOf(r),
		Limits:    readLimits(r),
		ChargeMax: r.boolean("charge"),
		Price:     model.Price{Input: r.count(), Cached: r.count(), Output: r.count()},
		OnLoss:    model.OnLoss(r.bounded("on loss", uint64(model.OnLossLast))),
		Alone:     uint32(r.bounded("alone", math.MaxUint32)),
	}
	if mode := r.bounded("mode", 1+uint64(model.ModeObserve)); mode > 0 {
		c.HasMode, c.Mode = true, model.Mode(mode-1)
	}
	return c
}

func readGroupsOf(r *reader) []string {
	var groups []string
	groups = list(&groups, r.length("groups", maxGroupsOf, 1))
	for i := range groups {
		groups[i] = r.str("group", maxString)
		if r.err == nil && i > 0 && groups[i] <= groups[i-1] {
			r.failf("groups: %q after %q", groups[i], groups[i-1])
		}
	}
	return groups
}

func readLimits(r *reader) model.Limits {
	return model.Limits{
		RequestsPerMinute:     r.count(),
		TokensPerMinute:       model.Tokens(r.count()),
		InputTokensPerMinute:  model.Tokens(r.count()),
		OutputTokensPerMinute: model.Tokens(r.count()),
		ImagesPerMinute:       r.count(),
		RequestsPerDay:        r.count(),
		TokensPerDay:          model.Tokens(r.count()),
		Concurrency:           r.count(),
		DayReset:              model.Nanos(r.bounded("day reset", uint64(day-1))),
	}
}

func readRoute(r *reader, name string) model.RouteConfig {
	c := model.RouteConfig{Name: name}
	c.Tiers = list(&c.Tiers, r.length("tiers", maxTiers, 3))
	for i := range c.Tiers {
		t := &c.Tiers[i]
		t.Channels = list(&t.Channels, r.length("channels of a tier", maxTierChannels, 2))
		for j := range t.Channels {
			t.Channels[j].Channel = r.str("channel", maxString)
			t.Channels[j].Weight = uint32(r.bounded("weight", math.MaxUint32))
		}
		t.Capability = r.str("capability", maxString)
		t.Rule = r.str("rule", maxText)
	}
	c.DegradeCore = model.Nanos(r.optional())
	c.DegradeOther = model.Nanos(r.optional())
	return c
}

func readTenant(r *reader, name string) model.TenantConfig {
	return model.TenantConfig{
		Name:             name,
		Priority:         model.Priority(r.bounded("priority", uint64(model.PriorityInteractive))),
		Share:            uint32(r.bounded("share", math.MaxUint32)),
		TokensPerDaySoft: model.Tokens(r.count()),
		TokensPerDayHard: model.Tokens(r.count()),
		CostPerDaySoft:   r.count(),
		CostPerDayHard:   r.count(),
	}
}
