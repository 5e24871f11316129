package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"weir/events"
	"weir/model"
)

// spool keeps reports that the log has not acknowledged, oldest first, in
// bounded memory. When it is full all that wait become one summary, so that
// budgets still settle and the loss is exact; the one on its way stays what it
// is, since the log may hold it already.
type spool struct {
	limit int // bytes
	sum   func([]model.Fact) *model.Summary

	mu      sync.Mutex
	queue   []spooled
	bytes   int
	sending bool          // queue[0] is on its way
	summed  uint64        // entries that became part of a summary
	ready   chan struct{} // there may be one to send
	empty   chan struct{} // closed while nothing waits
}

// spooled is one encoded report or summary.
type spooled struct {
	data []byte
	// at is when it was built.
	at time.Time
}

// fresh is how old a report may be when it is sent without its ages being
// raised: less than the ages' worth to the fold.
const fresh = 20 * time.Millisecond

func newSpool(limit int, sum func([]model.Fact) *model.Summary) *spool {
	s := &spool{limit: limit, sum: sum, ready: make(chan struct{}, 1), empty: make(chan struct{})}
	close(s.empty)
	return s
}

// push adds one report that was built at the given time.
func (s *spool) push(r *model.Attempts, at time.Time) error {
	data := events.Encode(nil, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.bytes+len(data) > s.limit {
		err = s.compress()
	}
	if len(s.queue) == 0 {
		s.empty = make(chan struct{})
	}
	s.queue = append(s.queue, spooled{data, at})
	s.bytes += len(data)
	select {
	case s.ready <- struct{}{}:
	default:
	}
	return err
}

// compress makes one summary of all that waits. s.mu is held.
func (s *spool) compress() error {
	keep := 0
	if s.sending {
		keep = 1
	}
	waiting := s.queue[keep:]
	if len(waiting) < 2 {
		return nil
	}
	facts := make([]model.Fact, len(waiting))
	for i := range waiting {
		var err error
		if facts[i], err = events.Decode(waiting[i].data); err != nil {
			return fmt.Errorf("decode spooled report: %w", err)
		}
	}
	s.summed += uint64(len(waiting))
	data := events.Encode(nil, s.sum(facts))
	clear(waiting)
	s.queue = append(s.queue[:keep], spooled{data: data})
	s.bytes = 0
	for i := range s.queue {
		s.bytes += len(s.queue[i].data)
	}
	return nil
}

// next waits for the oldest report and marks it as on its way; nil when ctx
// ended first.
func (s *spool) next(ctx context.Context) ([]byte, error) {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			defer s.mu.Unlock()
			return s.start(time.Now())
		}
		s.mu.Unlock()
		select {
		case <-s.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// start marks the oldest report as on its way. The time it lay here is added
// to the ages in it once: from then on its bytes stay what they are. s.mu is
// held.
func (s *spool) start(now time.Time) ([]byte, error) {
	head := &s.queue[0]
	if s.sending || head.at.IsZero() || now.Sub(head.at) <= fresh {
		s.sending = true
		return head.data, nil
	}
	f, err := events.Decode(head.data)
	if err != nil {
		return nil, fmt.Errorf("decode spooled report: %w", err)
	}
	if r, ok := f.(*model.Attempts); ok {
		r.Older(model.Nanos(now.Sub(head.at)))
		data := events.Encode(nil, r)
		s.bytes += len(data) - len(head.data)
		head.data = data
	}
	s.sending = true
	return head.data, nil
}

// sent settles the report on its way: acknowledged drops it, otherwise it is
// the next one again and stays as it is, since the log may hold it.
func (s *spool) sent(acknowledged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !acknowledged {
		return
	}
	s.sending = false
	s.bytes -= len(s.queue[0].data)
	s.queue[0] = spooled{}
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil
		close(s.empty)
	}
}

// count returns how many reports wait, the one on its way included, and how
// many were summed up so far.
func (s *spool) count() (waiting int, summed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue), s.summed
}

// full is how much of its room is used, from 0 to 1.
func (s *spool) full() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.bytes) / float64(s.limit)
}

// drained returns a channel that is closed once nothing waits.
func (s *spool) drained() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.empty
}
