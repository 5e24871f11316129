package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"weir/controller/store"
	"weir/events"
)

const (
	// lookEvery is how long a log that was rewound under a running fold can
	// go unnoticed; lookOften the same while the fold catches up.
	lookEvery = 5 * time.Second
	lookOften = time.Second
	// callTimeout bounds one call of log or bus.
	callTimeout = 10 * time.Second
)

// looking compares the log with the fold from time to time.
type looking struct {
	busy    bool
	at      time.Time // the last time
	results chan look
	// stalled counts looks in a row that found entries the fold did not get.
	stalled int
	// told is the fault that is being mended and was counted.
	told fault
}

// look is a sight of the log together with what was folded when it was taken.
type look struct {
	sight
	at       time.Time
	position store.Position
	// next was to come next; ends is set when the log has its own last entry.
	next uint64
	ends bool
	err  error
}

// check looks at the log before the fold goes on, mends what it finds, and
// sets where to read. It tries until ctx ends.
func (l *Loop) check(ctx context.Context) error {
	var pause backoff
	for {
		s, err := see(ctx, l.options.Log, l.position.Seq)
		if err == nil {
			err = l.begin(ctx, s)
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, errCommit) {
			return err
		}
		l.log.Warn("log cannot be checked, trying again", slog.Any("error", err))
		pause.sleep(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// begin sets out to read a log that was looked at.
func (l *Loop) begin(ctx context.Context, s sight) error {
	if kind := judge(l.position, s); kind != faultNone {
		if l.looking.told != kind { // else the last try to mend it failed
			l.faults.add(l, kind, describe(kind, l.position, s))
			l.looking.told = kind
		}
		if err := l.mayMend(ctx); err != nil {
			return err
		}
		if err := l.mend(ctx, kind, s.info); err != nil {
			return err
		}
		info, err := l.options.Log.Info(ctx)
		if err != nil {
			return fmt.Errorf("look at the log: %w", err)
		}
		s.info = info
	}
	l.looking.told = faultNone
	if p := l.position; p.Seq > 0 && p.Created != s.info.Created {
		l.log.Info("the log was made anew and holds the same entries", slog.Uint64("seq", p.Seq))
	}
	l.position.Created = s.info.Created
	l.reading.next = l.position.Seq + 1
	l.reading.first, l.reading.target = s.info.First, s.info.Last
	l.reading.known = s.info.Last
	l.reading.appliedAt = time.Now()
	l.looking.at = time.Now()
	l.reached()
	return nil
}

// see looks at the log and at its entry at seq.
func see(ctx context.Context, log events.Log, seq uint64) (s sight, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if s.info, err = log.Info(ctx); err != nil {
		return s, fmt.Errorf("look at the log: %w", err)
	}
	if seq == 0 {
		return s, nil
	}
	s.entry, err = log.At(ctx, seq)
	s.found = err == nil
	if err != nil && !errors.Is(err, events.ErrNotFound) {
		return s, fmt.Errorf("look at entry %d: %w", seq, err)
	}
	return s, nil
}

// describe says in words what is wrong.
func describe(kind fault, p store.Position, s sight) string {
	switch kind {
	case faultShortened:
		return fmt.Sprintf("it ends at %d, folded is %d", s.info.Last, p.Seq)
	case faultRewound, faultReplaced:
		return fmt.Sprintf("its entry %d is another one than was folded", p.Seq)
	case faultHoled:
		return fmt.Sprintf("it holds %d to %d, but not the folded entry %d", s.info.First, s.info.Last, p.Seq)
	case faultUnanchored:
		return fmt.Sprintf("it begins at %d, right after what was folded", s.info.First)
	case faultNone:
	}
	return ""
}

// errCommit marks errors that end the loop.
var errCommit = errors.New("commit before mending the log")

// mend makes the log go on behind what was folded. What is owed is on disk
// before, so that a crash in between does not forget the rebase.
func (l *Loop) mend(ctx context.Context, kind fault, info events.Info) error {
	if err := l.commitNow(); err != nil {
		return fmt.Errorf("%w: %w", errCommit, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	switch kind {
	case faultShortened, faultRewound, faultReplaced:
		if info.Last > l.position.Seq {
			// What stands behind was never folded: it is kept.
			return l.options.Log.Trim(ctx, l.position.Seq+1)
		}
		return l.options.Log.Reanchor(ctx, l.position.Seq+1)
	case faultHoled, faultUnanchored, faultNone:
	}
	return nil
}

// owe makes the log owe a rebase; the first reason counts.
func (l *Loop) owe(format string, args ...any) {
	if l.position.Owed == "" {
		l.position.Owed = fmt.Sprintf(format, args...)
		l.storing.changed(time.Now())
	}
}

// hole counts the entries from..to-1 that the log does not have.
func (l *Loop) hole(from, to uint64) {
	l.lost(to - from)
	l.electing.lacks = true
	l.position.Missing += to - from
	l.faults.add(l, faultHoled, fmt.Sprintf("records %d to %d are missing", from, to-1))
}

// missing compares how many entries the log lost with how many it was known to
// have lost. More are a hole in what was folded: the fold does not need it, but
// nobody could fold this log anew.
func (l *Loop) missing(n uint64) {
	if !l.reading.caughtUp || n == l.position.Missing {
		return
	}
	if known := l.position.Missing; n > known {
		l.faults.add(l, faultHoled, fmt.Sprintf("%d entries that were folded are missing", n-known))
	}
	l.position.Missing = n
	l.storing.changed(time.Now())
}

func (l *Loop) lost(n uint64) { l.meters.lost.AddInt64(int64(min(n, 1<<62))) }

// lookDue returns when to look at the log again.
func (l *Loop) lookDue() time.Time {
	switch {
	case l.looking.busy:
		return time.Time{}
	case !l.reading.caughtUp || l.reading.broken || l.looking.stalled > 0 || l.leading.fenced:
		return l.looking.at.Add(lookOften)
	}
	return l.looking.at.Add(lookEvery)
}

// look takes a look at the log when it is time, beside the fold.
func (l *Loop) look(ctx context.Context, now time.Time) {
	if due := l.lookDue(); due.IsZero() || now.Before(due) {
		return
	}
	l.looking.busy, l.looking.at = true, now
	k := look{at: now, position: l.position, next: l.reading.next}
	l.helpers.Go(func() {
		k.sight, k.err = see(ctx, l.options.Log, k.position.Seq)
		if k.err == nil && k.info.Last >= k.next {
			_, err := l.options.Log.At(ctx, k.info.Last)
			k.ends = !errors.Is(err, events.ErrNotFound)
		}
		l.looking.results <- k
	})
}

// looked acts on what a look saw. Its error ends the loop.
func (l *Loop) looked(ctx context.Context, k look) error {
	l.looking.busy = false
	if k.err != nil {
		l.log.Warn("log cannot be looked at", slog.Any("error", k.err))
		return nil //nolint:nilerr // the next look may succeed; it was said
	}
	l.reading.known = max(k.info.Last, l.position.Seq)
	if kind := judge(k.position, k.sight); kind != faultNone {
		return l.remend(ctx, kind, k)
	}
	l.position.Created = k.info.Created
	l.missing(k.info.Missing)
	if l.leading.awaited > k.info.Last {
		l.leading.awaited = 0 // what was appended is gone again
	}
	l.leading.looked(k.at, k.info.Last)
	if l.reading.broken {
		l.read(ctx)
		return nil
	}
	l.unstall(ctx, k)
	return nil
}

// remend mends a log that changed under the running fold, and reads anew. A
// standby waits for the leader to do it.
func (l *Loop) remend(ctx context.Context, kind fault, k look) error {
	lost := kind == faultShortened || kind == faultRewound || kind == faultReplaced
	if l.position.Owed != "" && (!lost || l.leading.standby) {
		return nil // known, and nothing to do but the rebase
	}
	if l.looking.told != kind {
		l.faults.add(l, kind, describe(kind, k.position, k.sight))
	}
	if !lost || l.leading.standby {
		return nil
	}
	l.reading.close()
	l.leading.awaited = 0
	if err := l.mend(ctx, kind, k.info); errors.Is(err, errCommit) {
		return err
	} else if err != nil {
		l.looking.told = kind
		l.log.Warn("log cannot be mended, trying again", slog.Any("error", err))
		return nil
	}
	l.looking.told = faultNone
	l.reading.next = l.position.Seq + 1
	l.read(ctx)
	return nil
}

// unstall helps a fold that does not get what the log has: a reader that
// hangs, or a hole at the log's end, behind which nothing will come.
func (l *Loop) unstall(ctx context.Context, k look) {
	if k.info.Last < k.next || l.reading.next != k.next {
		l.looking.stalled = 0
		return
	}
	if l.looking.stalled++; l.looking.stalled < 3 {
		return
	}
	l.looking.stalled = 0
	if k.ends {
		l.log.Warn("the log's reader hangs, reading anew", slog.Uint64("next", k.next))
	} else {
		l.hole(k.next, k.info.Last+1)
		l.reading.next = k.info.Last + 1
		l.reached()
	}
	l.read(ctx)
}
