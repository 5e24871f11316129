package provider

import (
	"time"

	"weir/sim/draw"
	"weir/sim/incident"
)

// Config makes a provider.
type Config struct {
	// Incident is the provider of an incident file, as Parse gave it.
	Incident incident.Provider
	// Seed decides every draw.
	Seed uint64
	// Ideal also runs an omniscient scheduler on the same demand, for
	// Books.CouldHaveServed. It doubles the cost of a call.
	Ideal bool
}

// Provider is what a client can reach. Its methods are for one goroutine.
type Provider struct {
	now      int64
	law      incident.Law
	schedule *schedule
	turnAt   int64 // next instant at which the law moves

	seed   draw.Seed
	name   uint64
	spread draw.Spread

	engine engine
	queue  queue
	holds  holds
	limits limits
	ban    ban
	books  Books
	ideal  *ideal

	// pending are events that Offer or Cancel passed; Advance hands them out.
	pending []Event
}

// New returns a provider at instant 0 with nothing running, and the truth
// about it.
func New(c Config) (*Provider, *Truth) {
	p := &Provider{
		schedule: newSchedule(&c.Incident), seed: draw.Seed(c.Seed), name: draw.Name(c.Incident.Name), queue: newQueue(),
	}
	p.law = p.schedule.at(0)
	p.turnAt = p.schedule.next(0)
	p.spread = draw.SpreadOf(p.law.Service.CV)
	p.engine = newEngine(&p.law)
	p.limits = newLimits(&p.law, p.seed, p.name)
	if c.Ideal {
		p.ideal = newIdeal(p)
	}
	return p, &Truth{p}
}

// Offer sends a call at now.
func (p *Provider) Offer(now int64, c Call) Answer {
	now = p.reach(now)
	c.normalise()
	p.books.Offered++
	if c.Try <= 1 {
		p.books.Requests++
		if p.ideal != nil && !p.ideal.told {
			p.ideal.want(now, Demand{Request: c.Request, Input: c.Input, Output: c.Output, MaxTokens: c.MaxTokens})
		}
	}
	cost := p.limits.cost(&c)
	if wait, reason := p.refuses(now, cost); reason != "" {
		return Answer{Refusal: p.refuse(now, reason, wait, cost)}
	}
	p.limits.take(now, cost)
	p.books.Accepted++
	slot := p.engine.add(c)
	p.queue.push(p.engine.jobs, slot)
	p.fill(now)
	p.books.peak(p.engine.running, p.queue.length, p.law.Concurrency)
	answer := Answer{Ticket: ticket(slot, p.engine.jobs[slot].gen)}
	if p.law.Refusal.Headers {
		answer.Headers = p.limits.headers(now)
	}
	return answer
}

// refuses returns why a call is turned away, if it is, and how long until the
// limits would let it through; for a slot that is not known here.
func (p *Provider) refuses(now int64, c cost) (int64, incident.Reason) {
	if left := p.ban.blocked(now); left > 0 {
		return left, incident.ReasonBan
	}
	if wait, reason := p.limits.wait(now, c); wait > 0 {
		return wait, reason
	}
	if !p.engine.room() && p.queue.length >= p.law.Queue {
		return Never, incident.ReasonConcurrency
	}
	return 0, ""
}

// refuse says no.
func (p *Provider) refuse(now int64, reason incident.Reason, wait int64, c cost) Refusal {
	law := p.law.RefusalFor(reason)
	p.books.Refused.count(reason)
	p.ban.refused(now, p.law.Ban)
	if law.Charged && reason != incident.ReasonBan {
		p.limits.charge(now, c)
	}
	if law.HoldsSlot && law.Delay > 0 && reason != incident.ReasonBan {
		p.holds.add(now, int64(law.Delay))
		p.engine.held++
		p.engine.turn(now)
	}
	r := say(&law, reason)
	switch law.Hint {
	case incident.HintFixed:
		r.RetryAfter = law.HintFor
	case incident.HintExact:
		if reason == incident.ReasonConcurrency {
			wait = p.engine.nextEnd() - now
		}
		if wait < day*366 {
			r.RetryAfter = time.Duration(wait)
		}
	case incident.HintNone:
	}
	if law.Headers {
		r.Headers = p.limits.headers(now)
	}
	return r
}

// Cancel tells that the client of an accepted call gave up at now. No further
// event comes for it. It reports whether the call was still alive.
func (p *Provider) Cancel(now int64, t Ticket) bool {
	now = p.reach(now)
	slot := int32(t >> 32)
	if slot < 0 || int(slot) >= len(p.engine.jobs) {
		return false
	}
	j := &p.engine.jobs[slot]
	if j.state == jobFree || j.gen != uint32(t) || j.left {
		return false
	}
	p.books.Abandoned++
	if p.law.AbandonedWork {
		j.left = true
		return true
	}
	if j.state == jobQueued {
		p.queue.remove(p.engine.jobs, slot)
	} else {
		p.books.waste(j, p.engine.progress(now, slot))
		p.engine.stop(now, slot)
	}
	p.engine.remove(slot)
	p.fill(now)
	return true
}

// Streamed returns how many output tokens a call has produced by now: what a
// client that streams has received. It is 0 for a call that is not running.
func (p *Provider) Streamed(now int64, t Ticket) int64 {
	now = p.reach(now)
	slot := int32(t >> 32)
	if slot < 0 || int(slot) >= len(p.engine.jobs) {
		return 0
	}
	j := &p.engine.jobs[slot]
	if j.state != jobRunning || j.gen != uint32(t) || j.stage == 0 || j.total <= j.first {
		return 0
	}
	return min(j.call.Output, incident.Scale(j.call.Output, p.engine.progress(now, slot)-j.first, j.total-j.first))
}

// NextWake returns the next instant at which anything can happen without a
// call, or Never.
func (p *Provider) NextWake() int64 {
	if len(p.pending) > 0 {
		return p.now
	}
	return min(p.turnAt, p.engine.due(), p.holds.due())
}

// Advance lets time pass and appends what happened to events, in order of time.
func (p *Provider) Advance(now int64, events []Event) []Event {
	p.reach(now)
	events = append(events, p.pending...)
	p.pending = p.pending[:0]
	return events
}

// reach plays everything up to now into pending and returns the instant that
// holds from here on.
func (p *Provider) reach(now int64) int64 {
	for {
		at := min(p.engine.due(), p.turnAt, p.holds.due())
		if at > now {
			break
		}
		p.now = max(p.now, at)
		switch at {
		case p.turnAt:
			p.turn(at)
		case p.holds.due():
			p.let(at)
		default:
			p.pass(at, p.engine.heap[0].slot)
		}
	}
	p.now = max(p.now, now)
	if p.ideal != nil {
		p.ideal.reach(p.now)
	}
	return p.now
}

// let frees the slot that a refusal held.
func (p *Provider) let(now int64) {
	p.holds.pop()
	p.engine.held--
	p.engine.turn(now)
	p.fill(now)
}

// turn follows the script to the law of now.
func (p *Provider) turn(now int64) {
	if p.ideal != nil {
		p.ideal.reach(now)
	}
	p.law = p.schedule.at(now)
	p.turnAt = p.schedule.next(now)
	p.spread = draw.SpreadOf(p.law.Service.CV)
	p.limits.set(now, &p.law)
	p.engine.turn(now)
	p.fill(now)
	if p.ideal != nil {
		p.ideal.turn(now)
	}
}

// pass lets a running call reach its next mark.
func (p *Provider) pass(now int64, slot int32) {
	j := &p.engine.jobs[slot]
	e := Event{At: now, ID: j.call.ID, Ticket: ticket(slot, j.gen)}
	switch {
	case j.fails:
		e.Kind, e.Status = Failed, int(p.law.Noise.Status)
	case j.stage == 0:
		e.Kind = First
	default:
		e.Kind, e.Input, e.Output = Done, j.call.Input, j.call.Output
	}
	if !j.left {
		p.pending = append(p.pending, e)
	}
	if e.Kind == First {
		p.engine.generate(slot)
		return
	}
	p.books.end(j, e.Kind)
	p.engine.stop(now, slot)
	p.engine.remove(slot)
	p.fill(now)
}

// fill starts what waits while there are slots.
func (p *Provider) fill(now int64) {
	for p.queue.length > 0 && p.engine.room() {
		slot := p.queue.head
		p.queue.remove(p.engine.jobs, slot)
		j := &p.engine.jobs[slot]
		j.first, j.total = p.work(&j.call)
		if p.seed.Below(incident.PPM, draw.Noise, j.call.Request^p.name, uint64(j.call.Try)) < p.law.Noise.ErrorRate {
			j.fails, j.first = true, min(j.first, int64(p.law.Service.Base))
		}
		p.engine.start(now, slot)
		if j.call.Whole && !j.fails {
			p.engine.generate(slot)
		}
	}
}

// work is a call's nominal work until its first token and in all.
func (p *Provider) work(c *Call) (first, total int64) {
	s := &p.law.Service
	first = int64(s.Base)
	if s.PrefillPerS > 0 {
		first += c.Input * int64(time.Second) / s.PrefillPerS
	}
	total = first
	if s.OutputPerS > 0 {
		total += c.Output * int64(time.Second) / s.OutputPerS
	}
	factor := p.seed.Lognormal(incident.PPM, p.spread, draw.ServiceTime, c.Request^p.name, uint64(c.Try))
	return incident.Scale(first, factor, incident.PPM), incident.Scale(total, factor, incident.PPM)
}

func ticket(slot int32, gen uint32) Ticket { return Ticket(uint64(slot)<<32 | uint64(gen)) }
