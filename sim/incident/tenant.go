package incident

import (
	"github.com/goccy/go-yaml/ast"

	"weir/model"
	"weir/sim/strict"
)

// Tenant is what a tenant of the workloads may have; one that is not listed has
// a share of 1 and no ceiling.
type Tenant struct {
	Name string
	// Share is its part of slots and queue beside the others', at least 1.
	Share int64
	// The ceilings of a day in requests, tokens and cost, the last in millionths
	// of the currency's unit; the soft one warns, 0 is none.
	RequestsSoft, RequestsHard int64
	TokensSoft, TokensHard     int64
	CostSoft, CostHard         int64
}

// Price is what a million tokens of a channel cost, in millionths of the
// currency's unit.
type Price struct{ Input, Cached, Output int64 }

// maxPrice bounds a price, in millionths.
const maxPrice = 1000 * PPM

// maxTenantShare bounds a share.
const maxTenantShare = 1_000_000

// maxCeiling bounds a ceiling of a day.
const maxCeiling = 1_000_000_000_000

func (r *reader) tenant(n ast.Node, path string) Tenant {
	t := Tenant{Share: 1}
	f := r.Mapping(n, path)
	if f == nil {
		return t
	}
	f.Need("name")
	f.Name("name", &t.Name)
	f.Count("share", &t.Share, 1, maxTenantShare)
	r.ceiling(f, "requests_per_day", &t.RequestsSoft, &t.RequestsHard, (*strict.Fields).Count)
	r.ceiling(f, "tokens_per_day", &t.TokensSoft, &t.TokensHard, (*strict.Fields).Count)
	r.ceiling(f, "cost_per_day", &t.CostSoft, &t.CostHard, (*strict.Fields).Ratio)
	f.Done()
	return t
}

// ceiling reads a pair of ceilings, each by read.
func (r *reader) ceiling(of *strict.Fields, key string, soft, hard *int64, read func(f *strict.Fields, key string, dst *int64, least, most int64)) {
	f := of.Child(key)
	if f == nil {
		return
	}
	read(f, "soft", soft, 1, maxCeiling)
	read(f, "hard", hard, 1, maxCeiling)
	if *hard > 0 && *soft > *hard {
		r.Fault(f.Key("soft"), "%s: is above hard, so it would never warn", f.Sub("soft"))
	}
	f.Done()
}

// price reads what a channel's tokens cost.
func (r *reader) price(of *strict.Fields) (p Price) {
	f := of.Child("price")
	if f == nil {
		return p
	}
	f.Ratio("input", &p.Input, 0, maxPrice)
	f.Ratio("cached", &p.Cached, 0, maxPrice)
	f.Ratio("output", &p.Output, 0, maxPrice)
	f.Done()
	return p
}

func (p *Price) flow() string {
	var m flow
	m.ratio("input", p.Input, 0)
	m.ratio("cached", p.Cached, 0)
	m.ratio("output", p.Output, 0)
	return m.String()
}

func (t *Tenant) flow() string {
	var m flow
	m.add("name", name(t.Name))
	m.count("share", t.Share, 1)
	for _, c := range [...]struct {
		key        string
		soft, hard int64
		add        func(m *flow, key string, v, byDefault int64)
	}{
		{"requests_per_day", t.RequestsSoft, t.RequestsHard, (*flow).count},
		{"tokens_per_day", t.TokensSoft, t.TokensHard, (*flow).count},
		{"cost_per_day", t.CostSoft, t.CostHard, (*flow).ratio},
	} {
		var inner flow
		c.add(&inner, "soft", c.soft, 0)
		c.add(&inner, "hard", c.hard, 0)
		if len(inner) > 0 {
			m.add(c.key, inner.String())
		}
	}
	return m.String()
}

// tenants are those of the workloads, each with the priority of its first one
// and with what the file says of it.
func (i *Incident) tenants() []model.TenantConfig {
	var out []model.TenantConfig
	seen := map[string]bool{"": true}
	for k := range i.Workloads {
		w := &i.Workloads[k]
		if seen[w.Tenant] {
			continue
		}
		seen[w.Tenant] = true
		priority, _ := model.ParsePriority(string(w.Priority)) // checked by Parse
		c := model.TenantConfig{Name: w.Tenant, Priority: priority, Share: 1}
		for _, t := range i.Tenants {
			if t.Name == w.Tenant {
				c.Share = uint32(t.Share)
				c.RequestsPerDaySoft, c.RequestsPerDayHard = t.RequestsSoft, t.RequestsHard
				c.TokensPerDaySoft, c.TokensPerDayHard = model.Tokens(t.TokensSoft), model.Tokens(t.TokensHard)
				c.CostPerDaySoft, c.CostPerDayHard = t.CostSoft, t.CostHard
			}
		}
		out = append(out, c)
	}
	return out
}
