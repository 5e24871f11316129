package controller

import (
	"log/slog"
	"time"

	"weir/controller/store"
	"weir/model"
)

const (
	// commitEvery is how long a folded record waits for its commit at most:
	// writing parts is the dearest step, and what changes often is written
	// once for all changes of this time.
	commitEvery = 30 * time.Millisecond
	// commitRecords commits before that.
	commitRecords = 256
	// syncEvery is how much of the fold a crash may have to repeat.
	syncEvery = 250 * time.Millisecond
	// maxDecisions bounds the decisions that wait for a slow disk.
	maxDecisions = 20_000
)

// storing is what is not stored yet.
type storing struct {
	busy    bool
	results chan error
	// change and sync are what is being committed; change is reused.
	change store.Change
	sync   bool
	start  time.Time
	// records counts what was folded since the last change was made, since
	// is when the first of it was.
	records int
	since   time.Time
	// unsynced is set while committed changes are not known to be on disk.
	unsynced  bool
	syncedAt  time.Time
	decisions []model.Decision
}

// changed notes that a record was folded.
func (s *storing) changed(now time.Time) {
	if s.records == 0 {
		s.since = now
	}
	s.records++
}

// decided keeps decisions for the next commit, as far as there is room.
func (l *Loop) decided(ds []model.Decision) {
	s := &l.storing
	room := min(len(ds), maxDecisions-len(s.decisions))
	s.decisions = append(s.decisions, ds[:room]...)
	l.meters.decisionsDropped.Add(len(ds) - room)
}

// storeDue returns when the next commit is due, zero for not at all.
func (l *Loop) storeDue() time.Time {
	s := &l.storing
	switch {
	case s.busy:
		return time.Time{}
	case s.records >= commitRecords:
		return s.since
	case s.records > 0:
		return s.since.Add(commitEvery)
	case s.unsynced:
		return s.syncedAt.Add(syncEvery)
	}
	return time.Time{}
}

// store begins a commit when one is due and none runs.
func (l *Loop) store(now time.Time) {
	due := l.storeDue()
	if due.IsZero() || now.Before(due) {
		return
	}
	s := &l.storing
	s.busy, s.start = true, now
	s.sync = now.Sub(s.syncedAt) >= syncEvery
	l.collect()
	s.sync = s.sync || s.change.Snapshot != nil // the log is trimmed for it
	decisions := s.decisions
	s.decisions = nil
	l.helpers.Go(func() {
		s.change.Decisions = encodeDecisions(s.change.Decisions[:0], decisions)
		s.results <- l.options.Store.Commit(&s.change, s.sync)
	})
}

// collect moves what changed out of the fold into the change.
func (l *Loop) collect() {
	s := &l.storing
	clear(s.change.Parts)
	s.change.Parts = s.change.Parts[:0]
	s.change.Position, s.change.Snapshot = l.position, l.snapshot()
	if s.records > 0 {
		for key, value := range l.fleet.DirtyParts() {
			s.change.Parts = append(s.change.Parts, store.Part{Key: key, Value: value})
		}
		l.fleet.Clean()
	}
	s.records = 0
}

// stored notes the end of a commit.
func (l *Loop) stored(err error) error {
	s := &l.storing
	s.busy = false
	if err != nil {
		l.log.Error("state cannot be stored, stopping", slog.Any("error", err))
		return err
	}
	if s.change.Snapshot != nil {
		l.kept(s.change.Position.Seq)
	}
	now := time.Now()
	l.meters.commit.Update(now.Sub(s.start).Seconds())
	s.unsynced = !s.sync
	if s.sync {
		s.syncedAt = now
	}
	return nil
}

// commitNow stores the state as it stands, on disk, while nothing else runs.
func (l *Loop) commitNow() error {
	s := &l.storing
	if s.busy {
		if err := l.stored(<-s.results); err != nil {
			return err
		}
	}
	// With the position alone there would be no state beside it in a new store.
	s.changed(time.Now())
	l.collect()
	s.change.Decisions = encodeDecisions(s.change.Decisions[:0], s.decisions)
	s.decisions = nil
	s.start, s.sync = time.Now(), true
	return l.stored(l.options.Store.Commit(&s.change, true))
}
