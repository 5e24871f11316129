package model

import "slices"

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

// short returns what g lacks to start its next request, nothing if it can.
func (p *pool) short(g *poolGrant) (requests, tokens int64) {
	if g.away > 0 || g.waitingRequests == 0 {
		return 0, 0
	}
	if p.requests.limited() {
		requests = max(g.usedRequests+1-g.requests, 0)
	}
	if p.tokens.limited() {
		next := g.next
		if next == 0 {
			_, next = p.chunk(g)
		}
		tokens = min(max(g.usedTokens+next-g.tokens, 0), p.tokens.Burst)
	}
	return requests, tokens
}

// isShort reports whether g lacks anything to start its next request.
func (p *pool) isShort(g *poolGrant) bool {
	r, t := p.short(g)
	return r > 0 || t > 0
}

// more returns what g is granted next: what it lacks to start a request, else
// what one more needs.
func (p *pool) more(g *poolGrant) (requests, tokens int64) {
	if r, t := p.short(g); r > 0 || t > 0 {
		return r, t
	}
	return p.chunk(g)
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
	p.wants, p.next = false, 0
	p.requests.forget(par, now)
	p.tokens.forget(par, now)
	p.refresh(par)
	if !p.limited() {
		return
	}
	p.share(par)
	switch {
	case now < p.hold.until:
	case p.hold.trying(now, p.used()):
		p.try(now, rev, changed)
	default:
		fed := p.feed(rev, changed)
		p.bind(fed)
		if fed {
			p.float(par, rev, changed)
		} else {
			p.takeBack(rev, changed)
		}
	}
	p.next = p.wake()
}

// refresh sets both buckets to what is known now.
func (p *pool) refresh(par *Params) {
	p.mixed()
	p.requests.refresh(par, 2)
	p.tokens.refresh(par, 2*max(int64(p.typical), 1))
}

// bind notes which limit is in use: the one that the next request lacks.
func (p *pool) bind(fed bool) {
	p.requests.Binding, p.tokens.Binding, p.lacking = false, false, !fed
	if fed {
		return
	}
	if _, g := p.leads(); g != nil {
		r, t := p.more(g)
		p.requests.Binding = p.requests.limited() && p.requests.Level < r
		p.tokens.Binding = p.tokens.limited() && p.tokens.Level < t
	}
}

// try grants one request for the fleet, whatever the level: it shows whether
// the provider lets calls through again.
func (p *pool) try(now Nanos, rev uint64, changed func(string)) {
	if _, g := p.leads(); p.hold.tried == 0 && g != nil {
		r, t := p.more(g)
		p.add(g, r, t, rev)
		p.hold.tried, p.hold.mark = now, p.used()
		changed(g.agent)
	}
}

// used returns what agents have used, in requests.
func (p *pool) used() int64 {
	var n int64
	for i := range p.grants {
		n += p.grants[i].usedRequests
	}
	return n
}

// revoke asks every agent for what it holds and has not used.
func (p *pool) revoke(rev uint64, changed func(string)) {
	for i := range p.grants {
		g := &p.grants[i]
		if g.away > 0 || g.pending || g.requests <= g.usedRequests && g.tokens <= g.usedTokens {
			continue
		}
		g.pending, g.heldRequests, g.heldTokens = true, g.requests, g.tokens
		g.requests, g.tokens, g.rev = min(g.requests, g.usedRequests), min(g.tokens, g.usedTokens), rev
		changed(g.agent)
	}
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
	for {
		first, g := p.leads()
		if g == nil || !p.isShort(g) {
			break
		}
		r, t := p.short(g)
		if !p.fits(r, t, 0, 0) {
			return false
		}
		first.passed += t
		g.passed = 0
		p.add(g, r, t, rev)
		changed(g.agent)
	}
	for _, i := range order {
		g := &p.grants[i]
		if !p.lacks(g) || p.holds(g) > each {
			continue
		}
		r, t := p.chunk(g)
		if !p.fits(r, t, 0, 0) {
			return false
		}
		p.add(g, r, t, rev)
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

// order returns the indexes of the grants that lack, least recently served
// first; they are good until the next call.
func (p *pool) order() []int {
	order := p.scratch[:0]
	for i := range p.grants {
		if p.lacks(&p.grants[i]) {
			order = append(order, i)
		}
	}
	p.scratch = order
	sortBy(order, func(a, b int) bool {
		if p.grants[a].turn != p.grants[b].turn {
			return p.grants[a].turn < p.grants[b].turn
		}
		return a < b
	})
	return order
}

// leads returns the grant that was served least recently of those that lack what
// a request needs, or else of those that lack more, and the one that is served
// next: where tokens are scarce and not enough for the first, whoever needs the
// fewest passes it by as many as it needs itself, as requests pass each other in
// an agent. Both are nil when nobody lacks.
func (p *pool) leads() (first, next *poolGrant) {
	var short bool
	for i := range p.grants {
		g := &p.grants[i]
		if !p.lacks(g) {
			continue
		}
		if s := p.isShort(g); first == nil || s && !short || s == short && g.turn < first.turn {
			first, short = g, s
		}
	}
	if !short || !p.scarce() {
		return first, first
	}
	r, need := p.short(first)
	if p.fits(r, need, 0, 0) {
		return first, first
	}
	next, least := first, need
	for i := range p.grants {
		g := &p.grants[i]
		if _, t := p.short(g); t < least && first.passed+t <= need && p.isShort(g) {
			next, least = g, t
		}
	}
	return first, next
}

// takeBack asks agents for what they hold beyond what goes round: the idle for
// all, those who wait for what is well above the others'.
func (p *pool) takeBack(rev uint64, changed func(string)) {
	waiting := p.scratch[:0]
	requests, tokens := max(p.requests.Level, 0), max(p.tokens.Level, 0)
	for i := range p.grants {
		if g := &p.grants[i]; g.away == 0 && g.waitingRequests > 0 {
			waiting = append(waiting, i)
			requests += max(g.requests-g.usedRequests, 0)
			tokens += max(g.tokens-g.usedTokens, 0)
		}
	}
	p.scratch = waiting
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
// longest, or the hold ends, or its single call counts as taken; 0 when nobody
// waits.
func (p *pool) wake() Nanos {
	_, g := p.leads()
	switch {
	case g == nil:
		return 0
	case p.at < p.hold.until:
		return p.hold.until
	case p.hold.trial && p.hold.tried > 0:
		return max(p.hold.tried+p.hold.patience(), p.at+Millisecond)
	}
	r, t := p.more(g)
	wr, wt := p.withheld()
	wait, ok := p.requests.after(r, wr)
	waitT, okT := p.tokens.after(t, wt)
	if !ok || !okT {
		return 0
	}
	return p.at + max(wait, waitT, Millisecond)
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
