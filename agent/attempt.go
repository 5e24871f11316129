package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/agent/classify"
	"weir/agent/dialect"
	"weir/model"
)

const (
	// maxHeldStream is how much of a stream is held back at most while its
	// first content is awaited, in bytes.
	maxHeldStream = 16 << 10
	// maxHeldBody is the same of any other body: a longer one passes as it
	// comes and can no longer be repeated.
	maxHeldBody = 1 << 20
	// linger is how long a stream may stay open after its last event.
	linger = time.Second
)

// What ends an attempt from this side.
var (
	errFirstToken = errors.New("no token of the answer within timeouts.first_token")
	errDeadline   = errors.New("the attempt's deadline passed")
	errClosed     = errors.New("the client closed the answer")
	errLinger     = errors.New("the stream stayed open after its end")
)

// attempt is one try of an exchange and, once it is exposed, the body of the
// answer that the client reads.
type attempt struct {
	x      *exchange
	permit *Permit
	ctx    context.Context
	cancel context.CancelCauseFunc
	free   context.CancelFunc
	timer  *time.Timer // first token, then linger
	sent   time.Time
	// unwatch ends the watch over an exposed answer that nobody reads.
	unwatch func() bool

	mu     sync.Mutex // Read and Close may meet
	resp   *http.Response
	judge  *classify.Stream
	framer dialect.Framer
	events bool // the body is an event stream
	began  bool // its first bytes came
	last   bool // nothing of worth may follow in the stream
	marked bool // the event that marks the stream's end was passed on
	frames int64
	bytes  int64
	out    []byte // what the client has not read yet
	taken  int    // of out
	end    error  // what follows out

	made    string // the model that says it answers, once a span wants to know
	reached bool   // the provider may have got the request
	token   bool   // the first token was noted
	exposed bool   // the answer is the client's: nothing is repeated
	settled bool
	outcome model.Outcome
}

// attempt sends the request on a permit's channel and holds the answer back
// until it is known to be one, or not.
func (x *exchange) attempt(p *Permit) *attempt {
	a := &attempt{x: x, permit: p}
	target := x.transport.client.targets[p.Channel]
	if target == nil { // a channel of the log that this agent knows no place for
		a.outcome = model.Outcome{Unsent: true}
		return a
	}
	if field := x.body.Has(target.Refuse); field != "" && !x.observed() {
		x.fault = mistake(http.StatusBadRequest, "unsupported_field", fmt.Sprintf("channel %s does not take %q", p.Channel, field))
		x.fault.Channel = p.Channel
		a.outcome = model.Outcome{Unsent: true}
		return a
	}
	x.last = p
	x.attempts++
	var ctx context.Context
	ctx, a.cancel = context.WithCancelCause(x.req.Context())
	a.ctx, a.free = context.WithDeadlineCause(ctx, x.ends(p), errDeadline)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.send(target)
	if !a.exposed {
		a.drop()
	}
	return a
}

// send makes the call and reads the answer until it is decided.
func (a *attempt) send(t *target) {
	x := a.x
	timeouts := x.transport.client.Fleet().Timeouts
	a.sent = time.Now()
	if x.body.Stream && timeouts.FirstToken > 0 {
		a.timer = time.AfterFunc(timeouts.FirstToken.Duration(), func() { a.cancel(errFirstToken) })
	}
	resp, err := x.transport.pools[a.permit.Channel].RoundTrip(a.request(t))
	answer := classify.Answer{Provider: x.provider(a.permit.Channel), Stream: x.body.Stream, Now: time.Now()}
	var op *net.OpError
	a.reached = !errors.As(err, &op) || op.Op != "dial"
	if err != nil {
		answer.TransportError = err.Error()
		a.judged(x.transport.client.cfg.Classifier.Classify(answer), err)
		return
	}
	a.resp = resp
	answer.Status, answer.Header = resp.StatusCode, resp.Header
	a.judge = x.transport.client.cfg.Classifier.Stream(answer)
	a.hold()
}

// request is the request as the provider gets it.
func (a *attempt) request(t *target) *http.Request {
	x := a.x
	body := x.body.Rewrite(x.dialect, x.model(a.permit.Channel), !t.NoStreamUsage, t.Drop)
	r := &http.Request{
		Method: x.req.Method, URL: t.url(x.req.URL.Path, upstreamQuery(x.req.URL.RawQuery)), Host: t.base.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: upstreamHeader(x.req.Header), Body: body.Reader(), ContentLength: body.Size(),
		GetBody: body.NewReader,
	}
	if x.body.Stream {
		r.Header.Set("Accept-Encoding", "identity") // a compressed stream comes in lumps
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "weir")
	}
	x.span.Pass(r.Header)
	t.authorize(r.Header, x.dialect, a.sent)
	return r.WithContext(a.ctx)
}

func (x *exchange) provider(channel string) string {
	if ch := x.transport.client.fleet.Load().channels[channel]; ch != nil {
		return ch.Provider
	}
	return ""
}

// hold reads until the answer may be shown to the client, or has failed.
func (a *attempt) hold() {
	for a.end == nil {
		a.fill()
		held, most := len(a.out), maxHeldBody
		if a.events {
			most = maxHeldStream
		}
		switch {
		case a.end != nil:
		case a.judge.Failed() && !a.observed() && !a.x.kept:
			v, _ := a.judge.Failure(time.Now())
			a.judged(v, nil)
			return
		case a.judge.Failed(),
			a.x.body.Stream && (a.judge.Content() || a.judge.Terminal()),
			held > most && (a.resp.StatusCode < 300 || a.observed()),
			a.medium():
			a.expose()
			return
		case held > most: // of a refusal that is enough
			a.judged(a.judge.Close(time.Now(), ""), nil)
			return
		}
	}
}

// medium reports whether the answer is what no envelope of an error is, such
// as sound: it passes as it comes.
func (a *attempt) medium() bool {
	if a.resp.StatusCode >= 300 || !a.began {
		return false
	}
	kind, _, _ := strings.Cut(a.resp.Header.Get("Content-Type"), "/")
	switch strings.ToLower(kind) {
	case "audio", "image", "video":
		return true
	}
	return strings.HasPrefix(a.resp.Header.Get("Content-Type"), "application/octet-stream")
}

// observed reports whether nothing that happens on the channel binds: then the
// client gets what the provider says, as it says it.
func (a *attempt) observed() bool {
	c := a.x.transport.client
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gate.Observes(a.permit.Channel)
}

// expose gives the answer to the client.
func (a *attempt) expose() {
	a.exposed = true
	if a.timer != nil && !a.last {
		a.timer.Stop()
	}
	a.unwatch = context.AfterFunc(a.ctx, func() { _ = a.Close() }) // should nobody read on
}

// judged takes a verdict as the attempt's outcome. err is what broke the
// attempt off, nil if nothing did.
func (a *attempt) judged(v classify.Verdict, err error) {
	x := a.x
	if v.Class == model.ClassTransport && err != nil {
		a.blame(&v)
	}
	x.transport.client.unknown.note(a, &v)
	o := model.Outcome{
		Class: v.Class, Code: v.Code, Dimension: v.Dimension, Scope: model.Scope(v.Scope), RetryAfter: v.RetryAfter, Hints: v.Hints, Rule: v.Rule,
		In: v.Usage.In, Cached: v.Usage.Cached, Out: v.Usage.Out, UsageKnown: v.Usage.Known, Exposed: a.exposed,
	}
	if a.resp != nil {
		o.Status = uint16(a.resp.StatusCode)
		if !o.UsageKnown && a.resp.StatusCode < 300 && a.bytes > 0 && a.worked(v.Class) {
			o.In, o.Out = x.transport.client.estimates.correct(a.permit.Channel, x.body.Input), a.guessOutput()
		}
	}
	x.transport.client.minutes.learn(a.permit.Channel, v.Hints)
	if o.Class == model.ClassOK && o.UsageKnown && !x.kept {
		x.transport.client.estimates.learn(a.permit.Channel, x.body.Input, o.In)
		if rule := x.transport.client.cfg.Budgets[x.request.Route]; rule.Margin > 0 && o.Out > 0 {
			x.transport.client.outputs.learn(x.request.Route, o.Out)
		}
	}
	a.outcome = o
}

// worked reports whether the provider did some work for an attempt of that
// class, so that what is not known of its use is estimated: also where it gave
// up in the middle of its answer.
func (a *attempt) worked(c model.Class) bool {
	return !c.Refused() && c != model.ClassInvalid || a.judge.Content()
}

// blame says whose doing a broken attempt is: the client's, a deadline's that
// left too little time, or the channel's.
func (a *attempt) blame(v *classify.Verdict) {
	cause := context.Cause(a.ctx)
	switch {
	case a.x.req.Context().Err() != nil, errors.Is(cause, errClosed):
		v.Class, v.Rule = model.ClassCanceled, "agent/client-gone@1"
	case errors.Is(cause, errDeadline):
		total := a.x.transport.client.Fleet().Timeouts.Total.Duration()
		if total <= 0 || time.Since(a.sent) < total {
			v.Class, v.Rule = model.ClassCanceled, "agent/deadline@1"
		} else {
			v.Rule = "agent/timeout@1"
		}
	case errors.Is(cause, errFirstToken):
		v.Rule = "agent/first-token@1"
	}
}

// The shape of a stream's frame around its text, and of a whole answer, in
// bytes.
const (
	frameOverhead = 180
	bodyOverhead  = 300
)

// guessOutput estimates the tokens of the answer so far from its bytes.
func (a *attempt) guessOutput() model.Tokens {
	if a.x.body.Output(a.x.dialect, 1) == 0 {
		return 0
	}
	if a.events {
		return model.Tokens(max(a.frames, (a.bytes-frameOverhead*a.frames)/4))
	}
	return model.Tokens(max(1, (a.bytes-bodyOverhead)/4))
}

// settle ends an exposed attempt, once.
func (a *attempt) settle(v classify.Verdict, err error) {
	if a.settled {
		return
	}
	a.settled = true
	a.judged(v, err)
	a.permit.Done(a.outcome)
	a.trace()
	a.ended()
	a.x.task.ended(a.outcome.Class)
	a.x.release()
}

// drop ends what the attempt holds of the network.
func (a *attempt) drop() {
	if a.unwatch != nil {
		a.unwatch()
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.resp != nil {
		a.resp.Body.Close()
	}
	a.cancel(nil)
	a.free()
}
