package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/cmd/weir/report"
	"weir/cmd/weir/simreport"
	"weir/cmd/weir/story"
	"weir/events"
	"weir/model"
)

// The bounds of a replay's report: steps over time, channels side by side.
const (
	replaySteps    = 400
	replayChannels = 2
)

// recording is what a journal's channels were over time, step by step.
type recording struct {
	began    model.Nanos
	every    model.Nanos
	fleet    *model.Fleet
	steps    int
	channels map[string]*recorded
}

// recorded is one of them. A channel that is there later begins with gaps.
type recorded struct {
	samples report.Samples
	counts  [model.NumClasses]int64 // in all
	step    [model.NumClasses]int64 // in the step at hand
	in, out model.Tokens
	took    spread // of answered calls, in all
	lately  spread // in the step
	most    float64
}

// record folds a source once more and notes its channels each step.
func record(ctx context.Context, s *records) (*recording, error) {
	first, last, err := bounds(ctx, s, false)
	if err != nil {
		return nil, err
	}
	base, err := s.base()
	if err != nil {
		return nil, fmt.Errorf("read the stored snapshot: %w", err)
	}
	r := &recording{began: first, every: model.Second, fleet: base, channels: map[string]*recorded{}}
	for (last-first)/r.every > replaySteps {
		r.every *= 2
	}
	decoder, from, fx := events.NewDecoder(), base.Seq(), model.Effects{}
	_, err = s.each(ctx, func(e events.Entry) error {
		if e.Seq <= from {
			return nil
		}
		for e.Time >= r.end() {
			r.close()
		}
		rec, _ := decoder.Record(e) // the fold counts what cannot be read
		fx.Reset()
		r.fleet.Apply(rec, &fx)
		if a, ok := rec.Fact.(*model.Attempts); ok {
			r.count(a)
		}
		return nil
	})
	r.close()
	return r, err
}

// end is when the step at hand is over.
func (r *recording) end() model.Nanos { return r.began + model.Nanos(r.steps+1)*r.every }

// count adds the calls of a report to the step at hand, for channels that are
// configured: what else reports name is not bounded.
func (r *recording) count(a *model.Attempts) {
	for i := range a.Attempts {
		t := &a.Attempts[i]
		if int(t.Channel) >= len(a.Channels) || int(t.Class) >= model.NumClasses {
			continue
		}
		c := r.channel(a.Channels[t.Channel].Channel)
		if c == nil {
			continue
		}
		c.step[t.Class]++
		c.in, c.out = c.in+max(t.In, 0), c.out+max(t.Out, 0)
		if t.Class == model.ClassOK {
			c.lately.add(t.Took.Duration().Seconds())
		}
	}
}

// channel is one that is configured, nil for others.
func (r *recording) channel(name string) *recorded {
	c := r.channels[name]
	if c == nil {
		config, _ := r.fleet.Config()
		if !slices.ContainsFunc(config.Channels, func(one model.ChannelConfig) bool { return one.Name == name }) {
			return nil
		}
		c = &recorded{}
		r.channels[name] = c
	}
	return c
}

// close ends the step at hand.
func (r *recording) close() {
	view := r.fleet.View()
	for i := range view.Channels {
		v := &view.Channels[i]
		if c := r.channel(v.Name); c != nil {
			c.close(v, r.steps, r.every.Duration())
		}
	}
	r.steps++
}

func (c *recorded) close(v *model.FleetChannel, step int, every time.Duration) {
	s := &c.samples
	nan := math.NaN()
	for len(s.T) < step {
		c.add(float64(len(s.T)+1)*every.Seconds(), nan, nan, nan, nan, nan, nan, nan, nan, nan)
	}
	all, refused := int64(0), int64(0)
	for class, n := range c.step {
		all += n
		if refusal(model.Class(class)) {
			refused += n
		}
		c.counts[class] += n
	}
	rate := func(n int64) float64 { return float64(n) / every.Seconds() }
	window := float64(v.Window) / 1000
	c.most = max(c.most, window)
	c.add(float64(step+1)*every.Seconds(), rate(all), rate(c.step[model.ClassOK]), rate(refused), float64(v.InFlight), window, share(v.Weight), simreport.Openness(v.State),
		c.lately.quantile(0.5), c.lately.quantile(0.99))
	c.took.merge(&c.lately)
	c.step, c.lately = [model.NumClasses]int64{}, spread{}
}

func (c *recorded) add(t, sent, completed, refused, inFlight, window, weight, breaker, p50, p99 float64) {
	s := &c.samples
	for _, column := range []struct {
		of *report.Column
		v  float64
	}{
		{&s.T, t},
		{&s.Sent, sent},
		{&s.Completed, completed},
		{&s.Refused, refused},
		{&s.InFlight, inFlight},
		{&s.Window, window},
		{&s.Weight, weight},
		{&s.Breaker, breaker},
		{&s.P50, p50},
		{&s.P99, p99},
		{&s.Offered, math.NaN()},
		{&s.Could, math.NaN()},
		{&s.Capacity, math.NaN()},
		{&s.Best, math.NaN()},
	} {
		*column.of = append(*column.of, column.v)
	}
}

// refusal reports whether a class is one of the provider turning a call away.
func refusal(c model.Class) bool {
	return c.Refused() || c == model.ClassQuotaExhausted || c == model.ClassAuth
}

func (c *recorded) attempts() (n int64) {
	for _, k := range c.counts {
		n += k
	}
	return n
}

// busiest are the names of the channels with the most calls.
func (r *recording) busiest() []string {
	names := make([]string, 0, len(r.channels))
	for name := range r.channels {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.channels[b].attempts(), r.channels[a].attempts()), cmp.Compare(a, b))
	})
	return names
}

// report leaves the page of a replayed journal in a folder.
func (r *replayed) report(ctx context.Context, s *records, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return badInput(fmt.Errorf("--out=%s: %w", dir, err))
	}
	rec, err := record(ctx, s)
	if err != nil {
		return asInput(err)
	}
	run := r.page(rec)
	return writeWhole(filepath.Join(dir, simReportFile), func(w io.Writer) error { return report.WriteHTML(w, run) })
}

// page is the report of a recording, of what was told of it, and of what other
// parameters would have made of it.
func (r *replayed) page(rec *recording) *report.Run {
	names := rec.busiest()
	shown := names[:min(len(names), replayChannels)]
	run := &report.Run{
		Title: "The journal " + filepath.Base(r.Verdict.Source) + ", replayed",
		About: fmt.Sprintf("%d records, %d attempts and %d decisions from %s on, %s of them.", r.Verdict.Records, r.Verdict.Attempts, r.Verdict.Decisions,
			story.Instant(rec.began), (model.Nanos(rec.steps) * rec.every).Duration()),
		Verdict: strings.ToUpper(r.Verdict.sentence()[:1]) + r.Verdict.sentence()[1:] + ".", Good: r.Verdict.Verified,
		Made: time.Now().UTC().Format(time.RFC3339), Version: version(), Notes: r.notes(rec, names[len(shown):]),
	}
	for i, name := range shown {
		c := rec.channels[name]
		run.Phases = append(run.Phases, report.Phase{
			Name: name, About: "as its agents reported it and the fold decided", Seconds: (model.Nanos(rec.steps) * rec.every).Duration().Seconds(),
			Samples: c.samples, Marks: r.marks(rec, name), Decisions: r.decisions(rec, name, i == 0),
		})
		if i == 0 {
			run.Phases[0].DecisionsLeftOut = int(min(r.Omitted, math.MaxInt32))
		}
	}
	run.Rows = rec.rows(shown)
	return run
}

// rows are the figures of channels, side by side.
func (r *recording) rows(names []string) []report.Row {
	row := func(main bool, label, note string, show func(*recorded) string) report.Row {
		out := report.Row{Label: label, Note: note, Main: main}
		for _, name := range names {
			out.Values = append(out.Values, show(r.channels[name]))
		}
		return out
	}
	part := func(of func(*recorded) int64) func(*recorded) string {
		return func(c *recorded) string {
			if n := c.attempts(); n > 0 {
				return fmt.Sprintf("%.1f %%", 100*float64(of(c))/float64(n))
			}
			return "–"
		}
	}
	refused := func(c *recorded) (n int64) {
		for class, k := range c.counts {
			if refusal(model.Class(class)) {
				n += k
			}
		}
		return n
	}
	seconds := func(q float64) func(*recorded) string {
		return func(c *recorded) string {
			if v := c.took.quantile(q); !math.IsNaN(v) {
				return fmt.Sprintf("%.2f s", v)
			}
			return "–"
		}
	}
	rows := []report.Row{
		row(true, "attempts", "", func(c *recorded) string { return report.Count(c.attempts()) }),
		row(true, "answered", "of all attempts", part(func(c *recorded) int64 { return c.counts[model.ClassOK] })),
		row(true, "refused", "by the provider, of all attempts", part(refused)),
		row(true, "call time, median", "of answered calls, within 3 %", seconds(0.5)),
		row(false, "call time, 99th percentile", "", seconds(0.99)),
		row(false, "largest window", "in slots", func(c *recorded) string { return fmt.Sprintf("%.1f", c.most) }),
		row(false, "tokens in, out", "", func(c *recorded) string { return report.Count(int64(c.in)) + ", " + report.Count(int64(c.out)) }),
	}
	for _, class := range model.Classes {
		if class != model.ClassOK && slices.ContainsFunc(names, func(n string) bool { return r.channels[n].counts[class] > 0 }) {
			rows = append(rows, row(false, class.String(), "attempts that ended so", func(c *recorded) string { return report.Count(c.counts[class]) }))
		}
	}
	return rows
}

// decisions are the events of a channel; what concerns no channel stands with
// the first.
func (r *replayed) decisions(rec *recording, channel string, first bool) (all []report.Decision) {
	for i := range r.Events {
		e := &r.Events[i]
		if e.Channel != channel && (e.Channel != "" || !first) {
			continue
		}
		all = append(all, report.Decision{At: rec.at(e), Channel: cmp.Or(e.Channel, e.Agent), Rule: e.Rule, Change: moved(e), Reason: e.Reason + "; cause: " + e.Cause})
	}
	return all
}

// marks are the orders, configurations and parameters that concern a channel.
func (r *replayed) marks(rec *recording, channel string) []report.Mark {
	all := []report.Mark{}
	for i := range r.Events {
		e := &r.Events[i]
		order := e.Rule == string(model.RuleCommand) || e.Rule == string(model.RuleConfig) || e.Rule == string(model.RuleParams)
		if order && (e.Channel == "" || e.Channel == channel) {
			all = append(all, report.Mark{At: rec.at(e), Text: e.Text})
		}
	}
	return all
}

// at is when in a recording an event was, in seconds.
func (r *recording) at(e *story.Event) float64 {
	return (model.Nanos(e.Time) - r.began).Duration().Seconds()
}

// moved is the number that an event changed.
func moved(e *story.Event) string {
	switch {
	case e.Before == e.After:
		return ""
	case slices.Contains(e.Parts, story.PartWindow):
		return story.Slots(e.Before) + " → " + story.Slots(e.After)
	case slices.Contains(e.Parts, story.PartWeight):
		return story.Share(e.Before) + " → " + story.Share(e.After)
	}
	return fmt.Sprintf("%d → %d", e.Before, e.After)
}

// notes say what was measured and what was modelled.
func (r *replayed) notes(rec *recording, others []string) []string {
	notes := []string{
		"Measured: the charts and figures are what agents reported and what the fold decided of it, in steps of " + rec.every.Duration().String() + ". What the provider could have taken is not in a log.",
	}
	if len(others) > 0 {
		most := others[:min(len(others), 20)]
		notes = append(notes, fmt.Sprintf("%d more channels had fewer calls and are not drawn: %s.", len(others), strings.Join(most, ", ")))
	}
	w := r.WhatIf
	if w == nil {
		return notes
	}
	if w.Recorded == nil {
		return append(notes, "No what-if: in a world calibrated from this journal "+w.Why+".")
	}
	for _, p := range w.Params {
		notes = append(notes, fmt.Sprintf("Asked after: %s %s instead of %s.", p.Name, inUnit(p.To, p.Unit), inUnit(p.From, p.Unit)))
	}
	return append(notes, fmt.Sprintf("Modelled, in a world calibrated from this journal, mean of %d runs: %.0f calls completed instead of %.0f, %.0f attempts refused instead of %.0f, half of the calls within %.2f s instead of %.2f s.",
		w.Seeds, w.Asked.Completed, w.Recorded.Completed, w.Asked.Refused, w.Recorded.Refused, w.Asked.P50S, w.Recorded.P50S))
}

// spread counts times in buckets a twentieth wider than the one before, from a
// millisecond on.
type spread [480]uint32

const (
	spreadLeast  = 1e-3 // seconds
	spreadGrowth = 1.05
)

func (s *spread) add(seconds float64) {
	i := 0
	if seconds > spreadLeast {
		i = int(math.Log(seconds/spreadLeast) / math.Log(spreadGrowth))
	}
	s[min(i, len(s)-1)]++
}

func (s *spread) merge(o *spread) {
	for i, n := range o {
		s[i] += n
	}
}

// quantile is the middle of the bucket that holds it, NaN where nothing was
// counted.
func (s *spread) quantile(q float64) float64 {
	total := uint64(0)
	for _, n := range s {
		total += uint64(n)
	}
	left := int64(math.Ceil(q * float64(total)))
	for i, n := range s {
		if left -= int64(n); n > 0 && left <= 0 {
			return spreadLeast * math.Pow(spreadGrowth, float64(i)+0.5)
		}
	}
	return math.NaN()
}
