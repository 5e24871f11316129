package controller

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"weir/events"
)

// reading is where the loop stands in the log.
type reading struct {
	entries chan events.Entry
	ended   chan error // why the reader stopped
	stop    context.CancelFunc
	// broken is set from a reader's end until the log was looked at: what it
	// holds may have changed while nobody read.
	broken bool
	pause  backoff
	// next is the sequence that must come next.
	next uint64
	// first is the log's first sequence and target its last at the start:
	// the loop has caught up once next is beyond.
	first, target uint64
	caughtUp      bool
	// unseen is how many entries a log had lost before a new fold began.
	unseen uint64
	// known is the newest sequence the log is known to hold.
	known uint64
	// appliedAt is when the last record was folded.
	appliedAt time.Time
}

// buffered is how many entries may wait for the fold. An entry has up to a
// megabyte, so few: it only has to cover the fold's own pauses.
const buffered = 64

// close ends reading until read is called. What was delivered and not folded
// is forgotten.
func (r *reading) close() {
	r.stop()
	r.entries, r.ended, r.broken = nil, nil, true
}

// read starts to read from the next sequence on, in place of what read before.
func (l *Loop) read(ctx context.Context) {
	r := &l.reading
	r.stop()
	ctx, r.stop = context.WithCancel(ctx)
	entries, ended, from := make(chan events.Entry, buffered), make(chan error, 1), r.next
	r.entries, r.ended, r.broken = entries, ended, false
	l.helpers.Go(func() {
		if err := deliver(ctx, l.options.Log, from, entries); ctx.Err() == nil {
			ended <- err
		}
	})
}

// deliver reads until something fails.
func deliver(ctx context.Context, log events.Log, from uint64, to chan<- events.Entry) (err error) {
	r, err := log.Read(ctx, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		e, err := r.Next(ctx)
		if err != nil {
			return err
		}
		select {
		case to <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// interrupted notes that the reader stopped. What it delivered before is
// folded; then the log is looked at before anybody reads on.
func (l *Loop) interrupted(err error) {
	for {
		select {
		case e := <-l.reading.entries:
			l.fold(e)
			continue
		default:
		}
		break
	}
	l.log.Warn("log cannot be read, trying again", slog.Uint64("from", l.reading.next), slog.Any("error", err))
	l.reading.broken = true
	l.looking.at = time.Now().Add(l.reading.pause.next() - lookOften)
}

// backoff is a pause that doubles from 50 ms to 5 s.
type backoff struct{ last time.Duration }

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, 50*time.Millisecond), 5*time.Second)
	return b.last
}

func (b *backoff) sleep(ctx context.Context) {
	t := time.NewTimer(b.next())
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
