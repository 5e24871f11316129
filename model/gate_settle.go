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
		backoff = retryBackoff(&g.config.Retry, int(r.tries), g.waitOf(&o), g.cfg.Rand)
	}
	g.settle(now, r, &o, backoff)
	next := g.next(now, r, &o, backoff)
	if next.Kind != NextRetry {
		g.requests.put(r)
	}
	return next
}

// waitOf returns the wait that the provider named, as far as it is believed: of
// a rate no more than HoldTrust.
func (g *Gate) waitOf(o *Outcome) Nanos {
	switch {
	case o.Class != ClassRateLimited:
		return min(o.RetryAfter, g.cfg.Params.HoldMax)
	case o.RetryAfter > g.cfg.Params.HoldTrust:
		return 0
	}
	return o.RetryAfter
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

// keepsReservation reports whether a refused call counts as having used its
// tokens: it may be charged, and given back at once it would let the same agent
// send as much again into the same limit. Not so where a status says that the
// provider itself has trouble.
func keepsReservation(class Class, status uint16) bool {
	return class == ClassRateLimited || class == ClassOverloaded && status < 500
}

// use is what is known of the tokens that an attempt used.
type use struct {
	class   Class
	status  uint16
	in, out Tokens
	known   bool // the provider said so
}

// spentOf returns what an attempt used of token budgets of c, which is nil when
// it is not known.
func (u use) spentOf(c *ChannelConfig, reserved Tokens) Tokens {
	used := u.in + u.out
	switch u.class {
	case ClassOK:
		if c != nil && c.ChargeMax {
			return max(reserved, used) // the provider counts what was asked for
		}
		if u.known {
			return used
		}
	case ClassCanceled:
		if used > 0 {
			return used
		}
	case ClassTransport:
		return max(reserved, used) // the provider may have accepted it
	case ClassRateLimited, ClassOverloaded:
		if keepsReservation(u.class, u.status) {
			return max(reserved, used)
		}
		return 0 // no work was done
	case ClassInvalid, ClassQuotaExhausted, ClassAuth:
		return used // none, unless the answer had begun
	}
	return reserved
}

// settle takes an attempt out of flight, into the next report and, if it was
// refused, holds its slot until the backoff has passed: released at once, a
// slot would be refused again in the time of a refusal, which is a fraction of
// the time of a call. Where hardly any call ends well before it is given up, the
// provider goes on with those: such a slot is held for as long again.
func (g *Gate) settle(now Nanos, r *gateRequest, o *Outcome, backoff Nanos) {
	c := r.at.channel
	share := c.share(now, g.lost, g.met)
	over := c.used(now) > share
	c.unlink(r)
	g.running--
	r.owner.end()
	c.attempts[o.Class]++
	jammed := c.pace.ended(now, r, o)
	if o.Class == ClassOK {
		c.use[r.priority].done(now, now-r.at.started, now-r.arrived)
	}
	spent := use{o.Class, o.Status, o.In, o.Out, o.UsageKnown}.spentOf(c.cfg, r.tokens)
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
		if r.at.probe == 0 {
			c.held.add(gateLater(now, g.heldFor(now, c, backoff)))
		}
		c.local.refusedAfter(now - r.at.started)
		g.wantReport(now)
	case jammed && r.at.probe == 0:
		c.held.add(gateLater(now, now-r.at.started))
	case over || r.at.probe != 0:
		g.wantReport(now)
	}
	r.lastClass = o.Class
	g.dirty = true
	g.changed(now)
}
