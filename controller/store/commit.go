package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Change is what one commit stores. Its slices may be reused after Commit.
type Change struct {
	// Position is where the state stands after the change.
	Position Position
	// Parts are the parts that changed.
	Parts []Part
	// Decisions are the decisions made on the way, in order.
	Decisions []Decision
	// Snapshot is the whole state at Position, to be kept beside the log;
	// nil means none.
	Snapshot []byte
}

// Part is one part of the state.
type Part struct {
	Key string
	// Value is the part's bytes; nil means it is gone.
	Value []byte
}

// Decision is one decision in its stored form.
type Decision struct {
	// Seq is the record that caused it, N its number within that record.
	Seq  uint64
	N    uint32
	Data []byte
}

// keepSnapshots is how many snapshots are kept: the newest may be the one
// being written when the power fails.
const keepSnapshots = 2

// Commit stores a change, all of it or nothing. With sync set it returns when
// the disk has it, together with everything committed before.
func (s *Store) Commit(c *Change, sync bool) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	b := s.db.NewBatch()
	if err := errors.Join(s.fill(b, c), commit(b, sync), b.Close()); err != nil {
		return fmt.Errorf("commit state at %d: %w", c.Position.Seq, err)
	}
	return nil
}

func commit(b *pebble.Batch, sync bool) error {
	if sync {
		return b.Commit(pebble.Sync)
	}
	return b.Commit(pebble.NoSync)
}

// fill writes the change into the batch. Writing into a batch fails only
// when it is too large.
func (s *Store) fill(b *pebble.Batch, c *Change) error {
	err := b.Set(keyPosition(), c.Position.append(nil), nil)
	var key []byte
	for _, p := range c.Parts {
		key = appendPartKey(key[:0], p.Key)
		if p.Value == nil {
			err = errors.Join(err, b.Delete(key, nil))
			continue
		}
		err = errors.Join(err, b.Set(key, p.Value, nil))
	}
	for _, d := range c.Decisions {
		key = appendDecisionKey(key[:0], d.Seq, d.N)
		err = errors.Join(err, b.Set(key, d.Data, nil))
	}
	err = errors.Join(err, s.turn(b, c.Decisions))
	if c.Snapshot != nil {
		err = errors.Join(err, b.Set(snapshotKey(c.Position.Seq), c.Snapshot, nil), s.dropSnapshots(b, c.Position.Seq))
	}
	return err
}

// dropSnapshots removes all but the newest snapshots before the new one at seq.
func (s *Store) dropSnapshots(b *pebble.Batch, seq uint64) error {
	old, err := s.snapshots()
	if err != nil {
		return err
	}
	keep := keepSnapshots - 1
	for _, at := range slices.Backward(old) {
		if at >= seq {
			continue
		}
		if keep--; keep < 0 {
			err = errors.Join(err, b.Delete(snapshotKey(at), nil))
		}
	}
	return err
}
