package model

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
	g.timers.set(r, g.wakeOf(now, r))
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
			if o := t.choices[k].channel; o != c && g.room(now, o, r, n).cause == causeNone {
				return true
			}
		}
	}
	return false
}
