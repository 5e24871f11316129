package agent

import (
	"slices"
	"strings"
	"time"

	"weir/model"
)

// Forecast says where a request would come to stand and how long it would
// wait.
type Forecast struct {
	// Position is its place in the route's queue, from 1.
	Position int
	// Least is the time before which nothing can start, as far as is known.
	Least time.Duration
	// Most is twice what the queue's pace of the last seconds makes of its
	// position, negative when nothing tells the pace. A request that cannot
	// wait so long is refused, and every request ends at its deadline.
	Most time.Duration
}

// paceDoubt is by how much a queue's pace, seen over a few seconds, may be
// wrong.
const paceDoubt = 2

// Forecast returns what awaits a request of that priority for a route; ok is
// false when there is no such route.
func (c *Client) Forecast(route string, p model.Priority) (f Forecast, ok bool) {
	var v model.GateView
	c.View(&v)
	return c.ForecastBy(&v, route, p)
}

// ForecastBy is Forecast by a view that was taken lately.
func (c *Client) ForecastBy(v *model.GateView, route string, p model.Priority) (f Forecast, ok bool) {
	r := c.fleet.Load().routes[route]
	if r == nil {
		return f, false
	}
	return forecast(r, p, v), true
}

func forecast(r *model.RouteConfig, p model.Priority, v *model.GateView) Forecast {
	f := Forecast{Position: 1, Least: opens(r, v), Most: -1}
	at, ok := slices.BinarySearchFunc(v.Queues, r.Name, func(q model.QueueView, name string) int { return strings.Compare(q.Route, name) })
	if !ok {
		return f
	}
	q := &v.Queues[at]
	for at := p; int(at) < len(q.Waiting); at++ {
		f.Position += q.Waiting[at]
	}
	switch {
	case q.Pace > 0:
		f.Most = f.Least + paceDoubt*time.Duration(f.Position)*q.Pace.Duration()
	case f.Position == 1 && f.Least == 0 && room(r, v):
		f.Most = 0
	}
	return f
}

// opens is how long no channel of the route's first tier may be called.
func opens(r *model.RouteConfig, v *model.GateView) time.Duration {
	least := time.Duration(-1)
	each(r, v, func(c *model.ChannelView) {
		if wait := c.Wait.Duration(); least < 0 || wait < least {
			least = wait
		}
	})
	return max(least, 0)
}

// room reports whether a channel of the route's first tier has a free slot.
func room(r *model.RouteConfig, v *model.GateView) bool {
	free := false
	each(r, v, func(c *model.ChannelView) {
		free = free || c.Mode == model.ModeObserve || c.Wait == 0 && c.InFlight+c.Held < c.Share
	})
	return free
}

func each(r *model.RouteConfig, v *model.GateView, yield func(c *model.ChannelView)) {
	if len(r.Tiers) == 0 {
		return
	}
	for _, w := range r.Tiers[0].Channels {
		at, ok := slices.BinarySearchFunc(v.Channels, w.Channel, func(c model.ChannelView, name string) int { return strings.Compare(c.Channel, name) })
		if ok {
			yield(&v.Channels[at])
		}
	}
}
