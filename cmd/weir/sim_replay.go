package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"weir/cmd/weir/config"
	"weir/cmd/weir/story"
	"weir/model"
	"weir/sim/calibrate"
	"weir/sim/world"
)

// simReplayCommand is weir sim replay.
type simReplayCommand struct {
	Journal string `arg:"" placeholder:"JOURNAL" help:"Journal to replay."`
	Params  string `placeholder:"FILE" help:"Parameters to ask after: what would they have made of the same workload?"`
	Seeds   int    `default:"5" placeholder:"N" help:"How many simulations the what-if is the mean of."`
	Unsafe  bool   `help:"Show the what-if although the calibrated world does not come to what was recorded. Do not act on it."`
	Last    int    `default:"200" placeholder:"N" help:"How many events to tell, the newest of them."`
	Out     string `placeholder:"DIR" help:"Leave report.html here: the channels over time, with what was decided."`
	JSON    bool   `name:"json" help:"Print everything as one JSON object."`
}

// Help is shown by --help.
func (*simReplayCommand) Help() string {
	return `First the journal is verified as weir log verify does. Then it is told, event by event, as the controller saw it: that was measured. With --params the same arrivals are simulated in a world calibrated from the journal, under the parameters recorded and under those of the file: that is modelled. The recorded outcomes themselves hold for the recorded behaviour only and are never carried over. When the calibrated world does not come to what was recorded, there is no what-if.

Examples:

  weir sim replay demo-out/journal.weir
  weir sim replay demo-out/journal.weir --last 2000 --out replay-out
  weir sim replay incident.weir --params tuned.yaml --json`
}

// replayed is what replay prints.
type replayed struct {
	Verdict *verdict `json:"verify"`
	// Events are the newest, oldest of them first; Omitted came before.
	Events  []story.Event        `json:"events"`
	Omitted uint64               `json:"omitted"`
	End     []model.FleetChannel `json:"channels_at_end"`
	WhatIf  *whatIf              `json:"what_if,omitempty"`
}

// whatIf is what was modelled.
type whatIf struct {
	// Modelled is always true: nothing of it was measured.
	Modelled bool `json:"modelled"`
	// Safe is set when the calibrated world comes to what was recorded.
	Safe  bool             `json:"safe"`
	Why   string           `json:"why,omitempty"`
	Check *calibrate.Check `json:"check"`
	Notes []string         `json:"notes"`
	// Beyond says where what was asked leaves the range that the journal has seen.
	Beyond []string `json:"beyond"`
	// Params that differ; Recorded and Asked are means over Seeds runs each,
	// nil when it is not safe.
	Params   []paramChange `json:"params"`
	Seeds    int           `json:"seeds"`
	Recorded *outcomes     `json:"recorded_params,omitempty"`
	Asked    *outcomes     `json:"asked_params,omitempty"`
}

// outcomes are means over runs.
type outcomes struct {
	Params    string  `json:"params"`
	Completed float64 `json:"completed"`
	Attempts  float64 `json:"attempts"`
	Refused   float64 `json:"refused"`
	Wasted    float64 `json:"wasted_attempts"`
	P50S      float64 `json:"p50_s"`
	P95S      float64 `json:"p95_s"`
	// Least and Most are completed in the worst and the best run.
	Least float64 `json:"completed_least"`
	Most  float64 `json:"completed_most"`
}

// Run verifies, tells and asks.
func (c *simReplayCommand) Run(e *env) error {
	switch {
	case c.Seeds < 1 || c.Seeds > 100:
		return badInput(fmt.Errorf("--seeds=%d: want 1 to 100", c.Seeds))
	case c.Last < 1 || c.Last > maxTold:
		return badInput(fmt.Errorf("--last=%d: want 1 to %d", c.Last, maxTold))
	}
	var asked *config.Params
	if c.Params != "" {
		var err error
		if asked, err = read(c.Params, config.ParseParams); err != nil {
			return err
		}
	}
	source, err := (&logFlags{}).records(e, c.Journal)
	if err != nil {
		return err
	}
	r := &replayed{}
	if r.Verdict, err = verify(e.ctx, source); err != nil {
		return asInput(err)
	}
	if r.Verdict.Verified && r.Verdict.Records > 0 {
		if err := c.tell(e, source, r); err != nil {
			return err
		}
	}
	if asked != nil && r.Verdict.Verified && r.Verdict.Records > 0 {
		if err := c.ask(e, asked, r); err != nil {
			return err
		}
	}
	if c.Out != "" && r.Verdict.Verified && r.Verdict.Records > 0 {
		if err := r.report(e.ctx, source, c.Out); err != nil {
			return err
		}
	}
	if c.JSON {
		err = json.NewEncoder(e.stdout).Encode(r)
	} else {
		err = r.print(e.stdout)
	}
	switch {
	case err != nil:
		return err
	case !r.Verdict.Verified:
		return fmt.Errorf("%s: %s", r.Verdict.Source, r.Verdict.Fault)
	case r.WhatIf != nil && !r.WhatIf.Safe && !c.Unsafe:
		return fmt.Errorf("%s: no what-if: in the calibrated world %s; --unsafe shows it all the same", c.Journal, r.WhatIf.Why)
	}
	return nil
}

func (c *simReplayCommand) tell(e *env, source *records, r *replayed) error {
	t, err := tell(e.ctx, source, moment{}, story.Options{Keep: c.Last, Members: true})
	if err != nil {
		return err
	}
	r.Events, r.Omitted, r.End = t.Events(), t.Omitted(), t.Fleet().View().Channels
	return nil
}

// ask simulates the recorded workload under other parameters, if the world
// calibrated for it is one in which that says something.
func (c *simReplayCommand) ask(e *env, asked *config.Params, r *replayed) error {
	log, o, err := journalCalls(e.ctx, c.Journal)
	if err != nil {
		return err
	}
	to, err := asked.Apply(*o.Params)
	if err != nil {
		return badInput(err)
	}
	w, err := calibrate.Build(log, o)
	if errors.Is(err, calibrate.ErrEmpty) {
		return badInput(fmt.Errorf("%s: %w", c.Journal, err))
	}
	if err != nil {
		return err
	}
	if err := w.Check(log, o); err != nil {
		return err
	}
	r.WhatIf = &whatIf{Modelled: true, Safe: w.Report.Check.Safe, Why: w.Report.Check.Why, Check: w.Report.Check, Seeds: c.Seeds, Params: diff(o.Params, &to), Notes: w.Report.Notes}
	for i := range w.Report.Providers {
		for _, n := range w.Report.Providers[i].Notes {
			r.WhatIf.Notes = append(r.WhatIf.Notes, w.Report.Providers[i].Channel+": "+n)
		}
	}
	if !r.WhatIf.Safe && !c.Unsafe {
		return nil
	}
	if r.WhatIf.Recorded, _, err = c.simulate(e, w, o.Params); err != nil {
		return err
	}
	r.WhatIf.Asked, r.WhatIf.Beyond, err = c.simulate(e, w, &to)
	return err
}

// simulate lives the world through under parameters, and says where the run
// that went furthest left what the journal has seen.
func (c *simReplayCommand) simulate(e *env, w *calibrate.World, p *model.Params) (o *outcomes, beyond []string, err error) {
	o, beyond = &outcomes{Params: p.Hash()}, []string{}
	n := float64(c.Seeds)
	for seed := range uint64(c.Seeds) {
		if err := e.ctx.Err(); err != nil {
			return nil, nil, errors.New("the simulations were stopped before their end")
		}
		r, err := w.Run(world.PolicyWeir, seed+1, p)
		if err != nil {
			return nil, nil, err
		}
		if told := w.Beyond(r); len(told) > len(beyond) {
			beyond = told
		}
		done := float64(r.Completed)
		if seed == 0 {
			o.Least, o.Most = done, done
		}
		o.Least, o.Most = min(o.Least, done), max(o.Most, done)
		o.Completed += done / n
		o.Attempts += float64(r.Attempts) / n
		o.Refused += float64(r.Refused) / n
		o.Wasted += float64(r.Wasted) / n
		o.P50S += r.P50.Seconds() / n
		o.P95S += r.P95.Seconds() / n
	}
	return o, beyond, nil
}

// print writes it for people.
func (r *replayed) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d records, %d attempts, %d decisions; %s\n", r.Verdict.Source, r.Verdict.Records, r.Verdict.Attempts, r.Verdict.Decisions, r.Verdict.sentence())
	if r.Verdict.Missing > 0 {
		fmt.Fprintf(&b, "%d records are missing between them\n", r.Verdict.Missing)
	}
	b.WriteString("\nmeasured, as the controller saw it:\n")
	if r.Omitted > 0 {
		fmt.Fprintf(&b, "  %d events before these; --last shows more\n", r.Omitted)
	}
	for i := range r.Events {
		b.WriteString(line(&r.Events[i]))
	}
	for i := range r.End {
		c := &r.End[i]
		fmt.Fprintf(&b, "at the end %s has a window of %s, weight %s, breaker %s; %s\n", c.Name, story.Slots(int64(c.Window)), story.Share(int64(c.Weight)), c.Breaker, answers(c.Attempts))
	}
	if _, err := io.WriteString(out, b.String()); err != nil || r.WhatIf == nil {
		return err
	}
	return r.WhatIf.print(out)
}

func (w *whatIf) print(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nmodelled, in a world calibrated from this journal:")
	for _, n := range w.Notes {
		fmt.Fprintf(t, "  note: %s\n", n)
	}
	fmt.Fprintln(t, "\nas recorded\trecorded\tsimulated")
	printFigures(t, w.Check)
	if !w.Safe {
		fmt.Fprintf(t, "\nUNSAFE: %s\n", w.Why)
	}
	if w.Recorded == nil {
		return t.Flush()
	}
	for _, p := range w.Params {
		fmt.Fprintf(t, "\n%s\t%s\t%s", p.Name, inUnit(p.From, p.Unit), inUnit(p.To, p.Unit))
	}
	fmt.Fprintf(t, "\n\nwhat if, mean of %d\t%s\t%s\n", w.Seeds, w.Recorded.Params, w.Asked.Params)
	for _, f := range []struct {
		name string
		a, b float64
	}{
		{"completed", w.Recorded.Completed, w.Asked.Completed},
		{"completed, worst run", w.Recorded.Least, w.Asked.Least},
		{"completed, best run", w.Recorded.Most, w.Asked.Most},
		{"attempts", w.Recorded.Attempts, w.Asked.Attempts},
		{"refused", w.Recorded.Refused, w.Asked.Refused},
		{"wasted attempts", w.Recorded.Wasted, w.Asked.Wasted},
		{"p50_s", w.Recorded.P50S, w.Asked.P50S},
		{"p95_s", w.Recorded.P95S, w.Asked.P95S},
	} {
		fmt.Fprintf(t, "  %s\t%.4g\t%.4g\n", f.name, f.a, f.b)
	}
	for _, text := range w.Beyond {
		fmt.Fprintf(t, "\nOUTSIDE what the journal has seen: %s\n", text)
	}
	return t.Flush()
}
