package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"weir/agent/dialect"
	"weir/model"
)

// Transport is an http.RoundTripper that does whole calls under the client's
// control: it picks the channel, waits for a permit, sends, judges the answer
// and repeats where that is allowed. The URL's path, from /v1/ on, says which
// API is spoken; its host means nothing, for the channel's upstream decides.
//
// A request's X-Weir-Tenant, -Priority, -Core, -Capability, -Deadline-Ms, -Task
// and -Route are read; a tenant that the fleet does not have counts as none. What
// an SDK says of its own timeout bounds the deadline of an answer that comes whole.
// The answer to a call with an Idempotency-Key is kept and given again. The
// answer carries
// X-Weir-Request, -Channel, -Tier, -Degraded, -Attempts and -Queued-Ms. A
// request that no provider answered gets a made answer, in the shape of its
// API, with status 429 or 503, or 4xx for its own mistake; an error is returned
// only when the request's context ended.
//
// An answer is held back until it is known to be one: a stream until its
// first event with content, any other body until its end, both bounded. From
// then on it passes as it comes and nothing is repeated; the attempt is
// settled when its body ends or is closed.
type Transport struct {
	client *Client
	pools  map[string]*pool // by channel
	bodies quota
	chunks sync.Pool
	tasks  *tasks
	// replays keeps answers by Idempotency-Key, cache by the request itself,
	// semantic by what it means.
	replays, cache, semantic *shelf
	embedFailed              atomic.Int64 // when, on the client's clock; 0 for never
}

const (
	// chunkSize is the most that is read of an answer at once.
	chunkSize = 32 << 10
	// leastBodies is the least room for all requests' bodies together, in
	// bytes.
	leastBodies = 256 << 20
)

// Transport returns a transport for the client's upstreams. A client needs
// one.
func (c *Client) Transport() *Transport {
	t := &Transport{
		client: c, pools: make(map[string]*pool, len(c.targets)), tasks: newTasks(c.cfg.Task),
		replays: newShelf("idempotency", c.cfg.Idempotency, c.cfg.Metrics),
		cache:   newShelf("exact", c.cfg.Cache.KeepConfig, c.cfg.Metrics),

		semantic: newShelf("semantic", c.cfg.Semantic.KeepConfig, c.cfg.Metrics),
	}
	t.bodies.limit = max(leastBodies, 4*c.cfg.MaxBody)
	t.chunks.New = func() any { return new([chunkSize]byte) }
	for name := range c.targets {
		t.pools[name] = c.newPool()
	}
	c.cfg.Metrics.RegisterMetricsWriter(t.writeMetrics)
	return t
}

// CloseIdleConnections closes the connections that no call uses.
func (t *Transport) CloseIdleConnections() {
	for _, p := range t.pools {
		p.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &exchange{transport: t, req: req, came: time.Now(), id: rand.Uint64()}
	x.span = t.client.tracer.Start(req.Context(), req.Header, x.came)
	if fault := x.read(); fault != nil {
		x.release()
		t.client.ended(x.request.Route, endedMistake, model.Nanos(time.Since(x.came)))
		return x.refuse(fault), nil
	}
	if s, key, asks := x.shared(); s != nil {
		return x.follow(s, key, asks)
	}
	x.hurry()
	return x.run()
}

// run makes the attempts of a request.
func (x *exchange) run() (*http.Response, error) {
	ctx := x.req.Context()
	fault, err := x.join(ctx)
	if err != nil {
		x.release()
		x.gone()
		return nil, err
	}
	if fault == nil {
		fault = x.budgeted()
	}
	if fault != nil {
		x.release()
		x.transport.client.ended(x.request.Route, endedRefused, model.Nanos(time.Since(x.came)))
		return x.refuse(fault), nil
	}
	p, err := x.transport.client.Acquire(ctx, x.request)
	if err == nil {
		if fault := x.before(p); fault != nil {
			x.release()
			return x.refuse(fault), nil
		}
	}
	var last *attempt
	for err == nil {
		last = x.attempt(p)
		if last.exposed {
			return last.response(), nil
		}
		last.trace()
		p, err = p.next(ctx, last.outcome, x.final(last))
	}
	x.release()
	return x.failed(err, last)
}

// join waits until the request's task has room for it.
func (x *exchange) join(ctx context.Context) (*dialect.Fault, error) {
	if x.task == nil || x.observed() {
		return nil, nil
	}
	until, cancel := context.WithDeadline(ctx, x.request.Deadline)
	defer cancel()
	x.entered = x.task.enter(until.Done())
	switch {
	case x.entered:
		return nil, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return &dialect.Fault{Class: model.ClassCanceled, Code: "task_parallel_exceeded", Message: "the task has as many calls on their way as it may, until the deadline", Wait: -1}, nil
}

// budgeted takes the first attempt from the request's task, if it has one.
func (x *exchange) budgeted() *dialect.Fault {
	wait := time.Until(x.taskEnds.Add(x.transport.tasks.cfg.Total)) // until the name stands for another
	switch {
	case x.task == nil, x.observed():
	case !time.Now().Before(x.taskEnds):
		return &dialect.Fault{Class: model.ClassCanceled, Code: "task_time_exceeded", Message: "the time of the task is over", Wait: wait}
	case !x.task.take():
		return &dialect.Fault{Class: model.ClassOverloaded, Code: "task_retries_exhausted", Message: "the last call of the task failed and its retries are used up", Wait: wait}
	}
	return nil
}

// observed reports whether nothing binds here: then a request passes as if
// there were no task, no kept answer and no rule on its members.
func (x *exchange) observed() bool { return x.transport.client.Mode() == model.ModeObserve }

// final says why an attempt must be the request's last whatever the gate would
// allow, empty if it need not.
func (x *exchange) final(last *attempt) string {
	c := last.outcome.Class
	if !last.outcome.Unsent {
		x.task.ended(c)
	}
	switch {
	case last.outcome.Unsent || c == model.ClassOK || c == model.ClassInvalid || c == model.ClassCanceled:
	case c == model.ClassTransport && last.reached && x.dialect.Kept() && x.req.Method != http.MethodGet:
		return "the provider may have done it already"
	case !x.task.take():
		return "the retries of the task are used up"
	}
	return ""
}

// failed answers a request that no attempt answered.
func (x *exchange) failed(err error, last *attempt) (*http.Response, error) {
	var refusal *RefusedError
	var failure *FailedError
	var ruled *RuledError
	switch {
	case x.fault != nil:
		return x.refuse(x.fault), nil
	case errors.As(err, &refusal):
		f := &dialect.Fault{
			Class: refusal.Class, Code: codeOf(refusal.Class), Message: refusal.Reason,
			Channel: refusal.Channel, Wait: known(refusal.Wait), Position: refusal.Position,
		}
		ahead, ok := x.transport.client.Forecast(x.request.Route, x.request.Priority)
		if ok && f.Wait >= 0 && f.Class != model.ClassQuotaExhausted { // no queue leads past a reset
			if ahead.Most >= 0 {
				f.Most = max(ahead.Most, f.Wait)
			}
			if f.Position == 0 {
				f.Position = ahead.Position
			}
		}
		if x.transport.client.stopping.Load() && f.Class == model.ClassOverloaded {
			f.Code, f.Wait, f.Again = "agent_stopping", time.Second, true
		}
		return x.refuse(f), nil
	case errors.As(err, &failure):
		if last.verbatim() {
			last.ended()
			return last.response(), nil
		}
		return x.refuse(last.failed(failure)), nil
	case errors.As(err, &ruled):
		return x.rule(ruled), nil
	}
	x.gone()
	return nil, err
}

// known returns a wait for a fault, where unknown is negative.
func known(wait time.Duration) time.Duration {
	if wait <= 0 {
		return -1
	}
	return wait
}

// quota bounds the bytes that many hold together.
type quota struct {
	limit int64
	used  atomic.Int64
}

// take takes n bytes; it reports whether there was room.
func (q *quota) take(n int64) bool {
	if q.used.Add(n) > q.limit {
		q.used.Add(-n)
		return false
	}
	return true
}

func (q *quota) give(n int64) { q.used.Add(-n) }
