package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/controller/store"
	"weir/events"
	"weir/model"
)

// ErrStopped says that the Loop does not run, or no longer.
var ErrStopped = errors.New("controller is not running")

// Loop folds one fleet's log and acts on it. Run is called once; the other
// methods are for any goroutine while it runs.
type Loop struct {
	options Options
	name    string // this process, in the log
	log     *slog.Logger
	meters  *meters

	fleet   *model.Fleet
	fx      model.Effects
	decoder *events.Decoder
	// position is the last entry folded and what else is stored with it. Its
	// Created is the log's at the last look.
	position store.Position

	reading  reading
	storing  storing
	leading  leading
	electing electing
	telling  telling
	looking  looking
	keeping  keeping
	faults   faults
	usage    usage

	asked   chan func()   // what other goroutines want to see
	waiters []waiter      // for a record to be folded
	done    chan struct{} // closed when Run has ended
	helpers sync.WaitGroup
}

// New returns a Loop that is ready to run.
func New(o Options) (*Loop, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Loop{
		options: o,
		name:    processName(o.Controller),
		log:     o.Logger,
		decoder: events.NewDecoder(),
		asked:   make(chan func()),
		done:    make(chan struct{}),
	}
	l.meters = newMeters(o.Metrics)
	o.Metrics.RegisterMetricsWriter(l.expose)
	l.reading.stop = func() {}
	l.storing.results = make(chan error, 1)
	l.leading.results = make(chan appended, 1)
	l.leading.turn = make(chan struct{}, 1)
	l.leading.standby = o.Election != nil
	l.electing.results = make(chan campaigned, 1)
	l.electing.at, l.electing.free = time.Now(), time.Now()
	l.telling.broadcasts = make(chan broadcast, 1)
	l.telling.leased = make(chan leased, 1)
	l.telling.changed = map[string]struct{}{}
	l.telling.leases = map[string]struct{}{}
	l.telling.nextBroadcast, l.telling.nextLeases = time.Now(), time.Now()
	l.looking.results = make(chan look, 1)
	l.keeping.results = make(chan trimmed, 1)
	return l, nil
}

// Run folds until ctx ends, then stores what is not stored and returns nil. It
// returns an error when the stored state cannot be read or a commit fails.
func (l *Loop) Run(ctx context.Context) error {
	defer close(l.done)
	if err := l.load(); err != nil {
		return err
	}
	err := l.check(ctx)
	if ctx.Err() != nil && !errors.Is(err, errCommit) {
		return nil // stopped before the log could be reached
	}
	if err != nil {
		return err
	}
	work, cancel := context.WithCancel(ctx)
	l.read(work)
	err = l.turn(work)
	cancel()
	l.reading.stop()
	l.helpers.Wait()
	l.resign()
	if err != nil {
		return err
	}
	return l.commitNow()
}

// load restores the stored state.
func (l *Loop) load() error {
	position, found, err := l.options.Store.Load()
	if err != nil {
		return fmt.Errorf("load state: %w", err)
	}
	l.fleet = model.NewFleet()
	if !found {
		return nil
	}
	var scan error
	fleet, err := model.FleetFromParts(l.options.Store.Parts(&scan))
	if err := errors.Join(scan, err); err != nil {
		return fmt.Errorf("load state at record %d (move the store away to fold the log anew): %w", position.Seq, err)
	}
	if fleet.Seq() != position.Seq {
		return fmt.Errorf("load state: it stands at record %d, its position at %d (move the store away to fold the log anew)", fleet.Seq(), position.Seq)
	}
	l.fleet, l.position = fleet, position
	all, err := l.options.Store.Snapshots()
	if err != nil {
		return fmt.Errorf("load snapshots: %w", err)
	}
	for _, seq := range all {
		l.kept(seq)
	}
	return nil
}

// turn is the loop itself: do what is due, then wait for what comes first.
func (l *Loop) turn(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		l.campaign(ctx, now)
		l.write(ctx, now)
		l.tell(ctx, now)
		l.keep(ctx)
		l.store(now)
		l.look(ctx, now)
		timer.Reset(time.Until(l.nextDue(now)))
		select {
		case <-ctx.Done():
			return nil
		case e := <-l.reading.entries:
			l.fold(e)
		case err := <-l.reading.ended:
			l.interrupted(err)
		case err := <-l.storing.results:
			if err := l.stored(err); err != nil {
				return err
			}
		case r := <-l.leading.results:
			l.written(r)
		case c := <-l.electing.results:
			l.campaigned(c)
		case b := <-l.telling.broadcasts:
			l.told(b)
		case r := <-l.telling.leased:
			l.toldLeases(r)
		case r := <-l.keeping.results:
			l.trimmedTo(r)
		case found := <-l.looking.results:
			if err := l.looked(ctx, found); err != nil {
				return err
			}
		case f := <-l.asked:
			f()
		case <-timer.C:
		}
	}
}

// nextDue returns when something is due if nothing comes before.
func (l *Loop) nextDue(now time.Time) time.Time {
	due := now.Add(time.Minute)
	for _, at := range []time.Time{l.writeDue(now), l.tellDue(now), l.storeDue(), l.lookDue(), l.campaignDue(), l.electionEnd()} {
		if !at.IsZero() && at.Before(due) {
			due = at
		}
	}
	return due
}
