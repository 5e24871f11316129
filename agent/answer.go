package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/agent/classify"
	"weir/agent/dialect"
	"weir/model"
)

// Read implements io.Reader: the answer's body as the client sees it. It asks
// the provider for more only when the client has taken what there was.
func (a *attempt) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.taken == len(a.out) {
		if a.end != nil {
			return 0, a.end
		}
		a.out, a.taken = a.out[:0], 0
		a.fill()
	}
	n := copy(p, a.out[a.taken:])
	a.taken += n
	return n, nil
}

// Close implements io.Closer. It settles the attempt if its end was not seen.
func (a *attempt) Close() error {
	a.cancel(errClosed) // ends a Read on its way
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end == nil {
		a.finish(errClosed)
	}
	a.drop()
	return nil
}

// fill reads the next piece of the answer into out.
func (a *attempt) fill() {
	pool := &a.x.transport.chunks
	chunk := pool.Get().(*[chunkSize]byte)
	defer pool.Put(chunk)
	n, err := a.resp.Body.Read(chunk[:])
	if n > 0 {
		a.take(chunk[:n])
	}
	if err != nil {
		a.finish(err)
	}
}

func (a *attempt) take(p []byte) {
	a.bytes += int64(len(p))
	if !a.began {
		a.began = true
		a.events = isEvents(a.resp, p)
	}
	_, _ = a.judge.Write(p)
	if a.x.body.Stream && !a.token && a.judge.Content() {
		a.token = true
		a.permit.FirstToken()
	}
	if !a.events {
		a.out = append(a.out, p...)
		if a.looks() {
			a.made = dialect.MadeBy(a.out)
		}
		return
	}
	_, _ = a.framer.Write(p)
	for frame, whole := a.framer.Next(); frame != nil; frame, whole = a.framer.Next() {
		a.pass(frame, whole)
	}
}

// isEvents reports whether an answer is an event stream that can be read, by
// its header or by how it begins.
func isEvents(r *http.Response, p []byte) bool {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return false
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		return true
	}
	return r.StatusCode < 300 && (bytes.HasPrefix(p, []byte("data:")) || bytes.HasPrefix(p, []byte("event:")))
}

// pass passes a frame on, except a chunk that is there only because this side
// asked for the usage, and what follows the mark of the end: a client that has
// its answer must not take an error for its end.
func (a *attempt) pass(frame []byte, whole bool) {
	a.frames++
	if a.looks() {
		data, _ := dialect.Data(frame)
		a.made = dialect.MadeBy(data)
	}
	if a.marked {
		return
	}
	if whole && !a.x.body.WantsUsage && dialect.UsageOnly(frame) {
		return
	}
	a.out = append(a.out, frame...)
	a.marked = a.marked || a.marks(frame)
	if whole && !a.last && (a.marked || a.judge.Terminal() && !a.marksDone()) {
		a.last = true
		if a.timer != nil {
			a.timer.Stop()
		}
		a.timer = time.AfterFunc(linger, func() { a.cancel(errLinger) })
	}
}

// marksDone reports whether the API's streams end with [DONE].
func (a *attempt) marksDone() bool {
	return a.x.dialect == dialect.Chat || a.x.dialect == dialect.Completions
}

// marks reports whether a frame is the one that nothing follows.
func (a *attempt) marks(frame []byte) bool {
	switch a.x.dialect {
	case dialect.Chat, dialect.Completions:
		data, ok := dialect.Data(frame)
		return ok && string(data) == "[DONE]"
	case dialect.Messages:
		return isType(frame, "message_stop")
	case dialect.Responses:
		return a.judge.Terminal() && isType(frame, "response.completed", "response.incomplete", "response.done")
	case dialect.Other, dialect.Embeddings, dialect.Media, dialect.Count, dialect.Batches:
	}
	return false
}

// isType reports whether a frame is an event of one of those types.
func isType(frame []byte, names ...string) bool {
	data, ok := dialect.Data(frame)
	if !ok || !slices.ContainsFunc(names, func(name string) bool { return bytes.Contains(data, []byte(name)) }) {
		return false
	}
	var head struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(data, &head) == nil && slices.Contains(names, head.Type)
}

// finish takes the end of the answer: io.EOF, or what broke it off.
func (a *attempt) finish(err error) {
	broken := err
	text := ""
	if errors.Is(err, io.EOF) {
		broken = nil
	} else {
		text = err.Error()
	}
	v := a.judge.Close(time.Now(), text)
	if a.x.kept && a.resp.StatusCode < 300 && v.Class != model.ClassTransport {
		// What it tells of, such as a batch that failed, is not the call, nor
		// is the usage it shows the call's.
		v = classify.Verdict{Class: model.ClassOK, RetryAfter: -1, Hints: v.Hints, Rule: "agent/kept@1"}
		v.Usage.Known = true
	}
	a.end = io.EOF
	if v.Class == model.ClassOK {
		a.exposed = true
	}
	if a.exposed {
		a.settle(v, broken)
	} else {
		a.judged(v, broken)
	}
	ok := a.outcome.Class == model.ClassOK
	switch {
	case !a.events && broken != nil && !ok:
		a.end = fmt.Errorf("read the answer: %w", broken)
	case a.marked:
	case a.events && broken == nil && (ok || a.judge.Failed()):
		a.out = append(a.out, a.framer.Rest()...)
	case a.events && ok:
		a.complete()
	case a.events && !ok && !a.judge.Failed():
		a.out = append(a.out, a.brokenOff()...)
	}
}

// complete ends a stream that broke off between its end and the mark of it:
// with the rest of its last event, where only the blank line is missing, and
// with the mark.
func (a *attempt) complete() {
	rest := a.framer.Rest()
	if data, ok := dialect.Data(rest); ok && (json.Valid(data) || a.marks(rest)) {
		a.out = append(append(a.out, bytes.TrimRight(rest, "\r\n")...), "\n\n"...)
	}
	switch {
	case a.marks(rest):
	case a.marksDone():
		a.out = append(a.out, "data: [DONE]\n\n"...)
	case a.x.dialect == dialect.Messages:
		a.out = append(a.out, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
	}
}

// brokenOff is the frame that tells a client that its stream will not end
// regularly.
func (a *attempt) brokenOff() []byte {
	f := a.fault(a.permit.Channel, "the stream broke off before its end", -1)
	return f.Frame(a.x.dialect)
}

// fault is the attempt's failure as a client is told it.
func (a *attempt) fault(channel, message string, wait time.Duration) *dialect.Fault {
	o := &a.outcome
	f := &dialect.Fault{Class: o.Class, Code: o.Code, Message: message, Channel: channel, Wait: wait, Request: a.x.name()}
	if f.Code == "" {
		f.Code = codeOf(o.Class)
	}
	return f
}

// failed is the fault that tells of the request's last attempt.
func (a *attempt) failed(e *FailedError) *dialect.Fault {
	o := &e.Outcome
	what := "the provider's answer: " + o.Class.String()
	if o.Code != "" {
		what += ", code " + o.Code
	}
	if o.Status != 0 {
		what += fmt.Sprintf(", status %d", o.Status)
	}
	if e.Reason != "" {
		what += "; " + e.Reason
	}
	wait := e.Wait
	if wait <= 0 {
		wait = o.RetryAfter.Duration()
	}
	return a.fault(e.Channel, what, known(wait))
}

// verbatim reports whether the client should see the provider's refusal
// itself: its own mistake is told best by who found it, and where Weir only
// observes it stays out of the way.
func (a *attempt) verbatim() bool {
	switch {
	case a.resp == nil || a.end == nil:
		return false
	case a.resp.StatusCode >= 400 && a.outcome.Class == model.ClassInvalid:
		return true
	}
	return a.observed()
}

// response is the answer with the attempt as its body.
func (a *attempt) response() *http.Response {
	h := clientHeader(a.resp.Header)
	a.x.tell(h)
	r := a.x.whole(a.resp.StatusCode, h, a.out)
	if !a.exposed {
		if !a.observed() {
			h.Set("X-Should-Retry", "false")
		}
		return r
	}
	r.Body = a
	if a.end == nil || a.events {
		r.ContentLength = -1
	}
	if a.events {
		h.Set("X-Accel-Buffering", "no")
	}
	return r
}
