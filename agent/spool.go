package agent

import (
	"context"
	"fmt"
	"sync"

	"weir/events"
	"weir/model"
)

// spool keeps reports that the log has not acknowledged, oldest first, in
// bounded memory. When it is full all that wait become one summary, so that
// budgets still settle and the loss is exact; the one on its way stays what it
// is, since the log may hold it already.
type spool struct {
	limit int // bytes
	sum   func([]*model.Attempts) *model.Summary

	mu      sync.Mutex
	queue   [][]byte
	bytes   int
	sending bool          // queue[0] is on its way
	summed  uint64        // reports that became part of a summary
	ready   chan struct{} // there may be one to send
	empty   chan struct{} // closed while nothing waits
}

func newSpool(limit int, sum func([]*model.Attempts) *model.Summary) *spool {
	s := &spool{limit: limit, sum: sum, ready: make(chan struct{}, 1), empty: make(chan struct{})}
	close(s.empty)
	return s
}

// push adds one report.
func (s *spool) push(r *model.Attempts) error {
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
	s.queue = append(s.queue, data)
	s.bytes += len(data)
	s.signal()
	return err
}

func (s *spool) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// compress makes one summary of all reports that wait. s.mu is held.
func (s *spool) compress() error {
	keep := 0
	if s.sending {
		keep = 1
	}
	waiting := s.queue[keep:]
	var total *model.Summary
	var reports []*model.Attempts
	for _, data := range waiting {
		f, err := events.Decode(data)
		if err != nil {
			return fmt.Errorf("decode spooled report: %w", err)
		}
		switch f := f.(type) {
		case *model.Attempts:
			reports = append(reports, f)
		case *model.Summary: // an earlier one, always the first
			total = f
		}
	}
	if len(reports) == 0 {
		return nil
	}
	s.summed += uint64(len(reports))
	data := events.Encode(nil, join(total, s.sum(reports)))
	clear(waiting)
	s.queue = append(s.queue[:keep], data)
	s.bytes = 0
	for _, d := range s.queue {
		s.bytes += len(d)
	}
	return nil
}

// join adds the summary b to the one before it; a may be nil.
func join(a, b *model.Summary) *model.Summary {
	if a == nil {
		return b
	}
	b.Seq, b.Base, b.Span = a.Seq, a.Base, a.Span+b.Span
	for _, old := range a.Counts {
		b.Counts = addCount(b.Counts, old)
	}
	for _, old := range a.Pools {
		if !hasPool(b.Pools, old.Pool) {
			b.Pools = append(b.Pools, old)
		}
	}
	return b
}

func addCount(counts []model.SummaryCount, n model.SummaryCount) []model.SummaryCount {
	for i := range counts {
		if c := &counts[i]; c.Channel == n.Channel && c.Class == n.Class {
			c.Attempts += n.Attempts
			c.In += n.In
			c.Out += n.Out
			return counts
		}
	}
	return append(counts, n)
}

func hasPool(pools []model.PoolReport, name string) bool {
	for i := range pools {
		if pools[i].Pool == name {
			return true
		}
	}
	return false
}

// next waits for the oldest report and marks it as on its way; nil when ctx
// ended first.
func (s *spool) next(ctx context.Context) []byte {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			s.sending = true
			data := s.queue[0]
			s.mu.Unlock()
			return data
		}
		s.mu.Unlock()
		select {
		case <-s.ready:
		case <-ctx.Done():
			return nil
		}
	}
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
	s.bytes -= len(s.queue[0])
	s.queue[0] = nil
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

// drained returns a channel that is closed once nothing waits.
func (s *spool) drained() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.empty
}
