package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"weir/model"
	"weir/sim/tune"
)

// tuneProgress shows how far a study is: a bar on a terminal, elsewhere a line
// now and then.
type tuneProgress struct {
	out   io.Writer
	now   func() time.Time
	began time.Time
	next  time.Time
	done  int // runs of this process
	text  atomic.Pointer[string]
	all   *mpb.Progress
	bar   *mpb.Bar
}

func newTuneProgress(out io.Writer, now func() time.Time) *tuneProgress {
	t := &tuneProgress{out: out, now: now, began: now(), next: now().Add(lineEvery)}
	empty := ""
	t.text.Store(&empty)
	if terminal(out) {
		t.all = mpb.New(mpb.WithOutput(out), mpb.WithWidth(30))
		t.bar = t.all.AddBar(1, mpb.BarRemoveOnComplete(),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return *t.text.Load() })))
	}
	return t
}

// ran notes a run that this process did.
func (t *tuneProgress) ran() { t.done++ }

// set shows a study's progress.
func (t *tuneProgress) set(p tune.Progress) {
	now := t.now()
	if t.bar != nil {
		text := tuneText(&p, t.left(now, &p))
		t.text.Store(&text)
		t.bar.SetTotal(int64(p.Runs+p.RunsLeft), false)
		t.bar.SetCurrent(int64(p.Runs))
		return
	}
	if now.Before(t.next) {
		return
	}
	t.next = now.Add(lineEvery)
	fmt.Fprintln(t.out, tuneText(&p, t.left(now, &p)))
}

// left is about how long it takes to the end; negative when nothing says.
func (t *tuneProgress) left(now time.Time, p *tune.Progress) time.Duration {
	if t.done == 0 {
		return -1
	}
	return now.Sub(t.began) / time.Duration(t.done) * time.Duration(p.RunsLeft)
}

func tuneText(p *tune.Progress, left time.Duration) string {
	text := fmt.Sprintf("%s: trial %d of %d, %d runs, best score %.4f (in force %.4f)", p.Phase, p.Trials, p.Of, p.Runs, p.Best, p.InForce)
	if left >= 0 {
		text += ", about " + left.Round(time.Second).String() + " left"
	}
	return text
}

// close removes the bar.
func (t *tuneProgress) close() {
	if t.bar != nil {
		t.bar.Abort(true)
		t.all.Wait()
	}
}

// showTune prints a study's end for people.
func showTune(out io.Writer, r *tune.Result) error {
	v := &r.Verdict
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\n", v.Why)
	if r.Winner == nil {
		return w.Flush()
	}
	fmt.Fprintf(w, "%d trials in %d runs; the search promised %.4f, unseen seeds give %.4f\n\n", len(r.Trials), r.Runs, v.Promised, v.Gain)
	if v.Recommend {
		fmt.Fprintln(w, "parameter\tin force\trecommended\t")
	} else {
		fmt.Fprintln(w, "parameter\tin force\tnot enough\t")
	}
	for i, spec := range model.ParamSpecs() {
		if was, is := r.InForce.Values[i], r.Winner.Values[i]; was != is {
			fmt.Fprintf(w, "%s\t%s\t%s\t\n", spec.Name, paramText(&spec, was), paramText(&spec, is))
		}
	}
	fmt.Fprintln(w, "\nincident\tgain\tgoodput\t\twaste\t\tleft out\t")
	for i := range v.Incidents {
		g := &v.Incidents[i]
		fmt.Fprintf(w, "%s\t%+.4f\t%.1f %%\t→ %.1f %%\t%.1f %%\t→ %.1f %%\t%+.4f\t\n", g.Name, g.Gain,
			100*(1-g.Before[tune.Lost]), 100*(1-g.After[tune.Lost]), 100*g.Before[tune.Wasted], 100*g.After[tune.Wasted], g.LeftOut)
	}
	return w.Flush()
}

// tuned is a study's end for programs.
type tuned struct {
	tune.Verdict
	InForce string `json:"in_force"`
	// Params is the hash of what should be in force, Changed what it changes.
	Params  string           `json:"params"`
	Changed map[string]int64 `json:"changed"`
	Trials  int              `json:"trials"`
	Runs    int              `json:"runs"`
	Front   int              `json:"front"`
}

func showTuneJSON(out io.Writer, r *tune.Result) error {
	t := tuned{
		Verdict: r.Verdict, InForce: r.InForce.Hash, Params: r.Params.Hash(), Changed: map[string]int64{},
		Trials: len(r.Trials), Runs: r.Runs, Front: len(r.Front),
	}
	for i, spec := range model.ParamSpecs() {
		if v := spec.Get(&r.Params); v != r.InForce.Values[i] {
			t.Changed[spec.Name] = v
		}
	}
	return json.NewEncoder(out).Encode(t)
}
