package model

import (
	"math/bits"
	"slices"
)

// bucket is one dimension of a budget: a token bucket that refills by Rate
// per minute up to Burst. A bucket without a rate has no limit.
type bucket struct {
	Rate, Burst int64
	// Level is what may be granted now. It goes below zero when an agent that
	// was cut off used more than was withheld for it.
	Level int64
	// Rem is the remainder of the refill, in units of Rate × ns, so that
	// refilling is exact however often it happens. Invariant: 0 ≤ Rem < 1 min.
	Rem int64
}

// limited reports whether the bucket limits anything.
func (b *bucket) limited() bool { return b.Rate > 0 }

// maxRate bounds a bucket's rate, so that sums of many stay within int64.
const maxRate = int64(1) << 50

// maxDebt is how many minutes of its rate a bucket can be in debt. Beyond, a
// report is nonsense, and must not close the budget for good.
const maxDebt = 10

// set gives the bucket a new rate; a changed one starts with what is left of
// the old, an unlimited one with a full minute.
func (b *bucket) set(rate int64) {
	rate = min(rate, maxRate)
	switch {
	case rate == b.Rate:
		return
	case b.Rate == 0:
		b.Level = rate
	default:
		b.Level = min(b.Level, rate)
	}
	b.Rate, b.Burst, b.Rem = rate, rate, 0
}

// debit takes n, which is not negative.
func (b *bucket) debit(n int64) { b.Level -= max(min(n, b.Level+maxDebt*b.Burst), 0) }

// advance refills for a span at Rate minus withheld, up to top.
func (b *bucket) advance(span Nanos, withheld, top int64) {
	if !b.limited() || span <= 0 {
		return
	}
	if b.Level >= top {
		b.Rem = 0
		return
	}
	rate := max(b.Rate-withheld, 0)
	whole := mulDiv(rate, int64(span), int64(Minute))
	part := mulMod(rate, int64(span), int64(Minute)) + b.Rem
	if whole >= top-b.Level || b.Level+whole+part/int64(Minute) >= top {
		b.Level, b.Rem = top, 0
		return
	}
	b.Level += whole + part/int64(Minute)
	b.Rem = part % int64(Minute)
}

// after returns how long until the level is at least need, if it is refilled
// at Rate minus withheld; ok is false when it never gets there.
func (b *bucket) after(need, withheld int64) (wait Nanos, ok bool) {
	if !b.limited() || b.Level >= need {
		return 0, true
	}
	rate := b.Rate - withheld
	if rate <= 0 || need > b.Burst {
		return 0, false
	}
	missing := need - b.Level
	return Nanos(mulDiv(missing, int64(Minute), rate)) + 1, true
}

// pool is the budget of one channel or quota group, handed out as whole
// requests. Grants are cumulative over an agent's boot, so a lost or repeated
// message changes nothing.
//
//	debit    when granted
//	credit   when an agent acknowledges a smaller grant, for what it did not use
//	spent    what an agent did not report when its lease ended
//
// Level plus what agents hold unused never exceeds the burst.
type pool struct {
	name     string
	requests bucket
	tokens   bucket
	at       Nanos
	grants   []poolGrant // sorted by agent
	// turn numbers the grants: who was served least recently goes first.
	turn uint64
	// typical is the mean reservation of a request, for agents that have
	// none waiting.
	typical Tokens
	// wants is set when it should be handed out anew.
	wants bool
	// queuedForPass is whether it is in the fleet's line; not state.
	queuedForPass bool
}

// poolGrant is one agent's part.
type poolGrant struct {
	agent string
	// requests and tokens are granted in all over the boot.
	requests, tokens int64
	// usedRequests and usedTokens are what the agent reported.
	usedRequests, usedTokens       int64
	waitingRequests, waitingTokens int64
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

func (p *pool) limited() bool { return p.requests.limited() || p.tokens.limited() }

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
		r, t := g.requests, g.tokens
		if g.pending {
			r, t = max(r, g.heldRequests), max(t, g.heldTokens)
		}
		requests += max(r-g.usedRequests, 0)
		tokens += max(t-g.usedTokens, 0)
	}
	return requests, tokens
}

// advance refills to now.
func (p *pool) advance(now Nanos) {
	span := now - p.at
	if span <= 0 {
		return
	}
	p.at = now
	if !p.limited() {
		return
	}
	wr, wt := p.withheld()
	ur, ut := p.unused()
	p.requests.advance(span, wr, p.requests.Burst-ur)
	p.tokens.advance(span, wt, p.tokens.Burst-ut)
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
	p.advance(now)
	_, known := searchGrant(p.grants, agent)
	g := p.grant(agent)
	away := now - g.away
	if g.away == 0 {
		away = 0
	}
	g.away = 0
	g.usedRequests, g.usedTokens = bounded(r.UsedRequests), bounded(int64(r.UsedTokens))
	g.waitingRequests, g.waitingTokens = bounded(r.WaitingRequests), bounded(int64(r.WaitingTokens))
	if returned && !known {
		g.requests, g.tokens = g.usedRequests, g.usedTokens
	}
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
		g.requests = min(g.requests, g.usedRequests+p.requests.Burst)
		g.tokens = min(g.tokens, g.usedTokens+p.tokens.Burst)
	}
	if g.waitingRequests > 0 && g.waitingTokens > 0 {
		p.typical += (Tokens(g.waitingTokens/g.waitingRequests) - p.typical) / 8
	}
	p.wants = true
}

// takeIn credits what an acknowledged smaller grant gave back: what was used
// before it was heard is not.
func (p *pool) takeIn(g *poolGrant) {
	dr, dt := g.debited()
	g.requests, g.tokens = max(g.requests, g.usedRequests), max(g.tokens, g.usedTokens)
	p.requests.Level += max(dr-g.requests, 0)
	p.tokens.Level += max(dt-g.tokens, 0)
	g.pending, g.heldRequests, g.heldTokens = false, 0, 0
}

// leave forgets an agent that reported all it used: the rest is credited.
func (p *pool) leave(agent string, now Nanos) {
	p.advance(now)
	if i, ok := searchGrant(p.grants, agent); ok {
		dr, dt := p.grants[i].debited()
		p.requests.Level += max(dr-p.grants[i].usedRequests, 0)
		p.tokens.Level += max(dt-p.grants[i].usedTokens, 0)
		p.drop(agent)
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
	g.waitingRequests, g.waitingTokens = 0, 0
	g.away = now
}

// chunk returns what one request of g needs: a whole request, never a part
// that would lie idle.
func (p *pool) chunk(g *poolGrant) (requests, tokens int64) {
	t := int64(p.typical)
	if g.waitingRequests > 0 {
		t = (g.waitingTokens + g.waitingRequests - 1) / g.waitingRequests
	}
	if p.tokens.limited() {
		t = min(t, p.tokens.Burst)
	}
	return 1, t
}

// lacks reports whether g waits for more than it holds.
func (p *pool) lacks(g *poolGrant) bool {
	if g.away > 0 || g.waitingRequests == 0 {
		return false
	}
	return p.requests.limited() && g.requests < g.usedRequests+g.waitingRequests ||
		p.tokens.limited() && g.tokens < g.usedTokens+g.waitingTokens
}

// needs returns how many whole requests g must be granted to start all that wait.
func (p *pool) needs(g *poolGrant) int64 {
	if !p.lacks(g) {
		return 0
	}
	var need int64
	if p.requests.limited() {
		need = g.usedRequests + g.waitingRequests - g.requests
	}
	if _, t := p.chunk(g); p.tokens.limited() && t > 0 {
		need = max(need, (g.usedTokens+g.waitingTokens-g.tokens+t-1)/t)
	}
	return need
}

// fits reports whether so much can be granted while leaving floor in the level.
func (p *pool) fits(requests, tokens, floorR, floorT int64) bool {
	return (!p.requests.limited() || p.requests.Level-requests >= floorR) &&
		(!p.tokens.limited() || p.tokens.Level-tokens >= floorT)
}

// give grants n chunks more to g.
func (p *pool) give(g *poolGrant, n int64, rev uint64) {
	r, t := p.chunk(g)
	p.add(g, n*r, mulDiv(n, t, 1), rev)
}

// add grants more to g and debits what was not debited yet.
func (p *pool) add(g *poolGrant, requests, tokens int64, rev uint64) {
	dr, dt := g.debited()
	if p.requests.limited() {
		g.requests += requests
		p.requests.Level -= max(g.requests-dr, 0)
	}
	if p.tokens.limited() {
		g.tokens += tokens
		p.tokens.Level -= max(g.tokens-dt, 0)
	}
	g.rev = rev
	p.turn++
	g.turn = p.turn
}

// pass hands out what the pool has: whole requests in turn to those who wait,
// then a little to those who do not, and takes back from idle agents what
// others lack. It calls changed for every agent whose grant changed.
func (p *pool) pass(par *Params, now Nanos, rev uint64, changed func(agent string)) {
	p.advance(now)
	p.wants = false
	if !p.limited() {
		return
	}
	p.share(par)
	if p.feed(rev, changed) {
		p.float(par, rev, changed)
		return
	}
	p.takeBack(rev, changed)
}

// holds returns how many whole requests of those that wait g has grants for.
func (p *pool) holds(g *poolGrant) int64 { return max(g.waitingRequests-p.needs(g), 0) }

// feed grants those who wait so many whole requests that everyone holds as
// many unused ones as go round, or all it needs; then one more each in turn
// while there is enough. It reports whether nobody lacks.
func (p *pool) feed(rev uint64, changed func(string)) bool {
	order := p.order()
	if len(order) == 0 {
		return true
	}
	each := p.rounds(order, max(p.requests.Level, 0), max(p.tokens.Level, 0))
	for _, i := range order {
		g := &p.grants[i]
		if n := min(each-p.holds(g), p.needs(g)); n > 0 {
			p.give(g, n, rev)
			changed(g.agent)
		}
	}
	for _, i := range order {
		g := &p.grants[i]
		if !p.lacks(g) || p.holds(g) > each {
			continue
		}
		if r, t := p.chunk(g); !p.fits(r, t, 0, 0) {
			break
		}
		p.give(g, 1, rev)
		changed(g.agent)
	}
	return !slices.ContainsFunc(order, func(i int) bool { return p.lacks(&p.grants[i]) })
}

// rounds returns the largest n for which requests and tokens are enough that
// everyone in order holds n unused requests, or all it needs.
func (p *pool) rounds(order []int, requests, tokens int64) int64 {
	fits := func(n int64) bool {
		r, t := requests, tokens
		for _, i := range order {
			g := &p.grants[i]
			k := min(max(n-p.holds(g), 0), p.needs(g))
			cr, ct := p.chunk(g)
			r -= k * cr
			t -= min(mulDiv(k, ct, 1), maxUse)
			if p.requests.limited() && r < 0 || p.tokens.limited() && t < 0 {
				return false
			}
		}
		return true
	}
	var hi int64
	for _, i := range order {
		g := &p.grants[i]
		hi = max(hi, p.holds(g)+p.needs(g))
	}
	return largest(hi, fits)
}

// order returns the indexes of the grants that lack, least recently served first.
func (p *pool) order() []int {
	var order []int
	for i := range p.grants {
		if p.lacks(&p.grants[i]) {
			order = append(order, i)
		}
	}
	sortBy(order, func(a, b int) bool {
		if p.grants[a].turn != p.grants[b].turn {
			return p.grants[a].turn < p.grants[b].turn
		}
		return a < b
	})
	return order
}

// takeBack asks agents for what they hold beyond what goes round: the idle for
// all, those who wait for what is well above the others'.
func (p *pool) takeBack(rev uint64, changed func(string)) {
	var waiting []int
	requests, tokens := max(p.requests.Level, 0), max(p.tokens.Level, 0)
	for i := range p.grants {
		if g := &p.grants[i]; g.away == 0 && g.waitingRequests > 0 {
			waiting = append(waiting, i)
			requests += max(g.requests-g.usedRequests, 0)
			tokens += max(g.tokens-g.usedTokens, 0)
		}
	}
	each := p.even(waiting, requests, tokens)
	for i := range p.grants {
		g := &p.grants[i]
		if g.away > 0 || g.pending {
			continue
		}
		var keep int64
		if g.waitingRequests > 0 {
			if keep = each; p.holds(g) <= keep+max(keep/2, 1) {
				continue
			}
		}
		r, t := p.chunk(g)
		r, t = min(g.requests, g.usedRequests+keep*r), min(g.tokens, g.usedTokens+mulDiv(keep, t, 1))
		if r == g.requests && t == g.tokens {
			continue
		}
		g.pending, g.heldRequests, g.heldTokens = true, g.requests, g.tokens
		g.requests, g.tokens, g.rev = r, t, rev
		changed(g.agent)
	}
}

// even returns how many unused requests everyone in order would hold if so
// many requests and tokens were divided among them from the start.
func (p *pool) even(order []int, requests, tokens int64) int64 {
	fits := func(n int64) bool {
		r, t := requests, tokens
		for _, i := range order {
			g := &p.grants[i]
			k := min(n, g.waitingRequests)
			cr, ct := p.chunk(g)
			r -= k * cr
			t -= min(mulDiv(k, ct, 1), maxUse)
		}
		return (!p.requests.limited() || r >= 0) && (!p.tokens.limited() || t >= 0)
	}
	var hi int64
	for _, i := range order {
		hi = max(hi, p.grants[i].waitingRequests)
	}
	return largest(hi, fits)
}

// largest returns the largest n up to hi that fits, where 0 does and what is
// larger than one that does not does not either.
func largest(hi int64, fits func(int64) bool) int64 {
	if fits(hi) {
		return hi
	}
	lo := int64(0)
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if fits(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// float gives agents a little ahead of need while the pool is at least half
// full, so that their next call need not ask. It is filled up once half of it
// is used, since every grant is a message.
func (p *pool) float(par *Params, rev uint64, changed func(string)) {
	for i := range p.grants {
		g := &p.grants[i]
		if g.away > 0 || g.pending {
			continue
		}
		_, t := p.chunk(g)
		wantR := max(scale(p.requests.Burst, par.PoolFloat), 1)
		wantT := max(scale(p.tokens.Burst, par.PoolFloat), t)
		haveR, haveT := g.requests-g.usedRequests, g.tokens-g.usedTokens
		needR := p.requests.limited() && haveR < (wantR+1)/2
		needT := p.tokens.limited() && haveT < (wantT+1)/2
		if !needR && !needT {
			continue
		}
		addR, addT := max(wantR-haveR, 0), max(wantT-haveT, 0)
		if !p.fits(addR, addT, p.requests.Burst/2, p.tokens.Burst/2) {
			return
		}
		p.add(g, addR, addT, rev)
		changed(g.agent)
	}
}

// share sets every present agent's safe rate, so that all of them together
// with those already away stay within the limit.
func (p *pool) share(par *Params) {
	var n, awayR, awayT int64
	for i := range p.grants {
		if g := &p.grants[i]; g.away > 0 {
			awayR += g.safeRequests
			awayT += g.safeTokens
		} else {
			n++
		}
	}
	if n == 0 {
		return
	}
	r := min(scale(p.requests.Rate*1000, par.SafeShare), max(p.requests.Rate*1000-awayR, 0)) / n
	t := min(scale(p.tokens.Rate, par.SafeShare), max(p.tokens.Rate-awayT, 0)) / n
	for i := range p.grants {
		if g := &p.grants[i]; g.away == 0 {
			g.safeRequests, g.safeTokens = r, t
		}
	}
}

// wake returns when enough will have been refilled for the agent that waits
// longest; ok is false when nobody waits.
func (p *pool) wake() (at Nanos, ok bool) {
	if !p.limited() {
		return 0, false
	}
	order := p.order()
	if len(order) == 0 {
		return 0, false
	}
	r, t := p.chunk(&p.grants[order[0]])
	wr, wt := p.withheld()
	wait, ok := p.requests.after(r, wr)
	if !ok {
		return 0, false
	}
	waitT, ok := p.tokens.after(t, wt)
	return p.at + max(wait, waitT, Millisecond), ok
}

// mulMod returns x*y mod z for non-negative operands.
func mulMod(x, y, z int64) int64 {
	if x <= 0 || y <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	_, rem := bits.Div64(hi%uint64(z), lo, uint64(z))
	return int64(rem)
}

// sortBy sorts indexes by less, which must be a total order.
func sortBy(order []int, less func(a, b int) bool) {
	slices.SortFunc(order, func(a, b int) int {
		if less(a, b) {
			return -1
		}
		return 1
	})
}
