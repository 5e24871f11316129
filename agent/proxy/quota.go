package proxy

import (
	"net/http"
	"strings"

	"weir/model"
)

// quotaPage is what is left before a call would wait or be refused.
type quotaPage struct {
	Channels []channelRoom `json:"channels"`
	Pools    []poolRoom    `json:"pools"`
	Groups   []dayRoom     `json:"groups"`
	Tenants  []dayRoom     `json:"tenants"`
}

// channelRoom is what this agent may start on a channel now.
type channelRoom struct {
	Channel string  `json:"channel"`
	Slots   int64   `json:"slots"`
	WaitS   float64 `json:"wait_s"`
	Reason  string  `json:"reason"`
	// Minute is this agent's part of the channel's budget per minute, Day the
	// channel's day; null where nothing limits it.
	Minute *poolRoom `json:"minute"`
	Day    *day      `json:"day"`
}

// poolRoom is this agent's part of a budget per minute; null means without a
// limit.
type poolRoom struct {
	Pool     string        `json:"pool"`
	Requests *int64        `json:"requests"`
	Tokens   *model.Tokens `json:"tokens"`
}

// dayRoom is how a quota group or a tenant stands.
type dayRoom struct {
	Name   string    `json:"name"`
	Minute *poolRoom `json:"minute,omitempty"`
	Day    *day      `json:"day"`
}

// day is a day of the whole fleet, by what has settled.
type day struct {
	Stage string `json:"stage"`
	// ResetS is after how many seconds it ends, null when nothing tells.
	ResetS   *float64 `json:"reset_s"`
	Requests amount   `json:"requests"`
	Tokens   amount   `json:"tokens"`
	// Cost is in the currency's unit.
	Cost   amount `json:"cost"`
	Reason string `json:"reason,omitempty"`
}

// amount is what is used of a limit per day; null means without a limit.
type amount struct {
	Used float64  `json:"used"`
	Soft *float64 `json:"soft"`
	Hard *float64 `json:"hard"`
	Left *float64 `json:"left"`
}

// quota shows what may be started now. A client with a key sees its own tenant.
func (p *Proxy) quota(w http.ResponseWriter, r *http.Request) {
	var v model.GateView
	p.client.View(&v)
	page := quotaPage{Channels: []channelRoom{}, Pools: []poolRoom{}, Groups: []dayRoom{}, Tenants: []dayRoom{}}
	minutes, days := map[string]*poolRoom{}, map[string]*day{}
	for _, b := range v.Pools {
		room := poolRoom{b.Pool, room(b.LeftRequests), room(b.LeftTokens)}
		page.Pools = append(page.Pools, room)
		minutes[b.Pool] = &room
	}
	only := ""
	if p.keys.Load() != nil {
		only = model.DayOfTenant(r.Header.Get("X-Weir-Tenant"))
	}
	for i := range v.Quotas {
		q := &v.Quotas[i]
		days[q.Name] = dayOf(q)
		if name, ok := strings.CutPrefix(q.Name, model.DayOfTenant("")); ok && (only == "" || only == q.Name) {
			page.Tenants = append(page.Tenants, dayRoom{Name: name, Day: days[q.Name]})
		}
	}
	for _, c := range v.Channels {
		pool := model.PoolOfChannel(c.Channel)
		page.Channels = append(page.Channels, channelRoom{
			c.Channel, max(0, c.Share-c.InFlight-c.Held), c.Wait.Duration().Seconds(), c.Reason, minutes[pool], days[pool],
		})
	}
	for _, g := range p.client.Fleet().Groups {
		pool := model.PoolOfGroup(g.Name)
		page.Groups = append(page.Groups, dayRoom{g.Name, minutes[pool], days[pool]})
	}
	writeJSON(w, page)
}

func dayOf(q *model.QuotaView) *day {
	d := &day{
		Stage: q.Stage.String(), Reason: q.Reason,
		Requests: amountOf(q, model.DailyRequests, 1), Tokens: amountOf(q, model.DailyTokens, 1), Cost: amountOf(q, model.DailyCost, 1e6),
	}
	if q.Reset > 0 {
		left := q.Reset.Duration().Seconds()
		d.ResetS = &left
	}
	return d
}

func amountOf(q *model.QuotaView, n model.Daily, unit float64) amount {
	a := amount{Used: float64(q.Used[n]) / unit}
	limit := func(v int64) *float64 {
		if v <= 0 {
			return nil
		}
		f := float64(v) / unit
		return &f
	}
	a.Soft, a.Hard = limit(q.Soft[n]), limit(q.Hard[n])
	if a.Hard != nil {
		left := float64(q.Left(n)) / unit
		a.Left = &left
	}
	return a
}

func room[N int64 | model.Tokens](left N) *N {
	if left < 0 {
		return nil
	}
	return &left
}
