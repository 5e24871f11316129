package model

import "fmt"

// raise tests whether load is why calls are slower than their baseline, where a
// window is far below what was once in flight calmly: a region that takes over
// with cold caches is slower by itself, and a window that waits for its latency
// would stand for as long as the baseline takes to follow.
//
// A part is added to the window while it is in use. If load is the cause, calls
// get slower in proportion; if they do not by half of that, something else is,
// and the next part is twice as large. What made calls slower is taken back,
// and the next test waits twice as long.
type raise struct {
	// From is the window before the raise on trial, 0 for none.
	From Milli
	// First and Ratio are the window and the latency before the first of
	// those that have made nothing slower.
	First Milli
	Ratio PPM
	// Share is the part that was added last.
	Share PPM
	// Since is since when latency is not calm, 0 while it is.
	Since Nanos
	// Wait is how long the last raise that made calls slower kept others
	// away, until Next.
	Wait, Next Nanos
}

const (
	// raiseLeast and raiseMost bound the part that is added.
	raiseLeast PPM = 125_000
	raiseMost  PPM = 250_000
	// raiseWait and raiseWaitMost bound the time between two tests.
	raiseWait     = 30 * Second
	raiseWaitMost = 10 * Minute
	// raiseAfter is how long latency must not have been calm before the first.
	raiseAfter = 10 * Second
	// raiseBelow is the part of what was proven up to which a window is small;
	// raiseFar the same where latency is high, but below twice its baseline:
	// so little load is hardly the cause.
	raiseBelow = 2
	raiseFar   = 6
	// provenFor is how long it is known what a channel once did calmly.
	provenFor = 10 * Minute
	// raiseSamples is how many calls decide where their noise does not.
	raiseSamples = 32
)

// due reports whether a test may begin at now, when latency is not calm.
func (r *raise) due(now Nanos, samples int64) bool {
	if r.Since == 0 {
		r.Since = now
	}
	return samples >= raiseSamples && now >= r.Next && (r.First > 0 || now >= r.Since+raiseAfter)
}

// begin returns the window that is tried instead of w.
func (r *raise) begin(w Milli, ratio PPM) Milli {
	if r.Share = min(2*r.Share, raiseMost); r.First == 0 {
		r.First, r.Ratio, r.Share = w, ratio, raiseLeast
	}
	r.From = w
	return w + max(Milli(scale(int64(w), r.Share)), 1000)
}

// verdict says what the raise to w did to a latency that is known to so much.
func (r *raise) verdict(w Milli, ratio, noise PPM, samples int64) outcome {
	more := PPM(mulDiv(int64(r.Ratio), int64(max(w-r.First, 0)), 2*int64(max(r.First, 1))))
	switch edge := r.Ratio + min(more, PPM(1)<<60); {
	case samples < raiseSamples && max(ratio-edge, edge-ratio) < 2*noise:
		return untold
	case ratio < edge:
		return same
	}
	return unclear
}

// failed ends a series with a raise that made calls slower.
func (r *raise) failed(now Nanos) {
	wait := min(max(2*r.Wait, raiseWait), raiseWaitMost)
	*r = raise{Wait: wait, Next: now + wait}
}

// drop ends a series because something else moved the window.
func (r *raise) drop() { *r = raise{Wait: r.Wait, Next: r.Next} }

// small reports whether w is so far below what was proven that a latency like
// that is to be tested and not obeyed.
func (l *latency) small(w Milli, ratio PPM, high bool) bool {
	if high {
		return w <= l.Proven/raiseFar && ratio < 2*One
	}
	return w <= l.Proven/raiseBelow
}

// prove notes what is in flight while latency is calm.
func (l *latency) prove(now Nanos, inflight int64) {
	if v := Milli(mulDiv(inflight, 1000, 1)); v >= l.Proven || now >= l.ProvenAt+provenFor {
		l.Proven, l.ProvenAt = v, now
	}
}

// raise tries more than the window w.
func (f *Fleet) raise(c *channel, w Milli, ratio PPM, fx *Effects) {
	l := &c.latency
	c.window.settle(l.Raise.begin(w, ratio), f.now)
	c.window.ByLatency, c.window.Double = true, l.Took
	l.remeasure(f.now)
	f.decide(fx, Decision{Channel: c.name, Rule: RuleLatencyRaise, Before: int64(w), After: int64(c.window.value(f.par(), c.top())), Reason: fmt.Sprintf("calls take %d %% of their baseline; tried at more, to see whether that is its load", ratio/10_000)})
	f.want(c)
}

// judgeRaise takes a raise back that made calls slower.
func (f *Fleet) judgeRaise(c *channel, fx *Effects) {
	l, w := &c.latency, c.window.value(f.par(), c.top())
	ratio, ok := l.slowness(f.par())
	if !ok {
		return
	}
	switch l.Raise.verdict(w, ratio, l.noise(), l.Samples) {
	case untold, faster:
	case same:
		l.Raise.From = 0
	case unclear:
		from := l.Raise.From
		l.settle(f.now)
		l.Raise.failed(f.now)
		c.window.cut(min(from, w), f.now, true)
		c.window.Double = l.Took
		f.cutMade(c, w)
		f.decide(fx, Decision{Channel: c.name, Rule: RuleLatencyCut, Before: int64(w), After: int64(min(from, w)), Reason: fmt.Sprintf("calls take %d %% of their baseline under more load; it goes back", ratio/10_000)})
		fx.Now = true
	}
}
