package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"weir/events/journal"
	"weir/model"
	"weir/sim/calibrate"
	"weir/sim/workload"
)

// simCalibrateCommand is weir sim calibrate.
type simCalibrateCommand struct {
	File     string            `arg:"" placeholder:"FILE" help:"Journal, or a request log as CSV or JSON lines, packed with gzip or not; - is a request log on standard input."`
	Out      string            `short:"o" required:"" placeholder:"INCIDENT" help:"Incident file to write. Arrivals go into CSV files beside it, the report into a JSON file."`
	Column   map[string]string `placeholder:"FIELD=NAME" help:"In a request log: the column of a field. Fields are time, end, latency, request_id, attempt, channel, tenant, input_tokens, output_tokens, http_status, error_class, retry_after."`
	TimeIs   string            `enum:"start,end" default:"start" placeholder:"WHICH" help:"In a request log: whether time is a call's start or end."`
	Channel  string            `default:"main" placeholder:"NAME" help:"In a request log: the channel of lines that name none."`
	Agents   int               `placeholder:"N" help:"How many processes sent the calls; those of the journal, or 1, if none is given."`
	Deadline time.Duration     `placeholder:"TIME" help:"How long an answer was of use; for ever if none is given."`
	JSON     bool              `name:"json" help:"Print the report as one JSON object."`
}

// Help is shown by --help.
func (*simCalibrateCommand) Help() string {
	return `When requests were wanted and how large they were is kept as recorded. The provider's limits are estimated: a call that was accepted bounds a limit from below, a refused one from above. Each has an interval of 90 %; what no refusal bounds is said to be open. Then the policy that made the log is simulated in the estimated world: when its figures are not those recorded, a what-if in that world is unsafe, and the report says so.

The ten fields of weir log export --as requests are known, and the names that LiteLLM and OpenTelemetry's GenAI spans use. A request log needs times (--times).

Examples:

  weir sim calibrate demo-out/journal.weir -o incident.yaml
  weir sim calibrate calls.csv -o incident.yaml --deadline 2m --json
  weir sim calibrate spans.jsonl.gz -o incident.yaml --column tenant=resource.team`
}

// Run estimates and writes.
func (c *simCalibrateCommand) Run(e *env) error {
	if c.Agents < 0 || c.Agents > 10_000 {
		return badInput(fmt.Errorf("--agents=%d: want 1 to 10000", c.Agents))
	}
	if c.Deadline < 0 {
		return badInput(fmt.Errorf("--deadline=%s: want a time above 0", c.Deadline))
	}
	log, o, lines, err := c.read(e)
	if err != nil {
		return err
	}
	o.Deadline, o.Name = c.Deadline, strings.TrimSuffix(filepath.Base(c.Out), filepath.Ext(c.Out))
	if c.Agents > 0 {
		o.Agents = c.Agents
	}
	w, err := calibrate.Build(log, o)
	if err != nil {
		return badInput(fmt.Errorf("%s: %w", c.File, err))
	}
	if err := w.Check(log, o); err != nil {
		return err
	}
	report := calibrated{Source: c.File, Out: c.Out, Log: lines, Report: w.Report}
	if err := c.write(w, &report); err != nil {
		return badInput(err)
	}
	if !w.Report.Check.Safe {
		e.log.Warn("a what-if in this world is unsafe: it does not come to what was recorded", slog.String("why", w.Report.Check.Why))
	}
	if c.JSON {
		return json.NewEncoder(e.stdout).Encode(&report)
	}
	return report.print(e.stdout)
}

// calibrated is what calibrate prints.
type calibrated struct {
	Source string `json:"source"`
	Out    string `json:"incident"`
	// Log is what became of a request log's lines, nil for a journal.
	Log *calibrate.ReadResult `json:"log,omitempty"`
	calibrate.Report
}

// read reads a journal or a request log.
func (c *simCalibrateCommand) read(e *env) (*calibrate.Log, calibrate.Options, *calibrate.ReadResult, error) {
	if c.File != "-" {
		is, err := isJournal(c.File)
		if err != nil {
			return nil, calibrate.Options{}, nil, badInput(err)
		}
		if is {
			log, o, err := journalCalls(e.ctx, c.File)
			return log, o, nil, err
		}
	}
	columns := map[calibrate.Field]string{}
	for field, name := range c.Column {
		if !slices.Contains(calibrate.Fields(), calibrate.Field(field)) {
			return nil, calibrate.Options{}, nil, badInput(fmt.Errorf("--column %s=%s: there is no such field; there are %v", field, name, calibrate.Fields()))
		}
		columns[calibrate.Field(field)] = name
	}
	in := e.stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, calibrate.Options{}, nil, badInput(err)
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	log := &calibrate.Log{}
	res, err := calibrate.Read(stopping{e.ctx, in}, log, calibrate.ReadOptions{Columns: columns, TimeIsEnd: c.TimeIs == "end", Channel: c.Channel})
	if err != nil {
		return nil, calibrate.Options{}, nil, badInput(fmt.Errorf("%s: %w", c.File, err))
	}
	for _, b := range res.First {
		e.log.Warn("a line is no call", slog.Uint64("line", b.Line), slog.String("reason", b.Reason))
	}
	return log, calibrate.Options{}, &res, nil
}

// stopping is a reader that ends with a context.
type stopping struct {
	ctx context.Context
	in  io.Reader
}

// Read implements io.Reader.
func (s stopping) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.in.Read(b)
}

// isJournal reports whether a file begins as a journal does.
func isJournal(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only read
	_, err = journal.NewReader(bufio.NewReader(io.LimitReader(f, 64<<10)))
	if c := (*journal.CorruptError)(nil); err != nil && !errors.As(err, &c) {
		return false, err
	}
	if err == nil {
		return true, nil
	}
	// A journal that is damaged at its very beginning is still no request log.
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	head := make([]byte, 4)
	n, _ := io.ReadFull(f, head)
	return strings.EqualFold(string(head[:n]), "weir"), nil
}

// journalCalls takes the calls of a journal, and what Weir was told.
func journalCalls(ctx context.Context, path string) (*calibrate.Log, calibrate.Options, error) {
	source, err := (&logFlags{}).records(nil, path)
	if err != nil {
		return nil, calibrate.Options{}, err
	}
	log := &calibrate.Log{}
	fleet, err := eachCall(ctx, source, func(channel string, a *model.Attempt, ended model.Nanos) error {
		took := min(max(a.Took, 0), 24*model.Hour)
		log.Add(&calibrate.Call{
			Sent: max(ended-took, 0), Took: took, Queued: a.Queued, Request: a.Request, Try: int(a.Try), Channel: channel, Route: a.Route,
			Tenant: a.Tenant, Input: int64(a.In), Output: int64(a.Out), Class: a.Class, Status: int(a.Status), Code: a.Code,
			Dimension: usedUp(a), RetryAfter: a.RetryAfter,
		})
		return nil
	})
	if err != nil {
		return nil, calibrate.Options{}, err
	}
	o := calibrate.Options{Agents: max(len(fleet.View().Agents), 1)}
	set, _ := fleet.Params()
	o.Params = &set.Params
	if config, _ := fleet.Config(); len(config.Channels) > 0 {
		o.Config, o.Observed = config, config.Mode == model.ModeObserve
	}
	return log, o, nil
}

// usedUp is what a refusal said was used up.
func usedUp(a *model.Attempt) model.Dimension {
	for i := range a.Hints {
		if a.Hints[i].Remaining == 0 {
			return a.Hints[i].Dimension
		}
	}
	return model.DimNone
}

// write writes the incident, its traces and the report.
func (c *simCalibrateCommand) write(w *calibrate.World, report *calibrated) error {
	dir := filepath.Dir(c.Out)
	for name, trace := range w.Traces {
		if err := writeTrace(filepath.Join(dir, name), trace); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(c.Out, filepath.Ext(c.Out))
	if err := os.WriteFile(base+".json", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(c.Out, []byte(w.Text), 0o644)
}

// writeTrace writes arrivals as sim run reads them.
func writeTrace(path string, trace workload.Trace) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := csv.NewWriter(bufio.NewWriterSize(f, 64<<10))
	rows := [][]string{{"at_s", "input_tokens", "output_tokens"}}
	for _, r := range trace {
		rows = append(rows, []string{strconv.FormatFloat(float64(r.At)/1e9, 'f', 9, 64), strconv.FormatInt(r.Input, 10), strconv.FormatInt(r.Output, 10)})
		if len(rows) == 1024 {
			if err := w.WriteAll(rows); err != nil {
				return err
			}
			rows = rows[:0]
		}
	}
	return w.WriteAll(rows)
}

// print writes the report for people.
func (r *calibrated) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\t%d calls of %d requests in %s from %s\n", r.Source, r.Calls, r.Requests, time.Duration(r.Duration*float64(time.Second)), r.From.Format(time.RFC3339))
	if r.Log != nil && r.Log.Broken > 0 {
		fmt.Fprintf(w, "\t%d of %d lines are no calls\n", r.Log.Broken, r.Log.Lines)
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(w, "\t%d more calls are left out: %d are kept\n", r.LeftOut, calibrate.MaxCalls)
	}
	for i := range r.Providers {
		p := &r.Providers[i]
		fmt.Fprintf(w, "\nchannel %s\t%d calls; intervals of 90 %%\n", p.Channel, p.Calls)
		for _, s := range p.Concurrency {
			fmt.Fprintf(w, "  concurrency\t%s\tfrom %s to %s\n", bounds90(s.Estimate), s.From.Duration().Round(time.Second), s.To.Duration().Round(time.Second))
		}
		if p.Capacity != nil {
			for _, b := range p.Capacity.Bends {
				fmt.Fprintf(w, "  most answers with\t%s in flight\tat %s, by what calls took\n", bounds90(b.Whole()), b.At.Duration().Round(time.Second/10))
			}
		}
		fmt.Fprintf(w, "  requests a minute\t%s\t%s\n", bounds90(p.Requests.Estimate), p.Requests.Window)
		fmt.Fprintf(w, "  tokens a minute\t%s\t%s\n", bounds90(p.Tokens.Estimate), p.Tokens.Window)
		l := &p.Latency
		fmt.Fprintf(w, "  time of a call\t%.0f ms (%.0f to %.0f)\tand %.0f tokens/s in, %.0f out; up to %.2f times as long under load\n", l.BaseMS.Best, l.BaseMS.Low, l.BaseMS.High, l.Input.Best, l.Output.Best, l.Factor)
		for _, n := range p.Notes {
			fmt.Fprintf(w, "  note\t%s\n", n)
		}
	}
	fmt.Fprintf(w, "\npolicy %s again\trecorded\tsimulated\n", r.Check.Policy)
	printFigures(w, r.Check)
	if r.Check.Safe {
		fmt.Fprintf(w, "\n%s: its own policy comes to what was recorded\n", r.Out)
	} else {
		fmt.Fprintf(w, "\n%s: UNSAFE for a what-if: %s\n", r.Out, r.Check.Why)
	}
	return w.Flush()
}

// printFigures prints what is compared, of the whole log and of each phase.
func printFigures(w io.Writer, c *calibrate.Check) {
	all := func(figures []calibrate.Figure) {
		for _, f := range figures {
			off := ""
			if !f.Within {
				off = fmt.Sprintf("\toff by more than %.3g", f.Tolerance)
			}
			fmt.Fprintf(w, "  %s\t%.4g\t%.4g%s\n", f.Name, f.Recorded, f.Simulated, off)
		}
	}
	all(c.Figures)
	for _, p := range c.Phases {
		fmt.Fprintf(w, "%s, %d s\n", p.Name, p.Seconds)
		all(p.Figures)
	}
}

func bounds90(e calibrate.Estimate) string {
	switch {
	case e.Accepted+e.Refused == 0:
		return "nothing was seen of it"
	case e.Open:
		return fmt.Sprintf("%.6g or more, open", e.Low)
	}
	return fmt.Sprintf("%.6g (%.6g to %.6g)", e.Best, e.Low, e.High)
}
