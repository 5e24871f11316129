package controller

import (
	"fmt"
	"log/slog"
	"time"

	"weir/controller/store"
	"weir/events"
	"weir/model"
)

// maxRun is how many entries are folded before the loop looks at anything
// else: about ten milliseconds of full batches.
const maxRun = 256

// fold folds an entry and those that wait behind it.
func (l *Loop) fold(e events.Entry) {
	l.take(e)
	for n := 1; n < maxRun && !l.fx.Now; n++ {
		select {
		case e = <-l.reading.entries:
			l.take(e)
			continue
		default:
		}
		break
	}
	l.absorb()
	l.reached()
}

// take folds an entry that comes next, and sees to one that does not.
func (l *Loop) take(e events.Entry) {
	switch next := l.reading.next; {
	case e.Seq < next:
		l.meters.duplicates.Inc()
		return
	case e.Seq > next && l.position.Seq == 0 && e.Seq == l.reading.first:
		// The log begins here. It may hold its own base further on.
		l.reading.unseen, l.electing.lacks = e.Seq-next, true
		l.owe("the log begins at record %d and there is no state before it", e.Seq)
	case e.Seq > next:
		l.hole(next, e.Seq)
	}
	l.apply(e)
}

func (l *Loop) apply(e events.Entry) {
	rec, err := l.decoder.Record(e)
	if err != nil {
		l.unreadable(e, err)
	}
	before, start := l.fleet.Counters(), time.Now()
	l.fleet.Apply(rec, &l.fx)
	l.reading.appliedAt = time.Now()
	l.meters.fold.Update(l.reading.appliedAt.Sub(start).Seconds())
	l.meters.folded.Inc()
	l.noted(rec.Fact, before, l.fleet.Counters())
	l.position.Seq, l.position.Time, l.position.CRC = e.Seq, e.Time, store.Checksum(e.Data)
	l.reading.next, l.reading.pause = e.Seq+1, backoff{}
	l.storing.changed(l.reading.appliedAt)
}

// noted sees to what a fact means beyond the fold, if the fold took it.
func (l *Loop) noted(f model.Fact, before, after model.Counters) {
	switch f := f.(type) {
	case *model.Rebase:
		if after.Rebases > before.Rebases {
			l.position.Owed, l.reading.unseen, l.electing.lacks = "", 0, false
		}
	case *model.Attempts:
		if after.Attempts > before.Attempts {
			config, _ := l.fleet.Config()
			l.usage.count(config, f)
		}
	}
}

// unreadable counts an entry that is no fact, and logs the first and then
// ever fewer of them.
func (l *Loop) unreadable(e events.Entry, err error) {
	n := l.meters.unreadable
	n.Inc()
	if count := n.Get(); count&(count-1) == 0 {
		l.log.Warn("entry of the log cannot be read and is skipped",
			slog.Uint64("seq", e.Seq), slog.String("subject", e.Subject), slog.Uint64("so_far", count), slog.Any("error", err))
	}
}

// absorb takes over what the fold asks for.
func (l *Loop) absorb() {
	l.decided(l.fx.Decisions)
	l.lead()
	if l.leading.leads {
		l.telling.add(&l.fx)
	}
	l.fx.Reset()
	l.wake()
}

// reached notes once that everything the log held at the start is folded.
func (l *Loop) reached() {
	if l.reading.caughtUp || l.reading.next <= l.reading.target {
		return
	}
	l.reading.caughtUp = true
	if n := l.reading.unseen; n > 0 {
		l.lost(n)
		l.faults.add(l, faultHoled, fmt.Sprintf("%d records before the log's first are gone and no rebase replaces them", n))
	}
	l.log.Info("caught up with the log", slog.Uint64("seq", l.position.Seq))
}

// waiter waits for a record to be folded.
type waiter struct {
	seq  uint64
	done chan struct{}
}

// wake releases those who wait for what is folded now.
func (l *Loop) wake() {
	keep := l.waiters[:0]
	for _, w := range l.waiters {
		if w.seq <= l.position.Seq {
			close(w.done)
			continue
		}
		keep = append(keep, w)
	}
	l.waiters = keep
}
