package model

// gateNever is an instant that does not come.
const gateNever = forever

const (
	// gateMaxHeld bounds the held slots remembered per channel.
	gateMaxHeld = 1 << 16
	// gateMaxSlots bounds a grant, against absurd messages.
	gateMaxSlots = 1 << 31
	// gateLeastRefusal is the time within which a refusal comes, at least:
	// an attempt older than that counts as accepted. gateFirstRefusal is the
	// same before one was seen, gateMostRefusal bounds the estimate, since a
	// gateway's timeout is no measure of it.
	gateLeastRefusal = 50 * Millisecond
	gateFirstRefusal = Second
	gateMostRefusal  = 5 * Second
	// gateDouble is the time in which a share that was capped doubles.
	gateDouble = Second
	// gateTrust is how long a share that the gate cut itself stays before it
	// doubles, while the controller is there and says nothing about it: ten
	// times what its answer takes.
	gateTrust = Second
)

// gateChannel is one channel as the gate sees it: what the controller said of
// it, what the agent may use, and what is in flight.
type gateChannel struct {
	name string
	// cfg is nil for a channel that is not configured.
	cfg *ChannelConfig
	// pools are the channel's own budget and its groups'.
	pools []*gatePool

	told    gateTold
	grant   gateGrant
	local   gateLocal
	pending int32 // index in the report being built
	listed  bool  // in the lease being read
	before  int64 // share before the lease being read

	first, last *gateRequest // attempts in flight, in the order they started
	inflight    int64
	// probing counts those of them that are probes. A probe is a lease of its
	// own: it uses no slot, and holds none when it is refused.
	probing int64
	held    gateHolds
	use     [NumPriorities]gateUse

	// pace is how long good calls take, by the newest ones.
	pace gatePace

	// missed counts requests since the last report that would have used the
	// channel and went elsewhere or nowhere; missedTokens is their size.
	missed       uint32
	missedTokens Tokens
	waiting      gateWaiting // in the report being built

	reported    ChannelReport // what the last report said
	wouldRefuse uint64
	retries     uint64
	attempts    [NumClasses]uint64
}

// gatePace is how long the good calls of a channel took: running means that
// weigh the newest by an eighth, of the time and of its distance from that. They
// are kept by size (powers of two of the tokens reserved): were they one for
// all, long calls would make short ones look hopeless, and since those then
// never run, for ever.
type gatePace struct {
	sizes [gatePaces]gateTime
	// all is over all sizes, tokens the mean size.
	all    gateTime
	tokens Tokens
	// tired counts the calls given up after more than the mean, less two for
	// each good one, between 0 and paceTired.
	tired int
}

// gateTime is what is known of the times of calls: their mean, the mean
// distance from it, how many (up to paceWeight) and when the newest ended.
type gateTime struct{ took, off, n, at Nanos }

const (
	// gatePaces is the number of sizes told apart: beyond two to the power of
	// 23 tokens they are all the same.
	gatePaces = 24
	// paceWeight is the inverse weight of the newest call.
	paceWeight = 8
	// paceLeast is how many calls of a size tell its own pace: with fewer it is
	// that of all, less in proportion for smaller ones.
	paceLeast = 4
	// paceLasts is how long a pace is believed without a new call: then halved,
	// so that a channel that was slow once is tried again. sizeLasts is the
	// same for that of one size, which falls back on that of all.
	paceLasts = 30 * Second
	sizeLasts = 5 * Minute
	// paceJam is from where on tired says that the channel is jammed: one or
	// two are long calls. paceTired bounds it.
	paceJam   = 3
	paceTired = 10
)

// ended takes a call that ended, and reports whether it was given up on a
// channel that is jammed: hardly any call ends well before that. One given up
// after more than the mean would have taken longer still: without those a
// channel looked the faster the slower it is.
func (p *gatePace) ended(now Nanos, r *gateRequest, o *Outcome) (jammed bool) {
	took := now - r.at.started
	switch mean, _ := p.expect(now, r.tokens); {
	case o.Class == ClassOK:
		p.tired = max(p.tired-2, 0)
	case o.Class == ClassCanceled && mean > 0 && took > mean:
		p.tired = min(p.tired+1, paceTired)
		jammed = p.tired >= paceJam
	default:
		return false
	}
	p.add(now, took, r.tokens)
	return jammed
}

// sizeOf returns the size of a request as the power of two of its tokens.
func sizeOf(tokens Tokens) int { return min(log2(tokens), gatePaces-1) }

func (p *gatePace) add(now, took Nanos, tokens Tokens) {
	p.sizes[sizeOf(tokens)].add(now, took)
	p.all.add(now, took)
	p.tokens += (tokens - p.tokens) / Tokens(p.all.n)
}

func (t *gateTime) add(now, took Nanos) {
	if t.at = now; t.n == paceWeight { // as nearly always: a constant takes no division
		t.off += (max(took-t.took, t.took-took) - t.off) / (paceWeight - 1)
		t.took += (took - t.took) / paceWeight
		return
	}
	if t.n++; t.n > 1 {
		t.off += (max(took-t.took, t.took-took) - t.off) / (t.n - 1)
	}
	t.took += (took - t.took) / t.n
}

// expect returns how long a call of that size is expected to take, and within
// which nearly all such calls end: the mean and six times the mean distance
// from it, 0 when unknown. Of calls whose times are log-normal with a spread
// of 1 one in a hundred takes longer.
func (p *gatePace) expect(now Nanos, tokens Tokens) (mean, most Nanos) {
	t, halved := p.sizes[sizeOf(tokens)], min((now-p.all.at)/paceLasts, 62)
	if t.n < paceLeast || now-t.at > sizeLasts {
		t = p.all
		t.took = Nanos(mulDiv(int64(t.took), int64(min(tokens, p.tokens)), int64(max(p.tokens, 1))))
	}
	return t.took >> halved, (t.took + 6*t.off) >> halved
}

// late reports whether a call of r would hardly end in time on c, of the tier that
// is number level of its own: it is work for nobody. That is when less than a good call's time is left; and where another
// that waits has more, when less is left than within which nearly all calls
// end: in an overload a queue serves whoever has just enough time left, and a
// mean would be enough for every second.
func (g *Gate) late(now Nanos, r *gateRequest, c *gateChannel, level int) bool {
	mean, most := c.pace.expect(now, r.tokens)
	left := r.deadline - now
	return left < mean || left < most && g.queue.outlasted(r, uint8(level), now+most)
}

// gateTold is what the broadcasts said of a channel.
type gateTold struct {
	known    bool
	term     uint64
	seq      uint64
	revision uint64
	breaker  BreakerState
	// shut is since when the breaker has not been closed, 0 while it is.
	shut   Nanos
	wait   Nanos // until when nothing may start
	spent  bool  // because a day's budget is used up
	weight PPM
	mode   Mode
	epoch  uint64
	reason string
	cuts   []Cut
}

// gateGrant is the agent's part of a channel's window.
type gateGrant struct {
	revision uint64
	// slots, safe and offset are as granted, less the cuts since.
	slots, safe, offset int64
	// applied is the newest revision obeyed, grant or cut.
	applied uint64
	// probe is the leased probe, 0 for none or when it was sent; used is the
	// last one sent, so that a lease that comes again does not send two.
	probe, used uint64
	probeUntil  Nanos
}

// gateLocal is the gate's own reaction, for the time until the controller
// speaks or while it is silent.
type gateLocal struct {
	// cap bounds the share, negative for none; it doubles every gateDouble
	// after capAt. capMark is the number of attempts settled when a refusal
	// made it: a lease that has folded so many lifts it.
	cap     int64
	capAt   Nanos
	capMark uint64
	// cutAt is when the gate last cut: a refusal of an older attempt says
	// nothing new.
	cutAt Nanos
	// hold is until when nothing starts because the provider said so.
	// confirmed is set once the controller holds too: then its word ends it.
	hold      Nanos
	confirmed bool
	// closed is the class that closed the channel (quota, credential), until
	// closedUntil or the controller's next word: the first broadcast since a
	// lease that has folded closedMark attempts, which was made at closedSeq.
	closed      Class
	closedUntil Nanos
	closedMark  uint64
	closedSeq   uint64
	// alone is the share found while alone, negative when it is all that is
	// allowed; good counts successes since it grew, bad failures in a row at
	// one slot.
	alone, good int64
	// quiet counts the good calls since a server error was last taken for noise.
	quiet int64
	bad   int
	// refusal is the estimate of how long a refusal takes, 0 before the first.
	refusal Nanos
}

func newGateChannel(name string) *gateChannel {
	return &gateChannel{
		name: name, reported: ChannelReport{Channel: name},
		told:  gateTold{weight: One},
		local: gateLocal{cap: -1, alone: -1},
	}
}

// share returns how many attempts may be in flight or held.
func (c *gateChannel) share(now Nanos, lost, met bool) int64 {
	switch {
	case lost:
		return c.alone(met)
	case c.local.cap < 0:
		return c.grant.slots
	}
	return min(c.grant.slots, c.capped(now))
}

// alone returns the same for an agent without a lease.
func (c *gateChannel) alone(met bool) int64 {
	s := c.lost(met)
	if c.local.alone >= 0 {
		s = min(s, c.local.alone)
	}
	if c.told.breaker == BreakerOpen || c.told.breaker == BreakerHalfOpen {
		s = min(s, 1) // nobody leases probes: one at a time
	}
	return s
}

// lost returns what the agent may use at most without a lease.
func (c *gateChannel) lost(met bool) int64 {
	if c.cfg == nil {
		return 0
	}
	if !met {
		return int64(c.cfg.Alone)
	}
	switch c.cfg.OnLoss {
	case OnLossZero:
		return 0
	case OnLossLast:
		return c.grant.slots
	case OnLossSafe:
	}
	return c.grant.safe
}

// capped returns the local bound of the share at now.
func (c *gateChannel) capped(now Nanos) int64 {
	l := &c.local
	if l.cap < 0 {
		return gateMaxSlots
	}
	if now <= l.capAt {
		return l.cap
	}
	steps := (now - l.capAt) / gateDouble
	if steps >= 31 {
		return gateMaxSlots
	}
	return min(max(l.cap, 1)<<steps, gateMaxSlots)
}

// grows returns when the local bound is next larger.
func (c *gateChannel) grows(now Nanos) Nanos {
	l := &c.local
	if l.cap < 0 || c.capped(now) >= gateMaxSlots {
		return gateNever
	}
	if now < l.capAt {
		return l.capAt + gateDouble
	}
	return l.capAt + ((now-l.capAt)/gateDouble+1)*gateDouble
}

// used returns the slots in use at now: in flight or held.
func (c *gateChannel) used(now Nanos) int64 {
	if len(c.held) > 0 {
		c.held.release(now)
	}
	return c.inflight - c.probing + int64(len(c.held))
}

// accepted counts what is in flight and was surely taken by the provider:
// first byte seen, or older than a refusal takes. next is when time alone will
// make it more. Only the newest attempts are looked at, as far as they are young.
func (c *gateChannel) accepted(now Nanos) (n int64, next Nanos) {
	within := c.local.refusal
	if within == 0 {
		within = gateFirstRefusal
	}
	n, next = c.inflight, gateNever
	for r := c.last; r != nil && now-r.at.started < within; r = r.at.prev {
		if !r.at.accepted {
			n, next = n-1, r.at.started+within
		}
	}
	return n, next
}

// refusedAfter takes how long a refusal took. The estimate is twice the
// longest lately; it forgets an eighth with each shorter one.
func (l *gateLocal) refusedAfter(took Nanos) {
	seen := 2 * min(max(took, 0), gateMostRefusal/2)
	l.refusal = max(seen, l.refusal-l.refusal/8, gateLeastRefusal)
}

// link adds an attempt in flight.
func (c *gateChannel) link(r *gateRequest) {
	r.at.prev, r.at.next = c.last, nil
	if c.last != nil {
		c.last.at.next = r
	} else {
		c.first = r
	}
	c.last = r
	c.inflight++
	c.use[r.priority].running++
	if r.at.probe != 0 {
		c.probing++
	}
}

// unlink removes an attempt in flight.
func (c *gateChannel) unlink(r *gateRequest) {
	if r.at.prev != nil {
		r.at.prev.at.next = r.at.next
	} else {
		c.first = r.at.next
	}
	if r.at.next != nil {
		r.at.next.at.prev = r.at.prev
	} else {
		c.last = r.at.prev
	}
	r.at.prev, r.at.next = nil, nil
	c.inflight--
	c.use[r.priority].running--
	if r.at.probe != 0 {
		c.probing--
	}
}

// recut applies the cuts that are newer than what is applied, in order, each
// once, and reports whether there were any. What is safe is cut in
// proportion, rounded down, so that it is never more than the controller
// reckons.
func (c *gateChannel) recut() bool {
	g := &c.grant
	cutMade := false
	for _, cut := range c.told.cuts {
		if cut.Revision <= g.applied {
			continue
		}
		slots, offset := cut.Apply(g.slots, g.offset)
		if g.slots > 0 {
			g.safe = mulDiv(g.safe, slots, g.slots)
		}
		g.safe = min(g.safe, slots)
		g.slots, g.offset, g.applied = slots, offset, cut.Revision
		if slots == 0 {
			c.held = c.held[:0] // nothing could start in them
		}
		cutMade = true
	}
	return cutMade
}

// idle reports whether nothing is known or going on, so that a channel that
// is no longer configured can be forgotten.
func (c *gateChannel) idle() bool {
	return c.inflight == 0 && len(c.held) == 0 && c.grant.slots == 0
}

// gateLater returns now+d without overflowing; a negative d counts as none.
func gateLater(now, d Nanos) Nanos {
	if d <= 0 {
		return now
	}
	if now > gateNever-d {
		return gateNever
	}
	return now + d
}
