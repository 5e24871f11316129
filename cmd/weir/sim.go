package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"weir/cmd/weir/config"
	"weir/model"
	"weir/sim/incident"
	"weir/sim/workload"
	"weir/sim/world"
)

// simCommand is weir sim.
type simCommand struct {
	Run  simRunCommand  `cmd:"" help:"Live incidents through in virtual time."`
	List simListCommand `cmd:"" help:"List the built-in incidents and the policies."`
}

// policy is who decides in a simulation.
type policy struct{ name, about string }

// policies lists them in the order of results.
func policies() []policy {
	return []policy{
		{world.PolicyNone, "no control: the applications call the provider and repeat as the incident says"},
		{world.PolicyWeir, "Weir: the controller's fold and the agents' gates as they ship"},
	}
}

// simListCommand is weir sim list.
type simListCommand struct{}

// Help is shown by --help.
func (*simListCommand) Help() string {
	return `One a line: what it is, its name, its sentence.

Examples:

  weir sim list`
}

// Run prints the list.
func (*simListCommand) Run(e *env) error {
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	for _, name := range incident.List() {
		inc, err := incident.Builtin(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "incident\t%s\t%s\n", inc.Name, inc.About)
	}
	for _, p := range policies() {
		fmt.Fprintf(w, "policy\t%s\t%s\n", p.name, p.about)
	}
	return w.Flush()
}

// simRunCommand is weir sim run.
type simRunCommand struct {
	Incidents []string      `arg:"" optional:"" name:"incident" help:"Built-in incidents' names or files; all built-in ones if none is named."`
	Policy    []string      `default:"all" placeholder:"LIST" help:"Policies (weir sim list), or all."`
	Seeds     int           `default:"1" placeholder:"N" help:"How many seeds, from --seed on."`
	Seed      uint64        `default:"1" placeholder:"N" help:"The first seed."`
	Params    string        `placeholder:"FILE" help:"Parameters of the laws instead of the defaults."`
	Compress  time.Duration `placeholder:"TIME" help:"Play each script in this time instead of its own."`
	BooksFrom time.Duration `placeholder:"TIME" help:"Count from this instant on; what came before is warm-up."`
	JSON      bool          `name:"json" help:"Print one JSON object a run, one a line."`
}

// Help is shown by --help.
func (*simRunCommand) Help() string {
	return `The same command line gives the same bytes on every machine, but for wall_s.

Examples:

  weir sim run
  weir sim run 2064-cascade --policy none,weir --seeds 5
  weir sim run ./my-incident.yaml --params tuned.yaml --json`
}

// job is one simulation to run.
type job struct {
	incident *incident.Incident
	traces   map[string]workload.Trace
	policy   string
	seed     uint64
}

// done is what a job came to.
type done struct {
	result *world.Result
	wall   time.Duration
	err    error
}

// Run runs every simulation, several at once, and prints them in order.
func (c *simRunCommand) Run(e *env) error {
	jobs, err := c.jobs()
	if err != nil {
		return err
	}
	params := model.DefaultParams()
	if c.Params != "" {
		p, err := read(c.Params, config.ParseParams)
		if err != nil {
			return err
		}
		if params, err = p.Apply(params); err != nil {
			return badInput(err)
		}
	}
	show := c.table(e.stdout)
	if c.JSON {
		show = c.lines(e.stdout, params.Hash())
	}
	progress := newBar(e.stderr, "simulations", int64(len(jobs)))
	results := c.start(e.ctx, jobs, &params)
	err = c.collect(e.ctx, jobs, results, func(i int, d done) error {
		progress.set(int64(i+1), int64(len(jobs)))
		return show(&jobs[i], d)
	})
	progress.close()
	if err != nil {
		return err
	}
	return show(nil, done{})
}

// jobs lists the simulations in the order of their output.
func (c *simRunCommand) jobs() ([]job, error) {
	names := c.Incidents
	if len(names) == 0 {
		names = incident.List()
	}
	chosen, err := c.policies()
	if err != nil {
		return nil, err
	}
	if c.Seeds < 1 || c.Seeds > 10_000 {
		return nil, badInput(fmt.Errorf("--seeds=%d: want 1 to 10000", c.Seeds))
	}
	var jobs []job
	for _, name := range names {
		inc, err := findIncident(name)
		if err != nil {
			return nil, err
		}
		traces, err := readTraces(name, inc)
		if err != nil {
			return nil, err
		}
		if inc, err = compress(inc, c.Compress); err != nil {
			return nil, err
		}
		if c.BooksFrom < 0 || c.BooksFrom >= inc.Duration {
			return nil, badInput(fmt.Errorf("--books-from=%s: %s lasts %s", c.BooksFrom, inc.Name, inc.Duration))
		}
		for _, p := range chosen {
			for k := range c.Seeds {
				jobs = append(jobs, job{inc, traces, p, c.Seed + uint64(k)})
			}
		}
	}
	return jobs, nil
}

// policies returns the chosen ones in their own order.
func (c *simRunCommand) policies() ([]string, error) {
	var known, chosen []string
	for _, p := range policies() {
		known = append(known, p.name)
		if slices.Contains(c.Policy, p.name) || slices.Contains(c.Policy, "all") {
			chosen = append(chosen, p.name)
		}
	}
	for _, name := range c.Policy {
		if name != "all" && !slices.Contains(known, name) {
			return nil, badInput(fmt.Errorf("--policy=%s: there are %s, or all", name, strings.Join(known, ", ")))
		}
	}
	return chosen, nil
}

// start runs the jobs on as many processors as there are; each job has a
// channel of its own for its result.
func (c *simRunCommand) start(ctx context.Context, jobs []job, params *model.Params) []chan done {
	results := make([]chan done, len(jobs))
	for i := range results {
		results[i] = make(chan done, 1)
	}
	next := make(chan int)
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		go func() {
			for i := range next {
				results[i] <- c.simulate(&jobs[i], params)
			}
		}()
	}
	go func() {
		defer close(next)
		for i := range jobs {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	return results
}

func (c *simRunCommand) simulate(j *job, params *model.Params) done {
	from := time.Now()
	r, err := world.Run(world.Config{
		Incident: j.incident, Seed: j.seed, Policy: j.policy, Params: params, BooksFrom: c.BooksFrom, Traces: j.traces,
	})
	return done{r, time.Since(from), err}
}

// collect takes the results in order.
func (c *simRunCommand) collect(ctx context.Context, jobs []job, results []chan done, take func(int, done) error) error {
	for i, result := range results {
		select {
		case <-ctx.Done():
			return errors.New("the simulations were stopped before their end")
		case d := <-result:
			if d.err != nil {
				return fmt.Errorf("simulate %s: %w", jobs[i].incident.Name, d.err)
			}
			if err := take(i, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// table returns a function that prints runs for people; called without a job
// it ends the table.
func (c *simRunCommand) table(out io.Writer) func(*job, done) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "incident\tpolicy\tseed\twanted\tcompleted\tof possible\tattempts\twasted\tp50\tp99\t")
	return func(j *job, d done) error {
		if j == nil {
			return w.Flush()
		}
		r := d.result
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%.1f %%\t%d\t%.1f %%\t%.2fs\t%.2fs\t\n", r.Incident, r.Policy, r.Seed, r.Requests, r.Completed,
			100*r.GoodputRatio(), r.Attempts, 100*r.WasteRatio(), r.P50.Seconds(), r.P99.Seconds())
		return nil
	}
}

// simLine is one run in JSON.
type simLine struct {
	Incident       string  `json:"incident"`
	Policy         string  `json:"policy"`
	Seed           uint64  `json:"seed"`
	Params         string  `json:"params"`
	Digest         string  `json:"digest"`
	Requests       int64   `json:"requests"`
	Completed      int64   `json:"completed"`
	Failed         int64   `json:"failed"`
	Possible       int64   `json:"possible"`
	Goodput        float64 `json:"goodput"`
	GoodputRatio   float64 `json:"goodput_ratio"`
	Attempts       int64   `json:"attempts"`
	Refused        int64   `json:"refused_attempts"`
	WastedAttempts int64   `json:"wasted_attempts"`
	WasteRatio     float64 `json:"waste_ratio"`
	Retries        int64   `json:"retries"`
	P50            float64 `json:"p50_s"`
	P95            float64 `json:"p95_s"`
	P99            float64 `json:"p99_s"`
	Events         uint64  `json:"sim_events"`
	Virtual        float64 `json:"virtual_s"`
	Wall           float64 `json:"wall_s"`
}

// lines returns a function that prints runs as JSON lines.
func (c *simRunCommand) lines(out io.Writer, params string) func(*job, done) error {
	enc := json.NewEncoder(out)
	return func(j *job, d done) error {
		if j == nil {
			return nil
		}
		r := d.result
		return enc.Encode(simLine{
			Incident: r.Incident, Policy: r.Policy, Seed: r.Seed, Params: params, Digest: fmt.Sprintf("%016x", r.Digest),
			Requests: r.Requests, Completed: r.Completed, Failed: r.Failed, Possible: r.Could,
			Goodput:      float64(r.Completed) / (j.incident.Duration - c.BooksFrom).Seconds(),
			GoodputRatio: r.GoodputRatio(), Attempts: r.Attempts, Refused: r.Refused,
			WastedAttempts: r.Wasted, WasteRatio: r.WasteRatio(), Retries: r.Retries,
			P50: r.P50.Seconds(), P95: r.P95.Seconds(), P99: r.P99.Seconds(),
			Events: r.Events, Virtual: j.incident.Duration.Seconds(), Wall: d.wall.Seconds(),
		})
	}
}
