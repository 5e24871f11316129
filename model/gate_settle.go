package model

// Accepted notes that the first byte of an attempt's answer was seen.
func (g *Gate) Accepted(now Nanos, permit uint64) {
	g.tick(now)
	if r := g.requests.running(permit); r != nil {
		r.at.accepted = true
	}
}

// FirstToken notes the first token of an attempt's streamed answer.
func (g *Gate) FirstToken(now Nanos, permit uint64) {
	now = g.tick(now)
	if r := g.requests.running(permit); r != nil && r.at.firstToken == 0 {
		r.at.accepted = true
		r.at.firstToken = max(now-r.at.started, 1)
	}
}

// Done settles an attempt and decides what follows. A permit that was settled
// before changes nothing.
func (g *Gate) Done(now Nanos, permit uint64, o Outcome) Next {
	now = g.tick(now)
	r := g.requests.running(permit)
	if r == nil {
		return Next{Kind: NextFinished, Class: o.Class, Reason: "settled before"}
	}
	if o.Unsent {
		g.undo(now, r)
		g.requests.put(r)
		return Next{Kind: NextFinished, Class: ClassCanceled, Reason: "never sent"}
	}
	o.normalize()
	var backoff Nanos
	if o.Class.Refused() || o.Class == ClassTransport {
		backoff = retryBackoff(&g.config.Retry, int(r.tries), min(o.RetryAfter, g.cfg.Params.HoldMax), g.cfg.Rand)
	}
	g.settle(now, r, &o, backoff)
	next := g.next(now, r, &o, backoff)
	if next.Kind != NextRetry {
		g.requests.put(r)
	}
	return next
}

// normalize makes an outcome of what a shell may hand over.
func (o *Outcome) normalize() {
	if o.Class == 0 || int(o.Class) >= NumClasses {
		o.Class = ClassTransport
	}
	if o.RetryAfter <= 0 {
		o.RetryAfter = -1
	}
	o.In = min(max(o.In, 0), gateMaxTokens)
	o.Out = min(max(o.Out, 0), gateMaxTokens)
	o.Cached = min(max(o.Cached, 0), o.In)
	for i := range o.Hints {
		if h := &o.Hints[i]; o.Dimension == DimNone && o.Class.Refused() && h.Remaining == 0 {
			o.Dimension = h.Dimension
		}
	}
}

// spent returns what an attempt used of token budgets.
func (o *Outcome) spent(c *gateChannel, reserved Tokens) Tokens {
	used := o.In + o.Out
	switch o.Class {
	case ClassOK:
		if c.cfg != nil && c.cfg.ChargeMax {
			return max(reserved, used) // the provider counts what was asked for
		}
		if o.UsageKnown {
			return used
		}
	case ClassCanceled:
		if used > 0 {
			return used
		}
	case ClassTransport:
		return max(reserved, used) // the provider may have accepted it
	case ClassInvalid, ClassRateLimited, ClassOverloaded, ClassQuotaExhausted, ClassAuth:
		if !o.UsageKnown {
			return 0 // no work was done
		}
		return used
	}
	return reserved
}

// settle takes an attempt out of flight, into the next report and, if it was
// refused, holds its slot until the backoff has passed: released at once, a
// slot would be refused again in the time of a refusal, which is a fraction of
// the time of a call.
func (g *Gate) settle(now Nanos, r *gateRequest, o *Outcome, backoff Nanos) {
	c := r.at.channel
	share := c.share(now, g.lost, g.met)
	over := c.used(now) > share
	c.unlink(r)
	g.running--
	c.attempts[o.Class]++
	spent := o.spent(c, r.tokens)
	for _, p := range r.at.pools {
		p.settle(r.tokens, spent)
	}
	if r.tries == 1 {
		g.budget.earn(g.config.Retry.Budget, r.tokens)
	}
	g.number.settled++
	g.record(now, r, o)
	g.react(now, r, o, share, backoff)
	switch {
	case o.Class.Refused():
		c.held.add(gateLater(now, g.heldFor(now, c, backoff)))
		c.local.refusedAfter(now - r.at.started)
		g.wantReport(now)
	case over || r.at.probe != 0:
		g.wantReport(now)
	}
	r.lastClass = o.Class
	g.dirty = true
	g.changed(now)
}

// heldFor returns how long a refused slot stays taken: the backoff; where the
// channel itself is stopped for a wait that the provider named, only the
// backoff without it, so that no slot is missing when the channel opens early.
func (g *Gate) heldFor(now Nanos, c *gateChannel, backoff Nanos) Nanos {
	if b := g.closed(now, c); b.sure && b.until >= gateLater(now, backoff) {
		return min(backoff, retryBackoff(&g.config.Retry, 1, 0, g.cfg.Rand))
	}
	return backoff
}

// react is the gate's own answer to an outcome, until the controller speaks.
// It mirrors who hears what in the fold: rates stop the channel, concurrency
// and overload shrink the share, quota and credentials close it. A caller's
// mistake or cancel changes nothing.
func (g *Gate) react(now Nanos, r *gateRequest, o *Outcome, share int64, backoff Nanos) {
	c := r.at.channel
	switch o.Class {
	case ClassOK:
		g.worked(c)
	case ClassRateLimited:
		switch o.Dimension {
		case DimRequests, DimTokens:
			g.hold(now, c, o)
		case DimDay, DimCredits:
			g.close(now, c, o)
		case DimConcurrency:
			g.shrink(now, r, share, backoff)
		case DimNone:
			if o.RetryAfter > 0 || c.rated() {
				g.hold(now, c, o)
			} else {
				g.shrink(now, r, share, backoff)
			}
		}
	case ClassOverloaded:
		if o.RetryAfter > 0 {
			g.hold(now, c, o)
		}
		g.shrink(now, r, share, backoff)
	case ClassQuotaExhausted, ClassAuth:
		g.close(now, c, o)
	case ClassTransport:
		if g.lost {
			g.failed(now, r, share, backoff)
		}
	case ClassInvalid, ClassCanceled:
	}
}

// rated reports whether a rate limit of the channel is known.
func (c *gateChannel) rated() bool {
	for _, p := range c.pools {
		if p.rated() {
			return true
		}
	}
	return false
}

// hold stops c, or every channel of its groups, for what the provider said.
// It never ends earlier than one before.
func (g *Gate) hold(now Nanos, c *gateChannel, o *Outcome) {
	wait := g.cfg.Params.HoldDefault
	if o.RetryAfter > 0 {
		wait = min(o.RetryAfter, g.cfg.Params.HoldMax)
	}
	// A little later, and not for all agents the same.
	if spread := min(wait/10, Second); spread > 0 {
		wait += Nanos(g.cfg.Rand.Int64N(int64(spread)))
	}
	until := gateLater(now, wait)
	for _, other := range g.channels {
		if other != c && (o.Scope != ScopeGroup || other.cfg == nil || c.cfg == nil || !sharesGroup(c.cfg, other.cfg)) {
			continue
		}
		if until > other.local.hold {
			other.local.hold, other.local.confirmed = until, false
		}
	}
}

// close shuts c until the reset the provider named or the controller's word.
func (g *Gate) close(now Nanos, c *gateChannel, o *Outcome) {
	wait := max(o.RetryAfter, 0)
	for i := range o.Hints {
		if h := &o.Hints[i]; h.Remaining == 0 {
			wait = max(wait, h.Reset)
		}
	}
	if wait == 0 && o.Class != ClassAuth {
		wait = quotaProbe
	}
	if wait == 0 || wait > g.cfg.Params.HoldMax {
		wait = g.cfg.Params.HoldMax
	}
	l := &c.local
	l.closed = ClassQuotaExhausted
	if o.Class == ClassAuth {
		l.closed = ClassAuth
	}
	l.closedUntil = max(l.closedUntil, gateLater(now, wait))
	l.closedMark, l.closedSeq = g.number.settled, 0
}

// shrink cuts the agent's own share after a refusal: by CutShare, but not
// below what the provider is working on, and once per round trip. A refusal
// from before the fleet's last cut, or of a probe, cuts nothing.
func (g *Gate) shrink(now Nanos, r *gateRequest, share int64, backoff Nanos) {
	c := r.at.channel
	l := &c.local
	switch {
	case r.at.probe != 0 || r.at.epoch < c.told.epoch:
		return
	case g.lost:
		g.failed(now, r, share, backoff)
		return
	case r.at.started < l.cutAt:
		return
	}
	l.cutAt = now
	if share <= 1 {
		return // its held slot is the cut
	}
	l.cap = min(max(scale(share, g.cfg.Params.CutShare), c.accepted(now), 1), share)
	l.capAt = gateLater(now, gateTrust)
	l.capMark = g.number.settled
}

// failed cuts the share used alone, and at one slot waits longer each time:
// the gate is its own breaker.
func (g *Gate) failed(now Nanos, r *gateRequest, share int64, backoff Nanos) {
	l := &r.at.channel.local
	if r.at.started < l.cutAt {
		return
	}
	l.cutAt = now
	if share > 1 {
		l.alone, l.good, l.bad = max(scale(share, g.cfg.Params.CutShare), 1), 0, 0
		return
	}
	l.bad++
	wait := max(retryBackoff(&g.config.Retry, l.bad, 0, g.cfg.Rand), backoff)
	l.hold = max(l.hold, gateLater(now, wait))
}

// worked grows the share used alone: one slot per share of successes, up to
// what is allowed.
func (g *Gate) worked(c *gateChannel) {
	l := &c.local
	l.bad = 0
	if !g.lost {
		return
	}
	if c.told.breaker == BreakerOpen || c.told.breaker == BreakerHalfOpen {
		// It works again, and nobody is there to say so: from one slot up.
		c.told.breaker = BreakerClosed
		l.alone, l.good = 1, 0
	}
	if l.alone < 0 {
		return
	}
	if l.good++; l.good < l.alone {
		return
	}
	l.alone, l.good = l.alone+1, 0
	if l.alone >= c.lost(g.met) {
		l.alone = -1
	}
}

// next decides how a request goes on after its attempt.
func (g *Gate) next(now Nanos, r *gateRequest, o *Outcome, backoff Nanos) Next {
	n := Next{Kind: NextFinished, Class: o.Class}
	if o.Class == ClassOK {
		return n
	}
	if o.Class == ClassTransport && r.broken < 2 {
		r.broken++
	}
	where, reason := retryPlan(o.Class, r.broken)
	c := r.at.channel
	n.Kind, n.Reason = NextGiveUp, reason
	if o.Class.Refused() {
		n.Wait = backoff
		if b := g.closed(now, c); b.sure && b.until != gateNever {
			n.Wait = max(n.Wait, b.until-now)
		}
	}
	switch {
	case where == retryNever:
	case o.Exposed:
		n.Reason = "part of the answer reached the client"
		return n
	case g.observes(c):
		n.Reason = "observed only"
		return n
	default:
		why := g.again(now, r, where, backoff, &n)
		if why == "" {
			return n
		}
		n.Reason = why
	}
	if where != retryNever || o.Class == ClassTransport {
		g.fix(r, o, &n)
	}
	return n
}

// fix answers with the route's fixed answer instead of giving up.
func (g *Gate) fix(r *gateRequest, o *Outcome, n *Next) {
	if tier := r.fixed(); tier >= 0 && !o.Exposed {
		g.number.ruled++
		n.Kind, n.Tier, n.Answer = NextRule, uint8(tier), r.route.tiers[tier].rule
	}
}

// again puts r in line for another attempt, or says why not.
func (g *Gate) again(now Nanos, r *gateRequest, where retryWhere, backoff Nanos, n *Next) string {
	cfg := &g.config.Retry
	switch {
	case int(r.tries) >= int(cfg.MaxAttempts):
		return "as many attempts as allowed were made"
	case r.tiers == 0:
		return "the route is no longer configured"
	}
	c := r.at.channel
	r.avoid, r.avoidUntil, r.notBefore = nil, 0, now
	switch where {
	case retryOther:
		r.avoid, r.avoidUntil = c, r.deadline
		if !g.others(r, c) {
			return "no other channel may be used"
		}
	case retryElsewhere:
		if g.elsewhere(now, r, c) {
			r.avoid, r.avoidUntil = c, gateLater(now, backoff)
		} else {
			r.notBefore = gateLater(now, backoff)
			n.Reason = "after the backoff: nothing else has room"
		}
	case retryQuick:
		r.notBefore = gateLater(now, backoff/8)
	case retryHere:
		r.notBefore = gateLater(now, backoff)
	case retryNever:
		return "no other try helps"
	}
	end := r.deadline
	if cfg.Total > 0 {
		end = min(end, gateLater(r.firstSent, cfg.Total))
	}
	if r.notBefore >= end {
		return "no time is left for another attempt"
	}
	cost := r.tokens
	if where == retryQuick {
		cost *= 2 // the provider may be working on the first one
	}
	if !g.budget.spend(cost) {
		return "the retry budget is used up"
	}
	g.number.retried++
	c.retries++
	r.since = now
	r.permit = 0
	r.ticket = Ticket(r.handle())
	n.Kind, n.Ticket, n.After, n.Elsewhere = NextRetry, r.ticket, r.notBefore-now, r.avoid != nil
	n.Wait = 0
	if r.notBefore <= now {
		g.enqueue(now, r)
		return ""
	}
	r.state = gateParked
	g.parked++
	g.timers.set(r, g.wakeOf(r))
	return ""
}

// others reports whether r may use any channel but c.
func (g *Gate) others(r *gateRequest, c *gateChannel) bool {
	stays := r.route.patience(r.core) < 0
	for i, n := nextTier(r.tiers, 0), 0; i >= 0; i, n = nextTier(r.tiers, i+1), n+1 {
		if stays && n > 0 {
			return false
		}
		t := &r.route.tiers[i]
		for k := range t.choices {
			if t.choices[k].channel != c {
				return true
			}
		}
	}
	return r.fixed() >= 0
}

// elsewhere reports whether another channel that is open to r has room now.
func (g *Gate) elsewhere(now Nanos, r *gateRequest, c *gateChannel) bool {
	for i, n := nextTier(r.tiers, 0), 0; i >= 0 && n <= int(r.level); i, n = nextTier(r.tiers, i+1), n+1 {
		t := &r.route.tiers[i]
		for k := range t.choices {
			if o := t.choices[k].channel; o != c && g.room(now, o, r).cause == causeNone {
				return true
			}
		}
	}
	return false
}
