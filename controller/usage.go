package controller

import (
	"slices"
	"strings"

	"weir/model"
)

// usage counts what tenants used, for metrics: from this process's start on,
// so it falls to zero with it as counters may.
type usage struct {
	tokens map[string]uint64
	cost   map[bill]float64 // in the currency's unit
}

// bill is what a cost is counted under.
type bill struct{ tenant, channel string }

// otherTenant stands for tenants that are not configured: their names come
// from clients, and there may be any number of them.
const otherTenant = "other"

// count adds a report's attempts.
func (u *usage) count(c *model.Config, a *model.Attempts) {
	if u.tokens == nil {
		u.tokens, u.cost = map[string]uint64{}, map[bill]float64{}
	}
	for i := range a.Attempts {
		at := &a.Attempts[i]
		if at.In <= 0 && at.Out <= 0 {
			continue
		}
		tenant := knownTenant(c, at.Tenant)
		u.tokens[tenant] += uint64(max(at.In, 0)) + uint64(max(at.Out, 0))
		if int(at.Channel) >= len(a.Channels) {
			continue
		}
		if ch := channelConfig(c, a.Channels[at.Channel].Channel); ch != nil {
			u.cost[bill{tenant, ch.Name}] += price(&ch.Price, at)
		}
	}
}

// price returns what an attempt cost. Prices are millionths of the currency's
// unit per million tokens.
func price(p *model.Price, at *model.Attempt) float64 {
	cached := min(max(at.Cached, 0), max(at.In, 0))
	fresh := max(at.In, 0) - cached
	sum := float64(fresh)*float64(p.Input) + float64(cached)*float64(p.Cached) + float64(max(at.Out, 0))*float64(p.Output)
	return sum / 1e12
}

// knownTenant returns the name of a configured tenant, or otherTenant.
func knownTenant(c *model.Config, name string) string {
	_, ok := slices.BinarySearchFunc(c.Tenants, name, func(t model.TenantConfig, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return otherTenant
	}
	return name
}

func channelConfig(c *model.Config, name string) *model.ChannelConfig {
	i, ok := slices.BinarySearchFunc(c.Channels, name, func(ch model.ChannelConfig, name string) int { return strings.Compare(ch.Name, name) })
	if !ok {
		return nil
	}
	return &c.Channels[i]
}
