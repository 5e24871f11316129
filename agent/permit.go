package agent

import (
	"context"
	"math/rand/v2"
	"time"

	"weir/model"
)

// Request is what a caller wants to send.
type Request struct {
	// ID is the id that all attempts share; 0 draws one.
	ID uint64
	// Route is the model name asked for, Tenant who asks.
	Route, Tenant string
	Priority      model.Priority
	// Core marks work that waits rather than take a lesser tier.
	Core bool
	// Capability is what the request needs of a tier, empty for nothing
	// special.
	Capability string
	// Tokens is the estimate of input and output together; 0 means unknown
	// and counts as 1.
	Tokens model.Tokens
	// Deadline is when it must have ended. The zero time leaves it to the
	// context and the fleet's retry.total.
	Deadline time.Time
}

// Permit allows one attempt on one channel. It is settled by Done or Next,
// once; what comes later changes nothing.
type Permit struct {
	// Request is the id that all attempts of the request share.
	Request uint64
	// Channel is where to send it; Tier the tier of the route, 0 for the main
	// one; Try the number of the attempt, from 1.
	Channel string
	Tier    int
	Try     int
	// Degraded is set when the tier is not the first that fits.
	Degraded bool
	// Queued is how long the request has waited over all its attempts.
	Queued time.Duration
	// Deadline is when the attempt must have ended.
	Deadline time.Time

	client *Client
	id     uint64
	route  string
	began  model.Nanos // when the request came
	ended  bool        // Client.mu guards it
}

// Acquire asks for a permit and waits for it as long as the request may. It
// returns *RefusedError or *RuledError when there is none to be had, and
// ctx's error when the caller gave up.
//
// It is small enough to become part of its caller: a permit that does not leave
// the function that acquires it is no garbage.
func (c *Client) Acquire(ctx context.Context, r Request) (p *Permit, err error) {
	p = new(Permit)
	if err = c.acquire(ctx, &r, p); err != nil {
		p = nil
	}
	return p, err
}

// acquire makes p the permit for r.
func (c *Client) acquire(ctx context.Context, r *Request, p *Permit) error {
	now := c.now()
	for r.ID == 0 {
		r.ID = rand.Uint64()
	}
	ask := model.Ask{
		Request: r.ID, Route: r.Route, Tenant: r.Tenant, Priority: r.Priority, Core: r.Core,
		Capability: r.Capability, Tokens: max(1, r.Tokens), Deadline: c.deadline(ctx, r.Deadline),
	}
	p.client, p.route, p.began, p.Request = c, r.Route, now, r.ID
	c.mu.Lock()
	reply := c.gate.Ask(now, ask)
	wait := c.queued(&reply)
	if reply.Kind == model.ReplyAdmitted {
		c.meter.waits.add(0)
	}
	c.alarm()
	c.mu.Unlock()
	return p.admit(ctx, &reply, wait)
}

// deadline returns the earlier of two deadlines, 0 for none.
func (c *Client) deadline(ctx context.Context, at time.Time) model.Nanos {
	if d, ok := ctx.Deadline(); ok && (at.IsZero() || d.Before(at)) {
		at = d
	}
	if at.IsZero() {
		return 0
	}
	return max(1, c.nanos(at))
}

// queued returns where the reply on a waiting ticket will come, nil when r is
// the last one. c.mu is held.
func (c *Client) queued(r *model.Reply) chan model.Reply {
	if r.Kind != model.ReplyQueued {
		return nil
	}
	wait := make(chan model.Reply, 1)
	c.waiting[r.Ticket] = wait
	return wait
}

// admit makes p the permit of the request's next attempt, if need be after a
// wait for it.
func (p *Permit) admit(ctx context.Context, r *model.Reply, wait chan model.Reply) error {
	c := p.client
	if wait != nil {
		late, err := c.await(ctx, r.Ticket, wait)
		if err != nil {
			c.ended(p.route, ending(model.ClassCanceled), c.now()-p.began)
			return err
		}
		r = &late
	}
	if r.Kind != model.ReplyAdmitted {
		how := endedRefused
		if r.Kind == model.ReplyRule {
			how = endedRuled
		}
		c.ended(p.route, how, c.now()-p.began)
		return refused(r)
	}
	g := &r.Permit
	p.id, p.Channel, p.Tier, p.Try, p.Degraded = g.ID, g.Channel, int(g.Tier), int(g.Try), g.Degraded
	p.Queued += g.Queued.Duration()
	p.Deadline = c.instant(g.Deadline)
	return nil
}

// await waits for the reply on a ticket. When ctx ends first, the request
// leaves the queue.
func (c *Client) await(ctx context.Context, t model.Ticket, wait chan model.Reply) (model.Reply, error) {
	select {
	case r := <-wait:
		return r, nil
	case <-ctx.Done():
	}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.waiting[t]; ok {
		delete(c.waiting, t)
		c.gate.Leave(now, t)
	} else if r := <-wait; r.Kind == model.ReplyAdmitted {
		c.gate.Done(now, r.Permit.ID, model.Outcome{Unsent: true})
	}
	c.after(now)
	return model.Reply{}, context.Cause(ctx)
}

// Accepted notes that the provider surely took the attempt: the first byte of
// its answer was seen.
func (p *Permit) Accepted() {
	c := p.client
	now := c.now()
	c.mu.Lock()
	c.gate.Accepted(now, p.id)
	c.mu.Unlock()
}

// FirstToken notes the first token of a streamed answer.
func (p *Permit) FirstToken() {
	c := p.client
	now := c.now()
	c.mu.Lock()
	c.gate.FirstToken(now, p.id)
	c.mu.Unlock()
}

// Done settles the attempt and ends the request, whatever the outcome.
func (p *Permit) Done(o model.Outcome) {
	c := p.client
	now := c.now()
	c.mu.Lock()
	if p.ended {
		c.mu.Unlock()
		return
	}
	p.ended = true
	next := c.gate.Done(now, p.id, o)
	if next.Kind == model.NextRetry {
		c.gate.Leave(now, next.Ticket)
	}
	p.count(now, endingOf(&o))
	c.after(now)
	c.mu.Unlock()
}

// Next settles the attempt and, where the request may be tried again, waits
// for its next turn and returns that permit. Without one the request has
// ended: the error is nil after success, else *FailedError, *RefusedError,
// *RuledError, or ctx's.
func (p *Permit) Next(ctx context.Context, o model.Outcome) (*Permit, error) {
	return p.next(ctx, o, "")
}

// next is Next; when final says why, nothing is repeated.
func (p *Permit) next(ctx context.Context, o model.Outcome, final string) (*Permit, error) {
	next, wait, ok := p.settle(&o, final)
	if !ok {
		return nil, nil
	}
	switch next.Kind {
	case model.NextRetry:
		p2 := &Permit{client: p.client, route: p.route, began: p.began, Request: p.Request, Queued: p.Queued}
		if err := p2.admit(ctx, &model.Reply{Kind: model.ReplyQueued, Ticket: next.Ticket}, wait); err != nil {
			return nil, err
		}
		return p2, nil
	case model.NextRule:
		return nil, &RuledError{Answer: next.Answer, Tier: int(next.Tier), Class: next.Class, Reason: next.Reason}
	case model.NextFinished, model.NextGiveUp:
	}
	if o.Class == model.ClassOK {
		return nil, nil
	}
	return nil, &FailedError{Outcome: o, Channel: p.Channel, Wait: next.Wait.Duration(), Reason: next.Reason}
}

// settle settles the attempt and returns what follows, and where the reply to a
// retry will come. ok is false when it was settled before.
func (p *Permit) settle(o *model.Outcome, final string) (next model.Next, wait chan model.Reply, ok bool) {
	c := p.client
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.ended {
		return next, nil, false
	}
	p.ended = true
	next = c.gate.Done(now, p.id, *o)
	switch {
	case next.Kind == model.NextRetry && final != "":
		c.gate.Leave(now, next.Ticket)
		next = model.Next{Kind: model.NextGiveUp, Class: next.Class, Wait: next.After, Reason: final}
	case next.Kind == model.NextRetry:
		wait = c.queued(&model.Reply{Kind: model.ReplyQueued, Ticket: next.Ticket})
	}
	switch next.Kind {
	case model.NextRule:
		p.count(now, endedRuled)
	case model.NextFinished, model.NextGiveUp:
		p.count(now, endingOf(o))
	case model.NextRetry:
	}
	c.after(now)
	return next, wait, true
}

// count counts the request, which ends. Client.mu is held.
func (p *Permit) count(now model.Nanos, how ending) {
	p.client.meter.ended(p.client.fleet.Load(), p.route, how, now-p.began)
}

// Do makes a request: it calls f for each attempt, with a context that ends
// with the attempt's deadline, until one succeeds or none is allowed. The
// error is nil after success; else it is as that of Acquire and Permit.Next.
func (c *Client) Do(ctx context.Context, r Request, f func(ctx context.Context, p *Permit) model.Outcome) error {
	if c.tracer != nil {
		return c.traced(ctx, r, f)
	}
	p, err := c.Acquire(ctx, r)
	for err == nil && p != nil {
		p, err = p.Next(ctx, call(ctx, p, f))
	}
	return err
}

// call runs f. A panic settles the attempt and goes on.
func call(ctx context.Context, p *Permit, f func(ctx context.Context, p *Permit) model.Outcome) model.Outcome {
	defer func() {
		if v := recover(); v != nil {
			p.Done(model.Outcome{Class: model.ClassCanceled})
			panic(v)
		}
	}()
	ctx, cancel := context.WithDeadline(ctx, p.Deadline)
	defer cancel()
	return f(ctx, p)
}
