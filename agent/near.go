package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"weir/model"
)

// SemanticConfig is a cache that answers with what a request was answered that
// means nearly the same: everything but the last text of the user must be
// equal, numbers in that text too, and the text's embedding must be near.
type SemanticConfig struct {
	KeepConfig
	// Route is where embeddings come from: a route whose channels take
	// /v1/embeddings. Empty switches the cache off.
	Route string
	// Threshold is the least cosine of two embeddings that are near; 0 means
	// 0.95.
	Threshold float64
}

func (c SemanticConfig) withDefaults() SemanticConfig {
	switch {
	case c.Route == "":
		c.Bytes = -1
	case c.Bytes == 0:
		c.Bytes = 64 << 20
	}
	if c.For <= 0 {
		c.For = 5 * time.Minute
	}
	if c.Threshold <= 0 {
		c.Threshold = 0.95
	}
	return c
}

const (
	// maxNear bounds the answers that are compared for one owner, the clients
	// of one key and tenant: each is looked at for every request.
	maxNear = 10_000
	// embedWithin bounds the wait for an embedding, maxEmbedding its answer in
	// bytes, maxVector its numbers. After one that could not be had none is
	// asked for during embedPause: a request must not wait for what fails.
	embedWithin  = time.Second
	embedPause   = 5 * time.Second
	maxEmbedding = 1 << 20
	maxVector    = 8192
)

// meaning is what a request means, for a shelf of answers to such.
type meaning struct {
	owner  string
	rest   [32]byte  // everything else
	vector []float32 // of length 1; nil for unknown
}

// size is what it takes on a shelf, about, in bytes.
func (m *meaning) size() int64 { return int64(len(m.owner) + 4*len(m.vector) + 100) }

// near returns the cosine of two vectors of length 1; 0 for two of different
// sizes.
func near(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	var sum float32
	for i, x := range a {
		sum += x * b[i]
	}
	return float64(sum)
}

// enter returns a reader of the answer to a key or, on the shelf of answers by
// meaning, to one that is near.
func (x *exchange) enter(s *shelf, key shelfKey, asks shelfPrint) (r *bookReader, fresh bool) {
	if s != x.transport.semantic || s.holds(key) {
		return s.enter(key, asks, time.Now())
	}
	m := x.means()
	if m != nil {
		if r = s.nearest(m, x.transport.client.cfg.Semantic.Threshold, time.Now()); r != nil {
			x.near = true
			return r, false
		}
	}
	if r, fresh = s.enter(key, asks, time.Now()); fresh && m != nil {
		s.tag(r.book, m)
	}
	return r, fresh
}

// means finds out what the request means; nil when the embedding cannot be had.
func (x *exchange) means() *meaning {
	text, rest, ok := x.body.Question(x.dialect)
	t := x.transport
	if failed := t.embedFailed.Load(); !ok || failed != 0 && time.Since(t.client.instant(model.Nanos(failed))) < embedPause {
		return nil
	}
	vector, err := x.embed(text)
	if err != nil {
		if x.req.Context().Err() == nil {
			t.embedFailed.Store(int64(t.client.now()))
			t.semantic.counts["failed"].Inc()
		}
		return nil
	}
	m := &meaning{owner: x.owner(), rest: rest, vector: vector}
	h := x.req.Header
	m.owner += fmt.Sprintf(" %q %q %q %q %q", x.req.URL.RequestURI(), x.request.Route, x.request.Capability, h["Anthropic-Version"], h["Anthropic-Beta"])
	return m
}

// embed returns a text's embedding, of length 1. It is a call as any other.
func (x *exchange) embed(text string) ([]float32, error) {
	within := min(embedWithin, max(time.Until(x.due()), time.Millisecond))
	ctx, cancel := context.WithTimeout(x.req.Context(), within)
	defer cancel()
	body, err := json.Marshal(map[string]string{"model": x.transport.client.cfg.Semantic.Route, "input": text})
	if err != nil {
		return nil, fmt.Errorf("ask for embedding: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://weir/v1/embeddings", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask for embedding: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(headerTenant, x.request.Tenant)
	req.Header.Set(headerPriority, x.request.Priority.String())
	req.Header.Set(headerDeadline, strconv.FormatInt(max(within.Milliseconds(), 1), 10))
	e := &exchange{transport: x.transport, req: req, came: time.Now(), id: rand.Uint64()}
	if fault := e.read(); fault != nil {
		e.release()
		return nil, errors.New("ask for embedding: " + fault.Code)
	}
	resp, err := e.run()
	if err != nil {
		return nil, fmt.Errorf("ask for embedding: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask for embedding: status %d", resp.StatusCode)
	}
	var told struct {
		Data []struct {
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxEmbedding+1))
	if err == nil && len(data) > maxEmbedding {
		err = errors.New("it is too large")
	}
	if err == nil {
		err = json.Unmarshal(data, &told)
	}
	if err != nil {
		return nil, fmt.Errorf("read embedding: %w", err)
	}
	if len(told.Data) != 1 {
		return nil, fmt.Errorf("read embedding: %d of them", len(told.Data))
	}
	return unit(told.Data[0].Embedding)
}

// unit returns a vector with length 1.
func unit(v []float32) ([]float32, error) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if len(v) == 0 || len(v) > maxVector || !(sum > 0) || math.IsInf(sum, 0) {
		return nil, errors.New("read embedding: it is no vector with a length")
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= scale
	}
	return v, nil
}

// holds reports whether there is an answer to a key, finished or on its way.
func (s *shelf) holds(key shelfKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.books[key] != nil
}

// nearest returns a reader of the answer whose request means nearest, nil when
// none is near enough.
func (s *shelf) nearest(m *meaning, threshold float64, now time.Time) *bookReader {
	s.mu.Lock()
	all := make([]*book, 0, len(s.near[m.owner]))
	for b := range s.near[m.owner] {
		if b.means.rest == m.rest && now.Before(b.expires) {
			all = append(all, b)
		}
	}
	s.mu.Unlock()
	best, most := (*book)(nil), threshold
	for _, b := range all { // means is not changed any more
		if c := near(b.means.vector, m.vector); c >= most {
			best, most = b, c
		}
	}
	if best == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.books[best.key] != best || best.at == nil {
		return nil // it went meanwhile
	}
	s.order.MoveToBack(best.at)
	s.counts["hit"].Inc()
	return best.reader()
}

// tag notes what the request of a book on its way means.
func (s *shelf) tag(b *book, m *meaning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.books[b.key] != b {
		return
	}
	b.means = m
	b.size += m.size()
	s.used += m.size()
	s.makeRoom()
}

// list makes a finished book one that others are compared with. s.mu is held.
func (s *shelf) list(b *book) {
	if b.means == nil {
		return
	}
	if s.near == nil {
		s.near = map[string]map[*book]bool{}
	}
	of := s.near[b.means.owner]
	if of == nil {
		of = map[*book]bool{}
		s.near[b.means.owner] = of
	}
	for e := s.order.Front(); len(of) >= maxNear && e != nil; {
		old := e.Value.(*book)
		if e = e.Next(); of[old] {
			s.remove(old)
		}
	}
	of[b] = true
}

// unlist undoes list. s.mu is held.
func (s *shelf) unlist(b *book) {
	if b.means == nil {
		return
	}
	of := s.near[b.means.owner]
	if delete(of, b); len(of) == 0 {
		delete(s.near, b.means.owner)
	}
}
