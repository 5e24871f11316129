package controller

import (
	"fmt"

	"github.com/VictoriaMetrics/metrics"
)

// meters are the Loop's own metrics; what the fold counts itself is read from
// its state.
type meters struct {
	folded, duplicates, unreadable, lost *metrics.Counter
	faults                               map[fault]*metrics.Counter
	fold, commit                         *metrics.PrometheusHistogram
	broadcasts, leases, outboxFailures   *metrics.Counter
	ticks, appendFailures                *metrics.Counter
	decisionsDropped                     *metrics.Counter
}

// foldBounds are the upper bounds of weir_fold_seconds: a sign of life takes
// microseconds, a full batch tens.
func foldBounds() []float64 {
	return []float64{2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 5e-3, 2e-2, 1e-1, 1}
}

// commitBounds are the upper bounds of weir_commit_seconds.
func commitBounds() []float64 {
	return []float64{1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 5}
}

func newMeters(set *metrics.Set) *meters {
	m := &meters{
		folded:           set.GetOrCreateCounter("weir_fold_events_total"),
		duplicates:       set.GetOrCreateCounter("weir_log_duplicates_total"),
		unreadable:       set.GetOrCreateCounter("weir_log_unreadable_total"),
		lost:             set.GetOrCreateCounter("weir_log_lost_total"),
		fold:             set.GetOrCreatePrometheusHistogramExt("weir_fold_seconds", foldBounds()),
		commit:           set.GetOrCreatePrometheusHistogramExt("weir_commit_seconds", commitBounds()),
		broadcasts:       set.GetOrCreateCounter("weir_broadcast_total"),
		leases:           set.GetOrCreateCounter("weir_leases_sent_total"),
		outboxFailures:   set.GetOrCreateCounter("weir_outbox_failures_total"),
		appendFailures:   set.GetOrCreateCounter("weir_log_append_failures_total"),
		decisionsDropped: set.GetOrCreateCounter("weir_decisions_dropped_total"),
		ticks:            set.GetOrCreateCounter("weir_ticks_total"),
		faults:           map[fault]*metrics.Counter{},
	}
	for _, f := range allFaults() {
		m.faults[f] = set.GetOrCreateCounter(fmt.Sprintf("weir_log_faults_total{kind=%q}", string(f)))
	}
	return m
}
