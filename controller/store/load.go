package store

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"
)

// Load returns the position of the stored state; found is false in a store
// that never held one.
func (s *Store) Load() (p Position, found bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return p, false, ErrClosed
	}
	value, found, err := s.get(keyPosition())
	if err != nil || !found {
		return p, false, err
	}
	p, err = decodePosition(value)
	return p, err == nil, err
}

// Parts yields the parts of the stored state in the order of their keys. The
// bytes belong to the receiver. When reading fails it ends early and puts the
// error into err.
func (s *Store) Parts(err *error) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		*err = s.scan(prefixPart, func(key, value []byte) bool {
			return yield(string(key[1:]), bytes.Clone(value))
		})
	}
}

// Snapshot returns the newest kept state at or before the given record, and
// the record it stands at; found is false when there is none.
func (s *Store) Snapshot(before uint64) (seq uint64, data []byte, found bool, err error) {
	err = s.scan(prefixSnapshot, func(key, value []byte) bool {
		if at, ok := snapshotOf(key); ok && at <= before {
			seq, data, found = at, bytes.Clone(value), true
		}
		return true
	})
	return seq, data, found, err
}

// Snapshots returns the records at which whole states are kept, oldest first.
func (s *Store) Snapshots() ([]uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	return s.snapshots()
}

func (s *Store) snapshots() (all []uint64, err error) {
	err = s.scanLocked(prefixSnapshot, func(key, _ []byte) bool {
		if seq, ok := snapshotOf(key); ok {
			all = append(all, seq)
		}
		return true
	})
	return all, err
}

// scan calls f with every key of a prefix until it returns false. The bytes
// are valid during the call.
func (s *Store) scan(prefix byte, f func(key, value []byte) bool) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	return s.scanLocked(prefix, f)
}

func (s *Store) scanLocked(prefix byte, f func(key, value []byte) bool) error {
	return s.iterate([]byte{prefix}, []byte{prefix + 1}, false, f)
}

// iterate calls f with every key in [lower, upper), in order or backwards,
// until it returns false.
func (s *Store) iterate(lower, upper []byte, backwards bool, f func(key, value []byte) bool) (err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("read store: %w", err)
	}
	defer func() {
		if e := it.Close(); err == nil && e != nil {
			err = fmt.Errorf("read store: %w", e)
		}
	}()
	first, next := it.First, it.Next
	if backwards {
		first, next = it.Last, it.Prev
	}
	for ok := first(); ok; ok = next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("read store: %w", err)
		}
		if !f(it.Key(), value) {
			break
		}
	}
	return nil
}
