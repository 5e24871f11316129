package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"weir/sim/incident"
	"weir/sim/workload"
)

// Options say what to run.
type Options struct {
	// Incident has the workloads; only they and its fleet's size are used, and
	// whether a provider limits tokens: then prompts are as long as they say.
	Incident *incident.Incident
	// Traces holds what trace arrivals name.
	Traces map[string]workload.Trace
	// Seed decides arrivals and sizes.
	Seed uint64
	// Targets are base URLs with or without /v1. Agent i calls target i; with
	// fewer targets than agents they are shared in turn.
	Targets []string
	// Key is sent as a bearer token; empty for none.
	Key string
	// Agents is the number of applications' hosts; 0 means the incident's,
	// with the changes of its script.
	Agents int
	// For ends the run; 0 means the incident's duration.
	For time.Duration
	// CountFrom is the warm-up that the result leaves out.
	CountFrom time.Duration
	// Stream asks for streamed answers even where the workload does not.
	Stream bool
	// Hold bounds the requests that wait in the applications; 0 means 100000.
	Hold int
	// Every is the interval of Watch and of the timeline; 0 means 1 s, and
	// timelines of very long runs are coarser.
	Every time.Duration
	// Watch is called every Every, Wanted with each request when it is wanted,
	// both on the run's own goroutine: they must be quick. Nil for none.
	Watch  func(Snapshot)
	Wanted func(now time.Duration, r workload.Request)
	// Stdout takes the final table, Stderr a line of progress a second; nil
	// for none. JSON makes the final output one JSON object.
	Stdout, Stderr io.Writer
	JSON           bool
}

// Result is what a run came to. Counts and spreads leave the warm-up out.
type Result struct {
	Incident string  `json:"incident"`
	Seed     uint64  `json:"seed"`
	Agents   int     `json:"agents"`
	From     float64 `json:"counted_from_s"`
	Seconds  float64 `json:"seconds"`
	Counts
	// Goodput is completed requests per second.
	Goodput float64 `json:"goodput"`
	// Unfinished counts requests that were still on their way at the end,
	// InFlight those of them with a call out.
	Unfinished int64 `json:"unfinished"`
	InFlight   int64 `json:"in_flight"`
	// Codes counts failed tries by code.
	Codes map[string]int64 `json:"codes"`
	// Call is the time of good calls; Request that of completed requests,
	// from when they were wanted.
	Call    Spread `json:"call"`
	Request Spread `json:"request"`
	// Lag is how late requests were noticed: much of it means that this
	// machine is too slow or too busy for the load, and the figures with it.
	Lag Spread `json:"lag"`
	// Total counts from the start.
	Total    Counts  `json:"total"`
	Timeline []Point `json:"timeline"`
	// Cut is set when the run was ended early.
	Cut bool `json:"cut"`
}

// The bounds of a run.
const (
	mostCalls   = 20_000 // calls in flight, divided evenly where pools ask for more
	defaultHold = 100_000
)

// runner owns the state of a run.
type runner struct {
	o       Options
	gen     *workload.Generator
	callers []*caller
	apps    [][]*pool // by agent, then workload
	changes []incident.FleetChange

	waiting  later // failed requests before their next try
	held     int   // in backlogs and waiting
	inFlight int64
	tally    tally
	timeline []Point
	every    time.Duration

	start time.Time
	calls sync.WaitGroup
	done  chan outcome
}

// outcome is the end of a try.
type outcome struct {
	pool *pool
	r    *request
	code string
	took time.Duration
}

// Run plays the workloads until they end or ctx does; then the result so far
// comes with ctx's error.
func Run(ctx context.Context, o Options) (Result, error) {
	r, err := newRunner(o)
	if err != nil {
		return Result{}, err
	}
	defer r.close()
	callCtx, cancel := context.WithCancel(ctx)
	result, err := r.run(ctx, callCtx)
	cancel()
	r.drain()
	if werr := r.o.finish(&result); err == nil {
		err = werr
	}
	return result, err
}

func newRunner(o Options) (*runner, error) {
	if o.Incident == nil || len(o.Targets) == 0 {
		return nil, errors.New("load: want an incident and at least one target")
	}
	inc := *o.Incident
	r := &runner{o: o, done: make(chan outcome, 256), every: o.Every}
	if o.Agents > 0 {
		inc.Fleet.Agents, inc.Fleet.Changes = o.Agents, nil
	}
	r.o.Incident = &inc
	for _, c := range inc.Fleet.Changes {
		if c.Kind == incident.AgentCount {
			r.changes = append(r.changes, c)
		}
	}
	if r.o.For <= 0 {
		r.o.For = inc.Duration
	}
	if r.o.Hold <= 0 {
		r.o.Hold = defaultHold
	}
	if r.every <= 0 {
		r.every = time.Second
	}
	var err error
	if r.gen, err = workload.New(&inc, o.Seed, o.Traces); err != nil {
		return nil, fmt.Errorf("start workloads: %w", err)
	}
	r.tally.begin(0)
	return r, r.hosts(inc.Fleet.MaxAgents())
}

// hosts makes the applications of n agents.
func (r *runner) hosts(n int) error {
	conns := int64(0)
	limits := make([]int64, len(r.o.Incident.Workloads))
	most := max(1, int64(mostCalls/(max(1, n)*max(1, len(limits)))))
	for i := range limits {
		limits[i] = r.o.Incident.Workloads[i].Client.Pool
		if limits[i] < 0 || limits[i] > most {
			limits[i] = most
		}
		conns += limits[i]
	}
	for _, t := range r.o.Targets {
		share := (n + len(r.o.Targets) - 1) / len(r.o.Targets)
		c, err := newCaller(t, r.o.Key, r.o.Stream, min(int(conns)*share, mostCalls))
		if err != nil {
			return err
		}
		c.whole = countsTokens(r.o.Incident)
		r.callers = append(r.callers, c)
	}
	for agent := range n {
		var pools []*pool
		for i := range r.o.Incident.Workloads {
			pools = append(pools, &pool{workload: &r.o.Incident.Workloads[i], caller: r.callers[agent%len(r.callers)], limit: limits[i]})
		}
		r.apps = append(r.apps, pools)
	}
	return nil
}

func (r *runner) close() {
	for _, c := range r.callers {
		c.close()
	}
}

// run is the loop: it waits for the next instant or the next end of a call.
func (r *runner) run(ctx, calls context.Context) (Result, error) {
	r.start = time.Now()
	watch := r.every
	counting := r.o.CountFrom <= 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Since(r.start)
		if !counting && now >= r.o.CountFrom {
			r.tally.begin(now)
			counting = true
		}
		if ends := now >= r.o.For; ends || now >= watch {
			r.look(now)
			watch = now - now%r.every + r.every
			if ends {
				return r.result(now, false), nil
			}
		}
		r.arrivals(calls, now)
		next := min(r.o.For, watch, time.Duration(r.gen.NextAt()))
		if len(r.waiting) > 0 {
			next = min(next, r.waiting[0].at)
		}
		if !counting {
			next = min(next, r.o.CountFrom)
		}
		timer.Reset(max(0, next-time.Since(r.start)))
		select {
		case <-ctx.Done():
			return r.result(time.Since(r.start), true), fmt.Errorf("run load: %w", ctx.Err())
		case d := <-r.done:
			r.settle(calls, d)
		case <-timer.C:
		}
	}
}

// arrivals starts what is due.
func (r *runner) arrivals(calls context.Context, now time.Duration) {
	for len(r.changes) > 0 && r.changes[0].At <= now {
		r.gen.SetAgents(int64(now), r.changes[0].Count)
		r.changes = r.changes[1:]
	}
	for {
		req, ok := r.gen.Next(int64(now))
		if !ok {
			break
		}
		r.tally.total.Offered++
		r.tally.lag.Add(now - time.Duration(req.At))
		if r.o.Wanted != nil {
			r.o.Wanted(now, req)
		}
		r.admit(calls, now, &request{Request: req})
	}
	for req := r.waiting.due(now); req != nil; req = r.waiting.due(now) {
		r.held--
		r.admit(calls, now, req)
	}
}

// admit sends a request on its way if its pool has room, else holds it.
func (r *runner) admit(calls context.Context, now time.Duration, req *request) {
	p := r.apps[req.Agent][req.Workload]
	switch {
	case req.late(now):
		r.over(now, req, &r.tally.total.GaveUp)
	case p.room():
		r.send(calls, now, p, req)
	case r.held >= r.o.Hold:
		r.over(now, req, &r.tally.total.Dropped)
	default:
		r.held++
		p.backlog.push(req)
	}
}

// over ends a request.
func (r *runner) over(now time.Duration, req *request, count *int64) {
	*count++
	r.gen.Answered(int64(now), req.Request, count == &r.tally.total.Completed)
}

// send makes a try on a goroutine of its own.
func (r *runner) send(calls context.Context, now time.Duration, p *pool, req *request) {
	req.tries++
	p.out++
	r.inFlight++
	r.tally.total.Attempts++
	patience := p.workload.Client.Timeout
	if left := req.deadline() - now; req.Deadline > 0 && (patience <= 0 || left < patience) {
		patience = left
	}
	r.calls.Go(func() {
		ctx, cancel := calls, context.CancelFunc(func() {})
		if patience > 0 {
			ctx, cancel = context.WithTimeout(calls, patience)
		}
		defer cancel()
		from := time.Now()
		code := p.caller.call(ctx, p.workload, req)
		r.done <- outcome{pool: p, r: req, code: code, took: time.Since(from)}
	})
}

// settle takes the end of a try and follows the application's habit.
func (r *runner) settle(calls context.Context, d outcome) {
	now := time.Since(r.start)
	d.pool.out--
	r.inFlight--
	t := &r.tally
	switch {
	case d.code != "":
		t.total.Failed++
		t.total.FailedTokens += d.r.Input
		t.code(d.code)
		r.again(now, d)
	case d.r.late(now):
		t.total.Late++
		r.over(now, d.r, &t.total.GaveUp)
	default:
		t.total.OK++
		t.call.Add(d.took)
		t.recent.Add(d.took)
		t.request.Add(now - d.r.wanted())
		r.over(now, d.r, &t.total.Completed)
	}
	r.fill(calls, now, d.pool)
}

// again puts a failed request back, or gives it up.
func (r *runner) again(now time.Duration, d outcome) {
	wait, ok := workload.Again(d.pool.workload.Client.Retry, r.o.Seed, d.r.ID, d.r.tries)
	switch {
	case !ok || d.r.late(now+wait):
		r.over(now, d.r, &r.tally.total.GaveUp)
	case r.held >= r.o.Hold:
		r.over(now, d.r, &r.tally.total.Dropped)
	default:
		r.held++
		r.waiting.put(now+wait, d.r)
	}
}

// fill gives free places of a pool to those that wait.
func (r *runner) fill(calls context.Context, now time.Duration, p *pool) {
	for p.room() {
		req := p.backlog.pop()
		if req == nil {
			return
		}
		r.held--
		if req.late(now) {
			r.over(now, req, &r.tally.total.GaveUp)
			continue
		}
		r.send(calls, now, p, req)
	}
}

// look records a moment.
func (r *runner) look(now time.Duration) {
	s := r.tally.snapshot(now, r.inFlight, int64(r.held))
	if len(r.timeline) == mostPoints {
		r.timeline = coarser(r.timeline)
	}
	r.timeline = append(r.timeline, point(&s))
	if r.o.Watch != nil {
		r.o.Watch(s)
	}
	r.o.progress(&s)
}

// coarser joins neighbours, so that the timeline takes half the room.
func coarser(points []Point) []Point {
	for i := range len(points) / 2 {
		a, b := points[2*i], points[2*i+1]
		b.Counts = b.plus(a.Counts)
		points[i] = b
	}
	return slices.Clip(points[:len(points)/2])
}

// plus adds what happened before.
func (c Counts) plus(before Counts) Counts { return c.minus(Counts{}.minus(before)) }

func (r *runner) result(now time.Duration, cut bool) Result {
	res := r.tally.result(now)
	res.Incident, res.Seed, res.Agents, res.Cut = r.o.Incident.Name, r.o.Seed, r.o.Incident.Fleet.Agents, cut
	res.Unfinished, res.InFlight = int64(r.held)+r.inFlight, r.inFlight
	res.Timeline = r.timeline
	if res.Seconds > 0 {
		res.Goodput = round(float64(res.Completed) / res.Seconds)
	}
	return res
}

// drain waits for the calls that were given up.
func (r *runner) drain() {
	ended := make(chan struct{})
	go func() {
		r.calls.Wait()
		close(ended)
	}()
	for {
		select {
		case <-r.done:
		case <-ended:
			return
		}
	}
}
