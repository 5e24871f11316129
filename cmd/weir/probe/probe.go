package probe

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"
)

// Options say what to probe and how.
type Options struct {
	Target
	Bounds
	// Dimensions are the limits to look for; see the function of that name.
	Dimensions []string
	// Progress, if not nil, hears now and then what was spent.
	Progress func(Spent)
}

// Outcome is what a probe found.
type Outcome struct {
	URL   string `json:"url"`
	Model string `json:"model"`
	API   API    `json:"api"`
	Spent Spent  `json:"spent"`
	// Stopped says why the probe ended before its own end; empty if it did not.
	Stopped  string    `json:"stopped,omitempty"`
	Steps    []Step    `json:"steps"`
	Findings []Finding `json:"findings"`
}

// Run probes until its plan is done or ctx ends. An error means that the
// target is unusable, or that not one call succeeded and why.
func Run(ctx context.Context, o Options) (Outcome, error) {
	c, err := newCaller(o.Target)
	if err != nil {
		return Outcome{}, err
	}
	defer c.close()
	plan := NewPlan(o.Bounds, o.Dimensions)
	if err := drive(ctx, plan, c, o.Progress); err != nil {
		return Outcome{}, err
	}
	out := Outcome{
		URL: o.URL, Model: o.Model, API: o.API,
		Spent: plan.Spent(), Stopped: plan.Stopped(), Steps: plan.Steps(), Findings: plan.Findings(),
	}
	if f := plan.Fault(); f != "" {
		return out, errors.New("probe " + host(o.URL) + ": " + f)
	}
	return out, nil
}

// host is the part of a URL that may be shown anywhere.
func host(text string) string {
	if u, err := url.Parse(text); err == nil {
		return u.Host
	}
	return "the provider"
}

// ended is a call that is over.
type ended struct {
	id     int
	result Result
}

// drive lets a plan run by the clock.
func drive(ctx context.Context, plan *Plan, c *caller, progress func(Spent)) error {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan ended)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		m := plan.Next(time.Since(start))
		switch {
		case m.Done:
			return nil
		case m.Send:
			calls.Go(func() {
				r := c.call(ctx, m.Ask)
				select {
				case over <- ended{m.Call, r}:
				case <-ctx.Done():
				}
			})
			continue
		}
		timer.Reset(max(m.Wake-time.Since(start), 0))
		select {
		case e := <-over:
			plan.Ended(time.Since(start), e.id, e.result)
			if progress != nil {
				progress(plan.Spent())
			}
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
