package provider

import "weir/sim/incident"

// Demand is one request that somebody wants served.
type Demand struct {
	Request                  uint64
	Input, Output, MaxTokens int64
	// Deadline is the instant after which the answer is of no use; 0 for never.
	Deadline int64
}

// mostDemand bounds the ideal scheduler's backlog; more is forgotten.
const mostDemand = 1 << 20

// ideal is an omniscient scheduler in front of a copy of the provider: what
// could have been served of the demand.
//
// It takes requests in the order they were wanted, one try each, and starts
// the first of them whenever (a) fewer run than get the most done under the
// law of the moment, max over n <= cap of n/S(n) with S(n) the service time
// when n run, and (b) the limits per minute and per day let it. It is never
// refused, never fails and never gives up. A request that could not end by its
// deadline at the present pace is left out. It does not know the future, so
// its rate is the best one of each moment; and it does not prefer short
// requests, so a scheduler that starves the long ones can serve more.
type ideal struct {
	p       *Provider // for the work of a call
	engine  engine
	limits  limits
	best    int64 // calls that should run
	wakeAt  int64 // when the limits let the first request in
	backlog backlog
	told    bool // demand comes from Truth.Demand
	served  int64
	expired int64
}

func newIdeal(p *Provider) *ideal {
	return &ideal{
		p: p, engine: newEngine(&p.law), limits: newLimits(&p.law, p.seed, p.name),
		best: bestInFlight(&p.law), wakeAt: Never,
	}
}

// want adds demand.
func (d *ideal) want(now int64, w Demand) {
	if d.backlog.length() >= mostDemand {
		return
	}
	d.backlog.push(w)
	if d.backlog.length() == 1 {
		d.admit(now)
	}
}

// reach plays everything up to now.
func (d *ideal) reach(now int64) {
	for {
		due := d.engine.due()
		at := min(due, d.wakeAt)
		if at > now {
			return
		}
		if due <= d.wakeAt {
			d.pass(at, d.engine.heap[0].slot)
		}
		d.admit(at)
	}
}

// turn follows a new law, which the provider has put in place.
func (d *ideal) turn(now int64) {
	d.limits.set(now, &d.p.law)
	d.engine.turn(now)
	d.best = bestInFlight(&d.p.law)
	d.admit(now)
}

func (d *ideal) pass(now int64, slot int32) {
	d.served++
	d.engine.stop(now, slot)
	d.engine.remove(slot)
}

// admit starts what it can.
func (d *ideal) admit(now int64) {
	d.wakeAt = Never
	for d.backlog.length() > 0 && d.engine.running < d.best {
		w := d.backlog.first()
		c := Call{Request: w.Request, Try: 1, Input: w.Input, Output: w.Output, MaxTokens: w.MaxTokens}
		c.normalise()
		_, work := d.p.work(&c)
		cost := d.limits.cost(&c)
		wait, reason := d.limits.wait(now, cost)
		late := w.Deadline > 0 && now+incident.Scale(work, d.engine.pace.factor, incident.PPM) > w.Deadline
		switch {
		case late || reason == incident.ReasonTooLarge:
			d.expired++
			d.backlog.pop()
			continue
		case wait == Never:
			return // until the law changes
		case wait > 0:
			d.wakeAt = now + wait
			return
		}
		d.backlog.pop()
		d.limits.take(now, cost)
		slot := d.engine.add(c)
		j := &d.engine.jobs[slot]
		j.first, j.total = work, work
		d.engine.start(now, slot)
	}
}

// backlogChunk is how many items a chunk of a backlog holds.
const backlogChunk = 1024

// backlog is a queue in chunks, so that it grows without moving what it holds.
type backlog struct {
	chunks  []*[backlogChunk]Demand
	spare   []*[backlogChunk]Demand // emptied, to be used again
	head, n int
}

func (b *backlog) length() int    { return b.n }
func (b *backlog) first() *Demand { return &b.chunks[0][b.head] }

func (b *backlog) push(d Demand) {
	at := b.head + b.n
	if at == len(b.chunks)*backlogChunk {
		b.chunks = append(b.chunks, b.chunk())
	}
	b.chunks[at/backlogChunk][at%backlogChunk] = d
	b.n++
}

func (b *backlog) chunk() *[backlogChunk]Demand {
	if n := len(b.spare); n > 0 {
		c := b.spare[n-1]
		b.spare = b.spare[:n-1]
		return c
	}
	return new([backlogChunk]Demand)
}

func (b *backlog) pop() {
	b.n--
	if b.head++; b.head == backlogChunk {
		b.spare, b.head = append(b.spare, b.chunks[0]), 0
		b.chunks = b.chunks[:copy(b.chunks, b.chunks[1:])]
	}
}
