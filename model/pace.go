package model

// pace measures how fast a channel works: call-seconds in flight against the
// baseline time of what was completed meanwhile,
//
//	ratio = ∫ in flight dt ÷ Σ baseline of completed calls
//
// which is 1 at the baseline's pace whatever the mix of sizes, and rises at
// once when the provider slows, where the latency of completed calls is news
// only one slow call later (Little's law, with work in place of calls).
//
// Attempts that ended otherwise than well count as on time: they say nothing
// about pace.
type pace struct {
	// Closed are the newest closed spans, oldest first, at most paceSpans;
	// Open is the one being filled.
	Closed []paceSpan
	Open   paceSpan
}

// paceSpan is what happened in a stretch of time.
type paceSpan struct {
	Span Nanos
	// Load is in flight × ns, Work the baseline time completed, Calls how many.
	Load, Work int64
	Calls      int64
}

const (
	// paceLag spans last a service time. One or two service times are judged:
	// after a drain calls end in waves of that length, which whole ones cancel.
	paceLag   = 3
	paceSpans = 3 * paceLag
	// paceWidth is the least width of a span: a few reports.
	paceWidth = 250 * Millisecond
	// paceWidthMax bounds it for channels whose calls take minutes.
	paceWidthMax = 30 * Second
)

// advance adds time with inflight calls. It is linear in time.
func (p *pace) advance(span Nanos, inflight int64) {
	p.Open.Span += span
	p.Open.Load += int64(span) * min(inflight, 1_000_000)
}

// done adds a completed call that takes normal by its baseline.
func (p *pace) done(normal Nanos) {
	p.Open.Work += int64(min(max(normal, 0), Hour))
	p.Open.Calls++
}

// close ends the open span once it is a third of a service time wide.
func (p *pace) close() {
	width := paceWidth
	if work, calls := p.completed(); calls > 0 {
		width = min(max(Nanos(work/calls/paceLag), paceWidth), paceWidthMax)
	}
	if p.Open.Span < width {
		return
	}
	if len(p.Closed) == paceSpans {
		p.Closed = append(p.Closed[:0], p.Closed[1:]...)
	}
	p.Closed = append(p.Closed, p.Open)
	p.Open = paceSpan{}
}

func (p *pace) completed() (work, calls int64) {
	work, calls = p.Open.Work, p.Open.Calls
	for i := range p.Closed {
		work += p.Closed[i].Work
		calls += p.Closed[i].Calls
	}
	return work, calls
}

// reset begins anew: what was in flight before tells nothing of now.
func (p *pace) reset() { *p = pace{Closed: p.Closed[:0]} }

// ratio returns the ratio over one service time, or two if that holds too few calls; ok is
// false when there are none. In slow start, where load doubles in a service
// time, completed calls are held against the load of a service time ago; else
// against the mean of then and now, which sees a slowdown half as late and
// takes gentle growth for a slowdown of a few percent at most.
func (p *pace) ratio(least int64, slowStart bool) (ratio PPM, ok bool) {
	n := len(p.Closed)
	for over := paceLag; over <= 2*paceLag && over <= n; over += paceLag {
		now := sumSpans(p.Closed[n-over:])
		if now.Calls < least || now.Work <= 0 {
			continue
		}
		load := now.Load
		if slowStart && n < over+paceLag {
			return 0, false
		}
		if n >= over+paceLag {
			then := sumSpans(p.Closed[n-over-paceLag : n-paceLag])
			before := mulDiv(then.Load, int64(now.Span), max(int64(then.Span), 1))
			if !slowStart {
				before = (before + load) / 2
			}
			load = min(load, before)
		}
		return PPM(mulDiv(load, int64(One), now.Work)), true
	}
	return 0, false
}

// peak returns the most work per time, in milli-slots, that any service time
// since the last reset got done.
func (p *pace) peak() Milli {
	var best int64
	for i := paceLag; i <= len(p.Closed); i++ {
		s := sumSpans(p.Closed[i-paceLag : i])
		best = max(best, mulDiv(s.Work, 1000, max(int64(s.Span), 1)))
	}
	return Milli(best)
}

func sumSpans(spans []paceSpan) paceSpan {
	var s paceSpan
	for i := range spans {
		s.Span += spans[i].Span
		s.Load += spans[i].Load
		s.Work += spans[i].Work
		s.Calls += spans[i].Calls
	}
	return s
}
