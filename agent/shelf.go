package agent

import (
	"container/list"
	"net/http"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// KeepConfig bounds answers that are kept in this process.
type KeepConfig struct {
	// Bytes is the room for all of them; 0 means the default, negative none.
	Bytes int64
	// For is how long each is kept; 0 means the default.
	For time.Duration
}

// CacheConfig is a cache of answers to requests that ask the same.
type CacheConfig struct {
	KeepConfig
	// Ignore names the members of a request that change nothing, such as a
	// time or a random id, as paths: user, metadata.trace, messages.*.id.
	Ignore []string
}

// shelf keeps finished answers, and lets calls with the same key follow one
// that is still on its way. An answer that outgrows its part of the room, and
// one that failed, is for those alone that follow it already.
type shelf struct {
	cfg    KeepConfig
	counts map[string]*metrics.Counter // by result

	mu    sync.Mutex
	used  int64
	books map[shelfKey]*book
	order list.List // of *book that are finished, the oldest at the front
	// near are the finished ones whose meaning is known, by the owner of it.
	near map[string]map[*book]bool
}

// shelfKey says which calls are the same; shelfPrint what they ask, of which
// one key must not have two.
type (
	shelfKey   [32]byte
	shelfPrint [32]byte
)

const (
	// bookOverhead is what an answer takes beside its body, about.
	bookOverhead = 2 << 10
	// bookPart is the part of a shelf's room that one answer may take.
	bookPart = 4
	// bookAhead is how far an answer that is not kept may run ahead of the
	// slowest of its readers, in bytes.
	bookAhead = 64 << 10
)

// newShelf returns a shelf that counts in weir_cache_total{kind}.
func newShelf(kind string, c KeepConfig, set *metrics.Set) *shelf {
	s := &shelf{cfg: c, books: map[shelfKey]*book{}, counts: map[string]*metrics.Counter{}}
	for _, result := range []string{"hit", "joined", "miss", "conflict", "failed"} {
		s.counts[result] = set.GetOrCreateCounter(`weir_cache_total{kind="` + kind + `",result="` + result + `"}`)
	}
	return s
}

func (s *shelf) enabled() bool { return s.cfg.Bytes > 0 }

// enter returns a reader of the answer to a key. fresh is set for the first
// one: its caller writes the book. A nil reader means that the key stands for
// another request.
func (s *shelf) enter(key shelfKey, asks shelfPrint, now time.Time) (r *bookReader, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for front := s.order.Front(); front != nil && !now.Before(front.Value.(*book).expires); front = s.order.Front() {
		s.remove(front.Value.(*book))
	}
	b := s.books[key]
	if b != nil && b.at != nil && !now.Before(b.expires) {
		s.remove(b)
		b = nil
	}
	result := "joined"
	switch {
	case b == nil:
		result, fresh = "miss", true
		b = &book{shelf: s, key: key, asks: asks, size: bookOverhead}
		b.cond.L = &b.mu
		s.books[key] = b
		s.used += b.size
		s.makeRoom()
	case b.asks != asks:
		s.counts["conflict"].Inc()
		return nil, false
	case b.at != nil:
		result = "hit"
		s.order.MoveToBack(b.at)
	}
	s.counts[result].Inc()
	return b.reader(), fresh
}

// makeRoom forgets finished answers until the rest fits. s.mu is held.
func (s *shelf) makeRoom() bool {
	for s.used > s.cfg.Bytes && s.order.Len() > 0 {
		s.remove(s.order.Front().Value.(*book))
	}
	return s.used <= s.cfg.Bytes
}

// full is how much of its room is used, from 0 to 1.
func (s *shelf) full() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.used) / float64(s.cfg.Bytes)
}

// remove takes a book off the shelf. s.mu is held.
func (s *shelf) remove(b *book) {
	if s.books[b.key] != b {
		return
	}
	delete(s.books, b.key)
	s.used -= b.size
	if b.at != nil {
		s.order.Remove(b.at)
	}
	s.unlist(b)
}

// grow makes room for n more bytes of b; when there is none, or b has its part,
// b leaves the shelf.
func (s *shelf) grow(b *book, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.books[b.key] != b {
		return false
	}
	b.size += int64(n)
	s.used += int64(n)
	if b.size > s.cfg.Bytes/bookPart || !s.makeRoom() {
		s.remove(b)
		return false
	}
	return true
}

// finish keeps b for those that come, or not.
func (s *shelf) finish(b *book, keep bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.books[b.key] != b:
	case keep:
		b.expires = now.Add(s.cfg.For)
		b.at = s.order.PushBack(b)
		s.list(b)
	default:
		s.remove(b)
	}
}

// book is one answer: what came of it, and who reads it.
type book struct {
	shelf *shelf
	key   shelfKey
	asks  shelfPrint
	// size, at, expires and means belong to the shelf.
	means   *meaning
	size    int64
	at      *list.Element
	expires time.Time

	mu      sync.Mutex
	cond    sync.Cond
	cancel  func() // ends the call; nil when it ended
	readers map[*bookReader]bool
	head    *http.Response // without its body
	body    []byte
	base    int64 // how much of the body was let go
	loose   bool  // it is not kept: what all have read is let go
	ended   bool
	err     error // what ended it, nil for its regular end
}

func (b *book) reader() *bookReader {
	r := &bookReader{book: b}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readers == nil {
		b.readers = map[*bookReader]bool{}
	}
	b.readers[r] = true
	return r
}

// begin takes the answer's head.
func (b *book) begin(head *http.Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.head = head
	b.cond.Broadcast()
}

// write takes the next bytes, and waits while the answer is not kept and its
// readers are far behind.
func (b *book) write(p []byte) {
	kept := b.shelf.grow(b, len(p))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loose = b.loose || !kept
	b.body = append(b.body, p...)
	b.cond.Broadcast()
	for b.loose && len(b.readers) > 0 {
		b.trim()
		if len(b.body) <= bookAhead {
			return
		}
		b.cond.Wait()
	}
}

// trim lets go what every reader has. b.mu is held.
func (b *book) trim() {
	least := b.base + int64(len(b.body))
	for r := range b.readers {
		least = min(least, r.off)
	}
	n := copy(b.body, b.body[least-b.base:])
	b.body, b.base = b.body[:n], least
}

// end takes the end of the answer.
func (b *book) end(err error, keep bool, now time.Time) {
	b.shelf.finish(b, keep, now)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended, b.err, b.cancel = true, err, nil
	b.cond.Broadcast()
}
