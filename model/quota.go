package model

import (
	"fmt"
	"slices"
)

// flow is the pace at which the fleet starts calls on a channel: two marks of
// all that was started and not refused, so that a pace is over five to ten
// seconds.
type flow struct {
	At, Before             Nanos
	Started, StartedBefore int64
	// Best is the highest pace between two marks, in requests per minute; a
	// 512th of it is forgotten with each mark, half within half an hour.
	Best int64
}

// flowSpan is the least time between two marks.
const flowSpan = 5 * Second

// started returns how many calls the provider did not refuse, so far as known.
func (c *channel) started() int64 {
	n := c.inflight
	for _, class := range Classes {
		if !class.Refused() {
			n += int64(c.counts[class])
		}
	}
	return n
}

// notePace keeps how much was started up to now.
func (c *channel) notePace(now Nanos) {
	if f := &c.flow; f.At == 0 || now-f.At >= flowSpan {
		n := c.started()
		best := f.Best - f.Best/512
		if f.At > 0 {
			best = max(best, min(mulDiv(max(n-f.Started, 0), int64(Minute), int64(now-f.At)), maxRate))
		}
		*f = flow{At: now, Started: n, Before: f.At, StartedBefore: f.Started, Best: best}
	}
}

// pace returns what was started of late, in requests and tokens per minute. A
// quiet time proves nothing: what was let through before counts half.
func (c *channel) pace(now Nanos, a *Attempt) (requests, tokens int64) {
	at, was := c.flow.Before, c.flow.StartedBefore
	if at == 0 {
		at, was = c.flow.At, c.flow.Started
	}
	requests = max(mulDiv(max(c.started()-was, 1), int64(Minute), int64(max(now-at, Second))), c.flow.Best/2)
	each := max(int64(a.Reserved), 1)
	if ok := int64(c.counts[ClassOK]); ok > 0 {
		each = max(int64((c.tokensIn+c.tokensOut)/uint64(ok)), 1)
	}
	return requests, mulDiv(requests, min(each, maxRate), 1)
}

// drawn returns the names of the pools that c draws on.
func (c *channel) drawn() []string {
	names := []string{PoolOfChannel(c.name)}
	for _, g := range c.cfg.Groups {
		names = append(names, PoolOfGroup(g))
	}
	return names
}

// drawsOn reports whether c draws on the pool of that name.
func (c *channel) drawsOn(pool string) bool { return slices.Contains(c.drawn(), pool) }

// eachPool calls do for every pool that c draws on.
func (f *Fleet) eachPool(c *channel, do func(*pool)) {
	if len(f.pools) == 0 {
		return
	}
	if now := f.poolRound + 1; c.poolsFrom != now {
		c.poolsFrom, c.pools = now, c.pools[:0]
		for _, name := range c.drawn() {
			if p := f.pool(name); p != nil {
				c.pools = append(c.pools, p)
			}
		}
	}
	for _, p := range c.pools {
		do(p)
	}
}

// dim returns the limit of a dimension.
func (p *pool) dim(d Dimension) *limit {
	if d == DimTokens {
		return &p.tokens
	}
	return &p.requests
}

// budgetOf returns the pool that a word of the provider about dim (DimNone for
// either) on c is about: the one whose limit is known, else the quota group's, since that is
// what a group is; the channel's if it belongs to none or the provider says so.
func (f *Fleet) budgetOf(c *channel, scope Scope, dim Dimension) *pool {
	var found *pool
	f.eachPool(c, func(p *pool) {
		if found == nil && (dim == DimNone && p.limited() || dim != DimNone && p.dim(dim).known(f.parPool(p)) > 0) {
			found = p
		}
	})
	switch {
	case found != nil:
		return found
	case scope == ScopeChannel || len(c.cfg.Groups) == 0:
		return f.watch(PoolOfChannel(c.name))
	}
	return f.watch(PoolOfGroup(c.cfg.Groups[0]))
}

// watch returns the pool of that name, making it when it is new.
func (f *Fleet) watch(name string) *pool {
	if p := f.pool(name); p != nil {
		return p
	}
	p := &pool{name: name, at: f.now, limits: f.config.limitsOf(name)}
	i, _ := slices.BinarySearchFunc(f.pools, name, func(p *pool, n string) int { return compare(p.name, n) })
	f.pools = slices.Insert(f.pools, i, p)
	f.poolRound++
	f.wantPool(p)
	return p
}

// refuseBudget gives a refusal to the budget that ran out: its pace is measured,
// and every channel that draws on it holds.
func (f *Fleet) refuseBudget(c *channel, a *Attempt, dim Dimension, sent Nanos, why string, fx *Effects) {
	p := f.budgetOf(c, a.Scope, dim)
	guessed := dim == DimNone
	if sent < p.hold.until {
		f.counters.StaleRefusals++
		return
	}
	if guessed {
		p.suspect.see(f.now)
		var which string
		dim, which = p.guess()
		why += "; " + which
	}
	p.suspect.Guessed = guessed
	var flow int64
	for _, other := range f.channels {
		if other.drawsOn(p.name) {
			r, t := other.pace(f.now, a)
			if dim == DimTokens {
				r = t
			}
			flow = min(flow+min(r, maxRate), maxRate)
		}
	}
	if n := p.suspect.Last[dim-DimRequests]; guessed && n > 0 {
		flow = min(flow, n)
	}
	p.advance(f.now)
	wait := p.hold.refused(f.parPool(p), f.now, sent, f.ended(a)-sent, a.RetryAfter, p.requests.Started)
	reason := fmt.Sprintf("%s (%s): ", dim, why)
	if p.hold.trial {
		reason += fmt.Sprintf("nothing succeeded since %d holds, so a single call comes first", p.hold.series)
		p.revoke(f.seq, func(agent string) { f.tell(f.member(agent), fx) })
	} else {
		reason += p.dim(dim).refused(f.parPool(p), f.now, flow)
	}
	p.next = 0
	f.wantPool(p)
	for _, other := range f.channels {
		if other.drawsOn(p.name) {
			f.holdChannel(other, p.hold.until, fmt.Sprintf("%s%s; nothing starts for %s", reason, code(a), said(wait)), fx)
		}
	}
}

// pace tells the channels that draw on p whether calls wait for a budget.
func (f *Fleet) pace(p *pool) {
	for _, c := range f.channels {
		if c.drawsOn(p.name) {
			c.paced = false
			f.eachPool(c, func(p *pool) { c.paced = c.paced || p.lacking })
			f.dirty.channel(c)
		}
	}
}

// holdChannel stops a channel. Deadlines only move later.
func (f *Fleet) holdChannel(c *channel, until Nanos, reason string, fx *Effects) {
	if until <= f.now || !c.holdUntil(until, f.parOf(c).PassEvery) {
		return
	}
	f.setAlarm(until)
	f.decide(fx, Decision{Channel: c.name, Rule: RuleHold, Reason: reason})
	fx.Now = true
}

// releasePools ends the holds of the pools that c draws on.
func (f *Fleet) releasePools(c *channel) {
	f.eachPool(c, func(p *pool) {
		p.hold = poolHold{until: min(p.hold.until, f.now)}
		p.next = 0
		f.wantPool(p)
	})
}

// settled tells the pools of c what became of a call: refused ones were not
// started, a success after a hold ends it.
func (f *Fleet) settled(c *channel, a *Attempt, sent Nanos) {
	f.eachPool(c, func(p *pool) {
		switch {
		case a.Class.Refused():
			var tokens int64
			if keepsReservation(a.Class, a.Status) {
				tokens = bounded(int64(a.Reserved))
			}
			p.started(-1, -tokens)
			f.dirty.pool(p)
		case a.Class == ClassOK && p.hold.succeeded(sent):
			p.next = 0
			f.wantPool(p)
		}
		if a.Class == ClassOK && a.In+a.Out > 0 {
			p.mix.add(a.In, a.Out)
			f.dirty.pool(p)
		}
	})
}

// freshAnswer is up to how long a call may have taken for what its headers left
// to be news: they were written when it began.
const freshAnswer = Second

// hints takes the limits that an answer told.
func (f *Fleet) hints(c *channel, a *Attempt, sent Nanos) {
	for i := range a.Hints {
		h := &a.Hints[i]
		if h.Limit <= 0 || h.Dimension != DimRequests && h.Dimension != DimTokens {
			continue
		}
		p := f.budgetOf(c, a.Scope, h.Dimension)
		l := p.dim(h.Dimension)
		p.advance(f.now)
		switch n := min(h.Limit, maxRate); {
		case n == l.Belied:
		case f.belied(c, a, h.Dimension, n):
			l.Belied, p.next = n, 0
			if l.Hinted == n {
				l.Hinted = 0
			}
		case n != l.Hinted:
			l.unlearn()
			l.Hinted, l.Heard, p.next = n, f.now, 0
		default:
			l.Heard = f.now
		}
		if h.Remaining >= 0 && l.limited() && f.now-sent <= freshAnswer {
			l.audit(min(h.Remaining, maxRate))
		}
		f.wantPool(p)
	}
}

// belied reports whether a limit that an answer told cannot be one per minute:
// the provider lets through more than half as much again as a whole minute and
// the time looked at could hold.
func (f *Fleet) belied(c *channel, a *Attempt, dim Dimension, limit int64) bool {
	pace, tokens := c.pace(f.now, a)
	if dim == DimTokens {
		pace = tokens
	}
	at := c.flow.Before
	if at == 0 {
		at = c.flow.At
	}
	span := int64(max(f.now-at, Second))
	most := limit + mulDiv(limit, span, int64(Minute))
	return mulDiv(min(pace, maxRate), span, int64(Minute)) > most+most/2
}

func (c *coder) flow(f *flow) {
	num(c, &f.At)
	num(c, &f.Before)
	num(c, &f.Started)
	num(c, &f.StartedBefore)
	num(c, &f.Best)
}
