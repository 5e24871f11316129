package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"weir/agent/dialect"
	"weir/model"
)

const (
	headerIdempotency = "Idempotency-Key"
	headerCache       = "X-Weir-Cache"
	// maxIdempotencyKey bounds such a key, in bytes.
	maxIdempotencyKey = 256
)

// bookReader is the body of one client's answer, read from a book.
type bookReader struct {
	book   *book
	off    int64
	closed bool
	late   bool // it was closed since the answer did not begin in time
}

// Read implements io.Reader.
func (r *bookReader) Read(p []byte) (int, error) {
	b := r.book
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if r.closed {
			return 0, errClosed
		}
		if n := copy(p, b.body[r.off-b.base:]); n > 0 {
			r.off += int64(n)
			if b.loose {
				b.cond.Broadcast()
			}
			return n, nil
		}
		if b.ended {
			if b.err != nil {
				return 0, b.err
			}
			return 0, io.EOF
		}
		b.cond.Wait()
	}
}

// Close implements io.Closer. When nobody follows any more the call ends.
func (r *bookReader) Close() error {
	r.leave(false)
	return nil
}

// leave ends the reader; late, only if its answer has not begun.
func (r *bookReader) leave(late bool) {
	b := r.book
	b.shelf.mu.Lock()
	defer b.shelf.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if late && (b.head != nil || b.ended || r.closed) {
		return
	}
	r.closed, r.late = true, r.late || late
	delete(b.readers, r)
	if len(b.readers) == 0 && b.cancel != nil {
		b.shelf.remove(b) // nobody may follow what is given up
		b.cancel()
		b.cancel = nil
	}
	b.cond.Broadcast()
}

// head waits for the answer's head.
func (r *bookReader) head() (*http.Response, error) {
	b := r.book
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.head == nil && !b.ended && !r.closed {
		b.cond.Wait()
	}
	switch {
	case r.late:
		return nil, errDeadline
	case r.closed:
		return nil, errClosed
	case b.head == nil:
		return nil, b.err
	}
	return b.head, nil
}

// shared says which kept answers serve a request: those of its
// Idempotency-Key, or of the cache. A nil shelf means none.
func (x *exchange) shared() (s *shelf, key shelfKey, asks shelfPrint) {
	t := x.transport
	h := x.req.Header
	name := h.Get(headerIdempotency)
	switch {
	case x.req.Method != http.MethodPost, name == "" && !t.cache.enabled() && !t.semantic.enabled(), x.observed():
	case name != "" && t.replays.enabled():
		return t.replays, sha256.Sum256(fmt.Appendf(nil, "%q %q %q", x.owner(), x.req.URL.Path, name)), x.asks(x.body.Raw())
	case name != "" || x.kept || !x.cacheable():
	case t.semantic.enabled() && x.questions():
		asks = x.asks(x.body.Normal(t.client.cfg.Cache.Ignore))
		return t.semantic, sha256.Sum256(append([]byte(x.owner()), asks[:]...)), asks
	case !t.cache.enabled():
	default:
		asks = x.asks(x.body.Normal(t.client.cfg.Cache.Ignore))
		return t.cache, sha256.Sum256(append([]byte(x.owner()), asks[:]...)), asks
	}
	return nil, key, asks
}

// questions reports whether the request may be compared by its meaning.
func (x *exchange) questions() bool {
	_, _, ok := x.body.Question(x.dialect)
	return ok
}

// owner tells clients apart: none gets what another was answered.
func (x *exchange) owner() string {
	h := x.req.Header
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", h.Get("Authorization"), h.Get("X-Api-Key"), h.Get("Api-Key")))
	return fmt.Sprintf("%x %s", sum, x.request.Tenant)
}

// asks is what the request asks with that body.
func (x *exchange) asks(body []byte) (p shelfPrint) {
	h := x.req.Header
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q %q %q\n", x.req.URL.RequestURI(), x.request.Route, x.request.Capability, h["Anthropic-Version"], h["Anthropic-Beta"])
	sum.Write(body) // a hash never fails
	return shelfPrint(sum.Sum(p[:0]))
}

// cacheable reports whether the client lets the cache answer.
func (x *exchange) cacheable() bool {
	h := x.req.Header
	control := h.Get("Cache-Control")
	return !strings.Contains(control, "no-store") && !strings.Contains(control, "no-cache") && h.Get(headerCache) != "off"
}

// follow answers from a kept answer, or from a call on its way, or makes the
// call and lets others follow.
func (x *exchange) follow(s *shelf, key shelfKey, asks shelfPrint) (*http.Response, error) {
	r, fresh := x.enter(s, key, asks)
	if r == nil {
		x.release()
		return x.refuse(mistake(http.StatusUnprocessableEntity, "idempotency_key_reuse", "this Idempotency-Key was used for another request")), nil
	}
	client := x.req.Context()
	if fresh {
		ctx, cancel := context.WithCancel(context.WithoutCancel(client))
		r.book.mu.Lock()
		r.book.cancel = cancel
		r.book.mu.Unlock()
		x.req = x.req.WithContext(ctx)
		go x.write(r.book, cancel)
	} else {
		x.release()
		over := time.AfterFunc(time.Until(x.due()), func() { r.leave(true) })
		defer over.Stop()
	}
	stop := context.AfterFunc(client, func() { _ = r.Close() })
	head, err := r.head()
	late := errors.Is(err, errDeadline)
	if !fresh && !late {
		x.followed(head, err)
	}
	if err != nil {
		stop()
		_ = r.Close()
		switch {
		case client.Err() != nil:
			err = context.Cause(client)
		case late:
			return x.refuse(&dialect.Fault{Class: model.ClassCanceled, Code: codeOf(model.ClassCanceled), Message: "the same call is on its way, and its answer did not begin before the deadline", Wait: -1}), nil
		}
		return nil, err
	}
	resp := *head
	resp.Header = head.Header.Clone()
	resp.Request = x.req
	resp.Body = following{r, stop}
	if !fresh {
		resp.Header.Set(headerCache, "hit")
		if x.near {
			resp.Header.Set(headerCache, "similar")
		}
		resp.Header.Set(headerAttempts, "0")
	}
	return &resp, nil
}

// following is a bookReader that ends its watch over the client too.
type following struct {
	*bookReader
	stop func() bool
}

// Close implements io.Closer.
func (f following) Close() error {
	f.stop()
	return f.bookReader.Close()
}

// write makes the call and writes its answer down. It ends when the answer
// does, or when nobody follows it any more.
func (x *exchange) write(b *book, cancel func()) {
	defer cancel()
	resp, err := x.run()
	if err != nil {
		b.end(err, false, time.Now())
		return
	}
	defer resp.Body.Close()
	head := *resp
	head.Body = nil
	b.begin(&head)
	chunk := x.transport.chunks.Get().(*[chunkSize]byte)
	defer x.transport.chunks.Put(chunk)
	for err == nil {
		var n int
		if n, err = resp.Body.Read(chunk[:]); n > 0 {
			b.write(chunk[:n])
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	b.end(err, err == nil && x.answered(resp), time.Now())
}

// answered reports whether the request came to a whole answer of the tier it
// is meant for, which may be given again.
func (x *exchange) answered(resp *http.Response) bool {
	a, ok := resp.Body.(*attempt)
	return ok && a.exposed && a.outcome.Class == model.ClassOK && !a.permit.Degraded
}
