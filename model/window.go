package model

import "fmt"

// window is how many attempts the whole fleet may have in flight on a channel.
//
// Before the first cut it grows by SlowStartGain per success, as TCP's slow
// start does (RFC 5681). A refusal is a measurement: the window is pinned to
// what the provider was accepting, stays there for a plateau and then climbs
// by the cube of the time since,
//
//	W(g) = base + ClimbCube · (g − plateau)³     [milli-slots, g in seconds]
//
// so that it tests the known limit with single slots and a vanished limit
// fast (the convex half of CUBIC, RFC 9438 §4.1, without its cut). g is the
// time the window was really used since the cut: a window that is not in use
// proves nothing. It does not oscillate because one cut is made per epoch,
// and none before what is in flight has once been within the window.
type window struct {
	// Base is the window when it was last set. Invariant: > 0.
	Base Milli
	// Grown is the time in use since then.
	Grown Nanos
	// Slow is set until the first cut: slow start.
	Slow bool
	// Used and Calm are whether, by the newest reports, the window is in use
	// and the latency allows growth. Only then Grown advances.
	Used, Calm bool
	// ByLatency is set when latency made the last cut: the plateau is short,
	// since testing a slowdown costs no refusal.
	ByLatency bool
	// Epoch is the number of the last cut. It never falls.
	Epoch uint64
	// CutAt is when the last cut was made.
	CutAt Nanos
	// Drained is set once what is in flight was within the window after a cut.
	Drained bool
	// Ceiling is the window at the last refusal, 0 before the first.
	Ceiling Milli
}

// After a cut that latency made the climb begins sooner and goes by share of
// the window, since testing a slowdown costs no refusal:
//
//	W(g) = base · (1 + latencyClimb · (g − latencyPlateau)³)
//
// 1 s is the time in which the calls that measure the cut end; 0.03 is a
// twentieth after 1.2 s more and double after 3.2 s.
const (
	latencyPlateau     = 1 * Second
	latencyClimb   PPM = 30_000
)

// repeatedShare is what a cut soon after another keeps of what is in flight.
const repeatedShare PPM = 900_000

func newWindow(p *Params) window {
	return window{Base: p.WindowStart, Slow: true, Calm: true, Drained: true}
}

// advance adds the time in use. It is linear in time, so that how often it is
// called does not matter.
func (w *window) advance(span Nanos) {
	if w.Used && w.Calm && !w.Slow {
		w.Grown += span
	}
}

// value returns the window, within its floor and top; top is 0 for none.
func (w *window) value(p *Params, top Milli) Milli {
	v := w.Base
	plateau, cube := p.Plateau, int64(p.ClimbCube)
	if w.ByLatency {
		plateau, cube = latencyPlateau, max(cube, scale(int64(w.Base), latencyClimb))
	}
	if g := (w.Grown - plateau) / Millisecond; g > 0 {
		g = min(g, 1_000_000) // a thousand seconds: the cube stays within int64
		v += Milli(mulDiv(cube, int64(g)*int64(g)*int64(g), 1_000_000_000))
	}
	hi := p.WindowMax
	if top > 0 {
		hi = min(hi, top)
	}
	return max(min(v, hi), min(p.WindowFloor, hi))
}

// hold keeps the window where it is once latency no longer allows growth: the
// climb starts anew from here when it does.
func (w *window) hold(p *Params, top Milli) {
	if !w.Calm && (w.Grown > latencyPlateau || w.Grown > 0 && !w.ByLatency) {
		w.Base, w.Grown, w.ByLatency = w.value(p, top), latencyPlateau, true
	}
}

// success grows the window in slow start.
func (w *window) success(p *Params, top Milli) {
	if w.Slow && w.Used && w.Calm {
		w.Base = min(w.value(p, top)+p.SlowStartGain, p.WindowMax)
	}
}

// settle sets the window to v and starts a new climb from there.
func (w *window) settle(v Milli, now Nanos) {
	w.Base, w.Grown, w.CutAt = v, 0, now
}

// stale reports whether a refusal of an attempt admitted under epoch says
// nothing new, and why.
func (w *window) stale(epoch uint64) (string, bool) {
	switch {
	case epoch < w.Epoch:
		return "admitted before the last cut", true
	case !w.Drained:
		return "calls from before the last cut are still in flight", true
	}
	return "", false
}

// refused makes the cut of a refusal. inflight is what the fleet has in
// flight besides what was refused, accepted what the provider surely took of
// it. It returns the window before and after, and the reason.
//
// The first cut after a calm time goes to what is in flight, since a window
// that crept up is over by little. When that was not enough, each next one
// takes a tenth more, but nothing of what the provider surely took.
func (w *window) refused(p *Params, now Nanos, top Milli, inflight, accepted int64) (before, after Milli, reason string) {
	before = w.value(p, top)
	calm := w.Slow || now-w.CutAt >= p.Plateau
	level := min(before, Milli(inflight)*1000)
	var want Milli
	if calm {
		want = level
		reason = fmt.Sprintf("refused with %d others in flight after a calm time; set to those", inflight)
	} else {
		want = max(Milli(scale(int64(level), repeatedShare)), min(Milli(accepted)*1000, level))
		reason = fmt.Sprintf("refused again with %d others in flight; a tenth less, and no less than the %d it surely took", inflight, accepted)
	}
	least := Milli(scale(int64(before), p.PinFloor))
	after = max(min(want, before-1000), least, p.WindowFloor)
	after = min(after, before)
	w.Ceiling = before
	w.cut(after, now, false)
	return before, after, reason
}

// slowed makes the cut of a latency ratio over the baseline. By Little's law
// what is in flight over the ratio is what keeps the provider as busy as it is
// now without making anything wait.
func (w *window) slowed(p *Params, now Nanos, top Milli, inflight int64, ratio PPM) (before, after Milli) {
	before = w.value(p, top)
	level := min(before, Milli(inflight)*1000)
	share := max(PPM(mulDiv(int64(One), int64(One), int64(max(ratio, One)))), p.LatencyCutFloor)
	after = max(Milli(scale(int64(level), share)), p.WindowFloor)
	after = min(after, before)
	w.cut(after, now, true)
	return before, after
}

func (w *window) cut(v Milli, now Nanos, byLatency bool) {
	w.settle(v, now)
	w.Slow, w.Drained, w.ByLatency = false, false, byLatency
	w.Epoch++
}

// isqrt returns the integer square root.
func isqrt(n uint64) uint64 {
	if n < 2 {
		return n
	}
	x := n
	y := x/2 + x%2 // (x+1)/2 without overflow
	for y < x {
		x = y
		y = (x + n/x) / 2
	}
	return x
}
