package store

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Sample is a value of a series at a moment.
type Sample struct {
	// Name is the series' within its kind, at most 255 bytes.
	Name string
	Data []byte
}

// PutSamples stores what several series of a kind were at an instant. It is
// not synced by itself: a crash may take the last moments.
func (s *Store) PutSamples(kind byte, at uint64, samples []Sample) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	b := s.db.NewBatch()
	defer func() { _ = b.Close() }() // committed or given up
	var key []byte
	for _, one := range samples {
		if len(one.Name) > 255 {
			return fmt.Errorf("store sample: a name of %d bytes", len(one.Name))
		}
		key = appendSampleKey(key[:0], kind, one.Name, at)
		if err := b.Set(key, one.Data, nil); err != nil {
			return fmt.Errorf("store sample: %w", err)
		}
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("store samples: %w", err)
	}
	return nil
}

// Samples calls f with a series' values from..to, both included, oldest first,
// until it returns false. The bytes are valid during the call.
func (s *Store) Samples(kind byte, name string, from, to uint64, f func(at uint64, data []byte) bool) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	if len(name) > 255 || from > to {
		return nil
	}
	upper := append(appendSampleKey(nil, kind, name, to), 0)
	return s.iterate(appendSampleKey(nil, kind, name, from), upper, false, func(key, value []byte) bool {
		_, at, ok := sampleOf(key)
		return !ok || f(at, value)
	})
}

// TrimSamples removes what every series of a kind was before an instant.
func (s *Store) TrimSamples(kind byte, before uint64) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	names, err := s.series(kind)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.db.DeleteRange(appendSampleKey(nil, kind, name, 0), appendSampleKey(nil, kind, name, before), pebble.NoSync); err != nil {
			return fmt.Errorf("trim samples: %w", err)
		}
	}
	return nil
}

// series returns the names of a kind's series, a seek each.
func (s *Store) series(kind byte) (names []string, err error) {
	lower, upper := []byte{prefixSample, kind}, []byte{prefixSample, kind + 1}
	if kind == 0xff {
		upper = []byte{prefixSample + 1}
	}
	for {
		name, found := "", false
		err := s.iterate(lower, upper, false, func(key, _ []byte) bool {
			name, _, found = sampleOf(bytes.Clone(key))
			return !found
		})
		if err != nil || !found {
			return names, err
		}
		names = append(names, name)
		lower = append(appendSampleKey(nil, kind, name, ^uint64(0)), 0)
	}
}

func appendSampleKey(b []byte, kind byte, name string, at uint64) []byte {
	b = append(append(b, prefixSample, kind, byte(len(name))), name...)
	return binary.BigEndian.AppendUint64(b, at)
}

// sampleOf is the inverse of appendSampleKey.
func sampleOf(key []byte) (name string, at uint64, ok bool) {
	if len(key) < 3 || key[0] != prefixSample || len(key) != 3+int(key[2])+8 {
		return "", 0, false
	}
	n := 3 + int(key[2])
	return string(key[3:n]), binary.BigEndian.Uint64(key[n:]), true
}
