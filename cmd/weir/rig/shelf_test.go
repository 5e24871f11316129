package rig

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"sync"

	"weir/controller/store"
)

// shelf is a controller's store in memory; it keeps no decisions.
type shelf struct {
	mu       sync.Mutex
	found    bool
	position store.Position
	parts    map[string][]byte
}

func newShelf() *shelf { return &shelf{parts: map[string][]byte{}} }

func (s *shelf) Load() (store.Position, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position, s.found, nil
}

func (s *shelf) Parts(*error) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, key := range slices.Sorted(maps.Keys(s.parts)) {
			if !yield(key, s.parts[key]) {
				return
			}
		}
	}
}

func (s *shelf) Commit(c *store.Change, _ bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.position = true, c.Position
	for _, p := range c.Parts {
		if p.Value == nil {
			delete(s.parts, p.Key)
			continue
		}
		s.parts[p.Key] = bytes.Clone(p.Value)
	}
	return nil
}

func (s *shelf) Snapshots() ([]uint64, error) { return nil, nil }

func (s *shelf) Each(uint64, uint64, bool, func(uint64, []byte) bool) error { return nil }
