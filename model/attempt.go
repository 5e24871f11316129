package model

import (
	"fmt"
	"slices"
)

// quotaProbe is how long a channel whose quota is spent stays closed when the
// provider did not say when it is whole again. A probe costs one refused
// call; six an hour notice a payment soon enough.
const quotaProbe = 10 * Minute

// longest bounds the ages and durations that an agent reports, so that
// nonsense cannot reach beyond what the breaker's ring and holds remember.
const longest = 24 * Hour

// attempt folds what became of one try. Exactly one loop hears a refusal: see
// the table in the package's documentation.
func (f *Fleet) attempt(c *channel, agent string, a *Attempt, fx *Effects) {
	probe := a.Probe != 0 && a.Probe == c.breaker.Probe.ID && agent == c.breaker.Probe.Agent
	if int(a.Class) >= NumClasses || a.Class == 0 {
		f.counters.Unknown++
		if probe {
			f.freeProbe(c)
		}
		return
	}
	sent := f.ended(a) - min(max(a.Took, 0), longest)
	c.counts[a.Class]++
	c.tokensIn += uint64(max(a.In, 0))
	c.cached += uint64(max(a.Cached, 0))
	c.tokensOut += uint64(max(a.Out, 0))
	f.settled(c, a, sent)
	f.bill(c, a, fx)
	f.hints(c, a, sent)
	switch a.Class {
	case ClassOK:
		f.success(c, a, sent, probe, fx)
	case ClassRateLimited:
		f.rateLimited(c, a, sent, probe, fx)
	case ClassOverloaded:
		f.overloaded(c, a, sent, probe, fx)
	case ClassTransport:
		f.transport(c, sent, probe, fx)
	case ClassQuotaExhausted:
		f.quotaExhausted(c, a, probe, fx)
	case ClassAuth:
		f.misconfigured(c, a, fx)
	case ClassInvalid, ClassCanceled:
		if probe {
			f.freeProbe(c)
		}
	}
}

// ended returns when an attempt ended, in log time.
func (f *Fleet) ended(a *Attempt) Nanos { return f.now - min(max(a.Age, 0), longest) }

func (f *Fleet) success(c *channel, a *Attempt, sent Nanos, probe bool, fx *Effects) {
	c.latency.sample(a, f.now, sent)
	c.window.success(f.parOf(c), c.top(), f.now, sent, c.latency.Took)
	c.breaker.outcome(sent, true)
	c.breaker.Consecutive = 0
	if c.window.Drain && sent > c.window.CutAt {
		c.found(f.parOf(c), f.now, Milli(mulDiv(c.inflight, 1000, 1)))
		f.want(c)
	}
	if probe {
		reason := "a probe succeeded; " + c.reopen(f.parOf(c), f.now)
		f.decide(fx, Decision{Channel: c.name, Rule: RuleBreakerClose, Reason: reason})
		fx.Now = true
		c.wants, c.urgent = true, true
	}
}

// rateLimited is a refusal for the account's rate: requests and tokens are the
// budget's, concurrency is the window's, a day's quota the breaker's.
func (f *Fleet) rateLimited(c *channel, a *Attempt, sent Nanos, probe bool, fx *Effects) {
	if probe {
		f.freeProbe(c)
	}
	dim, why := f.attribute(c, a, sent)
	switch dim {
	case DimRequests, DimTokens, DimNone:
		f.refuseBudget(c, a, dim, sent, why, fx)
	case DimDay, DimCredits:
		f.quotaExhausted(c, a, false, fx)
	case DimConcurrency:
		f.refuseWindow(c, a, sent, fx)
	}
}

// concerns reports whether what the provider said of a on c holds for other too.
func concerns(c *channel, a *Attempt, other *channel) bool {
	return other == c || a.Scope == ScopeGroup && sharesGroup(c.cfg, other.cfg)
}

func sharesGroup(a, b *ChannelConfig) bool {
	return slices.ContainsFunc(a.Groups, func(g string) bool { return slices.Contains(b.Groups, g) })
}

// overloaded is trouble on the provider's side: the window hears it, at its
// floor the breaker; the weight once per epoch.
func (f *Fleet) overloaded(c *channel, a *Attempt, sent Nanos, probe bool, fx *Effects) {
	if vague(a.Status) && !probe && c.breaker.noise(f.parOf(c), f.now, sent) {
		return // a few tenths of a percent fail on good days
	}
	if dim, why := f.attribute(c, a, sent); dim != DimConcurrency && dim != DimDay && dim != DimCredits {
		if probe {
			f.freeProbe(c)
		}
		f.refuseBudget(c, a, dim, sent, why, fx)
		return
	}
	if before, after, changed := c.weight.overloaded(f.parOf(c), f.now, min(a.Epoch, c.window.Epoch)); changed {
		f.decide(fx, Decision{Channel: c.name, Rule: RuleWeight, Before: int64(before), After: int64(after), Reason: fmt.Sprintf("overloaded under epoch %d", a.Epoch)})
	}
	if a.RetryAfter > 0 {
		wait := min(a.RetryAfter, f.parOf(c).HoldTrust)
		for _, other := range f.channels {
			if concerns(c, a, other) {
				f.holdChannel(other, f.ended(a)+wait, fmt.Sprintf("overloaded, and the provider named a wait; nothing starts for %s", said(wait)), fx)
			}
		}
	}
	if probe {
		f.failProbe(c, "overloaded", fx)
		return
	}
	f.refuseWindow(c, a, sent, fx)
}

// vague reports whether a failure is a server error that names no cause: it
// may be noise, where 503, 529 and refusals inside a 200 say "busy".
func vague(status uint16) bool {
	return status >= 500 && status != 503 && status != 529
}

// refuseWindow gives a refusal to the window, or at its floor to the breaker.
// A refusal of an attempt admitted before the last cut is stale news to both.
func (f *Fleet) refuseWindow(c *channel, a *Attempt, sent Nanos, fx *Effects) {
	if c.breaker.State != BreakerClosed {
		return
	}
	par := f.parOf(c)
	c.window.refusedAfter(a.Took)
	floor := c.window.atFloor(par, c.top())
	if floor && a.Epoch >= c.window.Epoch {
		c.window.Least = min(c.window.Least, Milli(mulDiv(c.inflight+1, 1000, 1)))
		c.breaker.Consecutive++
		c.breaker.outcome(sent, false)
		f.trip(c, fx)
		return
	}
	if _, stale := c.window.stale(a.Epoch); floor || stale && f.ablated != AblateEpochs {
		c.window.missed(par, a.Epoch, sent)
		f.counters.StaleRefusals++
		return
	}
	c.latency.refused(f.now)
	was := c.window
	before, after, reason := f.cutWindow(c)
	switch {
	case c.latency.explore(par, f.now, &was, before):
		after, reason = f.explore(c, after), reason+"; tried at less, to see whether calls get faster"
	case after < before-before/8:
		c.latency.settle(f.now)
	}
	f.cutMade(c, before)
	f.decide(fx, Decision{Channel: c.name, Rule: RuleWindowCut, Before: int64(before), After: int64(after), Reason: reason + code(a)})
	fx.Now = true
}

func code(a *Attempt) string {
	if a.Code == "" {
		return ""
	}
	return " (code " + a.Code + ")"
}

// cutMade does what follows every cut of the window. The leases are scaled
// once the record is folded: see cutLeases.
func (f *Fleet) cutMade(c *channel, before Milli) {
	if c.cutFrom == 0 {
		c.cutFrom = before
	}
	c.observe(f.parOf(c))
	f.want(c)
}

// explore takes a window that was just cut to v further down, on trial.
func (f *Fleet) explore(c *channel, v Milli) Milli {
	l, par := &c.latency, f.parOf(c)
	l.Explored = f.now
	less := max(Milli(scale(int64(v), exploreShare)), par.WindowFloor)
	c.window.settle(less, f.now)
	c.window.ByLatency, c.window.Double = true, l.Took
	l.try(f.now, v, less, l.long(), true)
	return less
}

// exploreOn goes on where less in flight made calls faster: what does best may be
// further down, and step by step it is found, until a step makes nothing faster.
func (f *Fleet) exploreOn(c *channel, fx *Effects) {
	before := c.window.value(f.parOf(c), c.top())
	if before < exploreLeast {
		return
	}
	c.window.cut(before, f.now, true)
	less := f.explore(c, before)
	f.cutMade(c, before)
	f.decide(fx, Decision{Channel: c.name, Rule: RuleLatencyCut, Before: int64(before), After: int64(less), Reason: "calls are faster with less in flight; tried at still less"})
	fx.Now = true
}

// judgeLatency shrinks a window whose calls have become slow under its load,
// and gives back what it took if that did not make them faster.
func (f *Fleet) judgeLatency(c *channel, fx *Effects) {
	if c.breaker.State != BreakerClosed {
		return
	}
	par, l := f.parOf(c), &c.latency
	if l.onTrial(f.now) {
		switch l.verdict(par) {
		case faster:
			explored := l.Exploring
			l.helped()
			c.window.quicken(par, c.top(), l.Took)
			if explored {
				f.exploreOn(c, fx)
			}
		case same:
			back, rebase := l.futile()
			f.giveBack(c, back, rebase, fx)
		case unclear:
			if l.TrialWindow = 0; l.Exploring {
				f.giveBack(c, l.SeriesFrom, false, fx)
				l.calmed()
			}
		case untold:
		}
		return
	}
	if l.Raise.From > 0 {
		f.judgeRaise(c, fx)
		return
	}
	ratio, high := l.high(par)
	w := c.window.value(par, c.top())
	small := l.small(w, ratio, high)
	switch {
	case !c.window.Drained:
		return
	case c.window.Calm:
		l.calmed()
		l.Raise.drop()
		if l.Samples >= par.LatencySamples {
			l.prove(f.now, c.inflight)
		}
		return
	case small && c.window.Used && l.Raise.due(f.now, l.Samples):
		f.raise(c, w, ratio, fx)
		return
	case !high || small:
		return
	}
	if c.window.atFloor(par, c.top()) || c.inflight <= 1 || int64(w) <= scale(int64(l.SeriesFrom), seriesShare) {
		f.giveBack(c, l.SeriesFrom, true, fx)
		return
	}
	before, after := c.window.slowed(par, f.now, c.top(), c.inflight, ratio, l.Took)
	l.try(f.now, before, after, ratio, false)
	f.cutMade(c, before)
	f.decide(fx, Decision{Channel: c.name, Rule: RuleLatencyCut, Before: int64(before), After: int64(after), Reason: fmt.Sprintf("calls take %d %% of their baseline with %d in flight", ratio/10_000, c.inflight)})
	fx.Now = true
}

// giveBack makes the window v again, if it is less, after a cut that did not
// make calls faster: at once where a cut only explored; with rebase by a climb
// under the present latency as the baseline. A provider that shrinks while it is
// cut looks like one whose load is not the cause, and is told apart when its
// calls get slower as the window climbs.
func (f *Fleet) giveBack(c *channel, v Milli, rebase bool, fx *Effects) {
	before := c.window.value(f.parOf(c), c.top())
	goal := max(before, v)
	reason := fmt.Sprintf("calls take %d %% of their baseline under less load as well", c.latency.ratio()/10_000)
	if !rebase {
		if goal == before {
			return
		}
		c.window.settle(goal, f.now)
		c.window.ByLatency = false
	} else {
		c.latency.rebase(f.now)
		c.window.settle(before, f.now)
		c.window.ByLatency, c.window.Goal, c.window.Double = true, goal, c.latency.Took
		reason += fmt.Sprintf(": this is the new normal, and the window climbs back to %d", goal/1000)
	}
	after := c.window.value(f.parOf(c), c.top())
	f.decide(fx, Decision{Channel: c.name, Rule: RuleLatencyRebase, Before: int64(before), After: int64(after), Reason: reason})
	f.want(c)
}

func (f *Fleet) transport(c *channel, sent Nanos, probe bool, fx *Effects) {
	if before, after, changed := c.weight.transport(f.parOf(c), f.now, sent); changed {
		f.decide(fx, Decision{Channel: c.name, Rule: RuleWeight, Before: int64(before), After: int64(after), Reason: "connection failed"})
	}
	c.breaker.outcome(sent, false)
	if probe {
		f.failProbe(c, "connection failed", fx)
		return
	}
	f.trip(c, fx)
}

func (f *Fleet) trip(c *channel, fx *Effects) {
	if c.breaker.State != BreakerClosed {
		return
	}
	if reason, ok := c.breaker.tripped(f.parOf(c), f.now); ok {
		f.openBreaker(c, 0, reason, fx)
	}
}

// openBreaker opens for wait, or for the law's own time when wait is 0, and
// takes the window to its floor, where the ramp begins later.
func (f *Fleet) openBreaker(c *channel, wait Nanos, reason string, fx *Effects) {
	c.breaker.open(f.parOf(c), f.now, wait)
	f.setAlarm(c.breaker.Until)
	long := "until it is closed"
	if c.breaker.Until != forever {
		long = "for " + said(c.breaker.Until-f.now).String()
	}
	f.floor(c, reason+"; open "+long, fx)
}

// floor takes the window of a channel whose breaker just opened to its floor,
// where the ramp begins later.
func (f *Fleet) floor(c *channel, reason string, fx *Effects) {
	before := c.window.value(f.parOf(c), c.top())
	after := min(before, f.parOf(c).WindowFloor)
	c.window.cut(after, f.now, false)
	c.latency.settle(f.now)
	f.cutMade(c, before)
	f.decide(fx, Decision{Channel: c.name, Rule: RuleBreakerOpen, Before: int64(before), After: int64(after), Reason: reason})
	fx.Now = true
}

// quotaExhausted opens the breaker until the quota is whole again, for every
// channel of the groups if the provider's word is about them.
func (f *Fleet) quotaExhausted(c *channel, a *Attempt, probe bool, fx *Effects) {
	if probe {
		f.freeProbe(c)
	}
	wait := a.RetryAfter
	for i := range a.Hints {
		if a.Hints[i].Remaining == 0 {
			wait = max(wait, a.Hints[i].Reset)
		}
	}
	if wait <= 0 {
		wait = quotaProbe
	}
	until := f.ended(a) + min(wait, f.parOf(c).HoldMax)
	if until <= f.now {
		return
	}
	for _, other := range f.channels {
		b := &other.breaker
		closed := b.State == BreakerMisconfigured || b.State == BreakerOpen && until <= b.Until
		if concerns(c, a, other) && !closed {
			other.advance(f.now)
			f.openBreaker(other, until-f.now, "quota exhausted"+code(a), fx)
		}
	}
}

func (f *Fleet) misconfigured(c *channel, a *Attempt, fx *Effects) {
	if c.breaker.State == BreakerMisconfigured {
		return
	}
	c.breaker.State, c.breaker.Until, c.breaker.Probe = BreakerMisconfigured, forever, probe{}
	f.floor(c, "the provider refused the credential"+code(a)+"; closed until an operator resumes it", fx)
}

// freeProbe ends a probe that proved nothing; the next is leased at once.
func (f *Fleet) freeProbe(c *channel) {
	c.breaker.Probe = probe{}
	c.wants, c.urgent = true, true
	f.want(c)
}

func (f *Fleet) failProbe(c *channel, why string, fx *Effects) {
	f.openBreaker(c, 0, "the probe failed: "+why, fx)
}
