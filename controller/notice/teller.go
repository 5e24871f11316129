package notice

import (
	"context"
	"fmt"
	"slices"
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
	Decisions(q controller.DecisionQuery) ([]controller.Decision, error)
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
	// after is the last record whose decisions were looked at; guard is the
	// newest push that was taken back, and when that was seen.
	after   uint64
	guard   Condition
	guardAt time.Time
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
	t.lookBack(now, view.Seq)
	wrong := Wrong(now, &status, &view)
	if now.Sub(t.guardAt) < faultFor {
		wrong = append(wrong, t.guard)
	}
	for _, n := range t.watch.Step(now, wrong) {
		n.Fleet, n.Link = view.Fleet, t.Link
		for _, h := range t.Hooks {
			h.Tell(n)
		}
	}
}

// lookBack looks for a push that was taken back since the last look. What was
// decided before the first one is no news.
func (t *Teller) lookBack(now time.Time, seq uint64) {
	if t.after == 0 {
		t.after = seq
		return
	}
	found, err := t.Source.Decisions(controller.DecisionQuery{From: t.after + 1, Rule: string(model.RuleParams)})
	if err != nil {
		return // they are looked for again
	}
	for i := range found {
		t.after = max(t.after, found[i].Seq)
		if strings.Contains(found[i].Reason, "taken back") {
			t.guard, t.guardAt = Condition{KindGuard, fmt.Sprint(found[i].Seq), "parameters were taken back: " + found[i].Reason}, now
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
	all = append(all, spent(v)...)
	all = append(all, degraded(v)...)
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

// spent lists the days of channels, groups and tenants that are used up.
func spent(v *model.FleetView) (all []Condition) {
	for i := range v.Days {
		if d := &v.Days[i]; d.At == model.StageSpent {
			all = append(all, Condition{KindQuota, d.Name, fmt.Sprintf("the day of %s is spent: %s", d.Name, d.Reason)})
		}
	}
	return all
}

// degraded lists the routes whose first tier has no channel that takes calls.
func degraded(v *model.FleetView) (all []Condition) {
	stopped := map[string]bool{}
	for i := range v.Channels {
		stopped[v.Channels[i].Name] = v.Channels[i].State != model.BreakerClosed
	}
	for i := range v.Routes {
		r := &v.Routes[i]
		at := slices.IndexFunc(r.Tiers, func(t model.FleetTier) bool {
			return t.Rule || slices.ContainsFunc(t.Channels, func(c string) bool { return !stopped[c] })
		})
		switch {
		case at < 0:
			all = append(all, Condition{KindRoute, r.Name, fmt.Sprintf("nothing serves route %s", r.Name)})
		case at > 0:
			all = append(all, Condition{KindRoute, r.Name, fmt.Sprintf("route %s is served by tier %d", r.Name, at)})
		}
	}
	return all
}
