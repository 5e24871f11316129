package notice

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"weir/controller"
	"weir/model"
)

// Source is the controller that is watched; *controller.Loop is one.
type Source interface {
	Status(ctx context.Context) (controller.Status, error)
	View(ctx context.Context) (model.FleetView, error)
}

const (
	lookEvery  = time.Second
	lookWithin = 5 * time.Second
	// faultFor is how long a fault of the log counts as wrong.
	faultFor = time.Minute
	// mostNamed is how many agents a sentence names.
	mostNamed = 5
)

// Teller watches a controller and tells the hooks.
type Teller struct {
	Source Source
	Hooks  []*Hook
	// Link is what notices point to, empty for nothing.
	Link string

	watch Watch
}

// Run watches until ctx ends.
func (t *Teller) Run(ctx context.Context) {
	var hooks sync.WaitGroup
	for _, h := range t.Hooks {
		hooks.Go(func() { h.Run(ctx) })
	}
	defer hooks.Wait()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			t.look(ctx, now)
		}
	}
}

// look tells what is news. A controller that does not lead, or does not
// answer, has none.
func (t *Teller) look(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	status, err := t.Source.Status(ctx)
	if err != nil || !status.Leads || !status.CaughtUp {
		return
	}
	view, err := t.Source.View(ctx)
	if err != nil {
		return
	}
	for _, n := range t.watch.Step(now, Wrong(now, &status, &view)) {
		n.Fleet, n.Link = view.Fleet, t.Link
		for _, h := range t.Hooks {
			h.Tell(n)
		}
	}
}

// Wrong lists what is wrong with a fleet.
func Wrong(now time.Time, s *controller.Status, v *model.FleetView) (all []Condition) {
	for i := range v.Channels {
		c := &v.Channels[i]
		switch c.State {
		case model.BreakerOpen, model.BreakerHalfOpen:
			all = append(all, Condition{KindBreaker, c.Name, fmt.Sprintf("channel %s takes no calls: %s", c.Name, c.Reason)})
		case model.BreakerMisconfigured:
			all = append(all, Condition{KindCredential, c.Name, fmt.Sprintf("channel %s: its key is refused: %s", c.Name, c.Reason)})
		case model.BreakerClosed:
		}
	}
	var away []string
	for i := range v.Agents {
		if v.Agents[i].State == "away" {
			away = append(away, v.Agents[i].Agent)
		}
	}
	if n := len(away); n > 0 {
		named := strings.Join(away[:min(n, mostNamed)], ", ")
		all = append(all, Condition{KindAgents, "", fmt.Sprintf("%d of %d agents are not heard: %s", n, len(v.Agents), named)})
	}
	if n := len(s.Faults); n > 0 && now.Sub(s.Faults[n-1].At) < faultFor {
		all = append(all, Condition{KindLog, "", "the event log lost entries: " + s.Faults[n-1].Text})
	}
	if s.Telling != "" {
		all = append(all, Condition{KindBus, "", "the agents cannot be told: " + s.Telling})
	}
	return all
}
