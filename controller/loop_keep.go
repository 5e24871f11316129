package controller

import (
	"context"
	"log/slog"
)

// keeping shortens the log. Before anything goes, the whole state is stored
// twice beside it, so that a fold can always begin at a snapshot with the
// log's tail behind it.
type keeping struct {
	// at is the record of the newest snapshot.
	at uint64
	// oldest is the record of the older snapshot, 0 while there is only one;
	// trimmed is up to where the log was trimmed.
	oldest, trimmed uint64
	// due is set when the next commit takes a snapshot.
	due     bool
	busy    bool
	results chan trimmed
}

// trimmed is the outcome of a trim.
type trimmed struct {
	to  uint64
	err error
}

// keep asks for a snapshot when the log has grown by as much as is kept, and
// trims the log up to the older one. Only a leader does, and none that owes
// the log a rebase.
func (l *Loop) keep(ctx context.Context) {
	k := &l.keeping
	if l.options.Keep == 0 || k.busy || !l.leading.leads || l.position.Owed != "" {
		return
	}
	if !k.due && l.position.Seq >= k.at+l.options.Keep {
		k.due = true
	}
	if k.oldest <= k.trimmed {
		return
	}
	k.busy = true
	to := k.oldest
	l.helpers.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		k.results <- trimmed{to, l.options.Log.Trim(ctx, to+1)}
	})
}

// snapshot returns the state for the commit that is being made, if one is due.
func (l *Loop) snapshot() []byte {
	if !l.keeping.due || l.position.Seq == l.keeping.at {
		return nil
	}
	return l.fleet.AppendBinary(nil)
}

// kept notes that a snapshot was stored.
func (l *Loop) kept(seq uint64) {
	k := &l.keeping
	k.due, k.oldest, k.at = false, k.at, seq
}

// trimmedTo notes the outcome of a trim. One that failed is tried again with
// the next snapshot.
func (l *Loop) trimmedTo(r trimmed) {
	l.keeping.busy, l.keeping.trimmed = false, r.to
	if r.err != nil {
		l.log.Warn("log cannot be trimmed", slog.Uint64("to", r.to), slog.Any("error", r.err))
		return
	}
	l.log.Info("log trimmed", slog.Uint64("to", r.to))
}
