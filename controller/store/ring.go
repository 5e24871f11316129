package store

import (
	"github.com/cockroachdb/pebble/v2"
)

// ring counts what the store holds of decisions, so that old ones can go. It
// belongs to the goroutine that commits.
type ring struct {
	count int
	bytes int64
}

// scanRing counts the decisions at start.
func (s *Store) scanRing() error {
	return s.scanLocked(prefixDecision, func(_, value []byte) bool {
		s.ring.count++
		s.ring.bytes += int64(len(value))
		return true
	})
}

// turn makes room for new decisions: when there are too many it removes the
// oldest tenth and what is over, in the same batch. New ones that replace
// stored ones of the same record are counted twice until the next start,
// which only means that the ring turns a little early.
func (s *Store) turn(b *pebble.Batch, fresh []Decision) error {
	for _, d := range fresh {
		s.ring.count++
		s.ring.bytes += int64(len(d.Data))
	}
	if s.ring.count <= s.options.KeepDecisions && s.ring.bytes <= s.options.KeepBytes {
		return nil
	}
	count := s.options.KeepDecisions * 9 / 10
	size := s.options.KeepBytes / 10 * 9
	var end []byte
	err := s.scanLocked(prefixDecision, func(key, value []byte) bool {
		if s.ring.count <= count && s.ring.bytes <= size {
			end = append(end, key...)
			return false
		}
		s.ring.count--
		s.ring.bytes -= int64(len(value))
		return true
	})
	if err != nil {
		return err
	}
	if end == nil { // everything stored goes; the new ones are in the batch already
		if len(fresh) == 0 {
			return nil
		}
		end = appendDecisionKey(nil, fresh[0].Seq, fresh[0].N)
	}
	return b.DeleteRange([]byte{prefixDecision}, end, nil)
}

// Each calls f with the stored decisions of the records from..to, both
// included, oldest or newest first, until it returns false. The bytes are
// valid during the call.
func (s *Store) Each(from, to uint64, newest bool, f func(seq uint64, data []byte) bool) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	lower := appendDecisionKey(nil, from, 0)
	upper := []byte{prefixDecision + 1}
	if to+1 != 0 {
		upper = appendDecisionKey(nil, to+1, 0)
	}
	return s.iterate(lower, upper, newest, func(key, value []byte) bool {
		seq, _, ok := decisionOf(key)
		return !ok || f(seq, value)
	})
}
