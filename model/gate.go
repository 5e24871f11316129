package model

import "math/rand/v2"

// Gate decides for one agent process: whether, when and where a request is
// sent, what follows an attempt, and what the controller is told. It is pure:
// now is the agent's monotonic clock, and nothing in it blocks or needs the
// network. It is used by one goroutine at a time.
//
// Each request ends exactly once: with a Reply that admits, refuses or answers
// it, or by Leave; each admitted attempt is settled exactly once, by Done.
//
// While a lease is in force the gate uses what it grants, less the cuts
// broadcast since. A refusal shrinks its own share at once, until the
// controller has heard of it. Without a lease the gate is alone: it goes on
// with the safe share of what it had, or ChannelConfig.Alone if it never had
// anything, finds by itself how much of that the provider takes, and comes
// back in steps.
type Gate struct {
	cfg    GateConfig
	config *Config
	now    Nanos
	number gateCount

	configured bool
	configSeq  uint64
	term       uint64
	// leaseTerm and leaseSeq order leases, leaseUntil is when the newest
	// ends, span how long a lease holds. met is set once one was heard, lost
	// while none is in force.
	leaseTerm, leaseSeq uint64
	leaseUntil, span    Nanos
	met, lost           bool

	byChannel map[string]*gateChannel
	byPool    map[string]*gatePool
	byRoute   map[string]*gateRoute
	quotas    map[string]*gateQuota
	// spender is the tenant whose day was looked for last, spends what was found.
	spender  string
	spends   *gateQuota
	tenants  map[string]*gateTenant // "" for all that are not configured
	hogs     uint64                 // counts searches
	lately   *gateRoute             // found last, nil for none
	owned    *gateTenant            // found last, for the name owns; nil for none
	owns     string
	channels []*gateChannel // sorted by name
	pools    []*gatePool    // sorted by name
	routes   []*gateRoute   // sorted by name

	requests gateRequests
	queue    gateQueue
	timers   gateTimers
	parked   int
	budget   retryBudget

	// asking is the request whose Ask is being decided, asked the last reply
	// to one.
	asking *gateRequest
	asked  Reply
	ready  []gateReady
	// dirty is set when something happened that may let a request start;
	// stir is when time may.
	dirty    bool
	stir     Nanos
	running  int
	guardAt  Nanos
	stopping bool

	out gateReports

	open  []gateOpen   // scratch
	order []*queueLane // scratch
	// saving is the pools that have a saver.
	saving []*gatePool
	swept  []*gateRequest // scratch
	words  refusalWords
}

// gateCount is what a gate counts over the boot.
type gateCount struct {
	admitted, refused, retried, degraded, ruled, leaked, stale, ignored uint64
	settled                                                             uint64
}

// gateReady is a reply that waits to be polled.
type gateReady struct {
	r     *gateRequest
	reply Reply
}

// GateConfig is what a Gate is made from.
type GateConfig struct {
	// Agent and Boot identify the process in its reports, as in Source.
	Agent string
	Boot  uint64
	// Version is the software version, told in the first report.
	Version string
	// Mode is the agent's own mode; ModeObserve overrides everything heard.
	Mode Mode
	// QueueLimit bounds the requests that wait; 0 means 1000.
	QueueLimit int
	// PendingLimit bounds the attempts that wait to be reported; 0 means
	// 4096. Beyond it the oldest are dropped: Source.Base tells how many.
	PendingLimit int
	// Params are the constants of the local reaction; the zero value means
	// DefaultParams.
	Params Params
	// Rand draws jitter and choices. It must not be nil.
	Rand *rand.Rand
}

const (
	gateQueueLimit   = 1000
	gatePendingLimit = 4096
	// gateMaxChannels bounds the channels and pools remembered from messages
	// that name what is not configured.
	gateMaxChannels = 4096
	// UsualTotal is the time of a request for which nothing else is said.
	UsualTotal = 10 * Minute
	// gateGrace is how long after its time an attempt may still be settled by
	// its shell; after that the gate does it, so that no slot is lost.
	gateGrace = Minute
	// gateMaxTokens bounds an estimate.
	gateMaxTokens = 1 << 40
)

// NewGate returns a gate that has heard nothing: it knows no route until
// SetConfig.
func NewGate(c GateConfig) *Gate {
	if c.QueueLimit <= 0 {
		c.QueueLimit = gateQueueLimit
	}
	if c.PendingLimit <= 0 {
		c.PendingLimit = gatePendingLimit
	}
	if c.Params == (Params{}) {
		c.Params = DefaultParams()
	}
	return &Gate{
		cfg: c, config: &Config{}, lost: true, span: c.Params.LeaseDuration,
		byChannel: map[string]*gateChannel{}, byPool: map[string]*gatePool{}, byRoute: map[string]*gateRoute{}, quotas: map[string]*gateQuota{},
		tenants: map[string]*gateTenant{"": {share: 1}},
		queue:   newGateQueue(), guardAt: gateNever, stir: gateNever,
		out: newGateReports(),
	}
}

// tick moves the gate to now, which never goes back, and notices the end of
// the lease.
func (g *Gate) tick(now Nanos) Nanos {
	if now > g.now {
		g.now = now
	}
	if !g.lost && g.now >= g.leaseUntil {
		g.lose(g.now)
	}
	return g.now
}

// Ask decides on a request.
func (g *Gate) Ask(now Nanos, a Ask) Reply {
	now = g.tick(now)
	r, why := g.admit(now, &a)
	if r == nil {
		g.number.refused++
		class := ClassInvalid
		if g.stopping {
			class = causeEnd.class()
		}
		return Reply{Kind: ReplyRefused, Request: a.Request, Class: class, Reason: why}
	}
	g.asking = r
	g.ask(now, r)
	g.asking = nil
	if r.state == gateAnswered {
		g.requests.put(r)
	}
	return g.asked
}

// route finds a route by its name. One agent's requests name few.
func (g *Gate) route(name string) *gateRoute {
	if g.lately != nil && g.lately.name == name {
		return g.lately
	}
	g.lately = g.byRoute[name]
	return g.lately
}

// admit makes a request of an Ask, or says why there cannot be one.
func (g *Gate) admit(now Nanos, a *Ask) (*gateRequest, string) {
	route := g.route(a.Route)
	switch {
	case g.stopping:
		return nil, "the agent is stopping"
	case route == nil:
		return nil, "no such route"
	}
	tiers := route.fits(a.Capability)
	if tiers == 0 {
		return nil, "no tier of the route has the capability that is asked for"
	}
	r := g.requests.take()
	r.id, r.route, r.tenant, r.core = a.Request, route, a.Tenant, a.Core
	r.owner = g.owner(a.Tenant)
	r.capability, r.tiers = a.Capability, tiers
	r.priority = min(a.Priority, PriorityInteractive)
	r.rank = uint8(r.priority)
	r.tokens = min(max(a.Tokens, 0), gateMaxTokens)
	r.arrived, r.since = now, now
	r.deadline = a.Deadline
	if r.deadline == 0 {
		total := g.config.Retry.Total
		if total <= 0 {
			total = UsualTotal
		}
		r.deadline = gateLater(now, total)
	}
	for r.opens(now, r.level) <= now {
		r.level++
	}
	return r, ""
}

// ask places r, or puts it into the queue behind whatever goes first.
func (g *Gate) ask(now Nanos, r *gateRequest) {
	if r.deadline <= now {
		g.refuse(now, r, gateBlock{cause: causeLate, until: gateNever}, "the deadline has passed")
		return
	}
	if q := g.ceiling(now, r); q != nil {
		g.forbid(now, r, q)
		return
	}
	if g.queue.n == 0 {
		done, block := g.place(now, r)
		if done {
			return
		}
		g.enqueue(now, r)
		g.blocked(now, r.node.lane, block)
	} else {
		g.enqueue(now, r)
		if lane := r.node.lane; g.dirty || now >= g.stir || lane.first() == r || g.passer(now, lane) == r {
			g.pump(now)
		}
	}
	if r.state != gateQueued {
		return
	}
	position := g.queue.position(r)
	wait := r.route.drain.wait(now, r.tokens, position)
	g.hopeless(now, r, wait)
	if r.state == gateQueued && g.queue.n > g.cfg.QueueLimit {
		g.evict(now, r)
	}
	if r.state == gateQueued {
		g.queued(now, r, wait, position)
	}
}

// hopeless refuses r if it cannot meet its deadline by what is known, after
// looking whether a further tier could. wait is how long it waits by what is
// known, 0 when unknown.
func (g *Gate) hopeless(now Nanos, r *gateRequest, wait Nanos) {
	lane := r.node.lane
	if b := lane.block; b.sure && b.until >= r.deadline {
		g.place(now, r)
		if r.state != gateQueued {
			return
		}
	}
	if gateLater(now, wait) <= r.deadline {
		return
	}
	if r.route.patience(r.core) >= 0 && r.opens(now, r.level) != gateNever {
		for r.opens(now, r.level) != gateNever {
			r.level++
		}
		if g.place(now, r); r.state != gateQueued {
			return
		}
	}
	g.refuse(now, r, r.node.lane.block, "it would wait past its deadline")
}

// evict makes room for r in a full queue: the request served last of all goes
// if its priority is lower, else r itself.
func (g *Gate) evict(now Nanos, r *gateRequest) {
	if t := g.hog(r); t != nil {
		last := g.queue.lastOf(t)
		g.refuse(now, last, last.node.lane.block, "the queue is full, and its tenant holds more than its share of it")
		return
	}
	if last := g.queue.last(); last.rank < r.rank {
		g.refuse(now, last, last.node.lane.block, "the queue is full and others are more urgent")
		return
	}
	g.refuse(now, r, r.node.lane.block, "the queue is full")
}

// queued makes the reply for r, which stays in the queue.
func (g *Gate) queued(now Nanos, r *gateRequest, wait Nanos, position int) {
	b := r.node.lane.block
	rep := g.reply(r, ReplyQueued)
	rep.Ticket, rep.Class = r.ticket, b.cause.class()
	rep.Position, rep.Reason = position, b.cause.String()
	if b.channel != nil {
		rep.Channel = b.channel.name
	}
	if b.sure {
		rep.Wait = b.until - now
	}
	rep.Wait = max(rep.Wait, wait)
}

// enqueue puts r into its lane and sets its timer.
func (g *Gate) enqueue(now Nanos, r *gateRequest) {
	if r.ticket == 0 {
		r.ticket = Ticket(r.handle())
	}
	if r.route.backlog() == 0 {
		r.route.drain.begin(now)
	}
	if g.queue.n == 0 {
		g.wantReport(now)
	}
	r.state = gateQueued
	g.queue.push(r)
	g.timers.set(r, g.wakeOf(now, r))
	g.changed(now)
}

// wakeOf returns when time alone next changes something for a waiting request.
func (g *Gate) wakeOf(now Nanos, r *gateRequest) Nanos {
	if r.state == gateParked {
		return min(r.deadline, r.notBefore)
	}
	at := min(r.deadline, r.opens(now, r.level))
	if r.rank < uint8(PriorityInteractive) {
		at = min(at, r.promotion())
	}
	if r.avoid != nil {
		at = min(at, r.avoidUntil)
	}
	if fades := g.fades(now, r); fades > now {
		at = min(at, fades)
	}
	return at
}

// promotion is when r's rank next rises.
func (r *gateRequest) promotion() Nanos {
	return gateLater(r.arrived, queueAging*Nanos(r.rank-uint8(r.priority)+1))
}

// unqueue takes r out of wherever it waits.
func (g *Gate) unqueue(now Nanos, r *gateRequest, admitted bool) {
	switch r.state {
	case gateQueued:
		g.queue.remove(r)
		g.timers.drop(r)
		for _, p := range g.saving {
			if p.saver == r {
				p.saver = nil
			}
		}
		if admitted {
			r.route.drain.add(now, r.tokens)
		}
		g.changed(now)
	case gateParked:
		g.timers.drop(r)
		g.parked--
	case gateFree, gateRunning, gateAnswered:
	}
}

// reply returns an empty reply of that kind for r, to be filled: what the Ask
// being decided returns, or the next Poll.
func (g *Gate) reply(r *gateRequest, kind ReplyKind) *Reply {
	if r == g.asking {
		g.asked = Reply{Kind: kind, Request: r.id}
		return &g.asked
	}
	r.unseen = true
	g.ready = append(g.ready, gateReady{r, Reply{Kind: kind, Request: r.id, Ticket: r.ticket}})
	return &g.ready[len(g.ready)-1].reply
}

// Leave takes a waiting request back: its client gave up. An attempt that was
// admitted and not polled yet is undone. Nothing happens when the ticket was
// settled.
func (g *Gate) Leave(now Nanos, t Ticket) {
	now = g.tick(now)
	r := g.requests.waiting(t)
	if r == nil {
		return
	}
	if r.state == gateRunning {
		g.undo(now, r)
	}
	g.unqueue(now, r, false)
	if r.unseen {
		r.state, r.ticket = gateFree, 0 // Poll puts it back
		return
	}
	g.requests.put(r)
}

// undo takes back an attempt that was never sent.
func (g *Gate) undo(now Nanos, r *gateRequest) {
	c := r.at.channel
	c.unlink(r)
	for _, p := range r.at.pools {
		p.undo(r.tokens)
	}
	if r.at.probe != 0 && r.at.probe == c.grant.used {
		// It was not sent, so it may be sent still.
		c.grant.probe, c.grant.used = r.at.probe, 0
	}
	g.running--
	r.owner.end()
	r.tries--
	g.dirty = true
	g.changed(now)
}
