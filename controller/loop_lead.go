package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"weir/controller/store"
	"weir/events"
	"weir/model"
)

// tickEvery is the least time between two ticks, so that a deadline that a
// tick does not settle cannot fill the log.
const tickEvery = 5 * time.Millisecond

// leading is this process's part as a leader: its term and what it appends.
type leading struct {
	// leads is set while the fold's newest term is this process's; term is
	// that one.
	leads bool
	term  uint64
	// bid is the term last asked for; standby is set when another got it.
	bid     uint64
	standby bool
	// step is how far the next bid goes; it doubles while the bus knows of
	// terms that the log does not.
	step uint64
	// fenced is set when the bus refused this term, since then; the log's
	// end, as a later look saw it, must be folded before another term is
	// asked for.
	fenced    bool
	since     time.Time
	fencedEnd uint64 // 0 until that look

	// busy is set while an append of the loop's own runs. awaited is the
	// newest entry appended and not read back.
	busy    bool
	awaited uint64
	results chan appended
	pause   backoff
	after   time.Time // not before

	ticked     time.Time
	configured bool // the file's configuration needs nothing more

	// turn is held during an append, by the loop or an operator's command.
	turn chan struct{}
}

// appended is the outcome of an append.
type appended struct {
	fact   model.Fact
	folded uint64 // what was folded when it began
	seq    uint64
	err    error
}

// lead notes whether this process leads after what was folded.
func (l *Loop) lead() {
	d := &l.leading
	term := l.fleet.Term()
	ours := term > 0 && l.fleet.Controller() == l.name && l.elected()
	switch {
	case ours && term != d.term:
		d.term, d.leads, d.fenced, d.standby = term, true, false, false
		l.telling.all(l.fleet)
		l.log.Info("leading", slog.Uint64("term", term), slog.Uint64("seq", l.position.Seq))
	case !ours && (d.leads || !d.standby && d.bid != 0 && term >= d.bid):
		// Who is elected was only overtaken by what a leader before it sent late.
		d.term, d.leads, d.standby = 0, false, l.options.Election == nil || !l.elected()
		l.telling.silence()
		l.log.Warn("another controller leads", slog.Uint64("term", term), slog.String("leader", l.fleet.Controller()))
	}
}

// looked lets a fenced leader ask for a higher term once the log's end, as it
// was after the refusal, is folded and names no other leader.
func (d *leading) looked(at time.Time, last uint64) {
	if d.fenced && d.fencedEnd == 0 && at.After(d.since) {
		d.fencedEnd = max(last, 1)
	}
}

// fence notes that the bus knows a higher term.
func (d *leading) fence() {
	if !d.fenced {
		d.fenced, d.since, d.fencedEnd = true, time.Now(), 0
	}
}

// write appends what is due, one entry at a time: each is read back before
// the next.
func (l *Loop) write(ctx context.Context, now time.Time) {
	if due := l.writeDue(now); due.IsZero() || now.Before(due) {
		return
	}
	switch d := &l.leading; {
	case !d.leads || d.fenced:
		l.append(ctx, l.bid(), 0)
	case l.position.Owed != "":
		l.append(ctx, l.rebase(), l.position.Seq)
	case !d.configured:
		l.configure(ctx)
	default:
		d.ticked = now
		l.append(ctx, &model.Tick{Term: l.fleet.Term(), Elapsed: model.Nanos(now.Sub(l.reading.appliedAt))}, 0)
	}
}

// writeDue returns when the next own entry is due, zero for not before
// something else happens.
func (l *Loop) writeDue(now time.Time) time.Time {
	d := &l.leading
	switch {
	case d.busy || !l.reading.caughtUp || l.reading.broken || l.position.Seq < d.awaited:
		return time.Time{}
	case !l.elected():
		return time.Time{}
	case now.Before(d.after):
		return d.after
	case d.fenced:
		if d.fencedEnd == 0 || l.position.Seq < d.fencedEnd {
			return time.Time{}
		}
		return now
	case !d.leads:
		if d.standby {
			return time.Time{}
		}
		return now
	case l.position.Owed != "" || !d.configured:
		return now
	}
	wake := l.reading.appliedAt.Add(time.Duration(l.fleet.NextWake() - l.fleet.Now()))
	if least := d.ticked.Add(tickEvery); wake.Before(least) {
		return least
	}
	return wake
}

// bid makes the entry that asks for a term.
func (l *Loop) bid() *model.Lead {
	d := &l.leading
	d.step = max(d.step, 1)
	d.bid = l.fleet.Term() + d.step
	return &model.Lead{Term: d.bid, Controller: l.name, Version: l.options.Version, Laws: model.LawVersion}
}

// rebase makes the entry that anchors the log at the state as it stands. It
// is appended only directly behind that state, so that nothing that others
// append in between is lost in it.
func (l *Loop) rebase() *model.Rebase {
	return &model.Rebase{
		Term: l.fleet.Term(), Snapshot: l.fleet.AppendBinary(nil), Digest: l.fleet.Digest(), Reason: l.position.Owed,
	}
}

// configure puts the file's configuration into the log if the file changed
// since it last was, and differs from what is in force.
func (l *Loop) configure(ctx context.Context) {
	d := &l.leading
	file := l.options.Config
	if file == nil {
		d.configured = true
		return
	}
	encoded := events.Encode(nil, file)
	folded, seq := l.fleet.Config()
	unchanged := seq > 0 && l.position.File == store.Checksum(encoded)
	if unchanged || bytes.Equal(encoded, events.Encode(nil, folded)) {
		d.configured = true
		l.position.File = store.Checksum(encoded)
		l.storing.changed(time.Now())
		return
	}
	l.append(ctx, file, 0)
}

// append appends an entry beside the fold. With after set it is refused
// unless that is the log's last entry.
func (l *Loop) append(ctx context.Context, f model.Fact, after uint64) {
	l.leading.busy = true
	data, folded := events.Encode(nil, f), l.position.Seq
	l.helpers.Go(func() {
		seq, err := l.put(ctx, data, after)
		l.leading.results <- appended{fact: f, folded: folded, seq: seq, err: err}
	})
}

// put appends one encoded fact; one at a time.
func (l *Loop) put(ctx context.Context, data []byte, after uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	select {
	case l.leading.turn <- struct{}{}:
		defer func() { <-l.leading.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if log, ok := l.options.Log.(events.Loader); ok && after > 0 {
		return after + 1, log.Load(ctx, events.Entry{
			Seq: after + 1, Time: model.Nanos(time.Now().UnixNano()),
			Subject: events.ControlSubject(l.options.Fleet), Data: data,
		})
	}
	return l.options.Log.Append(ctx, data)
}

// written notes the outcome of an append of the loop's own.
func (l *Loop) written(r appended) {
	d := &l.leading
	d.busy = false
	if r.err != nil {
		l.meters.appendFailures.Inc()
		l.refused(r)
		return
	}
	d.awaited, d.pause, d.after = r.seq, backoff{}, time.Time{}
	if r.seq <= r.folded {
		// The log gives numbers away that were folded: it was rewound.
		l.looking.at = time.Time{}
		d.after = time.Now().Add(lookOften)
	}
	switch f := r.fact.(type) {
	case *model.Lead:
		d.fencedEnd = r.seq
		d.step *= 2 // until the bus takes the term
	case *model.Config:
		d.configured = true
		l.position.File = store.Checksum(events.Encode(nil, f))
		l.storing.changed(time.Now())
	case *model.Tick:
		l.meters.ticks.Inc()
	}
}

// refused makes the loop try again later.
func (l *Loop) refused(r appended) {
	d := &l.leading
	_, anchors := r.fact.(*model.Rebase)
	switch {
	case anchors && errors.Is(r.err, events.ErrConflict):
		// Somebody else was faster; the next state is tried once it is folded.
		d.after = time.Now().Add(tickEvery)
	case anchors && errors.Is(r.err, events.ErrTooLarge):
		l.log.Error("the state is too large for a rebase, it is kept beside the log instead", slog.Any("error", r.err))
		l.position.Owed, l.keeping.due = "", true
	default:
		d.after = time.Now().Add(d.pause.next())
		l.log.Warn("log takes no entry, trying again", slog.String("kind", r.fact.Kind().String()), slog.Any("error", r.err))
	}
}

// Append puts a fact into the log for an operator: a command, parameters or a
// configuration. It returns its sequence once the log has it; Wait waits until
// it is folded.
func (l *Loop) Append(ctx context.Context, f model.Fact) (seq uint64, err error) {
	data := events.Encode(nil, f)
	if len(data) > events.MaxEntry {
		return 0, events.ErrTooLarge
	}
	if seq, err = l.put(ctx, data, 0); err != nil {
		return 0, fmt.Errorf("append %s: %w", f.Kind(), err)
	}
	return seq, nil
}
