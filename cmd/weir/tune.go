package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"weir/cmd/weir/config"
	"weir/cmd/weir/tunereport"
	"weir/model"
	"weir/sim/incident"
	"weir/sim/tune"
)

// simTuneCommand is weir sim tune.
type simTuneCommand struct {
	Incidents []string           `placeholder:"DIR" help:"Folders or files of incidents, or built-in ones' names; the built-in ones of at most ten minutes and eight agents if none is named."`
	Trials    int                `default:"200" placeholder:"N" help:"How many parameter sets to try."`
	Seeds     int                `default:"8" placeholder:"N" help:"On how many seeds of each incident a set is tried; the choice and the verdict have others."`
	Seed      uint64             `default:"1" placeholder:"N" help:"What all seeds and choices of the study are drawn from."`
	Study     string             `placeholder:"FILE" help:"Keep the study in this file, and go on with it if it is there."`
	Output    string             `short:"o" placeholder:"PARAMS" help:"Write the parameters that should be in force to this file."`
	Report    string             `placeholder:"FILE" help:"Write an HTML report of the study to this file."`
	Params    string             `placeholder:"FILE" help:"The parameters in force, where the search starts; the defaults if none is named."`
	Only      []string           `placeholder:"NAME" help:"Change only these parameters; all if none is named."`
	Cold      bool               `help:"Do not try the defaults beside the parameters in force."`
	Weights   map[string]float64 `mapsep:"," placeholder:"NAME=W" help:"What counts how much: goodput=1,waste=0.5,tail=0.1,fairness=0.2,collapse=1,recovery=0.2."`
	Tail      float64            `default:"0.25" placeholder:"SHARE" help:"Share of the worst tenth of the runs in a set's score; the rest is the mean."`
	Tolerance float64            `default:"0.02" placeholder:"LOSS" help:"By how much one incident's loss may rise at most."`
	Worth     float64            `default:"0.01" placeholder:"GAIN" help:"The gain in the score that a change is worth at least."`
	Workers   int                `placeholder:"N" help:"Runs at the same time; as many as there are processors if not given. The study is the same."`
	Compress  time.Duration      `placeholder:"TIME" help:"Play each script in this time instead of its own."`
	BooksFrom time.Duration      `placeholder:"TIME" help:"Count from this instant on; what came before is warm-up."`
	Traces    string             `placeholder:"DIR" help:"Folder of the trace files that incidents name; each incident's own if none is named."`
	JSON      bool               `name:"json" help:"Print the verdict as one JSON object."`
}

// Help is shown by --help.
func (*simTuneCommand) Help() string {
	return `Searches the laws' parameters for a set that does better than the one in force, on incidents lived through in virtual time, and recommends it only if the gain on seeds that nothing was chosen by is surely above zero and no incident becomes worse than is tolerated. Otherwise it says to keep what is there, and why; --output then holds what is in force.

A study can be stopped at any time, even killed: the same command goes on with the file of --study and comes to the same end. Only --workers, --output, --report, --tolerance and --worth may differ.

Examples:

  weir sim tune --trials 100 --study tune.jsonl -o tuned.yaml --report tune.html
  weir sim tune --incidents ./incidents --params in-force.yaml --only plateau,cut_share
  weir sim tune --incidents row-step-8,row-rise-8,herd --compress 2m --weights goodput=1,waste=2
  weir params push tuned.yaml --why "tuned on last week's incidents"`
}

// Run makes the study and says what came of it.
func (c *simTuneCommand) Run(e *env) error {
	ground, err := c.ground()
	if err != nil {
		return err
	}
	study, err := c.config(ground)
	if err != nil {
		return err
	}
	file, err := openStudy(c.Study)
	if err != nil {
		return err
	}
	show := newTuneProgress(e.stderr, time.Now)
	result, err := tune.Run(study, file.journal, ground.evaluate(e.ctx, c.Workers, show.ran), show.set)
	show.close()
	err = errors.Join(err, file.close())
	switch {
	case errors.Is(err, tune.ErrOther):
		return badInput(fmt.Errorf("--study=%s: %w; name another file, or remove it", c.Study, err))
	case err != nil && e.ctx.Err() != nil && c.Study != "":
		return fmt.Errorf("%w; the same command goes on with %s", err, c.Study)
	case err != nil:
		return err
	}
	return c.finish(e, ground, result)
}

// finish writes what was asked for and prints the verdict.
func (c *simTuneCommand) finish(e *env, g *ground, r *tune.Result) error {
	if c.Output != "" {
		if err := writeWhole(c.Output, c.paramsFile(g, r)); err != nil {
			return err
		}
	}
	if c.Report != "" {
		study := tunereport.StudyOf(r, c.Seeds)
		study.Command, study.Version = c.line(), version()
		var err error
		if study.Moves, err = g.moves(e.ctx, r); err != nil {
			return err
		}
		if err := writeWhole(c.Report, func(w io.Writer) error { return tunereport.WriteHTML(w, study) }); err != nil {
			return err
		}
	}
	if c.JSON {
		return showTuneJSON(e.stdout, r)
	}
	return showTune(e.stdout, r)
}

// config is the study that the command line asks for.
func (c *simTuneCommand) config(g *ground) (tune.Config, error) {
	s := tune.Config{
		Incidents: g.names, Trials: c.Trials, Seeds: c.Seeds, Seed: c.Seed, InForce: model.DefaultParams(), Only: c.Only,
		Weights: tune.DefaultWeights(), Tail: c.Tail, Tolerance: c.Tolerance, Worth: c.Worth, Cold: c.Cold,
	}
	if c.BooksFrom > 0 {
		s.World = "books from " + c.BooksFrom.String()
	}
	if c.Params != "" {
		p, err := read(c.Params, config.ParseParams)
		if err != nil {
			return s, err
		}
		if s.InForce, err = p.Apply(s.InForce); err != nil {
			return s, badInput(err)
		}
	}
	switch {
	case c.Trials < 1 || c.Trials > 100_000:
		return s, badInput(fmt.Errorf("--trials=%d: want 1 to 100000", c.Trials))
	case c.Seeds < 1 || c.Seeds > 1000:
		return s, badInput(fmt.Errorf("--seeds=%d: want 1 to 1000", c.Seeds))
	case c.Workers < 0 || c.Workers > 1024:
		return s, badInput(fmt.Errorf("--workers=%d: want 1 to 1024", c.Workers))
	case !upTo(c.Tail, 1):
		return s, badInput(fmt.Errorf("--tail=%v: want 0 to 1", c.Tail))
	case !upTo(c.Tolerance, math.MaxFloat64):
		return s, badInput(fmt.Errorf("--tolerance=%v: want 0 or more", c.Tolerance))
	case !upTo(c.Worth, math.MaxFloat64):
		return s, badInput(fmt.Errorf("--worth=%v: want 0 or more", c.Worth))
	}
	for _, name := range c.Only {
		if !slices.ContainsFunc(model.ParamSpecs(), func(p model.ParamSpec) bool { return p.Name == name }) {
			return s, badInput(fmt.Errorf("--only=%s: there is no such parameter; weir params show --default lists them", name))
		}
	}
	return s, c.weigh(&s.Weights)
}

// upTo reports whether v is from 0 to most; NaN is not.
func upTo(v, most float64) bool { return v >= 0 && v <= most }

// weigh puts the named weights in.
func (c *simTuneCommand) weigh(w *tune.Weights) error {
	for name, v := range c.Weights {
		o := tune.Objective(0)
		for ; o < tune.NumObjectives && o.String() != name; o++ {
		}
		if o == tune.NumObjectives || !upTo(v, 1e6) {
			return badInput(fmt.Errorf("--weights=%s=%v: want goodput, waste, tail, fairness, collapse or recovery and a number from 0", name, v))
		}
		w[o] = v
	}
	return nil
}

// What the built-in incidents of a study are, when none is named: short, and
// few agents, since each is lived through thousands of times.
const (
	tuneLongest = 10 * time.Minute
	tuneAgents  = 8
)

// ground reads the incidents.
func (c *simTuneCommand) ground() (*ground, error) {
	names, err := c.incidents()
	if err != nil {
		return nil, err
	}
	load := simRunCommand{Traces: c.Traces, Compress: c.Compress, BooksFrom: c.BooksFrom}
	g := &ground{booksFrom: c.BooksFrom, oracles: map[place]oracle{}}
	for _, name := range names {
		inc, traces, err := load.load(name)
		if err != nil {
			return nil, err
		}
		hash, err := hashIncident(inc)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(g.names, func(i tune.Incident) bool { return i.Name == inc.Name }) {
			return nil, badInput(fmt.Errorf("--incidents: two are named %s", inc.Name))
		}
		g.names = append(g.names, tune.Incident{Name: inc.Name, Hash: hash})
		g.incidents = append(g.incidents, inc)
		g.traces = append(g.traces, traces)
	}
	return g, nil
}

// incidents lists what --incidents names, a folder's files in order of name.
func (c *simTuneCommand) incidents() ([]string, error) {
	if len(c.Incidents) == 0 {
		return builtinForTuning()
	}
	var names []string
	for _, name := range c.Incidents {
		info, err := os.Stat(name)
		if err != nil || !info.IsDir() {
			names = append(names, name)
			continue
		}
		files, err := filepath.Glob(filepath.Join(name, "*.yaml"))
		if err != nil {
			return nil, badInput(fmt.Errorf("--incidents=%s: %w", name, err))
		}
		if len(files) == 0 {
			return nil, badInput(fmt.Errorf("--incidents=%s: %w: the folder has no .yaml file", name, fs.ErrNotExist))
		}
		names = append(names, files...)
	}
	return names, nil
}

// builtinForTuning are the built-in incidents that are short and small.
func builtinForTuning() ([]string, error) {
	var names []string
	for _, name := range incident.List() {
		inc, err := incident.Builtin(name)
		if err != nil {
			return nil, err
		}
		if inc.Duration <= tuneLongest && inc.Fleet.MaxAgents() <= tuneAgents && len(inc.Traces()) == 0 {
			names = append(names, name)
		}
	}
	return names, nil
}

// hashIncident identifies an incident by what it says.
func hashIncident(inc *incident.Incident) (string, error) {
	var text bytes.Buffer
	if err := incident.Write(&text, inc); err != nil {
		return "", fmt.Errorf("identify incident %s: %w", inc.Name, err)
	}
	sum := sha256.Sum256(text.Bytes())
	return hex.EncodeToString(sum[:8]), nil
}

// line is the command line as it could be typed again, without what does not
// decide the study.
func (c *simTuneCommand) line() string {
	words := []string{"weir sim tune", "--trials", fmt.Sprint(c.Trials), "--seeds", fmt.Sprint(c.Seeds), "--seed", fmt.Sprint(c.Seed)}
	add := func(flag, value string) {
		if value != "" {
			words = append(words, flag, value)
		}
	}
	add("--incidents", strings.Join(c.Incidents, ","))
	add("--params", c.Params)
	add("--only", strings.Join(c.Only, ","))
	var weights []string
	for _, name := range slices.Sorted(maps.Keys(c.Weights)) {
		weights = append(weights, fmt.Sprintf("%s=%v", name, c.Weights[name]))
	}
	add("--weights", strings.Join(weights, ","))
	if c.Cold {
		words = append(words, "--cold")
	}
	if c.Compress > 0 {
		add("--compress", c.Compress.String())
	}
	if c.BooksFrom > 0 {
		add("--books-from", c.BooksFrom.String())
	}
	return strings.Join(words, " ")
}

// workers is how many runs go on at the same time.
func workers(n int) int { return cmp.Or(n, runtime.GOMAXPROCS(0)) }
