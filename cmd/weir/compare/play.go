package compare

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/cmd/weir/emulator"
	"weir/cmd/weir/load"
	"weir/cmd/weir/rig"
	"weir/sim/incident"
	"weir/sim/world"
)

// fleetName is the live fleet's.
const fleetName = "compare"

// play plays a script with its stores under dir.
func play(ctx context.Context, inc *incident.Incident, o *Options, dir string) (side Side, lag float64, err error) {
	p, err := rig.StartProviders(inc, o.Seed)
	if err != nil {
		return Side{}, 0, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	targets := []string{p.Door()}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if o.Policy == world.PolicyWeir {
		s, err := rig.Start(ctx, rig.Options{
			Dir: dir, Config: inc.Told(fleetName), Agents: inc.Fleet.MaxAgents(), Upstreams: p.Upstreams(), Params: o.Params,
			Version: o.Version, Logger: o.Logger,
		})
		if err != nil {
			return Side{}, 0, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		targets = s.Sidecars
		go func() {
			select {
			case fault := <-s.Failed:
				cancel(fault)
			case <-ctx.Done():
			}
		}()
	}
	p.Reset() // the script begins with the load
	c := counter{from: o.CountFrom, providers: p}
	result, err := load.Run(ctx, load.Options{
		Incident: inc, Traces: o.Traces, Seed: o.Seed, Targets: targets, CountFrom: o.CountFrom, Every: time.Second,
		Wanted: p.Demand,
		Watch: func(at load.Snapshot) {
			c.look(at.At)
			if o.Watch != nil {
				o.Watch(at.At, inc.Duration)
			}
		},
	})
	if err != nil {
		return Side{}, 0, errors.Join(err, context.Cause(ctx))
	}
	return c.side(&result), result.Lag.P99, nil
}

// counter keeps the providers' books of when counting begins, and the newest.
type counter struct {
	from      time.Duration
	providers *rig.Providers
	open      []emulator.Report
	last      []emulator.Report
}

func (c *counter) look(at time.Duration) {
	c.last = c.providers.Reports()
	if c.open == nil && at >= c.from {
		c.open = c.last
	}
}

// side is what a live run came to.
func (c *counter) side(r *load.Result) Side {
	s := Side{Requests: r.Offered, Completed: r.Completed, P50: r.Request.P50, P99: r.Request.P99}
	for i := range c.open {
		a, b := &c.open[i].Books, &c.last[i].Books
		s.CouldHaveServed += b.CouldHaveServed - a.CouldHaveServed
		s.Attempts += b.Offered - a.Offered
		s.Wasted += b.Wasted() - a.Wasted()
	}
	s.GoodputRatio = float64(s.Completed) / float64(max(s.CouldHaveServed, 1))
	s.WasteRatio = float64(s.Wasted) / float64(max(s.Attempts, 1))
	return s
}

// String says where the comparison stands, for tests and logs.
func (r *Result) String() string {
	return fmt.Sprintf("%s, %s: goodput %.1f %% live, %.1f %% simulated; waste %.1f %% and %.1f %%; lag %.3f s",
		r.Incident, r.Policy, 100*r.Live.GoodputRatio, 100*r.Simulated.GoodputRatio, 100*r.Live.WasteRatio, 100*r.Simulated.WasteRatio, r.Lag)
}
