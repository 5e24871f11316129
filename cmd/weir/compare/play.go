package compare

import (
	"context"
	"errors"
	"time"

	"weir/cmd/weir/emulator"
	"weir/cmd/weir/load"
	"weir/cmd/weir/rig"
	"weir/controller"
	"weir/model"
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
	c := counter{from: o.CountFrom, providers: p}
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
		targets, c.loop = s.Sidecars, s.Loop
		go func() {
			select {
			case fault := <-s.Failed:
				cancel(fault)
			case <-ctx.Done():
			}
		}()
	}
	p.Reset() // the script begins with the load
	result, err := load.Run(ctx, load.Options{
		Incident: inc, Traces: o.Traces, Seed: o.Seed, Targets: targets, CountFrom: o.CountFrom, Every: time.Second,
		Wanted: p.Demand,
		Watch: func(at load.Snapshot) {
			c.look(ctx, at.At)
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
	loop      *controller.Loop // nil without Weir
	open      []emulator.Report
	last      []emulator.Report
	// openSeen and lastSeen are the attempts by class that the controller had
	// folded.
	openSeen, lastSeen map[string]int64
}

func (c *counter) look(ctx context.Context, at time.Duration) {
	c.last = c.providers.Reports()
	c.lastSeen = c.seen(ctx)
	if c.open == nil && at >= c.from {
		c.open, c.openSeen = c.last, c.lastSeen
	}
}

// seen sums the controller's counts over the channels; those of before when it
// is too busy to say.
func (c *counter) seen(ctx context.Context) map[string]int64 {
	if c.loop == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	v, err := c.loop.View(ctx)
	if err != nil {
		return c.lastSeen
	}
	sum := map[string]int64{}
	for i := range v.Channels {
		for class, n := range v.Channels[i].Attempts {
			sum[class] += int64(n)
		}
	}
	return sum
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
	if c.loop != nil {
		s.Refused = map[string]int64{}
		for class, n := range c.lastSeen {
			if class != model.ClassOK.String() {
				s.count(class, n-c.openSeen[class])
			}
		}
	}
	s.GoodputRatio = float64(s.Completed) / float64(max(s.CouldHaveServed, 1))
	s.WasteRatio = float64(s.Wasted) / float64(max(s.Attempts, 1))
	return s
}
