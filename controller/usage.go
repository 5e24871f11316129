package controller

import (
	"slices"

	"weir/model"
)

// usage counts what tenants used, for metrics: from this process's start on,
// so it falls to zero with it as counters may.
type usage struct {
	lines map[bill]*line
	// tenants and prices are what config has.
	config  *model.Config
	tenants map[string]struct{}
	prices  map[string]model.Price
}

// bill is what use is counted under. Names that are not configured come from
// clients, and there may be any number of them: they count as otherTenant, and
// under no channel.
type bill struct{ tenant, channel string }

const otherTenant = "other"

// line is one tenant's use of one channel.
type line struct {
	tokens uint64
	cost   float64 // in the currency's unit
	price  model.Price
}

// count adds a report's attempts.
func (u *usage) count(c *model.Config, a *model.Attempts) {
	if u.config != c {
		u.configure(c)
	}
	var last *line
	var tenant string
	var channel uint16
	for i := range a.Attempts {
		at := &a.Attempts[i]
		if at.In <= 0 && at.Out <= 0 {
			continue
		}
		if last == nil || at.Tenant != tenant || at.Channel != channel {
			tenant, channel = at.Tenant, at.Channel
			last = u.line(a, at)
		}
		last.tokens += uint64(max(at.In, 0)) + uint64(max(at.Out, 0))
		last.cost += cost(&last.price, at)
	}
}

// configure takes a configuration. Lines of what it does not have go.
func (u *usage) configure(c *model.Config) {
	u.config, u.tenants, u.prices = c, map[string]struct{}{otherTenant: {}}, map[string]model.Price{"": {}}
	for i := range c.Tenants {
		u.tenants[c.Tenants[i].Name] = struct{}{}
	}
	for i := range c.Channels {
		u.prices[c.Channels[i].Name] = c.Channels[i].Price
	}
	if u.lines == nil {
		u.lines = map[bill]*line{}
	}
	for b, l := range u.lines {
		price, ok := u.prices[b.channel]
		if _, known := u.tenants[b.tenant]; !ok || !known {
			delete(u.lines, b)
			continue
		}
		l.price = price
	}
}

// line returns where an attempt counts.
func (u *usage) line(a *model.Attempts, at *model.Attempt) *line {
	b := bill{tenant: at.Tenant}
	if _, ok := u.tenants[b.tenant]; !ok {
		b.tenant = otherTenant
	}
	if int(at.Channel) < len(a.Channels) {
		b.channel = a.Channels[at.Channel].Channel
	}
	price, ok := u.prices[b.channel]
	if !ok {
		b.channel = ""
	}
	if u.lines[b] == nil {
		u.lines[b] = &line{price: price}
	}
	return u.lines[b]
}

// cost returns what an attempt cost. Prices are millionths of the currency's
// unit per million tokens.
func cost(p *model.Price, at *model.Attempt) float64 {
	cached := min(max(at.Cached, 0), max(at.In, 0))
	fresh := max(at.In, 0) - cached
	sum := float64(fresh)*float64(p.Input) + float64(cached)*float64(p.Cached) + float64(max(at.Out, 0))*float64(p.Output)
	return sum / 1e12
}

// billed is one line for people.
type billed struct {
	bill
	tokens uint64
	cost   float64
}

// all returns what was used, in order.
func (u *usage) all() []billed {
	var all []billed
	for b, l := range u.lines {
		if l.tokens > 0 {
			all = append(all, billed{b, l.tokens, l.cost})
		}
	}
	slices.SortFunc(all, func(a, b billed) int { return compareBills(a.bill, b.bill) })
	return all
}
