package model

// heldFor returns how long a refused slot stays taken: the backoff; where the
// channel itself is stopped for a wait that the provider named, only the
// backoff without it, so that no slot is missing when the channel opens early.
func (g *Gate) heldFor(now Nanos, c *gateChannel, backoff Nanos) Nanos {
	if b := g.closed(now, c); b.sure && b.until >= gateLater(now, backoff) {
		return min(backoff, retryBackoff(&g.config.Retry, 1, 0, g.cfg.Rand))
	}
	return backoff
}

// aloneNoise is after how many good calls a server error that names no cause is
// taken for noise by a gate that is alone: such are under a percent, see noiseShare.
const aloneNoise = 50

// react is the gate's own answer to an outcome, until the controller speaks.
// It mirrors who hears what in the fold: rates stop the channel, concurrency
// and overload shrink the share, quota and credentials close it. A caller's
// mistake or cancel changes nothing.
func (g *Gate) react(now Nanos, r *gateRequest, o *Outcome, share int64, backoff Nanos) {
	c := r.at.channel
	switch o.Class {
	case ClassOK:
		c.local.quiet++
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
		if g.lost && vague(o.Status) && c.local.quiet >= aloneNoise {
			c.local.quiet = 0 // some fail on good days
			return
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
	if o.RetryAfter > 0 && o.RetryAfter <= g.cfg.Params.HoldTrust {
		wait = o.RetryAfter
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
	taken, _ := c.accepted(now)
	l.cap = min(max(scale(share, g.cfg.Params.CutShare), taken, 1), share)
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
		c.told.breaker, c.told.shut = BreakerClosed, 0
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
