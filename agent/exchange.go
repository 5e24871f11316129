package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/agent/dialect"
	"weir/agent/trace"
	"weir/model"
)

// The headers a client may set, beside those that tell it what happened.
const (
	headerTenant   = "X-Weir-Tenant"
	headerPriority = "X-Weir-Priority"
	headerCore     = "X-Weir-Core"
	headerDeadline = "X-Weir-Deadline-Ms"
	headerRoute    = "X-Weir-Route"
	headerTask     = "X-Weir-Task"
	headerNeed     = "X-Weir-Capability"

	headerRequest  = "X-Weir-Request"
	headerChannel  = "X-Weir-Channel"
	headerTier     = "X-Weir-Tier"
	headerDegraded = "X-Weir-Degraded"
	headerAttempts = "X-Weir-Attempts"
	headerQueued   = "X-Weir-Queued-Ms"
	headerWarning  = "X-Weir-Warning"
)

// firstRead is the most room that is made for a body before any of it came, in
// bytes.
const firstRead = 1 << 20

// longestDeadline bounds what a client may set.
const longestDeadline = 24 * time.Hour

// exchange is one client's request on its way.
type exchange struct {
	transport *Transport
	req       *http.Request
	came      time.Time
	id        uint64
	dialect   dialect.Dialect
	body      *dialect.Body
	kept      bool  // it is about what stays at the account
	held      int64 // bytes of the body, taken from the quota
	request   Request
	attempts  int
	task      *task
	taskEnds  time.Time
	entered   bool           // it counts among the task's calls on their way
	fault     *dialect.Fault // why no channel was asked
	last      *Permit
	near      bool // answered as another that means nearly the same
	// hurried is set when the request's deadline is when its client will have
	// gone; usual is what it would be otherwise.
	hurried bool
	usual   time.Time
	span    *trace.Span
}

// read reads what the request is; the fault is the client's.
func (x *exchange) read() *dialect.Fault {
	if x.req.Body != nil {
		defer x.req.Body.Close()
	}
	d, ok := dialect.Of(x.req.URL.Path)
	if d == dialect.Chat && x.req.Method == http.MethodGet {
		d = dialect.Other // the list of those that were stored
	}
	x.dialect = d
	switch {
	case !ok:
		return mistake(http.StatusNotFound, "unknown_path", "no such path; calls go to /v1/...")
	case x.req.Header.Get("Upgrade") != "":
		return mistake(http.StatusNotImplemented, "no_upgrade", "calls over a WebSocket do not pass")
	case !method(d, x.req.Method):
		return mistake(http.StatusMethodNotAllowed, "method_not_allowed", "only POST goes to a model")
	}
	raw, fault := x.readBody()
	if fault != nil {
		return fault
	}
	body, err := dialect.Read(d, x.req.Header.Get("Content-Type"), raw)
	if err != nil {
		return mistake(http.StatusBadRequest, "invalid_body", err.Error())
	}
	x.body = body
	x.kept = d.Kept() && (x.req.Method != http.MethodPost || body.Model == "")
	if x.kept && x.req.URL.Query().Get("stream") == "true" {
		body.Stream = true
	}
	return x.readRequest()
}

// method reports whether a dialect has calls of that method: what computes is
// only posted to.
func method(d dialect.Dialect, name string) bool {
	switch name {
	case http.MethodPost:
		return true
	case http.MethodGet, http.MethodDelete, http.MethodPut, http.MethodPatch:
		return d.Kept()
	}
	return false
}

func (x *exchange) readRequest() *dialect.Fault {
	f := x.transport.client.fleet.Load()
	h := x.req.Header
	route, fault := x.route(f)
	if fault != nil {
		return fault
	}
	x.request = Request{
		ID:         x.id,
		Route:      route,
		Priority:   model.PriorityNormal,
		Core:       x.kept || h.Get(headerCore) == "true" || h.Get(headerCore) == "1",
		Capability: h.Get(headerNeed),
		Tokens:     1,
	}
	if !x.kept {
		input := x.input(f.routes[route])
		if fault := x.oversize(input, route); fault != nil {
			return fault
		}
		if fault := x.endless(input, x.body.MaxOutput, f.routes[route]); fault != nil {
			return fault
		}
		x.request.Tokens = x.reserve(input, x.body.Output(x.dialect, x.transport.client.cfg.Output), f.routes[route])
	}
	if tenant, ok := f.tenants[h.Get(headerTenant)]; ok {
		x.request.Tenant, x.request.Priority = tenant.Name, tenant.Priority
	}
	return x.readTerms()
}

// readTerms reads how urgent the client says the request is.
func (x *exchange) readTerms() *dialect.Fault {
	h := x.req.Header
	if name := h.Get(headerPriority); name != "" {
		priority, ok := model.ParsePriority(name)
		if !ok {
			return mistake(http.StatusBadRequest, "invalid_priority", headerPriority+" is batch, normal or interactive")
		}
		x.request.Priority = priority
	}
	if ms := h.Get(headerDeadline); ms != "" {
		n, err := strconv.ParseInt(ms, 10, 64)
		if err != nil || n <= 0 {
			return mistake(http.StatusBadRequest, "invalid_deadline", headerDeadline+" is a number of milliseconds above 0")
		}
		x.request.Deadline = x.came.Add(time.Duration(min(n, longestDeadline.Milliseconds())) * time.Millisecond)
	}
	if len(h.Get(headerIdempotency)) > maxIdempotencyKey {
		return mistake(http.StatusBadRequest, "invalid_idempotency_key", fmt.Sprintf("an Idempotency-Key has at most %d bytes", maxIdempotencyKey))
	}
	return x.readTask(h.Get(headerTask))
}

// readTask makes the request part of a task.
func (x *exchange) readTask(name string) *dialect.Fault {
	switch {
	case name == "":
		return nil
	case len(name) > maxTaskName:
		return mistake(http.StatusBadRequest, "invalid_task", fmt.Sprintf("%s has at most %d bytes", headerTask, maxTaskName))
	}
	x.task, x.taskEnds = x.transport.tasks.get(x.owner()+" "+name, x.came)
	if ends := x.taskEnds; x.request.Deadline.IsZero() || ends.Before(x.request.Deadline) {
		total := x.transport.client.Fleet().Retry.Total.Duration()
		if usual := x.came.Add(total); x.request.Deadline.IsZero() && total > 0 && usual.Before(ends) {
			ends = usual
		}
		x.request.Deadline = ends
	}
	return nil
}

// input is the estimated input as the channel of the route's first tier counts
// it that counts most.
func (x *exchange) input(route *model.RouteConfig) model.Tokens {
	if len(route.Tiers) == 0 || len(route.Tiers[0].Channels) == 0 {
		return x.body.Input
	}
	var most model.Tokens
	for _, w := range route.Tiers[0].Channels {
		most = max(most, x.transport.client.estimates.correct(w.Channel, x.body.Input))
	}
	return most
}

// defaultRoute is the route of a request that names none, if there is one of
// that name.
const defaultRoute = "default"

// route returns the route that a request is for: the model it names, or, where
// none needs to be named, what the header says, the only route there is, or
// that named default.
func (x *exchange) route(f *fleet) (string, *dialect.Fault) {
	name := x.body.Model
	if name == "" {
		name = x.req.Header.Get(headerRoute)
	}
	if name == "" && len(f.config.Routes) == 1 {
		name = f.config.Routes[0].Name
	}
	if name == "" {
		name = defaultRoute
		if f.routes[name] == nil {
			return "", mistake(http.StatusBadRequest, "no_route", "the request names no model; name a route in "+headerRoute)
		}
	}
	if f.routes[name] == nil {
		return "", mistake(http.StatusNotFound, "model_not_found", fmt.Sprintf("no route is named %q; GET /v1/models lists them", name))
	}
	return name, nil
}

// readBody reads the body within its own bound and that of all together; of one
// that is refused, it reads on as far as a body might have gone.
func (x *exchange) readBody() ([]byte, *dialect.Fault) {
	if x.req.Body == nil {
		return nil, nil
	}
	buf, fault := x.keepBody()
	if fault != nil {
		// Who is still sending would see its connection break, and not the
		// refusal; and its SDK would send all of it again.
		_, _ = io.CopyN(io.Discard, x.req.Body, 2*x.transport.client.cfg.MaxBody)
	}
	return buf, fault
}

func (x *exchange) keepBody() ([]byte, *dialect.Fault) {
	limit := x.transport.client.cfg.MaxBody
	if x.req.ContentLength > limit {
		return nil, x.tooLarge()
	}
	// One byte more than the length told, so that the end shows without
	// growing; but what is only told takes no more than firstRead.
	size := min(max(x.req.ContentLength+1, 4<<10), firstRead)
	var buf []byte
	for {
		if !x.transport.bodies.take(size - int64(cap(buf))) {
			return nil, &dialect.Fault{Class: model.ClassOverloaded, Code: "too_many_bodies", Message: "too many large requests at the same time", Wait: time.Second}
		}
		x.held += size - int64(cap(buf))
		buf = append(make([]byte, 0, size), buf...)
		for len(buf) < cap(buf) {
			n, err := x.req.Body.Read(buf[len(buf):cap(buf)])
			buf = buf[:len(buf)+n]
			switch {
			case int64(len(buf)) > limit:
				return nil, x.tooLarge()
			case errors.Is(err, io.EOF):
				return buf, nil
			case err != nil:
				return nil, mistake(http.StatusBadRequest, "invalid_body", "the request body broke off")
			}
		}
		size *= 2
	}
}

func (x *exchange) tooLarge() *dialect.Fault {
	return mistake(http.StatusRequestEntityTooLarge, "request_too_large",
		fmt.Sprintf("the request body is over %d bytes", x.transport.client.cfg.MaxBody))
}

// release gives back what the request held, once it has ended.
func (x *exchange) release() {
	x.transport.bodies.give(x.held)
	x.held = 0
	if x.entered {
		x.entered = false
		x.task.leave()
	}
}

// mistake is a fault of the client.
func mistake(status int, code, message string) *dialect.Fault {
	return &dialect.Fault{Class: model.ClassInvalid, Status: status, Code: code, Message: message, Wait: -1}
}

// refuse answers with a fault.
func (x *exchange) refuse(f *dialect.Fault) *http.Response {
	x.refused(f)
	h := http.Header{"Content-Type": {"application/json"}}
	x.tell(h)
	if f.Channel != "" {
		h.Set(headerChannel, f.Channel)
	}
	f.Request = x.name()
	h.Set(requestHeader(x.dialect), f.Request)
	status := f.HTTPStatus()
	if !f.Again {
		h.Set("X-Should-Retry", "false")
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		wait := max(1, math.Ceil(f.Wait.Seconds()))
		h.Set("Retry-After", strconv.FormatFloat(wait, 'f', 0, 64))
	}
	return x.whole(status, h, f.JSON(x.dialect))
}

// requestHeader is where an API's clients look for a request's id.
func requestHeader(d dialect.Dialect) string {
	if d.Anthropic() {
		return "Request-Id"
	}
	return "X-Request-Id"
}

// rule answers with a route's fixed answer.
func (x *exchange) rule(e *RuledError) *http.Response {
	text := strings.NewReplacer("{route}", x.request.Route, "{request}", x.name(), "{class}", e.Class.String()).Replace(e.Answer)
	body, ok := dialect.Answer(x.dialect, x.body.Stream, x.name(), x.request.Route, text)
	if !ok {
		return x.refuse(&dialect.Fault{Class: e.Class, Code: codeOf(e.Class), Message: text, Wait: -1})
	}
	h := http.Header{"Content-Type": {"application/json"}}
	if x.body.Stream {
		h.Set("Content-Type", "text/event-stream")
	}
	x.tell(h)
	h.Set(headerTier, strconv.Itoa(e.Tier))
	h.Set(headerDegraded, "true")
	h.Del(headerChannel)
	x.ruled(e)
	return x.whole(http.StatusOK, h, body)
}

// name is the request's id as a client sees it.
func (x *exchange) name() string { return requestName(x.id) }

func requestName(id uint64) string { return fmt.Sprintf("%016x", id) }

// tell sets the headers that say what happened to the request.
func (x *exchange) tell(h http.Header) {
	h.Set(headerRequest, x.name())
	h.Set(headerAttempts, strconv.Itoa(x.attempts))
	if text := x.transport.client.Warning(x.request.Tenant); text != "" {
		h.Set(headerWarning, text)
	}
	p := x.last
	if p == nil {
		return
	}
	h.Set(headerChannel, p.Channel)
	h.Set(headerTier, strconv.Itoa(p.Tier))
	h.Set(headerQueued, strconv.FormatInt(p.Queued.Milliseconds(), 10))
	if p.Degraded {
		h.Set(headerDegraded, "true")
	}
}

// whole is an answer whose body is known.
func (x *exchange) whole(status int, h http.Header, body []byte) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Request: x.req,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// codeOf is a machine's word for a refusal that has no code of a provider.
func codeOf(c model.Class) string {
	switch c {
	case model.ClassRateLimited:
		return "rate_limit_exceeded"
	case model.ClassOverloaded:
		return "overloaded"
	case model.ClassQuotaExhausted:
		return "insufficient_quota"
	case model.ClassAuth:
		return "channel_misconfigured"
	case model.ClassInvalid:
		return "invalid_request"
	case model.ClassTransport:
		return "upstream_unreachable"
	case model.ClassCanceled:
		return "deadline_exceeded"
	case model.ClassOK:
	}
	return "unavailable"
}
