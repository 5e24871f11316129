package model

// gateCause is why a channel cannot take a request.
type gateCause uint8

const (
	causeNone     gateCause = iota // it can
	causeAuth                      // the credential is refused
	causeQuota                     // the quota is used up
	causeHold                      // a refusal asks to wait
	causeClosed                    // the fleet's breaker, hold or pause
	causeHalfOpen                  // only probes may pass
	causeDrained                   // an operator set the weight to 0
	causeAvoid                     // it just failed this request
	causeAlone                     // no controller was ever heard
	causeSlots                     // as much as may be is in flight
	causeBudget                    // the rate budget is used up
	causeLate                      // its deadline has passed
	causeGone                      // its route is no longer configured
	causeDay                       // a day's budget is used up
	causeEnd                       // the agent is stopping
)

func (c gateCause) class() Class {
	switch c {
	case causeAuth:
		return ClassAuth
	case causeQuota, causeDay:
		return ClassQuotaExhausted
	case causeHold, causeBudget:
		return ClassRateLimited
	case causeLate:
		return ClassCanceled
	case causeGone:
		return ClassInvalid
	case causeNone, causeClosed, causeHalfOpen, causeDrained, causeAvoid, causeAlone, causeSlots, causeEnd:
	}
	return ClassOverloaded
}

func (c gateCause) String() string {
	switch c {
	case causeAuth:
		return "the provider refused the credential"
	case causeQuota:
		return "the quota is used up"
	case causeHold:
		return "the channel waits after a refusal"
	case causeClosed:
		return "the channel is closed"
	case causeHalfOpen:
		return "the channel is being probed"
	case causeDrained:
		return "the channel takes no new calls"
	case causeAvoid:
		return "the channel just failed this request"
	case causeAlone:
		return "no controller was heard and none may be sent without"
	case causeSlots:
		return "as many calls as allowed are in flight"
	case causeBudget:
		return "the rate budget is used up"
	case causeDay:
		return "the day's budget is used up"
	case causeNone, causeLate, causeGone, causeEnd:
	}
	return ""
}

// gateBlock is why a request cannot start now and until when at least, as far
// as time alone changes it.
type gateBlock struct {
	cause   gateCause
	channel *gateChannel
	// until is gateNever when only news can tell.
	until Nanos
	// sure is set when nothing starts before until whatever ends or arrives,
	// short of an operator.
	sure bool
}

// sooner returns the block that ends first; one that may end any time beats
// one that is sure.
func (b gateBlock) sooner(o gateBlock) gateBlock {
	switch {
	case b.cause == causeNone:
		return o
	case o.cause == causeNone:
		return b
	case b.sure != o.sure:
		if b.sure {
			b, o = o, b
		}
		b.until = min(b.until, o.until)
		return b
	case o.until < b.until:
		return o
	}
	return b
}

// closed returns what keeps the channel shut whatever is in flight.
func (g *Gate) closed(now Nanos, c *gateChannel) gateBlock {
	l, t := &c.local, &c.told
	switch {
	case l.closed != 0 && now < l.closedUntil:
		cause := causeQuota
		if l.closed == ClassAuth {
			cause = causeAuth
		}
		return gateBlock{cause, c, l.closedUntil, true}
	case t.breaker == BreakerMisconfigured:
		return gateBlock{causeAuth, c, gateNever, true}
	case now < t.wait && t.spent:
		return gateBlock{causeDay, c, t.wait, true}
	case now < t.wait:
		return gateBlock{causeClosed, c, t.wait, true}
	case now < l.hold:
		return gateBlock{causeHold, c, l.hold, true}
	case t.breaker != BreakerClosed && !g.lost:
		return gateBlock{causeHalfOpen, c, gateNever, false}
	case t.weight == 0:
		return gateBlock{causeDrained, c, gateNever, false}
	}
	return gateBlock{}
}

// probes reports whether c has a leased probe to send.
func (g *Gate) probes(now Nanos, c *gateChannel) bool {
	return c.grant.probe != 0 && now < c.grant.probeUntil && !g.lost &&
		c.told.breaker != BreakerMisconfigured
}

// room returns what keeps r from starting on c, causeNone if nothing does.
func (g *Gate) room(now Nanos, c *gateChannel, r *gateRequest, level int) gateBlock {
	if r.avoid == c && now < r.avoidUntil {
		return gateBlock{causeAvoid, c, r.avoidUntil, true}
	}
	// First: waiting for anything else makes it only later, and whoever waits in
	// vain holds up those behind.
	if g.late(now, r, c, level) {
		return gateBlock{causeLate, c, gateNever, true}
	}
	if b := g.slot(now, c); b.cause != causeNone {
		return b
	}
	if g.yields(now, r, c) && !g.probes(now, c) {
		return gateBlock{causeSlots, c, gateLater(now, useHalf), false}
	}
	for _, p := range c.pools {
		if p.saves(r) {
			return gateBlock{causeBudget, c, gateNever, false}
		}
		if wait := p.wait(now, g.lost, g.met, r.tokens); wait > 0 {
			return gateBlock{causeBudget, c, gateLater(now, wait), false}
		}
	}
	return gateBlock{}
}

// slot returns what keeps any request from starting on c, but for budgets.
func (g *Gate) slot(now Nanos, c *gateChannel) gateBlock {
	if g.probes(now, c) {
		return gateBlock{}
	}
	if b := g.closed(now, c); b.cause != causeNone {
		return b
	}
	share := c.share(now, g.lost, g.met)
	switch {
	case c.used(now) < share:
		return gateBlock{}
	case share == 0 && g.lost && !g.met:
		return gateBlock{causeAlone, c, min(c.held.next(), c.grows(now)), false}
	}
	return gateBlock{causeSlots, c, min(c.held.next(), c.grows(now)), false}
}

// choose returns the channel of a tier that r should use, or what is in the
// way. A leased probe goes first: the channel's return hangs on it. Among
// others two are drawn by weight and the one with more room is taken, since
// the weight is seconds old and the room is now.
func (g *Gate) choose(now Nanos, r *gateRequest, t *gateTier, level int) (*gateChannel, gateBlock) {
	var block gateBlock
	var total int64
	one := -1
	g.open = g.open[:0]
	for i := range t.choices {
		c := t.choices[i].channel
		b := g.room(now, c, r, level)
		if b.cause != causeNone {
			block = block.sooner(b)
			continue
		}
		if g.probes(now, c) {
			return c, gateBlock{}
		}
		one = i
		w := max(mulDiv(t.choices[i].weight, int64(c.told.weight), 1), 1)
		total += w
		g.open = append(g.open, gateOpen{c, w})
	}
	switch len(g.open) {
	case 0:
		return nil, block
	case 1:
		return t.choices[one].channel, gateBlock{}
	}
	a, b := g.draw(total), g.draw(total)
	if a != b && g.fuller(now, a, b) {
		return b, gateBlock{}
	}
	return a, gateBlock{}
}

// gateOpen is a channel that could take the request, with its weight.
type gateOpen struct {
	channel *gateChannel
	weight  int64
}

func (g *Gate) draw(total int64) *gateChannel {
	x := g.cfg.Rand.Int64N(total)
	for i := range g.open {
		if x -= g.open[i].weight; x < 0 {
			return g.open[i].channel
		}
	}
	panic("model: BUG: weights do not add up")
}

// fuller reports whether a has less room than b, as shares of what is allowed.
func (g *Gate) fuller(now Nanos, a, b *gateChannel) bool {
	x := mulDiv(a.used(now), b.share(now, g.lost, g.met), 1)
	y := mulDiv(b.used(now), a.share(now, g.lost, g.met), 1)
	return x > y
}

// place starts r where it may, answers it, or refuses it, and reports whether
// it did; otherwise it returns what is in the way.
func (g *Gate) place(now Nanos, r *gateRequest) (bool, gateBlock) {
	var block gateBlock
	if q := g.ceiling(now, r); q != nil {
		g.forbid(now, r, q)
		return true, block
	}
	level, sure, late := int(r.level), true, r.late
	first := nextTier(r.tiers, 0)
	for i, n := first, 0; i >= 0 && n <= level; i, n = nextTier(r.tiers, i+1), n+1 {
		t := &r.route.tiers[i]
		if len(t.choices) == 0 {
			g.miss(now, r)
			g.answer(now, r, i)
			return true, block
		}
		c, b := g.choose(now, r, t, n)
		if c != nil {
			if i != first {
				g.miss(now, r)
			}
			g.start(now, r, c, i, i != first, false)
			return true, block
		}
		if i == first && g.observe(now, r, t) {
			return true, block
		}
		block = block.sooner(b)
		sure = sure && b.sure
		if b.cause == causeLate {
			late |= 1 << i
		}
		if n == level && g.skips(now, r, t, level, b) {
			level++
		}
	}
	if sure && block.until >= r.deadline {
		why := "it opens only after the deadline"
		if block.cause == causeLate {
			why = "a call takes longer than the deadline leaves"
		}
		g.refuse(now, r, block, why)
		return true, block
	}
	if late != r.late {
		r.late = late
		if r.state == gateQueued {
			g.relane(r, block)
			return true, block
		}
	}
	return false, block
}

// relane moves r, which has too little time left for some tier, into a lane with
// others of that kind: those that waited behind it may still go there.
func (g *Gate) relane(r *gateRequest, block gateBlock) {
	g.queue.remove(r)
	g.queue.push(r)
	g.stir = min(g.stir, block.until)
	r.node.lane.block = block
}

// skips reports whether r passes over its tier number level, where b is in the
// way: that does not end before the next tier opens, or r's deadline. A
// breaker that opens lets one call through, so its wait says little: what has
// been shut for some time is expected to be for as long again.
func (g *Gate) skips(now Nanos, r *gateRequest, t *gateTier, level int, b gateBlock) bool {
	ends := r.opens(now, uint8(level))
	if ends == gateNever {
		return false
	}
	ends = min(ends, r.deadline)
	if b.sure && b.until > ends {
		return true
	}
	since := g.shutSince(t)
	if since == 0 {
		return false
	}
	if now-since > ends-now {
		return true
	}
	g.stir = min(g.stir, since+(ends-since)/2+1)
	return false
}

// shutSince returns since when no channel of a tier has its breaker closed, 0
// if one has.
func (g *Gate) shutSince(t *gateTier) (since Nanos) {
	for i := range t.choices {
		s := &t.choices[i].channel.told
		if s.shut == 0 || g.lost {
			return 0
		}
		since = max(since, s.shut)
	}
	return since
}

// observe admits r although something is in the way, if a channel of its
// first tier only observes.
func (g *Gate) observe(now Nanos, r *gateRequest, t *gateTier) bool {
	var total int64
	g.open = g.open[:0]
	for i := range t.choices {
		c := t.choices[i].channel
		if g.observes(c) {
			w := max(mulDiv(t.choices[i].weight, int64(c.told.weight), 1), 1)
			total += w
			g.open = append(g.open, gateOpen{c, w})
		}
	}
	if total == 0 {
		return false
	}
	c := g.draw(total)
	c.wouldRefuse++
	g.start(now, r, c, nextTier(r.tiers, 0), false, true)
	return true
}

// observes reports whether nothing binds on c.
func (g *Gate) observes(c *gateChannel) bool {
	switch {
	case g.cfg.Mode == ModeObserve:
		return true
	case c.told.known:
		return c.told.mode == ModeObserve
	case c.cfg != nil && c.cfg.HasMode:
		return c.cfg.Mode == ModeObserve
	}
	return g.config.Mode == ModeObserve
}

// miss counts that r would have used its first tier: demand that the
// controller must know of, or a channel that is passed over is never probed
// and never granted more.
func (g *Gate) miss(now Nanos, r *gateRequest) {
	t := &r.route.tiers[nextTier(r.tiers, 0)]
	var best *gateChannel
	var weight int64 = -1
	for i := range t.choices {
		c := t.choices[i].channel
		b := g.closed(now, c)
		if b.sure {
			continue
		}
		if b.cause == causeHalfOpen {
			g.missed(now, c, r.tokens)
			continue
		}
		if t.choices[i].weight > weight {
			best, weight = c, t.choices[i].weight
		}
	}
	if best != nil {
		g.missed(now, best, r.tokens)
	}
}

func (g *Gate) missed(now Nanos, c *gateChannel, tokens Tokens) {
	if c.missed == 0 && c.reported.Queued == 0 {
		g.wantReport(now)
	}
	c.missed++
	c.missedTokens += tokens
}

// start admits r on c.
func (g *Gate) start(now Nanos, r *gateRequest, c *gateChannel, tier int, degraded, observed bool) {
	g.passes(r, c)
	g.unqueue(now, r, true)
	if r.tries == 0 {
		r.firstSent = now
	}
	r.tries++
	r.state = gateRunning
	at := &r.at // links are set below
	at.channel, at.pools = c, c.pools
	at.tier, at.degraded, at.observed, at.accepted = uint8(tier), degraded, observed, false
	at.started, at.queued, at.firstToken = now, now-r.since, 0
	at.epoch, at.probe = c.told.epoch, 0
	if c.grant.probe != 0 {
		if g.probes(now, c) {
			at.probe = c.grant.probe
			c.grant.used = c.grant.probe
		}
		c.grant.probe = 0
	}
	c.link(r)
	for _, p := range c.pools {
		p.start(r.tokens)
	}
	g.running++
	r.owner.begin(now)
	g.guardAt = min(g.guardAt, gateLater(now, g.guard()))
	g.number.admitted++
	if degraded {
		g.number.degraded++
		r.route.degraded[tier]++
	}
	r.permit = r.handle()
	g.changed(now)
	rep := g.reply(r, ReplyAdmitted)
	rep.Tier = at.tier
	p := &rep.Permit
	p.ID, p.Channel, p.Tier, p.Try = r.permit, c.name, at.tier, r.tries
	p.Epoch, p.Probe, p.Degraded, p.Observed = at.epoch, at.probe, degraded, observed
	p.Queued, p.Deadline = at.queued, g.attemptEnd(now, r)
}

// attemptEnd is when an attempt that starts now must have ended.
func (g *Gate) attemptEnd(now Nanos, r *gateRequest) Nanos {
	if t := g.config.Timeouts.Total; t > 0 {
		return min(r.deadline, gateLater(now, t))
	}
	return r.deadline
}

// answer ends r with the fixed answer of a tier.
func (g *Gate) answer(now Nanos, r *gateRequest, tier int) {
	g.unqueue(now, r, false)
	g.number.ruled++
	r.state = gateAnswered
	rep := g.reply(r, ReplyRule)
	rep.Tier, rep.Answer, rep.Reason = uint8(tier), r.route.tiers[tier].rule, "fixed answer"
}

// refusalWords are the words of the last refusal: many follow for the same cause.
type refusalWords struct {
	why   string
	cause gateCause
	text  string
}

// of returns why, with what is in the way.
func (w *refusalWords) of(why string, cause gateCause) string {
	if w.why != why || w.cause != cause || w.text == "" {
		*w = refusalWords{why, cause, why}
		if cause.String() != "" {
			w.text = why + ": " + cause.String()
		}
	}
	return w.text
}

// refuse ends r, with the route's fixed answer where it may have that.
func (g *Gate) refuse(now Nanos, r *gateRequest, b gateBlock, why string) {
	if tier := r.fixed(); tier >= 0 {
		g.miss(now, r)
		g.answer(now, r, tier)
		return
	}
	rep := g.reply(r, ReplyRefused)
	rep.Class, rep.Reason = b.cause.class(), g.words.of(why, b.cause)
	if r.lastClass != 0 {
		rep.Class = r.lastClass
	}
	if b.channel != nil {
		rep.Channel = b.channel.name
	}
	if b.cause != causeNone && b.until != gateNever {
		rep.Wait = max(b.until-now, 0)
	}
	if rep.Wait == 0 && b.cause == causeBudget {
		for _, p := range b.channel.pools {
			rep.Wait = max(rep.Wait, p.soon(r.tokens))
		}
	}
	if r.state == gateQueued {
		rep.Position = g.queue.position(r)
	}
	if rep.Position > 0 {
		rep.Wait = max(rep.Wait, r.route.drain.wait(now, r.tokens, rep.Position))
	}
	g.unqueue(now, r, false)
	g.number.refused++
	r.state = gateAnswered
}
