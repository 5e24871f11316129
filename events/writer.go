package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// Tail is the end of one agent's own subject, as a log implements it for
// NewWriter.
type Tail interface {
	// Append stores data as the subject's next entry if the subject's last
	// sequence is last, 0 meaning that it has none. ErrConflict says that it
	// is another; ErrTooLarge, ErrFull and ErrClosed that nothing was stored;
	// after any other error it is not known.
	Append(ctx context.Context, data []byte, last uint64) (seq uint64, err error)
	// Last returns the subject's last entry, or ErrNotFound.
	Last(ctx context.Context) (Entry, error)
}

// writeTries is how often Write appends before it gives up: the first time,
// after another process with the same name wrote, after an unclear outcome,
// and once more since a read may come from a replica that lags.
const writeTries = 4

// NewWriter returns the Writer over a subject. Two reports of one agent never
// have the same bytes, since each carries its number: an entry with the bytes
// of a report is that report.
func NewWriter(t Tail) Writer { return &writer{tail: t} }

type writer struct {
	tail Tail
	// last is the sequence the subject is believed to end at; known once it
	// was read or written.
	last  uint64
	known bool
	// data is what was written last, where known is set and it was.
	data []byte
}

// Write implements Writer.
func (w *writer) Write(ctx context.Context, data []byte) error {
	if len(data) > MaxEntry {
		return fmt.Errorf("write report of %d bytes: %w", len(data), ErrTooLarge)
	}
	if w.known && len(data) > 0 && bytes.Equal(w.data, data) {
		return nil // written before
	}
	if !w.known {
		if stored, err := w.adopt(ctx, data); err != nil || stored {
			return err
		}
	}
	var err error
	for try := range writeTries {
		if try > 1 {
			if pause(ctx, try) != nil {
				break
			}
		}
		var seq uint64
		seq, err = w.tail.Append(ctx, data, w.last)
		if err == nil {
			w.last = seq
			w.data = append(w.data[:0], data...)
			return nil
		}
		if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrFull) || errors.Is(err, ErrClosed) {
			break
		}
		stored, lastErr := w.adopt(ctx, data)
		if stored {
			return nil
		}
		if lastErr != nil {
			break // the first error says more
		}
	}
	return fmt.Errorf("write report: %w", err)
}

// adopt reads where the subject ends and reports whether it ends with data.
func (w *writer) adopt(ctx context.Context, data []byte) (stored bool, err error) {
	w.known, w.data = false, w.data[:0]
	e, err := w.tail.Last(ctx)
	switch {
	case errors.Is(err, ErrNotFound):
		w.last, w.known = 0, true // trimmed or anchored anew
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read own subject: %w", err)
	}
	w.last, w.known = e.Seq, true
	if !bytes.Equal(e.Data, data) {
		return false, nil
	}
	w.data = append(w.data, data...)
	return true, nil
}

// pause waits a little longer each time, until ctx ends.
func pause(ctx context.Context, try int) error {
	t := time.NewTimer(time.Duration(try) * 10 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
