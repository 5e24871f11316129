package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/events"
)

// Result says what was copied.
type Result struct {
	// Entries is how many, from First to Last.
	Entries, First, Last uint64
	// Missing counts sequences between them that were not there.
	Missing uint64
}

func (r *Result) add(seq uint64) {
	if r.Entries == 0 {
		r.First = seq
	} else {
		r.Missing += seq - r.Last - 1
	}
	r.Entries++
	r.Last = seq
}

// Progress is told, after every entry, how many are done of how many; of is 0
// when that is not known.
type Progress func(done, of uint64)

// stall is how long Export waits for an entry that the log says it holds.
const stall = 10 * time.Second

// Export copies the entries from..to of a log into a journal. from 0 is the
// first entry held, to 0 the last one held now. The caller closes the journal.
// Entries the log lost are counted, not an error.
func Export(ctx context.Context, l events.Log, w *Writer, from, to uint64, p Progress) (Result, error) {
	var done Result
	info, err := l.Info(ctx)
	if err != nil {
		return done, fmt.Errorf("export log: %w", err)
	}
	if from == 0 {
		from = info.First
	}
	if to == 0 {
		to = info.Last
	}
	if from < info.First || to > info.Last {
		return done, fmt.Errorf("export %d..%d of a log that holds %d..%d: %w", from, to, info.First, info.Last, events.ErrNotFound)
	}
	if from > to {
		return done, nil
	}
	r, err := l.Read(ctx, from)
	if err != nil {
		return done, fmt.Errorf("export log: %w", err)
	}
	defer func() { _ = r.Close() }()
	for done.Last < to {
		e, err := nextWithin(ctx, r)
		if err != nil {
			return done, fmt.Errorf("export log after entry %d: %w", done.Last, err)
		}
		if e.Seq > to {
			done.Missing += to - max(done.Last, from-1)
			break
		}
		if err := w.Write(e); err != nil {
			return done, fmt.Errorf("export log: %w", err)
		}
		if done.Entries == 0 {
			done.Missing = e.Seq - from
		}
		done.add(e.Seq)
		if p != nil {
			p(e.Seq-from+1, to-from+1)
		}
	}
	return done, nil
}

func nextWithin(ctx context.Context, r events.Reader) (events.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, stall)
	defer cancel()
	return r.Next(ctx)
}

// Import copies a journal into a log, each entry at its own sequence. An empty
// log is anchored where the journal begins; another must end right before it.
// With a fleet name entries become that fleet's, with "" they stay whose they
// are. A journal with a gap or a rebase larger than a log takes cannot be
// imported; a torn end is left out, as Reader.Dropped says.
func Import(ctx context.Context, r *Reader, l events.Loader, fleet string, p Progress) (Result, error) {
	var done Result
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return done, nil
		}
		if err == nil && done.Entries == 0 {
			err = anchor(ctx, l, e.Seq)
		}
		if err == nil && fleet != "" {
			err = rename(&e, fleet)
		}
		if err == nil && done.Entries > 0 && e.Seq != done.Last+1 {
			err = fmt.Errorf("entry %d is followed by %d: %w", done.Last, e.Seq, ErrOrder)
		}
		if err == nil {
			err = l.Load(ctx, e)
		}
		if err != nil {
			return done, fmt.Errorf("import journal: %w", err)
		}
		done.add(e.Seq)
		if p != nil {
			p(done.Entries, 0)
		}
	}
}

// anchor makes an empty log begin at seq.
func anchor(ctx context.Context, l events.Loader, seq uint64) error {
	info, err := l.Info(ctx)
	if err != nil || info.Last+1 == seq {
		return err
	}
	if info.Last >= info.First {
		return fmt.Errorf("log holds %d..%d, the journal begins at %d: %w", info.First, info.Last, seq, events.ErrConflict)
	}
	return l.Reanchor(ctx, seq)
}

// rename moves an entry's subject to a fleet.
func rename(e *events.Entry, fleet string) error {
	_, agent, ok := events.ParseLogSubject(e.Subject)
	if !ok {
		return fmt.Errorf("entry %d has subject %q, none of a log", e.Seq, e.Subject)
	}
	e.Subject = events.ControlSubject(fleet)
	if agent != "" {
		e.Subject = events.LogSubject(fleet, agent)
	}
	return nil
}
