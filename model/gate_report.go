package model

import "slices"

const (
	// gateBatch is the most attempts in one report.
	gateBatch = 100
	// gateSoonest is the least time between two reports, gateLinger the time
	// a change waits for others, up to twice that.
	gateSoonest = 10 * Millisecond
	gateLinger  = 50 * Millisecond
	// gateLeastRing is the attempts for which there is room at first.
	gateLeastRing = 8
	// gateMaxSent bounds the remembered times of reports.
	gateMaxSent = 256
	// gateMaxHints and gateMaxCode bound what one attempt carries.
	gateMaxHints = 8
	gateMaxCode  = 64
)

// gateReports is what the gate has to tell and when.
type gateReports struct {
	seq uint64 // number of the newest report
	// pending are the attempts not reported, a ring of n from head.
	pending []gateEnded
	head, n int
	lost    uint64
	// sent are when reports were built, oldest first, for timing leases.
	sent []gateSent
	// last is when the newest was built, due when the next should be, linger
	// how long a change waits. full asks for every channel and pool, fullAt
	// is when that was last done.
	last, due, linger, fullAt Nanos
	// more is when time alone makes more of what is in flight surely taken,
	// while something waits: the controller may raise the window for it.
	more       Nanos
	full, left bool
}

// gateEnded is an attempt not yet reported.
type gateEnded struct {
	channel *gateChannel
	ended   Nanos
	attempt Attempt
}

// gateSent is what a report's number stands for: when it was built, and how
// many attempts the gate had settled and reported with it.
type gateSent struct {
	seq     uint64
	built   Nanos
	settled uint64
}

func newGateReports() gateReports {
	return gateReports{full: true, linger: gateLinger, last: -gateSoonest}
}

// ReportDue returns when Report should be called: at once when the agent
// joins, after a refusal, when demand arises and when the controller waits
// for slots; within 50 to 100 ms of any other change; else three times in a
// lease. It is never within 10 ms of the last.
func (g *Gate) ReportDue() Nanos { return g.out.due }

// wantReport asks for a report at instant at.
func (g *Gate) wantReport(at Nanos) {
	if !g.out.left {
		g.out.due = min(g.out.due, max(at, g.out.last+gateSoonest))
	}
}

// changed asks for a report soon.
func (g *Gate) changed(now Nanos) { g.wantReport(now + g.out.linger) }

// record keeps an attempt for the next report.
func (g *Gate) record(now Nanos, r *gateRequest, o *Outcome) {
	e := g.out.push(g.cfg.PendingLimit)
	e.channel, e.ended = r.at.channel, now
	// Every field but Channel and Age, which the report sets: building the
	// attempt elsewhere and copying it costs as much as all else here.
	a, at := &e.attempt, &r.at
	a.Route, a.Tier, a.Request, a.Try = r.route.name, at.tier, r.id, r.tries
	a.Tenant, a.Priority = r.tenant, r.priority
	a.Took, a.Queued, a.FirstToken = now-at.started, at.queued, at.firstToken
	a.Class, a.Scope, a.Status = o.Class, o.Scope, o.Status
	a.Code, a.Rule = o.Code[:min(len(o.Code), gateMaxCode)], o.Rule
	a.Reserved, a.In, a.Cached, a.Out, a.UsageKnown = r.tokens, o.In, o.Cached, o.Out, o.UsageKnown
	a.RetryAfter, a.Hints = o.RetryAfter, o.Hints[:min(len(o.Hints), gateMaxHints)]
	a.Epoch, a.Probe, a.Degraded = at.epoch, at.probe, at.degraded
	if o.Class.Refused() && o.Dimension != DimNone {
		a.Hints = hintOf(a.Hints, o)
	}
	if g.out.n >= gateBatch {
		g.wantReport(now)
	}
}

// hintOf returns hints with the dimension that the refusal named among them.
func hintOf(hints []LimitHint, o *Outcome) []LimitHint {
	for i := range hints {
		if hints[i].Dimension == o.Dimension && hints[i].Remaining == 0 {
			return hints
		}
	}
	out := make([]LimitHint, 0, gateMaxHints)
	out = append(out, hints[:min(len(hints), gateMaxHints-1)]...)
	return append(out, LimitHint{Dimension: o.Dimension, Limit: -1, Remaining: 0, Reset: o.RetryAfter})
}

// push makes room for one attempt, dropping the oldest at the limit.
func (p *gateReports) push(limit int) *gateEnded {
	if p.n == limit {
		p.pop()
		p.lost++
	}
	if p.n == len(p.pending) {
		grown := make([]gateEnded, min(max(2*p.n, gateLeastRing), limit))
		for i := range p.n {
			grown[i] = p.pending[(p.head+i)%len(p.pending)]
		}
		p.pending, p.head = grown, 0
	}
	at := p.head + p.n
	if at >= len(p.pending) {
		at -= len(p.pending)
	}
	p.n++
	return &p.pending[at]
}

// pop takes the oldest attempt out. Its place keeps the names, of which there
// are few, but nothing that came with the answer.
func (p *gateReports) pop() {
	e := &p.pending[p.head]
	e.channel, e.attempt.Code, e.attempt.Hints = nil, "", nil
	p.head++
	if p.n--; p.n == 0 || p.head == len(p.pending) {
		p.head = 0 // an empty ring begins anew: few attempts touch few places
	}
}

// mentions reports whether an attempt on c waits to be reported.
func (p *gateReports) mentions(c *gateChannel) bool {
	for i := range p.n {
		if p.pending[(p.head+i)%len(p.pending)].channel == c {
			return true
		}
	}
	return false
}

// Report builds the next report into r, whose memory is used again. It gets
// the next number; the shell keeps it until it is acknowledged.
func (g *Gate) Report(now Nanos, r *Attempts) {
	now = g.tick(now)
	o := &g.out
	o.seq++
	*r = Attempts{
		Source:   Source{Agent: g.cfg.Agent, Boot: g.cfg.Boot, Seq: o.seq, Span: 1, Base: g.number.settled - uint64(o.n)},
		Mode:     g.cfg.Mode,
		Channels: r.Channels[:0], Pools: r.Pools[:0], Attempts: r.Attempts[:0],
	}
	if o.seq == 1 {
		r.Version = g.cfg.Version
	}
	full := o.full || now-o.fullAt >= g.span/3
	batch := min(o.n, gateBatch)
	o.more = gateNever
	g.spread(now, batch)
	for _, c := range g.channels {
		g.reportChannel(now, c, full, r)
	}
	for _, p := range g.pools {
		if p.rated() {
			g.reportPool(p, full, r)
		}
	}
	for range batch {
		e := &o.pending[o.head]
		e.attempt.Channel, e.attempt.Age = uint16(e.channel.pending), now-e.ended
		r.Attempts = append(r.Attempts, e.attempt)
		o.pop()
	}
	r.Leaving = g.stopping && o.n == 0 && g.running == 0
	g.reported(now, full, r.Leaving)
}

// reported notes that a report was built.
func (g *Gate) reported(now Nanos, full, leaving bool) {
	o := &g.out
	o.last, o.left = now, leaving
	if full {
		o.full, o.fullAt = false, now
	}
	o.linger = gateLinger + Nanos(g.cfg.Rand.Int64N(int64(gateLinger)))
	switch {
	case leaving:
		o.due = gateNever
	case o.n > 0:
		o.due = now + gateSoonest
	default:
		o.due = min(gateLater(now, g.span/3), gateLater(o.more, gateLinger))
	}
	if len(o.sent) >= gateMaxSent {
		o.thin()
	}
	o.sent = append(o.sent, gateSent{o.seq, now, g.number.settled - uint64(o.n)})
}

// thin forgets every second time. A lease that quotes a forgotten report is
// timed by the one before, which can only make it shorter.
func (p *gateReports) thin() {
	keep := p.sent[:0]
	for i := 0; i < len(p.sent); i += 2 {
		keep = append(keep, p.sent[i])
	}
	p.sent = keep
}

// quoted returns the newest report remembered that is not after seq, and
// forgets those before it. A lease that quotes none has no time.
func (p *gateReports) quoted(seq uint64) gateSent {
	i := len(p.sent) - 1
	for i >= 0 && p.sent[i].seq > seq {
		i--
	}
	if i < 0 {
		return gateSent{built: -gateNever}
	}
	p.sent = slices.Delete(p.sent, 0, i)
	return p.sent[0]
}

// spread counts what waits for every channel and pool.
func (g *Gate) spread(now Nanos, batch int) {
	for _, c := range g.channels {
		c.pending, c.waiting = -1, gateWaiting{requests: int64(c.missed), tokens: c.missedTokens}
		c.missed, c.missedTokens = 0, 0
	}
	for _, p := range g.pools {
		p.waiting = gateWaiting{}
	}
	for i := range batch {
		g.out.pending[(g.out.head+i)%len(g.out.pending)].channel.pending = 0
	}
	for _, lane := range g.queue.list {
		g.spreadLane(now, lane)
	}
	for _, c := range g.channels {
		if c.waiting.requests > 0 {
			requests, tokens := g.startable(now, c)
			for _, p := range c.pools {
				p.waiting.requests += requests
				p.waiting.tokens += tokens
				p.waiting.lead(c.waiting.first)
			}
		}
	}
}

// gateAhead is for how many requests beyond the free slots a budget is asked
// for: calls end while the grant is on its way.
const gateAhead = 4

// startable returns what of those that wait for c could start soon if there
// were a budget: what waits for slots as well needs none yet, and would keep
// from others what it cannot use, and start all at once when slots come.
// The first to start is counted as large as it is, the rest by their mean.
func (g *Gate) startable(now Nanos, c *gateChannel) (requests int64, tokens Tokens) {
	w := &c.waiting
	free := max(c.share(now, g.lost, g.met)-c.used(now), 0) + gateAhead
	if w.requests <= free {
		return w.requests, w.tokens
	}
	tokens = Tokens(mulDiv(int64(w.tokens), free, w.requests))
	if w.first != nil {
		tokens = max(tokens, w.first.tokens+Tokens(mulDiv(int64(w.tokens), free-1, w.requests)))
	}
	return free, tokens
}

// lead notes a request that would start next if nothing but budgets lacked: it
// if it is the first in order, or who may pass it.
func (w *gateWaiting) lead(r *gateRequest) {
	if r != nil && (w.first == nil || queueLess(r, w.first)) {
		w.first, w.next = r, r.node.lane.leads().tokens
	}
}

// gateWaiting is what waits for a channel or pool. first goes first.
type gateWaiting struct {
	requests, urgent int64
	tokens           Tokens
	first            *gateRequest
	// next is the tokens of the request that would start next.
	next Tokens
}

// spreadLane counts a lane's requests on every tier open to it. One that is
// closed for sure counts only if no other is, and opens the next: requests
// pass it over.
func (g *Gate) spreadLane(now Nanos, lane *queueLane) {
	k := &lane.key
	level, first, counted := int(k.level), nextTier(k.tiers, 0), false
	for i, n := first, 0; i >= 0 && n <= level; i, n = nextTier(k.tiers, i+1), n+1 {
		t := &k.route.tiers[i]
		switch {
		case len(t.choices) == 0:
		case g.shut(now, t):
			if k.route.patience(k.core) >= 0 && n == level {
				level++
			}
		default:
			counted = true
			t.spread(lane)
			patience, since := k.route.patience(k.core), g.shutSince(t)
			if n == level && patience >= 0 && since > 0 && now-since > patience {
				level++ // it is shut, if not for sure
			}
		}
	}
	if !counted && first >= 0 {
		k.route.tiers[first].spread(lane)
	}
}

// shut reports whether every channel of a tier is closed for sure.
func (g *Gate) shut(now Nanos, t *gateTier) bool {
	for i := range t.choices {
		if !g.closed(now, t.choices[i].channel).sure {
			return false
		}
	}
	return true
}

// spread divides a lane's requests among a tier's channels by weight: each
// waits for one slot but may use several channels, and over the tier the
// demand adds up to the requests that wait. What cannot be divided goes to
// the first.
func (t *gateTier) spread(lane *queueLane) {
	var total, sum int64
	for i := range t.choices {
		total += t.choices[i].weight
	}
	part := func(n, sum int64) int64 { return (mulDiv(n, sum, 1) + total - 1) / total }
	var done gateWaiting
	for i := range t.choices {
		sum += t.choices[i].weight
		upTo := gateWaiting{
			requests: part(int64(lane.len()), sum), urgent: part(int64(lane.urgent), sum),
			tokens: Tokens(mulDiv(int64(lane.tokens), sum, total)),
		}
		w := &t.choices[i].channel.waiting
		w.requests += upTo.requests - done.requests
		w.urgent += upTo.urgent - done.urgent
		w.tokens += upTo.tokens - done.tokens
		if first := lane.first(); w.first == nil || queueLess(first, w.first) {
			w.first = first
		}
		done = upTo
	}
}

func (g *Gate) reportChannel(now Nanos, c *gateChannel, full bool, r *Attempts) {
	inflight := c.inflight - c.probing
	held := c.used(now) - inflight
	accepted, more := c.accepted(now)
	if c.waiting.requests > 0 {
		g.out.more = min(g.out.more, more)
	}
	n := ChannelReport{
		Channel:  c.name,
		InFlight: uint32(inflight), Held: uint32(held), Accepted: uint32(accepted),
		Queued: uint32(min(c.waiting.requests, gateMaxSlots)), Urgent: uint32(min(c.waiting.urgent, gateMaxSlots)),
		WaitingTokens: c.waiting.tokens,
		Applied:       c.grant.applied,
		WouldRefuse:   c.wouldRefuse,
	}
	if c.pending < 0 && n == c.reported && (!full || c.cfg == nil) {
		return
	}
	c.reported = n
	c.pending = int32(len(r.Channels))
	r.Channels = append(r.Channels, n)
}

func (g *Gate) reportPool(p *gatePool, full bool, r *Attempts) {
	n := PoolReport{
		Pool: p.name, UsedRequests: p.usedRequests, UsedTokens: p.usedTokens,
		WaitingRequests: p.waiting.requests, WaitingTokens: p.waiting.tokens,
		Next: p.waiting.next, Applied: p.revision,
	}
	if !full && n == p.reported {
		return
	}
	p.reported = n
	r.Pools = append(r.Pools, n)
}
