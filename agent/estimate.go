package agent

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"weir/model"
)

// estimates learns per channel how far the estimate of a request's input is
// off, from the usage that answers report. The estimate counts characters by
// their script; what a channel's tokenizer makes of them, and what it adds
// around every call, only its reports can tell.
//
//	factor = (used + prior) / (estimated + prior), within ¼ and 4
//
// over sums that forget with a memory of estimateMemory calls. The prior is a
// hundred tokens that were estimated rightly: one short call moves little. The
// bounds keep a channel that reports nonsense from stopping its traffic, or
// from being given all of a budget.
type estimates struct {
	mu sync.Mutex
	by map[string]*estimate // by channel
}

// keep forgets channels that are no longer configured.
func (e *estimates) keep(channels map[string]*model.ChannelConfig) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.by, func(name string, _ *estimate) bool { return channels[name] == nil })
}

// estimate is what one channel's reports came to, in tokens that fade.
type estimate struct {
	estimated, used float64
	off             float64 // distance of the corrected estimates from use
	calls           uint64
}

const (
	estimatePrior  = 100
	estimateMemory = 64
	estimateMost   = 4
)

// learn takes a call's estimate and what the channel says it was.
func (e *estimates) learn(channel string, estimated, used model.Tokens) {
	if estimated <= 0 || used <= 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.by == nil {
		e.by = map[string]*estimate{}
	}
	c := e.by[channel]
	if c == nil {
		c = &estimate{}
		e.by[channel] = c
	}
	const keep = 1 - 1.0/estimateMemory
	off := math.Abs(c.factor()*float64(estimated) - float64(used))
	c.estimated = keep*c.estimated + float64(estimated)
	c.used = keep*c.used + float64(used)
	c.off = keep*c.off + off
	c.calls++
}

// correct returns an estimate as a channel would count it.
func (e *estimates) correct(channel string, estimated model.Tokens) model.Tokens {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.by[channel]
	if c == nil {
		return estimated
	}
	return max(1, model.Tokens(math.Ceil(c.factor()*float64(estimated))))
}

func (c *estimate) factor() float64 {
	f := (c.used + estimatePrior) / (c.estimated + estimatePrior)
	return min(max(f, 1.0/estimateMost), estimateMost)
}

// write writes the factors, and how far corrected estimates were off as a
// share of what was used.
func (e *estimates) write(w io.Writer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(e.by)) {
		c := e.by[name]
		metrics.WriteGaugeFloat64(w, fmt.Sprintf("weir_estimate_factor{channel=%q}", name), c.factor())
		metrics.WriteGaugeFloat64(w, fmt.Sprintf("weir_estimate_error_ratio{channel=%q}", name), c.off/c.used)
	}
}
