// Package history keeps what every channel was over time, for pages and
// reports: a point each ten seconds for a day and each minute for thirty days.
//
// A point holds gauges as they were at that moment and totals since the fleet's
// log began, so that a rate is the difference of two points, and leaving points
// out loses no attempt. A Recorder looks at the fleet with the clock of its
// machine and writes into the controller's store; it decides nothing, and what
// it keeps is no part of the fold's state. It owns no goroutine but the caller
// of Run.
package history

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"weir/controller/store"
	"weir/model"
)

// The two resolutions, and how long each is kept.
const (
	Fine       = 10 * time.Second
	Coarse     = time.Minute
	KeepFine   = 24 * time.Hour
	KeepCoarse = 30 * 24 * time.Hour
)

// MaxChannels bounds what one moment takes: the first so many channels by name
// have a history.
const MaxChannels = 1000

// MaxPoints is the most that Points returns; of more it leaves out all but
// every second, third and so on.
const MaxPoints = 2000

// trimEvery is how often old points go.
const trimEvery = 10 * time.Minute

// Recorder keeps and finds points.
type Recorder struct {
	store  *store.Store
	look   func(context.Context) (model.FleetView, error)
	logger *slog.Logger
	// The last moments written, by resolution, and the last trimmed.
	fine, coarse, trimmed time.Time
}

// New returns a recorder over a store. look returns the fleet as it is; logger
// hears of what fails and may be nil.
func New(s *store.Store, look func(context.Context) (model.FleetView, error), logger *slog.Logger) *Recorder {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Recorder{store: s, look: look, logger: logger}
}

// Run records until ctx ends. A point that cannot be taken is left out.
func (r *Recorder) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := time.Now(); r.due(now) {
			if err := r.Record(ctx, now); err != nil && ctx.Err() == nil {
				r.logger.Warn("a point of the history is missing", slog.Any("error", err))
			}
		}
	}
}

// due reports whether a new step of the finer resolution has begun.
func (r *Recorder) due(now time.Time) bool { return !now.Truncate(Fine).Equal(r.fine) }

// Record writes the points of the steps that now is in, each step once, and
// removes what is too old.
func (r *Recorder) Record(ctx context.Context, now time.Time) error {
	v, err := r.look(ctx)
	if err != nil {
		return fmt.Errorf("look at the fleet: %w", err)
	}
	samples := make([]store.Sample, 0, min(len(v.Channels), MaxChannels))
	for i := range v.Channels[:cap(samples)] {
		p := pointOf(&v.Channels[i])
		samples = append(samples, store.Sample{Name: v.Channels[i].Name, Data: p.append(nil)})
	}
	for _, series := range []struct {
		kind byte
		step time.Duration
		last *time.Time
	}{{kindFine, Fine, &r.fine}, {kindCoarse, Coarse, &r.coarse}} {
		at := now.Truncate(series.step)
		if at.Equal(*series.last) {
			continue
		}
		if err := r.store.PutSamples(series.kind, second(at), samples); err != nil {
			return err
		}
		*series.last = at
	}
	if now.Sub(r.trimmed).Abs() < trimEvery {
		return nil
	}
	r.trimmed = now
	if err := r.store.TrimSamples(kindFine, second(now.Add(-KeepFine))); err != nil {
		return err
	}
	return r.store.TrimSamples(kindCoarse, second(now.Add(-KeepCoarse)))
}

// Points returns a channel's points in from..to, oldest first, of the finer
// resolution where that is kept so far back.
func (r *Recorder) Points(channel string, from, to time.Time) ([]Point, error) {
	kind, step := byte(kindFine), Fine
	if time.Since(from) > KeepFine {
		kind, step = kindCoarse, Coarse
	}
	span := min(max(to.Sub(from), 0), KeepCoarse+KeepFine)
	every := int64(span/step)/MaxPoints + 1
	var points []Point
	err := r.store.Samples(kind, channel, second(from), second(to), func(at uint64, data []byte) bool {
		if p, ok := parsePoint(data); ok && int64(at)/int64(step/time.Second)%every == 0 {
			p.Unix = int64(at)
			points = append(points, p)
		}
		return len(points) < MaxPoints
	})
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return points, nil
}

// The kinds of series in the store.
const (
	kindFine   = 'f'
	kindCoarse = 'c'
)

// second is an instant in whole seconds since 1970, 0 for one before.
func second(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) }
