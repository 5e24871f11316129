package agent

import (
	"context"
	"net/http"
	"time"

	"weir/agent/dialect"
	"weir/model"
)

// beforeKey is where a context keeps what BeforeSend is given.
type beforeKey struct{}

// BeforeSend returns a context with which a transport calls f once a request
// has its first permit, and before anything is sent. When f returns an error
// nothing is: the permit is given back unused, and the request is answered
// with a refusal. f holds a slot while it runs.
func BeforeSend(ctx context.Context, f func(ctx context.Context) error) context.Context {
	return context.WithValue(ctx, beforeKey{}, f)
}

// before calls what BeforeSend left for the request. The fault says that it is
// not to be sent.
func (x *exchange) before(p *Permit) *dialect.Fault {
	f, ok := x.req.Context().Value(beforeKey{}).(func(ctx context.Context) error)
	if !ok || f(x.req.Context()) == nil {
		return nil
	}
	p.Done(model.Outcome{Unsent: true})
	return &dialect.Fault{Class: model.ClassCanceled, Status: http.StatusServiceUnavailable, Code: "withdrawn", Message: "it was withdrawn before it was sent", Wait: time.Second}
}
