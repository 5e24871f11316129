package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"weir/cmd/weir/compare"
	"weir/model"
)

// simCompareCommand is weir sim compare-live.
type simCompareCommand struct {
	Incidents []string      `arg:"" name:"incident" help:"Built-in incidents' names or files."`
	Policy    []string      `default:"weir" placeholder:"LIST" help:"weir, none or both."`
	Speed     float64       `default:"10" placeholder:"N" help:"Play each script so many times faster, at most 10; service times stay real."`
	CountFrom time.Duration `default:"5s" placeholder:"TIME" help:"Count from this instant on; what came before is warm-up."`
	Seed      uint64        `default:"1" placeholder:"N" help:"Decides arrivals, sizes and luck."`
	Params    string        `placeholder:"FILE" help:"Parameters of the laws instead of the defaults."`
	Traces    string        `placeholder:"DIR" help:"Folder of the trace files that incidents name; each incident's own if none is named."`
	Tolerance float64       `default:"5" placeholder:"POINTS" help:"By how many points goodput or waste may differ."`
	JSON      bool          `name:"json" help:"Print one JSON object a comparison, one a line."`
}

// Help is shown by --help.
func (*simCompareCommand) Help() string {
	return `Each incident is played live on free ports of this machine, an emulated provider, NATS, a controller and a sidecar for each agent, and the same script is simulated with the same compression. Goodput is the share of what could have been served that was, waste the share of attempts that brought nothing. It fails when one of them differs by more than the tolerance. A machine that is busy with other things makes the live side worse; the lag tells.

Examples:

  weir sim compare-live row-step
  weir sim compare-live 2064-cascade row-ambiguous two-models --policy none,weir --tolerance 4`
}

// Run compares one after the other.
func (c *simCompareCommand) Run(e *env) error {
	all, err := c.options(e)
	if err != nil {
		return err
	}
	show, end := c.show(e.stdout)
	var results []compare.Result
	for i := range all {
		o := &all[i]
		progress := newBar(e.stderr, o.Incident.Name+" live, seconds", int64(o.Incident.Duration.Seconds()/o.Speed))
		o.Watch = func(at, of time.Duration) { progress.set(int64(at.Seconds()), int64(of.Seconds())) }
		r, err := compare.Run(e.ctx, *o)
		progress.close()
		switch {
		case e.ctx.Err() != nil:
			return errors.Join(errors.New("the comparison was stopped before its end"), end())
		case err != nil:
			return errors.Join(err, end())
		}
		if err := show(&r); err != nil {
			return err
		}
		results = append(results, r)
	}
	return errors.Join(end(), c.judge(results))
}

// judge is an error when one of the comparisons is off by more than the
// tolerance.
func (c *simCompareCommand) judge(results []compare.Result) error {
	var off []string
	for i := range results {
		if r := &results[i]; !(r.Off() <= c.Tolerance) {
			text := fmt.Sprintf("%s with %s by %.1f points", r.Incident, r.Policy, r.Off())
			if r.Lag > compare.MostLag {
				text += fmt.Sprintf(" on a machine that noticed requests %.2f s late", r.Lag)
			}
			off = append(off, text)
		}
	}
	if len(off) > 0 {
		return fmt.Errorf("live and simulated differ by more than %g points: %s", c.Tolerance, strings.Join(off, ", "))
	}
	return nil
}

// options reads and checks everything before anything starts.
func (c *simCompareCommand) options(e *env) ([]compare.Options, error) {
	if !(c.Tolerance >= 0 && c.Tolerance <= 100) {
		return nil, badInput(fmt.Errorf("--tolerance=%g: want 0 to 100 points", c.Tolerance))
	}
	if c.CountFrom < 0 {
		return nil, badInput(fmt.Errorf("--count-from=%s: want a time of 0 or more", c.CountFrom))
	}
	var params *model.Params
	if c.Params != "" {
		p, err := readParams(c.Params)
		if err != nil {
			return nil, err
		}
		params = &p
	}
	var all []compare.Options
	for _, name := range c.Incidents {
		inc, err := findIncident(name)
		if err != nil {
			return nil, err
		}
		traces, err := readTraces(inc, traceFolder(c.Traces, name))
		if err != nil {
			return nil, err
		}
		for _, policy := range c.Policy {
			o := compare.Options{
				Incident: inc, Traces: traces, Policy: policy, Speed: c.Speed, Seed: c.Seed, Params: params, CountFrom: c.CountFrom,
				Version: version(), Logger: e.log,
			}
			if err := compare.Check(&o); err != nil {
				return nil, badInput(err)
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// show returns functions that print comparisons, and end what was printed.
func (c *simCompareCommand) show(out io.Writer) (show func(*compare.Result) error, end func() error) {
	if c.JSON {
		enc := json.NewEncoder(out)
		return func(r *compare.Result) error { return enc.Encode(r) }, func() error { return nil }
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "incident\tpolicy\tgoodput live\tsimulated\tpoints\twaste live\tsimulated\tpoints\tp50 live\tsimulated\tp99 live\tsimulated\tlag\t")
	return func(r *compare.Result) error {
		fmt.Fprintf(w, "%s\t%s\t%.1f %%\t%.1f %%\t%+.1f\t%.1f %%\t%.1f %%\t%+.1f\t%.2fs\t%.2fs\t%.2fs\t%.2fs\t%.3fs\t\n", r.Incident, r.Policy,
			100*r.Live.GoodputRatio, 100*r.Simulated.GoodputRatio, r.GoodputOff, 100*r.Live.WasteRatio, 100*r.Simulated.WasteRatio, r.WasteOff,
			r.Live.P50, r.Simulated.P50, r.Live.P99, r.Simulated.P99, r.Lag)
		return nil
	}, w.Flush
}
