package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	"weir/model"
)

// Status is how a Loop stands, for people and probes.
type Status struct {
	// Controller is this process's id, Leader that of the newest term's.
	Controller string `json:"controller"`
	Leader     string `json:"leader"`
	Version    string `json:"version"`
	Term       uint64 `json:"term"`
	// Leads is set while this process leads, CaughtUp once it has folded what
	// the log held at its start.
	Leads    bool `json:"leads"`
	CaughtUp bool `json:"caught_up"`
	// Seq is the last record folded, Lag how many the log is known to hold
	// beyond it.
	Seq uint64 `json:"seq"`
	Lag uint64 `json:"lag_events"`
	// Uncommitted is records folded and not handed to the store.
	Uncommitted int `json:"uncommitted_records"`
	// Owed is why a rebase is still to come, empty for none.
	Owed string `json:"rebase_owed,omitempty"`
	// Telling is the bus's last failure, empty while it works.
	Telling string `json:"outbox_failure,omitempty"`
	// Unreadable, Lost and Duplicates count entries since this process's start.
	Unreadable uint64  `json:"unreadable_entries"`
	Lost       uint64  `json:"lost_entries"`
	Duplicates uint64  `json:"duplicate_entries"`
	Faults     []Fault `json:"log_faults"`
}

// ask runs f between two turns of the loop.
func (l *Loop) ask(ctx context.Context, f func()) error {
	ready := make(chan struct{})
	select {
	case l.asked <- func() { f(); close(ready) }:
		<-ready
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		return ErrStopped
	}
}

// Status returns how the loop stands.
func (l *Loop) Status(ctx context.Context) (s Status, err error) {
	err = l.ask(ctx, func() {
		s = Status{
			Controller: l.name, Leader: l.fleet.Controller(), Version: l.options.Version,
			Term: l.fleet.Term(), Leads: l.leading.leads, CaughtUp: l.reading.caughtUp,
			Seq: l.position.Seq, Lag: max(l.reading.known, l.position.Seq) - l.position.Seq,
			Uncommitted: l.storing.records, Owed: l.position.Owed, Telling: l.telling.failing,
			Unreadable: l.meters.unreadable.Get(), Lost: l.meters.lost.Get(), Duplicates: l.meters.duplicates.Get(),
			Faults: slices.Clone(l.faults),
		}
	})
	return s, err
}

// View returns a copy of the folded state for people.
func (l *Loop) View(ctx context.Context) (v model.FleetView, err error) {
	err = l.ask(ctx, func() { v = l.fleet.View() })
	return v, err
}

// Params returns the parameters in force and the record that brought them.
func (l *Loop) Params(ctx context.Context) (p model.ParamSet, seq uint64, err error) {
	err = l.ask(ctx, func() { p, seq = l.fleet.Params() })
	return p, seq, err
}

// Snapshot returns the canonical encoding of the whole state, its digest and
// the record it stands at.
func (l *Loop) Snapshot(ctx context.Context) (data []byte, digest [32]byte, seq uint64, err error) {
	err = l.ask(ctx, func() { data, digest, seq = l.fleet.AppendBinary(nil), l.fleet.Digest(), l.fleet.Seq() })
	return data, digest, seq, err
}

// maxWaiters bounds those who wait for a record.
const maxWaiters = 1024

// ErrBusy says that too many wait already.
var ErrBusy = errors.New("too many callers wait for the controller")

// Wait returns when record seq is folded.
func (l *Loop) Wait(ctx context.Context, seq uint64) error {
	done := make(chan struct{})
	var busy error
	err := l.ask(ctx, func() {
		switch {
		case l.position.Seq >= seq:
			close(done)
		case len(l.waiters) >= maxWaiters:
			busy = ErrBusy
		default:
			l.waiters = append(l.waiters, waiter{seq, done})
		}
	})
	err = errors.Join(err, busy)
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		return ErrStopped
	}
}

// Alive reports whether the loop turns: it answers within the given time.
func (l *Loop) Alive(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return l.ask(ctx, func() {}) == nil
}
