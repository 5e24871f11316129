package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"weir/cmd/weir/load"
	"weir/cmd/weir/report"
	"weir/cmd/weir/rig"
	"weir/sim/incident"
)

// Options say how to run the demo. The zero value is useful.
type Options struct {
	// For is the time of both phases together, starts and stops left out; 0
	// means 60 s, and at least 20 s are needed.
	For time.Duration
	// Dir is where the results are left; empty means demo-out.
	Dir string
	// NoWeb leaves the pages out: that of the run and the controller's.
	NoWeb bool
	// Incident is a built-in incident's name; empty means 2064-cascade.
	Incident string
	// Seed decides requests and luck, the same in both phases; 0 means 1.
	Seed uint64
	// Version is this software's version, for people.
	Version string
	// Stdout takes the final table, Stderr what goes on; nil drops them. JSON
	// makes the final output the Result as one JSON object.
	Stdout, Stderr io.Writer
	JSON           bool
	// Logger hears of trouble inside; nil means nobody does.
	Logger *slog.Logger
}

// The shape of a run.
const (
	defaultFor  = 60 * time.Second
	leastFor    = 20 * time.Second
	countFrom   = 5 * time.Second
	sampleEvery = 250 * time.Millisecond
	mostSamples = 480 // a phase; a longer one is sampled less often
	// mostLag is the lag in seconds beyond which the machine is to blame.
	mostLag = 0.1
)

// Result is what the demo came to.
type Result struct {
	Incident string  `json:"incident"`
	Seed     uint64  `json:"seed"`
	Seconds  float64 `json:"phase_seconds"`
	// CountedFrom is the second of each phase from which figures count.
	CountedFrom float64 `json:"counted_from_s"`
	// Lag is how late the 99th of a hundred requests was noticed, in seconds:
	// beyond a tenth the machine was busy with other things and had a part in
	// the figures.
	Lag float64 `json:"lag_s"`
	// Better is set when Weir completed more with fewer wasted attempts.
	Better       bool           `json:"better"`
	Uncontrolled report.Figures `json:"uncontrolled"`
	Weir         report.Figures `json:"weir"`
	// Dir holds the files Report, Picture, Journal (of the second phase) and
	// Summary.
	Dir     string `json:"dir"`
	Report  string `json:"report"`
	Picture string `json:"picture"`
	Journal string `json:"journal"`
	Summary string `json:"summary"`
	Made    string `json:"made"`
	Version string `json:"version"`
}

// fleetName is the demo's fleet.
const fleetName = "demo"

// The phases' names.
const (
	nameUncontrolled = "uncontrolled"
	nameWeir         = "with Weir"
)

// director runs the phases.
type director struct {
	o        Options
	incident *incident.Incident // in the length of one phase
	original *incident.Incident
	live     *live
	watch    *watch
	folder   *folder
	// lag is how late the 99th of a hundred requests was noticed, in seconds;
	// the worst phase's.
	lag float64
}

// Run runs the demo. An error means that it did not come to an end; whether
// Weir did better is in the result.
func Run(ctx context.Context, o Options) (Result, error) {
	d, err := newDirector(o)
	if err != nil {
		return Result{}, err
	}
	result, err := d.run(ctx)
	return result, errors.Join(err, d.watch.close(ctx), d.folder.close())
}

func newDirector(o Options) (*director, error) {
	if o.For == 0 {
		o.For = defaultFor
	}
	if o.For < leastFor {
		return nil, fmt.Errorf("demo of %s: want at least %s, since figures count from second %.0f of each half", o.For, leastFor, countFrom.Seconds())
	}
	if o.Incident == "" {
		o.Incident = "2064-cascade"
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	inc, err := incident.Builtin(o.Incident)
	if err != nil {
		return nil, fmt.Errorf("load incident: %w", err)
	}
	if n := len(inc.Providers); n != 1 {
		return nil, fmt.Errorf("incident %s has %d providers: the demo plays those with one", inc.Name, n)
	}
	d := &director{o: o, original: inc, incident: inc.Compress(o.For / 2)}
	d.live = newLive(o.Stderr, []string{nameUncontrolled, nameWeir}, d.incident.Duration)
	d.watch = newWatch(d)
	d.folder, err = newFolder(o.Dir)
	return d, err
}

func (d *director) run(ctx context.Context) (Result, error) {
	d.live.say("%s: %s of script in %s, played twice", d.incident.Name, d.original.Duration, d.incident.Duration)
	if !d.o.NoWeb {
		url, err := d.watch.serve()
		if err != nil {
			return Result{}, err
		}
		d.live.say("both halves side by side, as they go on: %s", url)
	}
	if err := d.uncontrolled(ctx); err != nil {
		return Result{}, fmt.Errorf("run phase %s: %w", nameUncontrolled, err)
	}
	if err := d.controlled(ctx); err != nil {
		return Result{}, fmt.Errorf("run phase %s: %w", nameWeir, err)
	}
	d.live.wipe()
	return d.leave()
}

// uncontrolled sends the load straight to the provider.
func (d *director) uncontrolled(ctx context.Context) (err error) {
	p, err := rig.StartProviders(d.incident, d.o.Seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	phase, err := d.play(ctx, 0, p, []string{p.Door()}, nil)
	d.watch.finish(0, &phase)
	return err
}

// controlled sends the same load through Weir.
func (d *director) controlled(ctx context.Context) (err error) {
	p, err := rig.StartProviders(d.incident, d.o.Seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	s, err := rig.Start(ctx, rig.Options{
		Dir: d.folder.stores, Config: d.incident.Told(fleetName), Agents: d.incident.Fleet.MaxAgents(), Upstreams: p.Upstreams(),
		Version: d.o.Version, Logger: d.o.Logger,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if !d.o.NoWeb {
		url, err := s.Web(d.o.Logger)
		if err != nil {
			return err
		}
		d.watch.controller(url)
		d.live.say("the controller of the second phase answers at %s", url)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-s.Failed:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	began := time.Now()
	phase, err := d.play(ctx, 1, p, s.Sidecars, s)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	if err := d.folder.journal(ctx, s.Log); err != nil {
		return err
	}
	err = decisions(s.Loop, &phase, began)
	d.watch.finish(1, &phase)
	return err
}

// play runs the load of one phase and samples everything meanwhile.
func (d *director) play(ctx context.Context, phase int, p *rig.Providers, targets []string, s *rig.Stack) (report.Phase, error) {
	every := sampleEvery
	for d.incident.Duration/every > mostSamples {
		every *= 2
	}
	var samples []sample
	d.live.begin(phase)
	d.watch.begin(phase)
	p.Reset()
	result, err := load.Run(ctx, load.Options{
		Incident: d.incident, Seed: d.o.Seed, Targets: targets, CountFrom: countFrom, Every: every,
		Wanted: p.Demand,
		Watch: func(at load.Snapshot) {
			sm := sample{at: at.At, load: at, window: math.NaN(), weight: math.NaN(), breaker: math.NaN()}
			sm.provider(&p.Reports()[0])
			if s != nil {
				sm.controller(ctx, s.Loop)
			}
			samples = append(samples, sm)
			d.live.show(phase, &sm)
			d.watch.show(samples)
		},
	})
	if err != nil {
		return report.Phase{}, err
	}
	d.lag = max(d.lag, result.Lag.P99)
	return d.phase(phase, samples, &result), nil
}

// phase is what one comes to by its samples. Without a result it goes on.
func (d *director) phase(i int, samples []sample, r *load.Result) report.Phase {
	p := report.Phase{
		Name: nameUncontrolled, About: "the applications call the provider; each puts a refused request back by itself",
		Seconds: d.incident.Duration.Seconds(), Samples: columns(samples), Marks: marks(d.incident),
	}
	if i == 1 {
		p.Name, p.About = nameWeir, "the same applications call the sidecar beside them; nothing else differs"
	}
	over := r != nil
	if !over {
		r = &load.Result{}
	}
	p.Figures = figures(samples, countFrom, lastChange(d.incident), r)
	p.Figures.Code2064 = code2064(d.incident, samples, countFrom)
	if !over && math.IsNaN(float64(p.Figures.Recover)) {
		p.Figures.Recover = report.Number(math.Inf(1))
	}
	return p
}
