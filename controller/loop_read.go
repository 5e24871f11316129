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
	cancel  context.CancelFunc
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

// read starts to read from the next sequence on, in place of what read before.
func (l *Loop) read(ctx context.Context) {
	l.reading.stop()
	ctx, cancel := context.WithCancel(ctx)
	entries := make(chan events.Entry, buffered)
	l.reading.entries, l.reading.cancel = entries, cancel
	from := l.reading.next
	l.helpers.Go(func() { deliver(ctx, l.options.Log, from, entries, l.log) })
}

func (r *reading) stop() {
	if r.cancel != nil {
		r.cancel()
	}
}

// deliver reads until ctx ends. A reader that fails is opened again where it
// stopped.
func deliver(ctx context.Context, log events.Log, from uint64, to chan<- events.Entry, logger *slog.Logger) {
	var pause backoff
	for ctx.Err() == nil {
		next, err := deliverSome(ctx, log, from, to)
		if next > from {
			from, pause = next, backoff{}
		}
		if ctx.Err() != nil {
			return
		}
		logger.Warn("log cannot be read, trying again", slog.Uint64("from", from), slog.Any("error", err))
		pause.sleep(ctx)
	}
}

// deliverSome reads until something fails, and returns what comes next.
func deliverSome(ctx context.Context, log events.Log, from uint64, to chan<- events.Entry) (next uint64, err error) {
	r, err := log.Read(ctx, from)
	if err != nil {
		return from, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		e, err := r.Next(ctx)
		if err != nil {
			return from, err
		}
		select {
		case to <- e:
			from = e.Seq + 1
		case <-ctx.Done():
			return from, ctx.Err()
		}
	}
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
