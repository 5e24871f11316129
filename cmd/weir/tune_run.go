package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"weir/cmd/weir/simreport"
	"weir/cmd/weir/tunereport"
	"weir/sim/incident"
	"weir/sim/tune"
	"weir/sim/workload"
	"weir/sim/world"
)

// ground is what parameters are tried on.
type ground struct {
	names     []tune.Incident
	incidents []*incident.Incident
	traces    []map[string]workload.Trace
	booksFrom time.Duration

	mu      sync.Mutex
	oracles map[place]oracle
}

// place is one incident with one seed.
type place struct {
	incident int
	seed     uint64
}

// oracle lives a place through with perfect knowledge, once.
type oracle func() (*world.Result, error)

// evaluate returns what lives jobs through with so many workers, 0 for one a
// processor. ran is called for each, one at a time.
func (g *ground) evaluate(ctx context.Context, n int, ran func()) tune.Evaluate {
	return func(jobs []tune.Job, take func(tune.Outcome) error) error {
		return inOrder(ctx, workers(n), jobs, g.live, func(o tune.Outcome) error {
			ran()
			return take(o)
		})
	}
}

// live lives one job through.
func (g *ground) live(j *tune.Job) (tune.Outcome, error) {
	best, err := g.oracle(place{j.Incident, j.Seed})()
	if err != nil {
		return tune.Outcome{}, err
	}
	r, err := world.Run(g.world(place{j.Incident, j.Seed}, world.PolicyWeir, j))
	if err != nil {
		return tune.Outcome{}, fmt.Errorf("simulate %s: %w", g.names[j.Incident].Name, err)
	}
	return tune.Measure(r, best), nil
}

func (g *ground) world(p place, policy string, j *tune.Job) world.Config {
	return world.Config{
		Incident: g.incidents[p.incident], Seed: p.seed, Policy: policy, Params: &j.Params,
		BooksFrom: g.booksFrom, Traces: g.traces[p.incident], NoCould: true,
	}
}

// oracle returns the place's, which is lived through by whoever asks first.
func (g *ground) oracle(p place) oracle {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.oracles[p] == nil {
		g.oracles[p] = sync.OnceValues(func() (*world.Result, error) {
			r, err := world.Run(g.world(p, world.PolicyOracle, &tune.Job{}))
			if err != nil {
				return nil, fmt.Errorf("simulate %s: %w", g.names[p.incident].Name, err)
			}
			r.Decisions, r.Books = nil, nil // not what anything is measured by
			return r, nil
		})
	}
	return g.oracles[p]
}

// What a report shows over time: so many incidents, at so many instants.
const (
	mostMoves  = 3
	movePoints = 150
)

// moves lives the incidents that the verdict's set moved most through once
// more, before and after, and keeps what they were over time.
func (g *ground) moves(ctx context.Context, r *tune.Result) ([]tunereport.Move, error) {
	moves := []tunereport.Move{}
	order := make([]int, len(r.Verdict.Incidents))
	for i := range order {
		order[i] = i
	}
	gain := func(i int) float64 { return math.Abs(r.Verdict.Incidents[i].Gain) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(gain(b), gain(a)) })
	for _, i := range order[:min(mostMoves, len(order))] {
		m := tunereport.Move{Gain: r.Verdict.Incidents[i].Gain}
		at := place{i, r.Verdict.Incidents[i].Seed}
		var err error
		if m.Before, err = g.timeline(ctx, at, r.InForce); err != nil {
			return nil, err
		}
		if m.After, err = g.timeline(ctx, at, r.Winner); err != nil {
			return nil, err
		}
		moves = append(moves, m)
	}
	return moves, nil
}

// timeline lives a place through under a trial's parameters.
func (g *ground) timeline(ctx context.Context, at place, t *tune.Trial) (simreport.Timeline, error) {
	if ctx.Err() != nil {
		return simreport.Timeline{}, errors.New("the report was stopped before its end")
	}
	c := g.world(at, world.PolicyWeir, &tune.Job{Params: t.Params()})
	c.Points, c.NoCould = movePoints, false
	r, err := world.Run(c)
	if err != nil {
		return simreport.Timeline{}, fmt.Errorf("simulate %s: %w", g.names[at.incident].Name, err)
	}
	return simreport.TimelineOf(r), nil
}

// inOrder does jobs in several workers and hands the results over in the order
// of the jobs. It ends with the first error, when ctx does, and never before
// its workers have.
func inOrder[J, R any](ctx context.Context, workers int, jobs []J, do func(*J) (R, error), take func(R) error) error {
	type done struct {
		result R
		err    error
	}
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	results := make([]chan done, len(jobs))
	for i := range results {
		results[i] = make(chan done, 1)
	}
	next := make(chan int)
	for range min(workers, len(jobs)) {
		all.Go(func() {
			for i := range next {
				r, err := do(&jobs[i])
				results[i] <- done{r, err}
			}
		})
	}
	all.Go(func() {
		defer close(next)
		for i := range jobs {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	for i := range results {
		select {
		case <-ctx.Done():
			return errors.New("the study was stopped before its end")
		case d := <-results[i]:
			if d.err != nil {
				return d.err
			}
			if err := take(d.result); err != nil {
				return err
			}
		}
	}
	return nil
}
