package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"weir/controller/store"
	"weir/events"
	"weir/model"
)

const (
	// stateEvery is how often a whole state is kept: what lies between one and
	// the moment that is asked for is folded anew.
	stateEvery = 5 * time.Minute
	// keepStates is how far back they reach, maxState the largest that is
	// kept: together at most some 300 MB, and a few for a fleet of usual size.
	keepStates = 24 * time.Hour
	maxState   = 1 << 20
	// kindState is the states' series.
	kindState = 's'
)

// The errors of At.
var (
	// ErrBeyond says that neither a state nor the log reaches back so far.
	ErrBeyond = errors.New("the log and the states that are kept do not reach back to that moment")
	// ErrBusy says that another moment is being looked for.
	ErrBusy = errors.New("another moment is being looked for")
)

// Snapshot returns the fleet's state, its digest and its record;
// (*controller.Loop).Snapshot is one.
type Snapshot func(ctx context.Context) (data []byte, digest [32]byte, seq uint64, err error)

// Rewind finds the fleet as it was at a moment that is over: from the state
// kept last before it, by the fold of the log behind that. It keeps such a
// state now and then, which is no part of the fold's either.
type Rewind struct {
	store    *store.Store
	log      events.Log
	snapshot Snapshot
	logger   *slog.Logger
	turn     chan struct{} // held by At
}

// NewRewind returns one over a store and the fleet's log; logger may be nil.
func NewRewind(s *store.Store, log events.Log, snapshot Snapshot, logger *slog.Logger) *Rewind {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Rewind{store: s, log: log, snapshot: snapshot, logger: logger, turn: make(chan struct{}, 1)}
}

// Run keeps states until ctx ends.
func (r *Rewind) Run(ctx context.Context) {
	tick := time.NewTicker(stateEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if err := r.Keep(ctx, now); err != nil && ctx.Err() == nil {
				r.logger.Warn("a state of the history is missing", slog.Any("error", err))
			}
		}
	}
}

// Keep keeps the state as it is now, and removes what is too old. A state that
// is too large is left out: then At folds more.
func (r *Rewind) Keep(ctx context.Context, now time.Time) error {
	data, _, _, err := r.snapshot(ctx)
	if err != nil {
		return fmt.Errorf("take a state: %w", err)
	}
	if len(data) <= maxState {
		if err := r.store.PutSamples(kindState, second(now), []store.Sample{{Data: data}}); err != nil {
			return err
		}
	}
	return r.store.TrimSamples(kindState, second(now.Add(-keepStates)))
}

// At returns the fleet as it was after the last record before a moment. Its
// errors are ErrBeyond, ErrBusy, and ctx's when too much lies between.
func (r *Rewind) At(ctx context.Context, at time.Time) (model.FleetView, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	default:
		return model.FleetView{}, ErrBusy
	}
	info, err := r.log.Info(ctx)
	if err != nil {
		return model.FleetView{}, err
	}
	fleet, err := r.base(at, info.First)
	if err == nil {
		err = r.fold(ctx, fleet, at, info.Last)
	}
	if err != nil {
		return model.FleetView{}, err
	}
	return fleet.View(), nil
}

// base returns the state kept last before a moment, or the beginning of a log
// that is whole.
func (r *Rewind) base(at time.Time, first uint64) (*model.Fleet, error) {
	var newest []byte
	// It was taken in the second of its key, so one of the moment's own second
	// may be later than the moment.
	err := r.store.Samples(kindState, "", second(at.Add(-keepStates)), second(at)-1, func(_ uint64, data []byte) bool {
		newest = append(newest[:0], data...)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	fleet := model.NewFleet()
	if newest != nil {
		if fleet, err = model.DecodeFleet(newest); err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
	}
	if fleet.Seq()+1 < first {
		return nil, ErrBeyond
	}
	return fleet, nil
}

// fold folds what the log holds behind a state up to a moment.
func (r *Rewind) fold(ctx context.Context, fleet *model.Fleet, at time.Time, last uint64) (err error) {
	if fleet.Seq() >= last {
		return nil
	}
	reader, err := r.log.Read(ctx, fleet.Seq()+1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	decoder := events.NewDecoder()
	var fx model.Effects
	for fleet.Seq() < last {
		e, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		if e.Time > model.Nanos(at.UnixNano()) {
			break
		}
		rec, _ := decoder.Record(e) // the fold counts what cannot be read
		fleet.Apply(rec, &fx)
		fx.Reset()
	}
	if fleet.Seq() == 0 {
		return ErrBeyond
	}
	return nil
}
