package model

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// The roll-out of parameters under a guard. A push that names a guard is
// watched for a time and taken back by the fold itself when it makes things
// worse than the guard tolerates; all of it follows from the log alone.
//
// Two figures are watched. Goodput is answers per demand, where demand is the
// slots that agents held and waited for, times the time they did (in flight,
// held and queued of every report, until the next): twice the demand that
// brings twice the answers is no change, a queue that grows while answers do
// not is one. Waste is the share of attempts that brought no answer; a caller's
// mistakes and cancels count for neither.
//
// Without a canary the set is in force for the fleet at once, and the figures
// are compared with those of the same length of time before the push. With a
// canary it is in force for the laws of that channel and its own budget alone
// (a quota group, and how long leases hold, are the fleet's), and what changed
// there is compared with what changed on all other channels in the same time: so
// a provider that is slower than it was, or a load of another kind, is no reason
// to take a set back. At the end a canary that kept within its guard is in force
// for all.
//
// Each second it is looked whether a figure is worse than the guard tolerates
// by more than four times its standard error, which ends the watch at once. At
// the end the figures themselves decide. With fewer than a hundred attempts on
// any side there is no verdict, and what was in force before is the safe side.
// A set that starves a channel has few attempts: so what the demand would have
// been answered at the earlier pace counts as attempts, too.
//
// A later push ends the watch. If it is guarded itself, its rollback brings back
// what the earlier one's would have: the last set that no guard is on.

// GuardLeast and GuardMost bound how long a push is watched. Below, a second's
// reports would decide; above, the sums of the past do not reach.
const (
	GuardLeast = 10 * Second
	GuardMost  = Hour
)

const (
	guardEvery    = Second     // between two looks
	guardAttempts = 100        // on each side, below which there is no verdict
	guardSure     = 4          // standard errors that make it clear
	guardHush     = 5 * Second // after a new leader: reports of the time without one are on their way
)

// guard watches a push.
type guard struct {
	set   ParamSet // as it was pushed
	seq   uint64   // by which record
	prior priorSet // what a rollback brings back
	// next is when it is looked at, ends when it is decided.
	next, ends Nanos
	rows       []guardRow // by channel, sorted
	hash       string     // of set; not state
}

// priorSet is a parameter set and the record that brought it.
type priorSet struct {
	set ParamSet
	seq uint64
}

// guardRow is a channel at the push: what came of the time before, and the
// sums from which the time since is counted.
type guardRow struct {
	channel string
	before  sums
	from    sums
}

// CheckGuard returns an error for a push that cannot be watched as it asks, in
// a fleet of the channels named.
func (s *ParamSet) CheckGuard(channels []string) error {
	g := &s.Guard
	switch {
	case *g == Guard{} && s.Canary == "":
		return nil
	case g.For < GuardLeast || g.For > GuardMost:
		return fmt.Errorf("a guard watches for %s to %s, not %s", GuardLeast, GuardMost, g.For)
	case g.Goodput < -One || g.Goodput > One || g.Waste < -One || g.Waste > One:
		return errors.New("a guard tolerates changes from -100 % to 100 %")
	case s.Canary == "":
		return nil
	case !slices.Contains(channels, s.Canary):
		return fmt.Errorf("no channel %q to try it on", s.Canary)
	case len(channels) < 2:
		return errors.New("a canary is compared with the other channels, and there are none")
	}
	return nil
}

func (f *Fleet) checkGuard(s *ParamSet) error {
	names := make([]string, 0, len(f.channels))
	for _, c := range f.channels {
		names = append(names, c.name)
	}
	return s.CheckGuard(names)
}

// supersede ends the watch for a newer push and returns what a rollback of
// that one brings back.
func (f *Fleet) supersede() priorSet {
	prior := priorSet{f.params, f.paramsSeq}
	if f.guard != nil {
		prior = f.guard.prior
		f.endWatch()
	}
	return prior
}

func (f *Fleet) endWatch() {
	f.guard = nil
	f.dirty.gone("guard")
}

// inForce puts a set in force for the fleet.
func (f *Fleet) inForce(s *priorSet, fx *Effects) {
	f.params, f.paramsSeq = s.set, s.seq
	f.params.Canary, f.params.Guard = "", Guard{}
	f.hash = f.params.Params.Hash()
	f.dirty.mark("params")
	f.setPools()
	f.rules(fx)
}

// watchPush puts a guarded push in force, for the fleet or its canary, and
// begins to watch.
func (f *Fleet) watchPush(s *ParamSet, prior priorSet, fx *Effects) {
	g := &guard{set: *s, seq: f.seq, prior: prior, next: f.now + guardEvery, ends: f.now + s.Guard.For, hash: s.Params.Hash()}
	for _, c := range f.channels {
		from := c.sums()
		g.rows = append(g.rows, guardRow{channel: c.name, before: from.less(c.pastAt(f.now - s.Guard.For)), from: from})
	}
	before, where := f.hash, ""
	switch {
	case s.Canary == "":
		f.inForce(&priorSet{*s, f.seq}, fx)
	case prior.seq != f.paramsSeq:
		f.inForce(&prior, fx) // what was watched before has no verdict
	}
	f.guard = g
	f.dirty.mark("guard")
	if s.Canary != "" {
		where = " on this channel alone"
		f.setPools()
		f.rules(fx)
	}
	f.setAlarm(g.next)
	f.decide(fx, Decision{Channel: s.Canary, Rule: RuleParams, Reason: fmt.Sprintf("%s (%s) replaces %s%s, watched for %s: goodput may change by %s, waste by %s%s",
		s.Name, g.hash, before, where, s.Guard.For, signed(s.Guard.Goodput), signed(s.Guard.Waste), by(s.By, s.Why))})
}

// guardConfigured ends the watch of a canary that is gone.
func (f *Fleet) guardConfigured(fx *Effects) {
	if g := f.guard; g != nil && g.set.Canary != "" && (f.channel(g.set.Canary) == nil || len(f.channels) < 2) {
		f.decideGuard(false, "its channel, or what it is compared with, is not configured any more", fx)
	}
}

// hushGuard waits with the next look: the reports of the time without a leader
// are not folded yet.
func (f *Fleet) hushGuard() {
	if g := f.guard; g != nil {
		g.next = max(g.next, f.now+guardHush)
		f.dirty.mark("guard")
	}
}

// guardDeadline looks at the figures when it is time.
func (f *Fleet) guardDeadline(fx *Effects) {
	g := f.guard
	if g == nil {
		return
	}
	if !f.due(g.next) {
		f.setAlarm(g.next)
		return
	}
	v := f.guardFigures()
	switch last := f.now >= g.ends; {
	case v.clear(&g.set.Guard):
		f.decideGuard(false, v.String(&g.set.Guard), fx)
	case last && !v.enough():
		f.decideGuard(false, "too little to judge: "+v.String(&g.set.Guard), fx)
	case last:
		f.decideGuard(v.within(&g.set.Guard), v.String(&g.set.Guard), fx)
	default:
		g.next = min(f.now+guardEvery, max(g.ends, f.now+1))
		f.dirty.mark("guard")
		f.setAlarm(g.next)
	}
}

// decideGuard ends the watch with a verdict.
func (f *Fleet) decideGuard(keep bool, why string, fx *Effects) {
	g := f.guard
	f.endWatch()
	took := said(f.now - (g.ends - g.set.Guard.For))
	reason := fmt.Sprintf("%s (%s) taken back after %s, %s (%s) again: %s", g.set.Name, g.hash, took, g.prior.set.Name, g.prior.set.Params.Hash(), why)
	switch {
	case keep && g.set.Canary != "":
		f.inForce(&priorSet{g.set, f.seq}, fx)
		reason = fmt.Sprintf("%s (%s) kept after %s and in force for all: %s", g.set.Name, g.hash, took, why)
	case keep:
		reason = fmt.Sprintf("%s (%s) kept after %s: %s", g.set.Name, g.hash, took, why)
	default:
		f.inForce(&g.prior, fx)
	}
	f.decide(fx, Decision{Channel: g.set.Canary, Rule: RuleParams, Reason: reason})
	fx.Now = true
}

// canary reports whether c is tried with other parameters than the fleet's.
func (f *Fleet) canary(c *channel) bool { return f.guard != nil && f.guard.set.Canary == c.name }

// parOf returns the parameters of a channel's laws.
func (f *Fleet) parOf(c *channel) *Params {
	if f.canary(c) {
		return &f.guard.set.Params
	}
	return f.par()
}

// parPool returns the parameters of a pool's laws: a group is the fleet's.
func (f *Fleet) parPool(p *pool) *Params {
	if g := f.guard; g != nil && g.set.Canary != "" && p.name == PoolOfChannel(g.set.Canary) {
		return &g.set.Params
	}
	return f.par()
}

// verdict is the figures of a watch.
type verdict struct {
	before, since           sums // of the canary, or of all channels
	othersBefore, others    sums // of the unchanged channels
	canary                  bool
	expected                uint64 // answers that the demand would have had
	goodput, goodputNoise   PPM
	waste, wasteNoise       PPM
	othersGoodput, othersPP PPM
}

// guardFigures sums up what came of the push so far.
func (f *Fleet) guardFigures() verdict {
	g := f.guard
	v := verdict{canary: g.set.Canary != ""}
	for i := range g.rows {
		r := &g.rows[i]
		c := f.channel(r.channel)
		if c == nil {
			continue // it is gone, and with it what it would be compared with
		}
		since := c.sums().less(r.from)
		if v.canary && r.channel != g.set.Canary {
			v.othersBefore, v.others = v.othersBefore.plus(r.before), v.others.plus(since)
			continue
		}
		v.before, v.since = v.before.plus(r.before), v.since.plus(since)
	}
	v.judge()
	return v
}

// judge makes figures of the sums.
func (v *verdict) judge() {
	v.expected = v.before.expected(&v.since)
	wasted := v.before.wasted()
	errors := errorOf(v.before.ok) + errorOf(max(v.expected, v.since.ok))
	wasteErrors := v.before.wasteError() + v.since.wasteError()
	if v.canary {
		usual := v.othersBefore.expected(&v.others)
		v.othersGoodput = change(v.others.ok, usual)
		v.othersPP = v.others.wasted() - v.othersBefore.wasted()
		v.expected = mulDivU(v.expected, v.others.ok, max(usual, 1))
		wasted += v.othersPP
		errors += errorOf(v.othersBefore.ok) + errorOf(v.others.ok)
		wasteErrors += v.othersBefore.wasteError() + v.others.wasteError()
	}
	v.goodput, v.waste = change(v.since.ok, v.expected), v.since.wasted()-wasted
	v.goodputNoise, v.wasteNoise = PPM(isqrt(errors)), PPM(isqrt(wasteErrors))
}

// enough reports whether there is enough on every side for a verdict.
func (v *verdict) enough() bool {
	return v.before.all() >= guardAttempts && max(v.since.all(), v.expected) >= guardAttempts &&
		(!v.canary || v.othersBefore.all() >= guardAttempts && v.others.all() >= guardAttempts)
}

// within reports whether the figures are what the guard tolerates.
func (v *verdict) within(g *Guard) bool { return v.goodput >= g.Goodput && v.waste <= g.Waste }

// clear reports whether a figure is worse than that beyond doubt.
func (v *verdict) clear(g *Guard) bool {
	if !v.enough() {
		return false
	}
	bad := v.since.all() >= guardAttempts && v.waste-guardSure*v.wasteNoise > g.Waste
	return bad || v.goodput+guardSure*v.goodputNoise < g.Goodput
}

// String says the figures for people.
func (v *verdict) String(g *Guard) string {
	than := "before"
	if v.canary {
		than = fmt.Sprintf("before and on the other channels since (goodput %s, waste %s, of %d attempts)", signed(v.othersGoodput), signed(v.othersPP), v.others.all())
	}
	return fmt.Sprintf("goodput %s (tolerated %s): %d answers where the demand would have had %d, waste %s (tolerated %s): %d of %d attempts, against %d of %d %s",
		signed(v.goodput), signed(g.Goodput), v.since.ok, v.expected, signed(v.waste), signed(g.Waste),
		v.since.bad, v.since.all(), v.before.bad, v.before.all(), than)
}

// String says how far the watch is.
func (g *guard) String(now Nanos) string {
	where := ""
	if g.set.Canary != "" {
		where = " on " + g.set.Canary
	}
	return fmt.Sprintf("guard: %s (%s)%s is watched, %s to go", g.set.Name, g.hash, where, max(g.ends-now, 0))
}

// signed writes a change with its sign, to a hundredth of a percent.
func signed(p PPM) string {
	p -= p % 100
	if p < 0 {
		return percent(p)
	}
	return "+" + percent(p)
}

// change returns got over want, less one; nothing wanted is no change.
func change(got, want uint64) PPM {
	if want == 0 {
		return 0
	}
	return PPM(min(mulDivU(got, uint64(One), want), uint64(1000*One))) - One
}

// errorOf is the square of the relative error of a count, in 1e-12.
func errorOf(n uint64) uint64 { return 1_000_000_000_000 / max(n, 1) }

// mulDivU is a times b by c, as far as it fits.
func mulDivU(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return 1 << 62
	}
	q, _ := bits.Div64(hi, lo, c)
	return min(q, 1<<62)
}
