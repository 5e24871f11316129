package controller

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// throttle is a log handler that lets so many lines pass and leaves out the
// rest: who knocks at a door writes lines there, and must not fill the disk.
// What was left out is told with the next line that passes.
type throttle struct {
	slog.Handler
	*tally
}

// tally is shared by a throttle and those with more attributes.
type tally struct {
	mu   sync.Mutex
	full time.Time // when all lines may pass again
	left int       // out
}

const (
	// throttleEvery is how often a line may pass for ever, throttleBurst how
	// many may at once.
	throttleEvery = 100 * time.Millisecond
	throttleBurst = 100
)

// throttled returns a logger to the same place that is throttled.
func throttled(to *slog.Logger) *slog.Logger {
	return slog.New(throttle{to.Handler(), &tally{}})
}

// Handle implements slog.Handler.
func (h throttle) Handle(ctx context.Context, r slog.Record) error {
	left, ok := h.pass(time.Now())
	if !ok {
		return nil
	}
	if left > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("left_out_before", left))
	}
	return h.Handler.Handle(ctx, r)
}

// pass says whether a line may pass, and how many were left out before it.
func (t *tally) pass(now time.Time) (left int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.full.Before(now) {
		t.full = now
	}
	next := t.full.Add(throttleEvery)
	if next.Sub(now) > throttleBurst*throttleEvery {
		t.left++
		return 0, false
	}
	t.full = next
	left, t.left = t.left, 0
	return left, true
}

// WithAttrs implements slog.Handler.
func (h throttle) WithAttrs(attrs []slog.Attr) slog.Handler {
	return throttle{h.Handler.WithAttrs(attrs), h.tally}
}

// WithGroup implements slog.Handler.
func (h throttle) WithGroup(name string) slog.Handler {
	return throttle{h.Handler.WithGroup(name), h.tally}
}
