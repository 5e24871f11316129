package model

import (
	"fmt"
	"math"
)

// window is how many attempts the whole fleet may have in flight on a channel.
//
// Before the first cut it doubles with what the provider surely took, as TCP's
// slow start does per round trip (RFC 5681), by little more in a moment than a
// refusal tells of in time. A refusal is a measurement: what is in flight besides
// it is what the provider takes. The window is set a step below that, and each
// next refusal of a level that never worked doubles the step; those are looked
// for by single calls, see drain.go. Then it climbs,
//
//	W(g) = goal − (goal − base) · ((plateau − g) ÷ plateau)³    up to the plateau
//	W(g) = goal + unit · (2^((g − plateau) ÷ double) − 1)      beyond it
//
// where goal is a little under the level that was refused: so it comes back
// fast to what is known (the concave half of CUBIC, RFC 9438 §4.1, with the
// cut measured instead of fixed), tests it with single slots, and leaves a
// vanished limit fast. A cube would pass the first slots three times as fast
// and the first hundred no sooner.
// g is the time the window was really used since the cut: a window that is not
// in use proves nothing. It does not oscillate because one cut is made per
// epoch, and none before what is in flight has once been within the window.
type window struct {
	// Base is the window when it was last set. Invariant: > 0.
	Base Milli
	// Goal is where the climb since then pauses; at least Base.
	Goal Milli
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
	// Drain is set while only a slot on trial may start, Tried is the record
	// that granted it, 0 for none, TriedAt when; see drain.go.
	Drain   bool
	Tried   uint64
	TriedAt Nanos
	// TakenAt is when its call will have been taken if it is not refused by
	// then, 0 before it was seen to be on its way.
	TakenAt Nanos
	// Level is what was in flight with it then.
	Level Milli
	// Ceiling is the window at the last refusal, 0 before the first.
	Ceiling Milli
	// Known is what was in flight at the last refusal of a window that worked,
	// Least the least number of calls of which one was refused since, with it.
	// What is taken at or beyond that says that the limit rose.
	Known, Least Milli
	// Series counts the refusals since a window last worked.
	Series int64
	// Double is the time in which the climb doubles.
	Double Nanos
	// StepAt is when the present step of slow start began, StepMost the most
	// that the window may be in it.
	StepAt   Nanos
	StepMost Milli
	// Refusal is how long refused calls take at most, of late.
	Refusal Nanos
	// RoundAt is since when the calls were sent whose good ends prove a round,
	// RoundBase the window then, RoundDone how many have ended.
	RoundAt   Nanos
	RoundBase Milli
	RoundDone int64
	// Near is what was in flight when latency made the last cut, 0 once the climb
	// is past it: the level that is best lies a little below.
	Near Milli
	// Times is in how many times Double the climb doubles the window, 0 for by
	// steps at first.
	Times int64
	// Works is set once a call ended well that was sent since the window was set.
	Works bool
	// SlowAt is what was in flight when latency made the last cut. Stand is how
	// long the climb pauses at Goal since it was that again, 0 for the first time.
	SlowAt Milli
	Stand  Nanos
}

const (
	// cutStep is the first step of a cut below what was in flight: about what
	// the reports' age makes uncertain.
	cutStep PPM = 7_800
	// maxStep bounds its doubling: what is taken beyond the limit is lost
	// until the climb has brought it back.
	cutStepMost PPM = 100_000
	// goalGap is how far below a refused level the climb pauses.
	goalGap PPM = 15_600
	// proven is how long a window must have been in use without a refusal to
	// count as one that works.
	proven = 1 * Second
	// climbUnit is the least unit of the climb as a share of the window: a
	// limit of thousands is found again as fast as one of hundreds.
	climbUnit PPM = 4_000
	// slowStep is the time in which the window grows by one in slowShare in slow
	// start: fivefold in a second. A refusal is known in about that time; what
	// starts meanwhile beyond the limit is refused, and is the more of all calls
	// the longer they take: by slowCall one less in the share, down to half.
	slowStep  = 250 * Millisecond
	slowShare = 2
	slowCall  = 2 * Second
	// foundPlateau is how long a level stands that was found after a limit fell:
	// the limit may be on its way back.
	foundPlateau = 2 * Second
	// foundNear and foundShare say how near below a refused level one is found
	// that is tested as soon.
	foundNear  Milli = 4_000
	foundShare Milli = 8
	// missedAge is how old a call is before the newest reports tell of it.
	missedAge = 100 * Millisecond
	// firstRefusal is how long a refusal takes, before one was seen.
	firstRefusal = gateFirstRefusal
	// roundMost bounds the window to so many times what it was when the calls
	// were sent that have ended well since: a provider that queues without end
	// refuses nothing, and tells of its load only when calls end.
	roundMost = 3
	// roundShare is the inverse share of the window that must have ended well.
	roundShare = 8
	// plateauWhole is the window below which the plateau is longer in proportion:
	// a refused call takes its slot for its backoff, and of three that is a third.
	plateauWhole = 8_000
	// latencyPlateau and latencyUnit are the same after a cut that latency
	// made: testing a slowdown costs no refusal. 1 s is the time in which the
	// calls that measure the cut end.
	latencyPlateau     = 1 * Second
	latencyUnit    PPM = 30_000
	// latencySteps is how often the steps of that climb double. From there on it
	// is the window that doubles, in latencyTimes times the time: by an eighth in
	// a call's time, since what calls tell is two or three of those old.
	latencySteps = 3
	latencyTimes = 6
	// nearShare of what was in flight is near it: from there on to it the climb is
	// slower by nearSlower.
	nearSlower     = 2
	nearShare  PPM = 800_000
	// swiftTimes is latencyTimes where lost capacity is back, up to farShare of
	// what was once in flight while calls were not slow.
	swiftTimes     = 3
	farShare   PPM = 750_000
	// standNear is how near to the last cut's level the next is for the same, as
	// an inverse share of it; standPart the part of the way back to it at which
	// the climb then pauses, standMost for how long at most.
	standNear     = 8
	standPart PPM = 500_000
	standMost     = 20 * Second
)

func newWindow(p *Params) window {
	return window{Base: p.WindowStart, Slow: true, Calm: true, Drained: true, RoundBase: p.WindowStart, StepMost: p.WindowStart}
}

// advance adds the time in use. It is linear in time, so that how often it is
// called does not matter.
func (w *window) advance(span Nanos) {
	if w.Used && w.Calm && w.Drained && !w.Slow {
		w.Grown += span
	}
}

// value returns the window, within its floor and top; top is 0 for none.
func (w *window) value(p *Params, top Milli) Milli {
	hi := p.WindowMax
	if top > 0 {
		hi = min(hi, top)
	}
	most := Milli(mulDiv(int64(w.RoundBase), roundMost, 1))
	return max(min(w.climbed(p), hi, max(most, w.Base)), min(p.WindowFloor, hi))
}

// atFloor reports whether no whole slot can be cut.
func (w *window) atFloor(p *Params, top Milli) bool {
	return w.value(p, top) < p.WindowFloor+1000
}

// climbed returns the window without bounds.
func (w *window) climbed(p *Params) Milli {
	goal, plateau, unit := max(w.Goal, w.Base), w.plateau(p), max(1000, scale(int64(w.Base), climbUnit))
	if w.ByLatency {
		unit = max(250, scale(int64(w.Base), latencyUnit))
	}
	if g := w.Grown - plateau; g > 0 {
		double := max(w.Double, p.ClimbDouble)
		if w.Times > 0 {
			return goal + Milli(doubled(int64(goal), g, Nanos(w.Times)*double))
		}
		if most := latencySteps * double; w.ByLatency && g > most {
			top := int64(goal) + unit<<latencySteps - unit
			return Milli(top + doubled(top, g-most, latencyTimes*double))
		}
		return goal + Milli(doubled(unit, g, double))
	}
	left := int64(goal - w.Base)
	for range 3 {
		left = mulDiv(left, int64(plateau-w.Grown), int64(plateau))
	}
	return goal - Milli(left)
}

// doubled returns what is added to v when it doubles every so often for g:
// between two doublings the chord, exact at both ends.
func doubled(v int64, g, every Nanos) int64 {
	whole := min(g/every, 24)
	part := min(g-whole*every, every)
	more := mulDiv(v, 1<<whole, 1)
	return more + mulDiv(more, int64(part), int64(every)) - v
}

// hold keeps the window where it is once latency no longer allows growth: the
// climb starts anew from here when it does.
func (w *window) hold(p *Params, top Milli) {
	if !w.Calm && w.Grown > w.plateau(p) {
		v := w.value(p, top)
		w.Times = 0
		w.restart(p, v)
	}
}

// restart begins the climb anew from v, which is the window now, to its goal or
// beyond.
func (w *window) restart(p *Params, v Milli) {
	if w.Base = v; w.Goal > v {
		w.Grown = 0
		return
	}
	w.Goal = 0
	w.Grown = w.plateau(p) // which goes by the base
}

// plateau returns the time in use before the climb goes beyond its goal.
func (w *window) plateau(p *Params) Nanos {
	if w.ByLatency {
		return max(latencyPlateau, w.Stand)
	}
	if w.Known >= plateauWhole {
		return p.Plateau
	}
	return Nanos(mulDiv(int64(p.Plateau), plateauWhole, int64(min(max(w.Base, 1000), plateauWhole))))
}

// success takes a call that was sent at that instant and ended well now: it
// may complete a round, and in slow start it grows the window.
func (w *window) success(p *Params, top Milli, now, sent, call Nanos) {
	if sent >= w.RoundAt {
		w.RoundDone++
		w.Works = true
	}
	if v := w.value(p, top); w.RoundDone*roundShare*1000 >= int64(v) {
		w.RoundAt, w.RoundBase, w.RoundDone = now, v, 0
		if w.climbed(p) > v {
			w.restart(p, v) // what it was held back by is not made up for
		}
	}
	w.grow(p, now, w.value(p, top)+p.SlowStartGain, call)
}

// took grows the window in slow start by what the provider has taken, by the
// agents' own word or because nothing of what was in flight long enough ago was
// refused: it may be twice that.
func (w *window) took(p *Params, now Nanos, accepted, inflight int64, call Nanos) {
	if !w.Slow {
		return
	}
	w.grow(p, now, Milli(mulDiv(2*accepted, 1000, 1)), call)
	if now >= w.TakenAt {
		w.grow(p, now, 2*w.Level, call)
		w.Level, w.TakenAt = Milli(mulDiv(inflight, 1000, 1)), now+w.patience()
	}
}

// patience is after which time a call that was not refused was taken.
func (w *window) patience() Nanos {
	if w.Refusal == 0 {
		return firstRefusal
	}
	return w.Refusal + w.Refusal/4 + trialSlack
}

// grow grows the window in slow start, by no more than a share per step: what
// starts at once beyond the limit is refused at once.
func (w *window) grow(p *Params, now Nanos, to Milli, call Nanos) {
	if !w.Slow || !w.Used || !w.Calm {
		return
	}
	var known Milli
	if w.Works { // else what is taken may only wait somewhere
		known = w.Known / 2
	}
	if to = min(to, max(w.RoundBase*roundMost, known), p.WindowMax); to <= w.Base {
		return
	}
	if now >= w.StepAt+slowStep {
		w.StepAt, w.StepMost = now, w.Base+max(w.Base/Milli(slowShare+min(call/slowCall, slowShare)), 1000)
		w.StepMost = max(w.StepMost, min(2*w.Base, known))
	}
	w.Base = max(w.Base, min(to, w.StepMost))
}

// found ends the draining after a limit fell: so much is taken. If no more was
// refused, the limit rose since; else it is soon tested.
func (w *window) found(p *Params, now Nanos, level Milli) {
	w.Drain, w.Tried, w.Drained, w.Series = false, 0, true, 0
	rose, cut, goal := level >= w.Least, w.CutAt, w.Goal
	w.settle(min(w.Base, level), now)
	w.CutAt, w.Slow, w.Goal = cut, rose, goal
	if w.Known >= plateauWhole && goal-w.Base <= max(foundNear, w.Base/foundShare) {
		w.Grown = w.plateau(p) - foundPlateau
	}
}

// settle sets the window to v and starts a new climb from there.
func (w *window) settle(v Milli, now Nanos) {
	w.Base, w.Goal, w.Grown, w.CutAt, w.Double = v, 0, 0, now, 0
	w.RoundAt, w.RoundBase, w.RoundDone = now, v, 0
	w.StepAt, w.StepMost = now, v
	w.Level, w.TakenAt, w.Works, w.Near, w.Times = 0, 0, false, 0, 0
	w.SlowAt, w.Stand = 0, 0
}

// stale reports whether a refusal of an attempt admitted under epoch says
// nothing new, and why.
func (w *window) stale(epoch uint64) (string, bool) {
	switch {
	case epoch < w.Epoch:
		return "admitted before the last cut", true
	case !w.Drained && w.Tried == 0:
		return "calls from before the last cut are still in flight", true
	}
	return "", false
}

// refused makes the cut of a refusal. inflight is what the fleet has in
// flight besides what was refused, held what of that holds its slot. It returns
// the window before and after, and the reason.
func (w *window) refused(p *Params, now Nanos, top Milli, inflight, held int64) (before, after Milli, reason string) {
	before = w.value(p, top)
	if w.Slow || w.Grown >= proven {
		w.Series = 0
		if !w.Slow && before < plateauWhole {
			// One slot that is on its way between two agents is much of so few:
			// all but the refused one were taken before.
			inflight = max(inflight, int64(before)/1000-1)
		}
	} else if w.Series++; w.Series == 1 {
		// What was just refused was in flight a moment ago, when the limit was
		// met, and may have filled it.
		inflight += held
	}
	share := min(cutStep<<min(w.Series, 8), cutStepMost)
	level := min(before, Milli(inflight)*1000)
	step := Milli(scale(int64(level), share)) / 1000 * 1000 // whole slots: of ten, a hundredth is none
	want := level - step
	least := Milli(scale(int64(before), p.PinFloor))
	after = min(max(min(want, before-1000), least, p.WindowFloor), before)
	w.Ceiling = before
	w.cut(after, now, false)
	w.Drain = w.Series > 0
	w.Level = level
	if w.Series == 0 {
		w.Known, w.Least = level, level+1000
	}
	w.Least = min(w.Least, level+1000)
	w.Goal = level - Milli(scale(int64(level), goalGap))/1000*1000
	if after > p.WindowFloor {
		w.Goal += 500 // to be there in time, not at last
	}
	return before, after, fmt.Sprintf("refused with %d others in flight, %d in a row; set %d below those", inflight, w.Series+1, step/1000)
}

// missed takes a refusal of a call that was in flight when the last cut was
// made, and counted as taken then: the level was less by that. goal follows.
func (w *window) missed(p *Params, epoch uint64, sent Nanos) {
	if w.Level == 0 || w.Drained || w.Drain || epoch+1 != w.Epoch || sent > w.CutAt-missedAge {
		return
	}
	w.Level = max(w.Level-1000, 1)
	w.Base = min(w.Base, max(w.Level, p.WindowFloor))
	w.Goal = min(w.Goal, w.Base)
}

// refusedAfter takes how long a refusal took. What is remembered forgets an
// eighth with each shorter one.
func (w *window) refusedAfter(took Nanos) {
	w.Refusal = max(min(max(took, 0), gateMostRefusal/2), w.Refusal-w.Refusal/8)
}

// slowed makes the cut of a latency ratio over the baseline. By Little's law
// what is in flight over the ratio is what keeps the provider as busy as it is
// now without making anything wait. The climb from there doubles once per call,
// since only its end tells.
func (w *window) slowed(p *Params, now Nanos, top Milli, inflight int64, ratio PPM, took Nanos) (before, after Milli) {
	before = w.value(p, top)
	level := min(before, Milli(inflight)*1000)
	share := max(PPM(mulDiv(int64(One), int64(One), int64(max(ratio, One)))), p.LatencyCutFloor)
	after = max(Milli(scale(int64(level), share)), p.WindowFloor)
	after = min(after, before)
	stand := w.again(level, took)
	w.cut(after, now, true)
	w.Double, w.Near, w.SlowAt = took, level, level
	if stand > 0 {
		w.Stand, w.Goal = stand, after+Milli(scale(int64(level-after), standPart))
	}
	return before, after
}

// again returns how long the climb pauses after a cut at a level, 0 unless latency
// made the last cut at about the same: the more often, the surer it is, and the
// less often it need be seen.
func (w *window) again(level Milli, took Nanos) Nanos {
	if !w.ByLatency || w.SlowAt == 0 || max(level-w.SlowAt, w.SlowAt-level) > w.SlowAt/standNear {
		return 0
	}
	return min(2*max(w.Stand, took), standMost)
}

// quicken lets the climb after a cut that made calls faster go by what they take
// now.
func (w *window) quicken(p *Params, top Milli, took Nanos) {
	if !w.ByLatency {
		return
	}
	v := w.value(p, top)
	w.restart(p, v)
	if w.Double = took; int64(v) >= scale(int64(w.Near), nearShare) && v < w.Near {
		w.Double = nearSlower * took
	}
}

// approach slows the climb down once it comes near to what latency cut, and lets
// it go once it is past that. Where half as much again as at its start is no
// slower than ever, and far from what once was, the capacity that was lost is
// back: it climbs swiftly to near there.
func (w *window) approach(p *Params, top Milli, l *latency) {
	if !w.ByLatency {
		return
	}
	v, near, far := w.value(p, top), Milli(scale(int64(w.Near), nearShare)), Milli(scale(int64(l.Proven), farShare))
	swift := w.Times == swiftTimes
	switch {
	case swift && v >= far:
		w.quicken(p, top, l.Took)
		w.Times = latencyTimes
	case !swift && w.Calm && v < far && v >= w.Base+w.Base/2 && l.ratio() <= One:
		w.quicken(p, top, l.Took)
		w.Times, w.Near = swiftTimes, 0
	case w.Near == 0:
	case v >= w.Near:
		w.quicken(p, top, l.Took)
		w.Near = 0
	case v >= near && w.Base < near && v >= w.Goal:
		w.quicken(p, top, l.Took)
	}
}

func (w *window) cut(v Milli, now Nanos, byLatency bool) {
	w.settle(v, now)
	w.Slow, w.Drained, w.ByLatency = false, false, byLatency
	w.Drain, w.Tried = false, 0
	w.Epoch++
}

// isqrt returns the integer square root. A float's root is exact to the last bit
// on every processor, so that it is off by one at most.
func isqrt(n uint64) uint64 {
	r := min(uint64(math.Sqrt(float64(n))), math.MaxUint32)
	for r*r > n {
		r--
	}
	for r < math.MaxUint32 && (r+1)*(r+1) <= n {
		r++
	}
	return r
}

func (c *coder) window(w *window) {
	num(c, &w.Base)
	num(c, &w.Grown)
	for _, v := range []*bool{&w.Slow, &w.Used, &w.Calm, &w.ByLatency, &w.Drained} {
		c.flag(v)
	}
	num(c, &w.Epoch)
	num(c, &w.CutAt)
	num(c, &w.Ceiling)
	num(c, &w.Goal)
	num(c, &w.Series)
	num(c, &w.Double)
	num(c, &w.RoundAt)
	num(c, &w.RoundBase)
	num(c, &w.RoundDone)
	c.flag(&w.Drain)
	num(c, &w.Tried)
	num(c, &w.TriedAt)
	num(c, &w.TakenAt)
	num(c, &w.Level)
	num(c, &w.StepAt)
	num(c, &w.StepMost)
	num(c, &w.Refusal)
	num(c, &w.Known)
	num(c, &w.Least)
	c.flag(&w.Works)
	num(c, &w.Times)
	num(c, &w.Near)
	num(c, &w.SlowAt)
	num(c, &w.Stand)
}
