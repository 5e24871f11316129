package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"weir/cmd/weir/simreport"
	"weir/model"
	"weir/sim/incident"
	"weir/sim/workload"
	"weir/sim/world"
)

// simCommand is weir sim.
type simCommand struct {
	Run         simRunCommand       `cmd:"" help:"Live incidents through in virtual time."`
	CompareLive simCompareCommand   `cmd:"" help:"Play incidents live and simulate them, and say by how much the two differ."`
	Tune        simTuneCommand      `cmd:"" help:"Search the parameters of the laws for better ones."`
	List        simListCommand      `cmd:"" help:"List the built-in incidents and the policies."`
	Replay      simReplayCommand    `cmd:"" help:"Verify a journal, tell what happened, and what other parameters would have made of it."`
	Calibrate   simCalibrateCommand `cmd:"" help:"Estimate an incident from a journal or a request log."`
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
		fmt.Fprintf(w, "incident\t%s\t%s\n", name, inc.About)
	}
	for _, p := range world.Policies() {
		fmt.Fprintf(w, "policy\t%s\t%s\n", p.Name, p.About)
	}
	return w.Flush()
}

// simRunCommand is weir sim run.
type simRunCommand struct {
	Incidents []string      `arg:"" optional:"" name:"incident" help:"Built-in incidents' names or files; all built-in ones if none is named."`
	Policy    []string      `default:"none,weir" placeholder:"LIST" help:"Policies (weir sim list), or all; none and weir if none is named."`
	Seeds     int           `default:"1" placeholder:"N" help:"How many seeds, from --seed on."`
	Seed      uint64        `default:"1" placeholder:"N" help:"The first seed."`
	Params    string        `placeholder:"FILE" help:"Parameters of the laws instead of the defaults."`
	Traces    string        `placeholder:"DIR" help:"Folder of the trace files that incidents name; each incident's own if none is named."`
	Compress  time.Duration `placeholder:"TIME" help:"Play each script in this time instead of its own."`
	BooksFrom time.Duration `placeholder:"TIME" help:"Count from this instant on; what came before is warm-up."`
	JSON      bool          `name:"json" help:"Print one JSON object a run, one a line."`
	Out       string        `placeholder:"DIR" help:"Leave report.html and runs.jsonl in this folder."`
}

// Help is shown by --help.
func (*simRunCommand) Help() string {
	return `Each run is measured against an oracle, which sees the provider's true state, with the same seed. The same command line gives the same bytes on every machine, but for wall_s. With several seeds the table has one row for all of them: medians, extremes, and in how many runs the load collapsed or recovered, with the interval that so few seeds leave open.

Examples:

  weir sim run
  weir sim run 2064-cascade --policy none,weir,netflix-aimd --seeds 5
  weir sim run 2064-cascade --compress 60s --seeds 8 --out sim-out
  weir sim run ./my-incident.yaml --policy all --params tuned.yaml --json`
}

// job is one simulation to run.
type job struct {
	policy string
	*scene
}

// scene is what the policies of one incident and seed have in common.
type scene struct {
	incident *incident.Incident
	traces   map[string]workload.Trace
	seed     uint64
	// oracle is lived through once, by whoever asks first. It is let go when
	// the last of the scene's jobs is done.
	oracle func() (*world.Result, error)
	left   atomic.Int64
}

// done is what a job came to.
type done struct {
	figures world.Figures
	run     *world.Result
	err     error
}

// Run runs every simulation, several at once, and prints them in order.
func (c *simRunCommand) Run(e *env) error {
	params := model.DefaultParams()
	if c.Params != "" {
		var err error
		if params, err = readParams(c.Params); err != nil {
			return err
		}
	}
	jobs, err := c.jobs(e, &params)
	if err != nil {
		return err
	}
	show, end := c.show(e.stdout, jobs)
	var report *simReport
	if c.Out != "" {
		if report, err = newSimReport(c.Out, c.study(jobs)); err != nil {
			return err
		}
	}
	progress := newBar(e.stderr, "simulations", int64(len(jobs)))
	err = collect(e.ctx, jobs, c.start(e.ctx, jobs, &params), func(i int, d *done) error {
		progress.set(int64(i+1), int64(len(jobs)))
		if report != nil {
			if err := report.add(&d.figures, d.run); err != nil {
				return err
			}
		}
		return show(&d.figures)
	})
	progress.close()
	err = errors.Join(err, end())
	switch {
	case report != nil && err == nil:
		return report.write()
	case report != nil:
		report.abandon()
	}
	return err
}

// show returns functions that print runs, and end what was printed.
func (c *simRunCommand) show(out io.Writer, jobs []job) (show func(*world.Figures) error, end func() error) {
	switch {
	case c.JSON:
		return lines(out)
	case c.Seeds > 1:
		t := simreport.NewTable(out, changing(jobs))
		return t.Show, t.End
	}
	return table(out)
}

// jobs lists the simulations in the order of their output.
func (c *simRunCommand) jobs(e *env, params *model.Params) ([]job, error) {
	chosen, err := c.policies()
	if err != nil {
		return nil, err
	}
	if c.Seeds < 1 || c.Seeds > 10_000 {
		return nil, badInput(fmt.Errorf("--seeds=%d: want 1 to 10000", c.Seeds))
	}
	names := c.Incidents
	if len(names) == 0 {
		names = incident.List()
	}
	var jobs []job
	for _, name := range names {
		inc, traces, err := c.load(name)
		if err != nil && len(c.Incidents) == 0 && errors.Is(err, fs.ErrNotExist) {
			e.log.Warn("incident is left out: --traces names no folder with its trace", slog.String("incident", name), slog.Any("error", err))
			continue
		}
		if err != nil {
			return nil, err
		}
		scenes := make([]*scene, c.Seeds)
		for k := range scenes {
			scenes[k] = c.scene(inc, traces, c.Seed+uint64(k), params)
		}
		for _, p := range chosen {
			for _, s := range scenes {
				s.left.Add(1)
				jobs = append(jobs, job{p, s})
			}
		}
	}
	return jobs, nil
}

// load returns an incident and the traces it names.
func (c *simRunCommand) load(name string) (*incident.Incident, map[string]workload.Trace, error) {
	inc, err := findIncident(name)
	if err != nil {
		return nil, nil, err
	}
	traces, err := readTraces(inc, traceFolder(c.Traces, name))
	if err != nil {
		return nil, nil, err
	}
	if inc, err = compress(inc, c.Compress); err != nil {
		return nil, nil, err
	}
	if c.BooksFrom < 0 || c.BooksFrom >= inc.Duration {
		return nil, nil, badInput(fmt.Errorf("--books-from=%s: %s lasts %s", c.BooksFrom, inc.Name, inc.Duration))
	}
	return inc, traces, nil
}

func (c *simRunCommand) scene(inc *incident.Incident, traces map[string]workload.Trace, seed uint64, params *model.Params) *scene {
	s := &scene{incident: inc, traces: traces, seed: seed}
	s.oracle = sync.OnceValues(func() (*world.Result, error) { return c.live(s, world.PolicyOracle, params) })
	return s
}

// policies returns the chosen ones in their own order.
func (c *simRunCommand) policies() ([]string, error) {
	var known, chosen []string
	for _, p := range world.Policies() {
		known = append(known, p.Name)
		if slices.Contains(c.Policy, p.Name) || slices.Contains(c.Policy, "all") {
			chosen = append(chosen, p.Name)
		}
	}
	for _, name := range c.Policy {
		if name != "all" && !slices.Contains(known, name) {
			return nil, badInput(fmt.Errorf("--policy=%s: there is no such policy; weir sim list shows them", name))
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
	workers := min(runtime.GOMAXPROCS(0), len(jobs))
	next := make(chan func())
	for range workers {
		go func() {
			for do := range next {
				do()
			}
		}()
	}
	go func() {
		defer close(next)
		scenes := scenesOf(jobs)
		for i := range jobs {
			var tasks []func()
			for len(scenes) > 0 && scenes[0].first <= i+workers {
				tasks = append(tasks, scenes[0].live)
				scenes = scenes[1:]
			}
			for _, do := range append(tasks, func() { results[i] <- c.simulate(&jobs[i], params) }) {
				select {
				case next <- do:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return results
}

// sceneStart is when a scene's oracle is wanted.
type sceneStart struct {
	first int // of the jobs
	live  func()
}

// scenesOf lists the scenes by their first job. An oracle takes as long as
// several policies, which all wait for it: it begins before its scene does.
func scenesOf(jobs []job) []sceneStart {
	var list []sceneStart
	seen := map[*scene]bool{}
	for i := range jobs {
		if s := jobs[i].scene; !seen[s] {
			seen[s] = true
			oracle := s.oracle
			list = append(list, sceneStart{i, func() { _, _ = oracle() }}) // whoever asks hears of a fault
		}
	}
	return list
}

func (c *simRunCommand) simulate(j *job, params *model.Params) done {
	from := time.Now()
	oracle, err := j.oracle()
	r := oracle
	if err == nil && j.policy != world.PolicyOracle {
		from = time.Now()
		r, err = c.live(j.scene, j.policy, params)
	}
	if err != nil {
		return done{err: fmt.Errorf("simulate %s: %w", j.incident.Name, err)}
	}
	d := done{figures: world.Measure(r, oracle, time.Since(from))}
	if r.Series != nil {
		d.run = r
	}
	if j.left.Add(-1) == 0 {
		j.oracle = nil
	}
	return d
}

func (c *simRunCommand) live(s *scene, policy string, params *model.Params) (*world.Result, error) {
	return world.Run(world.Config{
		Incident: s.incident, Seed: s.seed, Policy: policy, Params: params, BooksFrom: c.BooksFrom, Traces: s.traces, Points: c.points(s.seed),
	})
}

// collect takes the results in order.
func collect(ctx context.Context, jobs []job, results []chan done, take func(int, *done) error) error {
	for i := range jobs {
		select {
		case <-ctx.Done():
			return errors.New("the simulations were stopped before their end")
		case d := <-results[i]:
			if d.err != nil {
				return d.err
			}
			if err := take(i, &d); err != nil {
				return err
			}
		}
	}
	return nil
}

// table returns functions that print runs for people, and end the table.
func table(out io.Writer) (show func(*world.Figures) error, end func() error) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, strings.Join([]string{
		"incident", "policy", "seed", "wanted", "completed", "of oracle", "attempts", "wasted", "p50", "p99", "recovered", "",
	}, "\t"))
	return func(f *world.Figures) error {
		recovered := "-"
		if f.RecoverS != nil {
			recovered = fmt.Sprintf("%.0fs", *f.RecoverS)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%.1f %%\t%d\t%.1f %%\t%.2fs\t%.2fs\t%s\t\n", f.Incident, f.Policy, f.Seed, f.Requests, f.Completed,
			100*f.GoodputRatio, f.Attempts, 100*f.WasteRatio, f.P50S, f.P99S, recovered)
		return nil
	}, w.Flush
}

// lines returns functions that print runs as JSON lines, and end them.
func lines(out io.Writer) (show func(*world.Figures) error, end func() error) {
	enc := json.NewEncoder(out)
	return func(f *world.Figures) error { return enc.Encode(f) }, func() error { return nil }
}
