package agent

import (
	"fmt"
	"io"
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"weir/model"
)

// meter keeps the times of requests. What the gate counts itself is read from
// it when somebody asks.
type meter struct {
	set      *metrics.Set
	waits    *metrics.PrometheusHistogram
	mu       sync.Mutex
	requests map[[2]string]*metrics.PrometheusHistogram // by route and outcome
}

func newMeter(set *metrics.Set) *meter {
	return &meter{
		set: set, requests: map[[2]string]*metrics.PrometheusHistogram{},
		waits: set.GetOrCreatePrometheusHistogramExt("weir_queue_seconds", waitBounds()),
	}
}

// The bounds of the histograms, in seconds: model calls last from a tenth of a
// second to minutes, waits from nothing to minutes.
func requestBounds() []float64 {
	return []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320}
}

func waitBounds() []float64 {
	return []float64{0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120}
}

// ended notes that a request came to its end, counted under its class or what
// else ended it. Routes that the fleet does not have are counted together,
// since their names are the callers'.
func (c *Client) ended(route, outcome string, took model.Nanos) {
	m := c.meter
	m.mu.Lock()
	if c.fleet.Load().routes[route] == nil {
		route = ""
	}
	at := [2]string{route, outcome}
	h := m.requests[at]
	if h == nil {
		h = m.set.GetOrCreatePrometheusHistogramExt(requestMetric(at), requestBounds())
		m.requests[at] = h
	}
	m.mu.Unlock()
	h.Update(took.Duration().Seconds())
}

func requestMetric(at [2]string) string {
	return fmt.Sprintf("weir_request_seconds{route=%q,outcome=%q}", at[0], at[1])
}

// keep drops the times of routes that are no longer configured, which would
// grow with every push that renames one.
func (m *meter) keep(routes map[string]*model.RouteConfig) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := range m.requests {
		if at[0] != "" && routes[at[0]] == nil {
			delete(m.requests, at)
			m.set.UnregisterMetric(requestMetric(at))
		}
	}
}

// writeMetrics writes what the gate counts.
func (c *Client) writeMetrics(w io.Writer) {
	var v model.GateView
	c.View(&v)
	for i := range v.Queues {
		q := &v.Queues[i]
		for n, waiting := range q.Waiting {
			gauge(w, fmt.Sprintf("weir_queue_depth{route=%q,priority=%q}", q.Route, model.Priority(n)), waiting)
		}
		for tier, n := range q.Degraded {
			if tier > 0 {
				metrics.WriteCounterUint64(w, fmt.Sprintf("weir_degraded_total{route=%q,tier=\"%d\"}", q.Route, tier), n)
			}
		}
	}
	for i := range v.Channels {
		ch := &v.Channels[i]
		metrics.WriteCounterUint64(w, fmt.Sprintf("weir_retries_total{channel=%q}", ch.Channel), ch.Retries)
		metrics.WriteCounterUint64(w, fmt.Sprintf("weir_would_refuse_total{channel=%q}", ch.Channel), ch.WouldRefuse)
		gauge(w, fmt.Sprintf("weir_lease_slots{channel=%q}", ch.Channel), ch.Share)
	}
	mode := c.Mode()
	for _, m := range [...]model.Mode{model.ModeEnforce, model.ModeObserve} {
		gauge(w, fmt.Sprintf("weir_mode{mode=%q}", m), number(m == mode))
	}
	c.estimates.write(w)
	c.writeReserves(w)
	gauge(w, "weir_alone", number(v.Alone))
	waiting, summed := c.spool.count()
	bound(w, "spool", c.spool.full())
	bound(w, "queue", float64(v.Waiting)/float64(c.cfg.Queue))
	gauge(w, "weir_spool_events", waiting)
	metrics.WriteCounterUint64(w, "weir_spool_summed_total", summed)
	metrics.WriteCounterUint64(w, "weir_attempts_lost_total", v.Lost)
}

// bound writes how much of a bound is used: at 1 what it bounds is refused,
// summed up, or goes as the oldest.
func bound(w io.Writer, name string, used float64) {
	metrics.WriteGaugeFloat64(w, fmt.Sprintf("weir_bound_used_ratio{bound=%q}", name), used)
}

func gauge[N int | int64](w io.Writer, name string, n N) {
	metrics.WriteGaugeFloat64(w, name, float64(n))
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
