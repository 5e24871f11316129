package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weir/cmd/weir/simreport"
	"weir/sim/incident"
	"weir/sim/world"
)

// The files that weir sim run leaves under --out.
const (
	simReportFile = "report.html"
	simLinesFile  = "runs.jsonl"
)

// The bounds of what a report shows over time: so many points a run, of the
// first seeds only, and so many runs in all.
const (
	reportPoints    = 300
	reportSeeds     = 8
	reportTimelines = 160
)

// simReport collects what the report under --out shows.
type simReport struct {
	dir       string
	study     simreport.Study
	lines     *os.File
	timelines []simreport.Timeline // of the incident at hand
	left      int                  // timelines that still fit, over all incidents
	most      int                  // an incident's share of them
}

// newSimReport opens the files under a folder.
func newSimReport(dir string, study simreport.Study) (*simReport, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, badInput(fmt.Errorf("--out=%s: %w", dir, err))
	}
	lines, err := os.Create(filepath.Join(dir, simLinesFile))
	if err != nil {
		return nil, badInput(fmt.Errorf("--out=%s: %w", dir, err))
	}
	share := max(2, reportTimelines/max(1, len(study.Incidents)))
	return &simReport{dir: dir, study: study, lines: lines, left: max(reportTimelines, 2*len(study.Incidents)), most: share}, nil
}

// add takes the next run, with its series if it was recorded.
func (r *simReport) add(f *world.Figures, run *world.Result) error {
	if n := len(r.study.Runs); n > 0 && r.study.Runs[n-1].Incident != f.Incident {
		r.choose()
	}
	r.study.Runs = append(r.study.Runs, *f)
	if run != nil && run.Series != nil {
		r.timelines = append(r.timelines, simreport.TimelineOf(run))
	}
	if err := json.NewEncoder(r.lines).Encode(f); err != nil {
		return fmt.Errorf("write %s: %w", simLinesFile, err)
	}
	return nil
}

// choose keeps the timelines of the first seed and of the worst one, of as
// many policies as fit: none and Weir first.
func (r *simReport) choose() {
	if len(r.timelines) == 0 {
		return
	}
	seeds := []uint64{r.study.Seeds[0]}
	if worst := r.worst(); worst != seeds[0] {
		seeds = append(seeds, worst)
	}
	rank := func(t *simreport.Timeline) int {
		if i := slices.Index([]string{world.PolicyNone, world.PolicyWeir}, t.Policy); i >= 0 {
			return i
		}
		return 2
	}
	slices.SortStableFunc(r.timelines, func(a, b simreport.Timeline) int {
		return cmp.Or(cmp.Compare(slices.Index(seeds, a.Seed), slices.Index(seeds, b.Seed)), cmp.Compare(rank(&a), rank(&b)))
	})
	room := min(r.most, r.left)
	for _, t := range r.timelines {
		if room > 0 && slices.Contains(seeds, t.Seed) {
			r.study.Timelines = append(r.study.Timelines, t)
			room--
			r.left--
		}
	}
	r.timelines = nil
}

// worst is the recorded seed on which Weir, or the first policy in its place,
// did worst.
func (r *simReport) worst() uint64 {
	name, policy := r.timelines[0].Incident, r.timelines[0].Policy
	if slices.ContainsFunc(r.timelines, func(t simreport.Timeline) bool { return t.Policy == world.PolicyWeir }) {
		policy = world.PolicyWeir
	}
	seed, least := r.study.Seeds[0], 2.0
	for i := range r.study.Runs {
		f := &r.study.Runs[i]
		recorded := slices.ContainsFunc(r.timelines, func(t simreport.Timeline) bool { return t.Seed == f.Seed })
		if f.Incident == name && f.Policy == policy && recorded && f.GoodputRatio < least {
			seed, least = f.Seed, f.GoodputRatio
		}
	}
	return seed
}

// write leaves the report and closes the files.
func (r *simReport) write() error {
	r.choose()
	if err := r.lines.Close(); err != nil {
		return fmt.Errorf("write %s: %w", simLinesFile, err)
	}
	return writeWhole(filepath.Join(r.dir, simReportFile), func(w io.Writer) error { return simreport.WriteHTML(w, &r.study) })
}

// abandon closes the files of a run that did not come to its end.
func (r *simReport) abandon() { _ = r.lines.Close() }

// writeWhole writes a file whole or not at all.
func writeWhole(path string, fill func(io.Writer) error) error {
	part := path + ".part"
	f, err := os.Create(part)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := errors.Join(fill(f), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", filepath.Base(path), err), os.Remove(part))
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// study describes the jobs of a command line.
func (c *simRunCommand) study(jobs []job) simreport.Study {
	s := simreport.Study{Title: "Simulated incidents", Command: c.line(), Version: version(), Timelines: []simreport.Timeline{}}
	abouts := map[string]string{}
	for _, p := range world.Policies() {
		abouts[p.Name] = p.About
	}
	for _, j := range jobs {
		if !slices.ContainsFunc(s.Incidents, func(i simreport.Incident) bool { return i.Name == j.incident.Name }) {
			s.Incidents = append(s.Incidents, simreport.IncidentOf(j.incident, c.BooksFrom.Seconds()))
		}
		if !slices.ContainsFunc(s.Policies, func(p simreport.Policy) bool { return p.Name == j.policy }) {
			s.Policies = append(s.Policies, simreport.Policy{Name: j.policy, About: abouts[j.policy]})
		}
	}
	for k := range c.Seeds {
		s.Seeds = append(s.Seeds, c.Seed+uint64(k))
	}
	if len(s.Incidents) == 1 {
		s.Title = "The " + s.Incidents[0].Name + " incident, simulated"
	}
	return s
}

// line is the command line as it could be typed again.
func (c *simRunCommand) line() string {
	words := append([]string{"weir sim run"}, c.Incidents...)
	words = append(words, "--policy", strings.Join(c.Policy, ","), "--seeds", fmt.Sprint(c.Seeds), "--seed", fmt.Sprint(c.Seed))
	if c.Params != "" {
		words = append(words, "--params", c.Params)
	}
	if c.Compress > 0 {
		words = append(words, "--compress", c.Compress.String())
	}
	if c.BooksFrom > 0 {
		words = append(words, "--books-from", c.BooksFrom.String())
	}
	return strings.Join(words, " ")
}

// points is how closely the run with a seed is recorded.
func (c *simRunCommand) points(seed uint64) int {
	if c.Out == "" || seed-c.Seed >= reportSeeds {
		return 0
	}
	return reportPoints
}

// changing reports of which incidents the script changes anything.
func changing(jobs []job) func(name string) bool {
	last := map[string]bool{}
	for _, j := range jobs {
		last[j.incident.Name] = changesAnything(j.incident)
	}
	return func(name string) bool { return last[name] }
}

func changesAnything(inc *incident.Incident) bool {
	_, last := world.ScriptSpan(inc)
	return last > 0
}
