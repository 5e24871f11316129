package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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
		BooksFrom: g.booksFrom, Traces: g.traces[p.incident],
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
