package agent

import (
	"fmt"
	"io"

	"github.com/VictoriaMetrics/metrics"

	"weir/model"
)

// writeMetrics writes what the gate and the meter count.
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
	c.writeTimes(w)
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
