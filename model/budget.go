package model

import "slices"

// pool is the budget of one channel or quota group, handed out as whole
// requests. Grants are cumulative over an agent's boot, so a lost or repeated
// message changes nothing.
//
//	debit    when granted
//	credit   when an agent acknowledges a smaller grant, for what it did not use
//	spent    what an agent did not report when its lease ended
//
// Nothing is refilled beyond the depth, of which the whole requests that agents
// hold unused are a part, but for the one request that is waited for.
type pool struct {
	name     string
	requests limit
	tokens   limit
	at       Nanos
	grants   []poolGrant // sorted by agent
	hold     poolHold
	suspect  suspect
	// told is which limits agents were told that there are.
	told struct{ requests, tokens bool }
	// mix is what calls are made of, limits what configuration says; the latter
	// is no state.
	mix    mix
	limits *Limits
	// turn numbers the grants: who was served least recently goes first.
	turn uint64
	// typical is the mean reservation of a request, for agents that have
	// none waiting.
	typical Tokens
	// lacking is set while somebody waits for more than there is.
	lacking bool
	// next is when it is handed out next, 0 for when something changes.
	next Nanos
	// wants is set when it should be handed out anew.
	wants bool
	// queuedForPass is whether it is in the fleet's line; not state.
	queuedForPass bool
	mark          dirtyMark // not state
	scratch       []int     // of the pass; not state
}

// poolGrant is one agent's part.
type poolGrant struct {
	agent string
	// requests and tokens are granted in all over the boot.
	requests, tokens int64
	// usedRequests and usedTokens are what the agent reported.
	usedRequests, usedTokens       int64
	waitingRequests, waitingTokens int64
	// next is the tokens of the request that would start next, 0 when unknown.
	next int64
	// passed is the tokens granted to others before its turn.
	passed int64
	// rev is the newest grant's revision; pending is set while a smaller
	// grant is not acknowledged; heldRequests and heldTokens are then the
	// larger grant it replaced, still debited.
	rev                      uint64
	pending                  bool
	heldRequests, heldTokens int64
	turn                     uint64
	// safeRequests (milli) and safeTokens are per minute, for the time an
	// agent is cut off; away is when its lease ended, 0 while it is there.
	safeRequests, safeTokens int64
	away                     Nanos
}

// found reports whether nobody told of the pool's limits: it is kept because of
// what the provider said or did, and agents used it before.
func (p *pool) found() bool { return p.requests.Told == 0 && p.tokens.Told == 0 }

func (p *pool) limited() bool { return p.requests.limited() || p.tokens.limited() }

// scarce reports whether less is left of the tokens than of the requests.
func (p *pool) scarce() bool {
	return p.tokens.limited() && (!p.requests.limited() || p.tokens.left() < p.requests.left())
}

// withheld returns what the agents that are cut off may be using, per minute.
func (p *pool) withheld() (requests, tokens int64) {
	var milli int64
	for i := range p.grants {
		if g := &p.grants[i]; g.away > 0 {
			milli += g.safeRequests
			tokens += g.safeTokens
		}
	}
	return (milli + 999) / 1000, tokens
}

// unused returns what agents hold and have not reported as used.
func (p *pool) unused() (requests, tokens int64) {
	for i := range p.grants {
		g := &p.grants[i]
		r, t := g.debited()
		requests += max(r-g.usedRequests, 0)
		tokens += max(t-g.usedTokens, 0)
	}
	return requests, tokens
}

// advance refills to now: as far as the depth, of which what agents hold unused
// is a part, but for what those who wait need to start the next request. Nothing
// is saved up in a hold, so that it ends at the pace and not with all that waited.
func (p *pool) advance(now Nanos) {
	span := now - p.at
	if span <= 0 {
		return
	}
	p.at = now
	if !p.limited() {
		return
	}
	held := p.hold.held(now, span)
	p.requests.pass(span, held, p.lacking)
	p.tokens.pass(span, held, p.lacking)
	wr, wt := p.withheld()
	r, t := p.unused()
	topR, topT := p.requests.Burst-r, p.tokens.Burst-t
	if p.lacking {
		topR, topT = p.requests.Burst, p.tokens.Burst
	}
	p.requests.advance(span-held, wr, topR)
	p.tokens.advance(span-held, wt, topT)
}

// grant returns the part of agent, making it when it is new.
func (p *pool) grant(agent string) *poolGrant {
	i, found := searchGrant(p.grants, agent)
	if !found {
		p.grants = append(p.grants, poolGrant{})
		copy(p.grants[i+1:], p.grants[i:])
		p.grants[i] = poolGrant{agent: agent}
	}
	return &p.grants[i]
}

func searchGrant(g []poolGrant, agent string) (int, bool) {
	lo, hi := 0, len(g)
	for lo < hi {
		mid := (lo + hi) / 2
		if g[mid].agent < agent {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(g) && g[lo].agent == agent
}

// drop forgets an agent. What it held counts as spent.
func (p *pool) drop(agent string) {
	if i, ok := searchGrant(p.grants, agent); ok {
		p.grants = append(p.grants[:i], p.grants[i+1:]...)
	}
}

// debited returns what of the two dimensions the ledger has taken for g.
func (g *poolGrant) debited() (requests, tokens int64) {
	if g.pending {
		return max(g.requests, g.heldRequests), max(g.tokens, g.heldTokens)
	}
	return g.requests, g.tokens
}

// maxUse bounds the numbers that agents report.
const maxUse = int64(1) << 50

func bounded(n int64) int64 { return min(max(n, 0), maxUse) }

// report takes what an agent says. Use beyond the grant (answers longer than
// their reservation, or a time cut off) is debited now, less what was withheld
// for it; an acknowledged smaller grant is credited. seq is the newest record.
// returned is set for an agent whose claims were dropped before: what it used
// up to now was settled then.
func (p *pool) report(agent string, r *PoolReport, now Nanos, seq uint64, returned bool) {
	i, known := searchGrant(p.grants, agent)
	if !known {
		p.grants = slices.Insert(p.grants, i, poolGrant{agent: agent})
	}
	g := &p.grants[i]
	if g.away > 0 {
		p.advance(now) // with what was withheld for it
	}
	away := now - g.away
	if g.away == 0 {
		away = 0
	}
	g.away = 0
	if known {
		p.started(bounded(r.UsedRequests)-g.usedRequests, bounded(int64(r.UsedTokens))-g.usedTokens)
	}
	g.usedRequests, g.usedTokens = bounded(r.UsedRequests), bounded(int64(r.UsedTokens))
	if g.waitingRequests == 0 && r.WaitingRequests > 0 {
		p.next = 0 // new demand: what others hold may be too much now
	}
	g.waitingRequests, g.waitingTokens = bounded(r.WaitingRequests), bounded(int64(r.WaitingTokens))
	if !known && (returned || p.found()) {
		g.requests, g.tokens = g.usedRequests, g.usedTokens
	}
	g.next = bounded(int64(r.Next))
	if g.pending && r.Applied >= g.rev && r.Applied <= seq {
		p.takeIn(g)
	}
	dr, dt := g.debited()
	if over := g.usedRequests - dr; over > 0 {
		p.requests.debit(max(over-mulDiv(g.safeRequests, int64(away), 1000*int64(Minute)), 0))
		g.requests = g.usedRequests
	}
	if over := g.usedTokens - dt; over > 0 {
		p.tokens.debit(max(over-mulDiv(g.safeTokens, int64(away), int64(Minute)), 0))
		g.tokens = g.usedTokens
	}
	if !g.pending {
		// Nobody holds more than a whole minute ahead of its use.
		_, t := p.chunk(g)
		g.requests = min(g.requests, g.usedRequests+max(p.requests.Rate, 1))
		g.tokens = min(g.tokens, g.usedTokens+max(p.tokens.Rate, t))
	}
	if g.waitingRequests > 0 && g.waitingTokens > 0 {
		p.typical += (Tokens(g.waitingTokens/g.waitingRequests) - p.typical) / 8
	}
	p.wants = true
}

// started counts what was started, or turned out not to be.
func (p *pool) started(requests, tokens int64) {
	for i, n := range []int64{requests, tokens} {
		l := p.dim(DimRequests + Dimension(i))
		l.Started = max(min(l.Started+n, maxUse), -maxUse)
		p.suspect.Started[i] = max(min(p.suspect.Started[i]+n, maxUse), -maxUse)
	}
}

// takeIn credits what an acknowledged smaller grant gave back: what was used
// before it was heard is not.
func (p *pool) takeIn(g *poolGrant) {
	dr, dt := g.debited()
	g.requests, g.tokens = max(g.requests, g.usedRequests), max(g.tokens, g.usedTokens)
	p.requests.credit(dr - g.requests)
	p.tokens.credit(dt - g.tokens)
	g.pending, g.heldRequests, g.heldTokens = false, 0, 0
	p.next = 0 // it is for others at once
}

// leave forgets an agent that reported all it used: the rest is credited.
func (p *pool) leave(agent string, now Nanos) {
	p.advance(now)
	if i, ok := searchGrant(p.grants, agent); ok {
		dr, dt := p.grants[i].debited()
		p.requests.credit(dr - p.grants[i].usedRequests)
		p.tokens.credit(dt - p.grants[i].usedTokens)
		p.drop(agent)
		p.next = 0
	}
}

// back ends the withholding for an agent that was heard but did not speak of
// the pool, and reports whether there was any.
func (p *pool) back(agent string, now Nanos) bool {
	i, ok := searchGrant(p.grants, agent)
	if !ok || p.grants[i].away == 0 {
		return false
	}
	p.advance(now)
	p.grants[i].away = 0
	return true
}

// renew starts an agent's counts anew for a new boot. What the old one held
// counts as spent.
func (p *pool) renew(agent string) {
	if i, ok := searchGrant(p.grants, agent); ok {
		p.grants[i] = poolGrant{agent: agent, turn: p.grants[i].turn}
	}
}

// away marks that an agent's lease ended: what it holds and did not report
// counts as spent, and its safe rate is withheld until it speaks again.
func (p *pool) away(agent string, now Nanos) {
	p.advance(now)
	i, ok := searchGrant(p.grants, agent)
	if !ok || p.grants[i].away > 0 {
		return
	}
	g := &p.grants[i]
	g.usedRequests, g.usedTokens = g.debited()
	g.requests, g.tokens = g.usedRequests, g.usedTokens
	g.pending, g.heldRequests, g.heldTokens = false, 0, 0
	g.waitingRequests, g.waitingTokens, g.next = 0, 0, 0
	g.away = now
}

func (c *coder) pool(p *pool) {
	c.limit(&p.requests)
	c.limit(&p.tokens)
	c.poolHold(&p.hold)
	c.suspect(&p.suspect)
	num(c, &p.next)
	c.flag(&p.lacking)
	c.flag(&p.told.requests)
	c.flag(&p.told.tokens)
	num(c, &p.at)
	list(c, &p.grants, (*coder).poolGrant)
	num(c, &p.turn)
	num(c, &p.typical)
	c.flag(&p.wants)
	if c.reading && c.at == len(c.b) {
		return // written before there was a mix
	}
	num(c, &p.mix.Input)
	num(c, &p.mix.Output)
}

func (c *coder) poolGrant(g *poolGrant) {
	c.str(&g.agent)
	for _, n := range []*int64{
		&g.requests, &g.tokens, &g.usedRequests, &g.usedTokens,
		&g.waitingRequests, &g.waitingTokens, &g.next, &g.passed, &g.heldRequests, &g.heldTokens,
		&g.safeRequests, &g.safeTokens,
	} {
		num(c, n)
	}
	num(c, &g.rev)
	c.flag(&g.pending)
	num(c, &g.turn)
	num(c, &g.away)
}
