package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"weir/cmd/weir/report"
	"weir/events"
	"weir/events/journal"
	"weir/model"
)

// folder is where a run's results go, with a place for stores that is gone
// when the run is over.
type folder struct {
	dir    string
	stores string
}

func newFolder(dir string) (*folder, error) {
	if dir == "" {
		dir = "demo-out"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make demo folder: %w", err)
	}
	stores, err := os.MkdirTemp(dir, "stores-")
	if err != nil {
		return nil, fmt.Errorf("make demo folder: %w", err)
	}
	return &folder{dir: dir, stores: stores}, nil
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) close() error {
	if err := os.RemoveAll(f.stores); err != nil {
		return fmt.Errorf("remove demo stores: %w", err)
	}
	return nil
}

// write writes a file whole or not at all.
func (f *folder) write(name string, fill func(w io.Writer) error) error {
	part := f.path(name) + ".part"
	file, err := os.Create(part)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := errors.Join(fill(file), file.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(part))
	}
	if err := os.Rename(part, f.path(name)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// journal writes the log's entries.
func (f *folder) journal(ctx context.Context, log events.Log) error {
	return f.write(fileJournal, func(w io.Writer) error {
		j, err := journal.NewWriter(w, journal.Header{Fleet: fleetName, Created: model.Nanos(time.Now().UnixNano())})
		if err != nil {
			return err
		}
		_, err = journal.Export(ctx, log, j, 0, 0, nil)
		return errors.Join(err, j.Close())
	})
}

// The files of a run.
const (
	fileReport  = "report.html"
	filePicture = "summary.svg"
	fileSummary = "summary.json"
	fileJournal = "journal.weir"
)

// leave writes the results and shows them.
func (d *director) leave() (Result, error) {
	a, b := &d.watch.phases[0].Figures, &d.watch.phases[1].Figures
	r := Result{
		Incident: d.incident.Name, Seed: d.o.Seed, Seconds: d.incident.Duration.Seconds(), CountedFrom: countFrom.Seconds(),
		Better:       b.Goodput > a.Goodput && b.WasteRatio < a.WasteRatio,
		Uncontrolled: *a, Weir: *b, Lag: d.lag,
		Dir: d.folder.dir, Report: d.folder.path(fileReport), Picture: d.folder.path(filePicture),
		Journal: d.folder.path(fileJournal), Summary: d.folder.path(fileSummary),
		Made: time.Now().UTC().Format(time.RFC3339), Version: d.o.Version,
	}
	if d.lag > mostLag {
		d.live.say("%s", d.busy())
	}
	run := d.report(&r)
	d.watch.end(run)
	for name, fill := range map[string]func(w io.Writer) error{
		fileReport:  func(w io.Writer) error { return report.WriteHTML(w, run) },
		filePicture: func(w io.Writer) error { return report.WriteSVG(w, run) },
		fileSummary: func(w io.Writer) error { return encode(w, &r) },
	} {
		if err := d.folder.write(name, fill); err != nil {
			return r, err
		}
	}
	return r, d.print(&r, run)
}

func encode(w io.Writer, r *Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	return nil
}

// report makes the run's report.
func (d *director) report(r *Result) *report.Run {
	run := d.frame(d.watch.phases[:])
	run.Verdict, run.Good, run.Made = verdict(r), r.Better, r.Made
	if d.lag > mostLag {
		run.Notes = append(run.Notes, d.busy())
	}
	return run
}

// frame is a report that nothing is said in yet.
func (d *director) frame(phases []report.Phase) *report.Run {
	inc := d.original
	return &report.Run{
		Title: "The " + inc.Name + " incident, without Weir and with it",
		About: fmt.Sprintf("%d applications, %s; %s.", inc.Fleet.Agents, inc.About,
			"emulated provider and every part of Weir on one machine"),
		Version: d.o.Version, Notes: d.notes(), CountedFrom: countFrom.Seconds(), Phases: phases,
	}
}

// verdict says the outcome in a sentence.
func verdict(r *Result) string {
	a, b := &r.Uncontrolled, &r.Weir
	return fmt.Sprintf("With Weir %.1f %% of what could have been served was, and %.1f %% of attempts were wasted; without, %.1f %% and %.1f %%.",
		100*float64(b.GoodputRatio), 100*float64(b.WasteRatio), 100*float64(a.GoodputRatio), 100*float64(a.WasteRatio))
}

// notes say what was real.
func (d *director) notes() []string {
	return []string{
		fmt.Sprintf("The script of %s was played in %s, twice: its instants are closer together by %.0f. Service times, refusal delays, timeouts, pools, arrival rates and every parameter of Weir are as they are, so Weir had that much less time to notice and to recover.",
			d.original.Duration, d.incident.Duration, d.original.Duration.Seconds()/d.incident.Duration.Seconds()),
		"Both phases used the same seed: the same requests of the same sizes at the same instants, and the same luck with service times.",
		"Calls went over HTTP on loopback; reports, leases and limits over a NATS server on loopback TCP; the controller kept its state on disk.",
		"Attempts, refusals and what could have been served are the provider's own books: an omniscient scheduler with the same demand, one try each, at the number of calls at which the most gets done.",
		fmt.Sprintf("Figures count from second %.0f of each phase, and what was still on its way at the end counts for neither.", countFrom.Seconds()),
	}
}

// busy says that the machine had a part in the figures.
func (d *director) busy() string {
	return fmt.Sprintf("This machine was busy with other things: one request in a hundred was noticed %.2f s late or later, and every part of the demo with it, so the figures are worse than they would be on a quiet one.", d.lag)
}

// print writes the final table.
func (d *director) print(r *Result, run *report.Run) error {
	if d.o.Stdout == nil {
		return nil
	}
	if d.o.JSON {
		return encode(d.o.Stdout, r)
	}
	w := tabwriter.NewWriter(d.o.Stdout, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\t")
	for i := range run.Phases {
		fmt.Fprintf(w, "%s\t", run.Phases[i].Name)
	}
	fmt.Fprintln(w)
	for _, row := range report.Rows(run.Phases) {
		fmt.Fprintf(w, "%s\t", row.Label)
		for _, v := range row.Values {
			fmt.Fprintf(w, "%s\t", v)
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	fmt.Fprintf(d.o.Stdout, "\n%s\n\nreport   %s\npicture  %s\njournal  %s\nsummary  %s\n", run.Verdict, r.Report, r.Picture, r.Journal, r.Summary)
	return nil
}
