package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"weir/agent/dialect"
	"weir/agent/trace"
	"weir/model"
)

// looks reports whether the span still wants to know which model answers, as
// the beginning of an answer says.
func (a *attempt) looks() bool {
	return a.made == "" && a.bytes <= chunkSize && a.x.span.Recording()
}

// trace notes the attempt in the request's span.
func (a *attempt) trace() {
	if a.outcome.Unsent || !a.x.span.Recording() {
		return
	}
	p := a.permit
	a.x.span.Attempt(trace.Attempt{Channel: p.Channel, Tier: p.Tier, Try: p.Try, Degraded: p.Degraded, Sent: a.sent, Outcome: a.outcome})
}

// end ends the request's span, whose result is what edit makes of what is
// known anyway.
func (x *exchange) end(o model.Outcome, edit func(r *trace.Result)) {
	if x.span == nil {
		return
	}
	r := trace.Result{
		Request: x.name(), Operation: x.dialect.Operation(), Route: x.request.Route, Stream: x.body != nil && x.body.Stream,
		Attempts: x.attempts, Answered: o.Class == model.ClassOK, Outcome: o,
	}
	if p := x.last; p != nil {
		r.Channel, r.Tier, r.Degraded, r.Waited = p.Channel, p.Tier, p.Degraded, p.Queued
		r.Provider, r.Model = x.provider(p.Channel), x.model(p.Channel)
	}
	edit(&r)
	x.span.End(r)
}

// gone ends the span of a request whose client gave it up.
func (x *exchange) gone() {
	x.end(model.Outcome{Class: model.ClassCanceled}, func(*trace.Result) {})
}

// refused ends the span of a request that is answered with a fault.
func (x *exchange) refused(f *dialect.Fault) {
	x.end(model.Outcome{Class: f.Class, Code: f.Code}, func(*trace.Result) {})
}

// ruled ends the span of a request that gets a route's fixed answer.
func (x *exchange) ruled(e *RuledError) {
	x.end(model.Outcome{Class: e.Class}, func(r *trace.Result) { r.Answered, r.Tier, r.Degraded = true, e.Tier, true })
}

// ended ends the span of a request with the attempt that it is answered by.
func (a *attempt) ended() {
	a.x.end(a.outcome, func(r *trace.Result) { r.Made = a.made })
}

// followed ends the span of a request that is answered by another's call, with
// the head of that answer.
func (x *exchange) followed(head *http.Response, err error) {
	if x.span == nil {
		return
	}
	o := model.Outcome{Class: model.ClassTransport}
	switch {
	case x.req.Context().Err() != nil:
		o.Class = model.ClassCanceled
	case err == nil:
		o.Class, o.Status = classOf(head.StatusCode), uint16(head.StatusCode)
	}
	x.end(o, func(r *trace.Result) {
		if r.Cache = "hit"; x.near {
			r.Cache = "similar"
		}
	})
}

// classOf is the class of an answer of which only the status is known.
func classOf(status int) model.Class {
	switch {
	case status < http.StatusBadRequest:
		return model.ClassOK
	case status == http.StatusTooManyRequests:
		return model.ClassRateLimited
	case status < http.StatusInternalServerError:
		return model.ClassInvalid
	}
	return model.ClassOverloaded
}

// model is what a channel calls the model that the request is for.
func (x *exchange) model(channel string) string {
	if ch := x.transport.client.fleet.Load().channels[channel]; ch != nil && ch.Model != "" {
		return ch.Model
	}
	return x.request.Route
}

// traced is Do with a span, in which f runs.
func (c *Client) traced(ctx context.Context, r Request, f func(ctx context.Context, p *Permit) model.Outcome) (err error) {
	for r.ID == 0 {
		r.ID = rand.Uint64()
	}
	span := c.tracer.Start(ctx, nil, time.Now())
	result := trace.Result{Request: requestName(r.ID), Operation: dialect.Other.Operation(), Outcome: model.Outcome{Class: model.ClassCanceled}}
	if c.fleet.Load().routes[r.Route] != nil {
		result.Route = r.Route
	}
	defer func() { span.End(result) }() // a panic of f passes
	ctx = span.Context(ctx)
	p, err := c.Acquire(ctx, r)
	for err == nil && p != nil {
		sent := time.Now()
		o := call(ctx, p, f)
		result.Channel, result.Tier, result.Degraded, result.Waited = p.Channel, p.Tier, p.Degraded, p.Queued
		if !o.Unsent {
			result.Attempts++
			span.Attempt(trace.Attempt{Channel: p.Channel, Tier: p.Tier, Try: p.Try, Degraded: p.Degraded, Sent: sent, Outcome: o})
		}
		result.Outcome = o
		p, err = p.Next(ctx, o)
	}
	var refusal *RefusedError
	var ruled *RuledError
	switch {
	case err == nil:
		result.Answered = true
	case errors.As(err, &refusal):
		result.Outcome = model.Outcome{Class: refusal.Class}
	case errors.As(err, &ruled):
		result.Outcome = model.Outcome{Class: ruled.Class}
		result.Answered, result.Tier, result.Degraded = true, ruled.Tier, true
	case ctx.Err() != nil:
		result.Outcome = model.Outcome{Class: model.ClassCanceled}
	}
	return err
}
