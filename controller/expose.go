package controller

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"weir/model"
)

// exposeWithin bounds how long a scrape waits for the loop.
const exposeWithin = 2 * time.Second

// exposed is what a scrape shows of the loop at one moment.
type exposed struct {
	view  model.FleetView
	leads bool
	lag   uint64
	lost  uint64
	// waiters is who waits for a record.
	waiters int
	usage   []billed
}

// expose writes the metrics that come from the folded state. While the loop
// does not turn it writes none.
func (l *Loop) expose(w io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), exposeWithin)
	defer cancel()
	var x exposed
	err := l.ask(ctx, func() {
		x = exposed{
			view: l.fleet.View(), leads: l.leading.leads,
			lag:   max(l.reading.known, l.position.Seq) - l.position.Seq,
			lost:  l.meters.lost.Get(),
			usage: l.usage.all(), waiters: len(l.waiters),
		}
	})
	if err != nil {
		return
	}
	x.writeLoop(w)
	for i := range x.view.Channels {
		writeChannel(w, &x.view.Channels[i])
	}
	for i := range x.view.Pools {
		writePool(w, &x.view.Pools[i])
	}
	for i := range x.view.Days {
		writeDay(w, &x.view.Days[i])
	}
	x.writeUsage(w)
}

// writeUsage writes tokens per tenant and cost per tenant and channel.
func (x *exposed) writeUsage(w io.Writer) {
	tokens := map[string]uint64{}
	for _, b := range x.usage {
		tokens[b.tenant] += b.tokens
	}
	for _, tenant := range slices.Sorted(maps.Keys(tokens)) {
		metrics.WriteCounterUint64(w, fmt.Sprintf("weir_tenant_tokens_total{tenant=%q}", tenant), tokens[tenant])
	}
	for _, b := range x.usage {
		if b.channel != "" {
			metrics.WriteCounterFloat64(w, fmt.Sprintf("weir_cost_total{tenant=%q,channel=%q}", b.tenant, b.channel), b.cost)
		}
	}
}

func compareBills(a, b bill) int {
	return cmp.Or(strings.Compare(a.tenant, b.tenant), strings.Compare(a.channel, b.channel))
}

func (x *exposed) writeLoop(w io.Writer) {
	leader := uint64(0)
	if x.leads {
		leader = 1
	}
	metrics.WriteGaugeUint64(w, "weir_leader", leader)
	metrics.WriteGaugeUint64(w, "weir_term", x.view.Term)
	metrics.WriteGaugeUint64(w, "weir_fold_lag_events", x.lag)
	c := &x.view.Counters
	metrics.WriteCounterUint64(w, "weir_events_lost_total", x.lost+c.Lost)
	metrics.WriteCounterUint64(w, "weir_reports_repeated_total", c.Repeated)
	metrics.WriteCounterUint64(w, "weir_reports_refused_total", c.DuplicateAgents+c.TooManyAgents)
	metrics.WriteCounterUint64(w, "weir_events_unknown_total", c.Unknown)
	metrics.WriteCounterUint64(w, "weir_agents_forgotten_total", c.Forgotten)
	metrics.WriteGaugeFloat64(w, `weir_bound_used_ratio{bound="agents"}`, float64(len(x.view.Agents))/model.MaxAgents)
	metrics.WriteGaugeFloat64(w, `weir_bound_used_ratio{bound="waiters"}`, float64(x.waiters)/maxWaiters)
	modes := map[string]uint64{model.ModeEnforce.String(): 0, model.ModeObserve.String(): 0}
	for i := range x.view.Agents {
		if a := &x.view.Agents[i]; a.State == "here" {
			modes[a.Mode]++
		}
	}
	for _, mode := range slices.Sorted(maps.Keys(modes)) {
		metrics.WriteGaugeUint64(w, fmt.Sprintf("weir_agents{mode=%q}", mode), modes[mode])
	}
}

func writeChannel(w io.Writer, c *model.FleetChannel) {
	gauge := func(name string, v float64) {
		metrics.WriteGaugeFloat64(w, fmt.Sprintf("%s{channel=%q}", name, c.Name), v)
	}
	gauge("weir_window_slots", float64(c.Window)/1000)
	gauge("weir_inflight", float64(c.InFlight))
	gauge("weir_held_slots", float64(c.Held))
	gauge("weir_queued", float64(c.Queued))
	gauge("weir_leased_slots", float64(c.Leased))
	gauge("weir_claimed_slots", float64(c.Claimed))
	gauge("weir_weight", float64(c.Weight)/float64(model.One))
	gauge("weir_breaker_state", float64(c.State))
	metrics.WriteCounterUint64(w, fmt.Sprintf("weir_epoch_total{channel=%q}", c.Name), c.Epoch)
	for _, class := range model.Classes {
		metrics.WriteCounterUint64(w, fmt.Sprintf("weir_attempts_total{channel=%q,class=%q}", c.Name, class), c.Counts[class])
	}
	tokens := func(direction string, n uint64) {
		metrics.WriteCounterUint64(w, fmt.Sprintf("weir_tokens_total{channel=%q,direction=%q}", c.Name, direction), n)
	}
	tokens("in", c.TokensIn)
	tokens("cached", c.Cached)
	tokens("out", c.TokensOut)
}

// writeDay writes what is left of the day of a channel, a group or a tenant.
func writeDay(w io.Writer, d *model.FleetDay) {
	label, name, ok := strings.Cut(d.Name, "/")
	if !ok || !d.Limited() {
		return
	}
	gauge := func(metric, dimension string, v float64) {
		if dimension != "" {
			dimension = fmt.Sprintf(",dimension=%q", dimension)
		}
		metrics.WriteGaugeFloat64(w, fmt.Sprintf("%s{%s=%q%s}", metric, label, name, dimension), v)
	}
	for n, f := range []model.DayFigure{d.Requests, d.Tokens, d.Cost} {
		if f.Left < 0 {
			continue
		}
		left, daily := float64(f.Left), model.Daily(n)
		if daily == model.DailyCost {
			left /= 1e6
		}
		gauge("weir_budget_remaining", daily.String(), left)
	}
	gauge("weir_budget_stage", "", float64(d.At))
	gauge("weir_budget_reset_seconds", "", d.Reset.Duration().Seconds())
}

// writePool writes what is left of a channel's or group's budget.
func writePool(w io.Writer, p *model.FleetPool) {
	label, name, ok := strings.Cut(p.Name, "/")
	if !ok {
		return
	}
	left := func(dimension string, limit, n int64) {
		if limit >= 0 {
			metrics.WriteGaugeFloat64(w, fmt.Sprintf("weir_budget_remaining{%s=%q,dimension=%q}", label, name, dimension), float64(n))
		}
	}
	left(model.DimRequests.String(), p.RequestsPerMin, p.RequestsLeft)
	left(model.DimTokens.String(), p.TokensPerMin, p.TokensLeft)
}
