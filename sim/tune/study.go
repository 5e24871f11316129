package tune

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"weir/model"
)

// Config is a study. The same Config gives the same study.
type Config struct {
	// Incidents are what parameters are tried on; at least one.
	Incidents []Incident
	// Trials is how many parameter sets are tried, at least 1; Seeds how many
	// seeds of each incident a set is tried on, at least 1.
	Trials, Seeds int
	// Seed decides every choice of the search and every seed of a run.
	Seed uint64
	// InForce are the parameters to do better than; the search starts there.
	InForce model.Params
	// Only names the parameters that may change; none means all.
	Only []string
	// Weights make one number of the objectives.
	Weights Weights
	// Tail is the share of the worst tenth of the runs in that number, 0..1.
	Tail float64
	// Tolerance is by how much one incident may become worse.
	Tolerance float64
	// Worth is the gain below which a change is not worth the trouble.
	Worth float64
	// Cold leaves the defaults out of what is tried first.
	Cold bool
	// World is whatever else decides what a run gives, such as another length
	// of the script: a study does not go on in another world.
	World string
}

// Incident names an incident and identifies its content.
type Incident struct {
	Name string `json:"name"`
	Hash string `json:"hash"`
}

// Job is one run that a study wants: the policy Weir with Params.
type Job struct {
	// Incident is an index of Config.Incidents.
	Incident int
	Seed     uint64
	Params   model.Params
}

// Evaluate lives jobs through, in any order and number at a time, and calls
// take with their outcomes in the order of the jobs. An error ends the study.
type Evaluate func(jobs []Job, take func(Outcome) error) error

// Progress is how far a study is.
type Progress struct {
	// Phase is search, selection or verdict.
	Phase string
	// Trials is how many parameter sets were tried, of Of.
	Trials, Of int
	// Runs is how many runs there were, RunsLeft about how many are to come.
	Runs, RunsLeft int
	// InForce and Best are scores on the search's seeds; less is better.
	InForce, Best float64
}

// Trial is one parameter set that was tried.
type Trial struct {
	// ID counts from 0, which are the parameters in force.
	ID int
	// Kind is where it comes from: "in force", "defaults", "start", "search",
	// "simpler" or "near".
	Kind string
	// Values are in the order of model.ParamSpecs.
	Values []int64
	// Hash is that of the parameters.
	Hash string
	// Runs is how many of the search's pairs it lived through, Full whether all.
	Runs int
	Full bool
	// Broken names an invariant that it broke.
	Broken string
	// Score is on the search's pairs, estimated where it is not Full; Selected
	// on those of the selection, where Taken.
	Score, Selected float64
	Taken           bool
	// Losses are the means of the objectives over what it lived through.
	Losses Losses

	params model.Params
	batch  int   // those asked for together have the same
	moved  []int // axes on which it differs from its parent, at the start
	effect float64
}

// Params are the trial's values as a set.
func (t *Trial) Params() model.Params {
	return (&space{specs: model.ParamSpecs()}).params(t.Values)
}

// pair is a world: an incident and a seed.
type pair struct {
	incident int
	seed     uint64
}

// key is a run.
type key struct {
	params string
	pair
}

// study is one on its way.
type study struct {
	c        Config
	space    *space
	journal  *Journal
	eval     Evaluate
	progress func(Progress)

	search, selection, verdict []pair
	known                      map[key]Outcome
	trials                     []*Trial // the search's
	others                     []*Trial // the selection's own
	base, best                 *Trial
	path                       []*Trial // what was the best, in order
	phase                      string
	runs                       int
	dice                       *rand.Rand
}

// Run makes a study, or goes on with the one of the journal. progress may be
// nil. The error is that of the configuration, the journal or eval.
func Run(c Config, j *Journal, eval Evaluate, progress func(Progress)) (*Result, error) {
	s, err := newStudy(c, j, eval, progress)
	if err != nil {
		return nil, err
	}
	for _, part := range []func() error{s.begin, s.start, s.adapt} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	winner, err := s.choose()
	if err != nil {
		return nil, err
	}
	v, err := s.judge(winner)
	if err != nil {
		return nil, err
	}
	return s.result(winner, v), nil
}

func newStudy(c Config, j *Journal, eval Evaluate, progress func(Progress)) (*study, error) {
	switch {
	case len(c.Incidents) == 0:
		return nil, fmt.Errorf("a study needs an incident")
	case c.Trials < 1 || c.Seeds < 1:
		return nil, fmt.Errorf("a study needs a trial and a seed, not %d and %d", c.Trials, c.Seeds)
	}
	if err := c.InForce.Check(); err != nil {
		return nil, fmt.Errorf("check parameters in force: %w", err)
	}
	sp, err := newSpace(c.Only)
	if err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	s := &study{
		c: c, space: sp, journal: j, eval: eval, progress: progress,
		known: map[key]Outcome{}, dice: rand.New(rand.NewPCG(c.Seed, 0x7475_6e65)),
	}
	s.search = s.pairs(1, c.Seeds)
	s.selection = s.pairs(2, max(4, c.Seeds))
	s.verdict = s.pairs(3, min(64, max(8, 2*c.Seeds)))
	return s, nil
}

// pairs are all incidents with n seeds of a part of the study, seed by seed,
// each time in another order.
func (s *study) pairs(part uint64, n int) []pair {
	var all []pair
	for k := range uint64(n) {
		// 48 bits keep the number whole in every reader of JSON.
		seed := mix(mix(s.c.Seed)+part<<32+k) >> 16
		for _, i := range s.dice.Perm(len(s.c.Incidents)) {
			all = append(all, pair{i, seed})
		}
	}
	return all
}

// begin opens the journal and lives through what is known before any search:
// the parameters in force, and the defaults beside them.
func (s *study) begin() error {
	s.phase = "search"
	resumed := s.journal.replaying()
	h := &header{
		Format: 1, Laws: model.LawVersion, Trials: s.c.Trials, Seeds: s.c.Seeds, Seed: s.c.Seed,
		InForce: s.space.of(&s.c.InForce), Only: s.c.Only, Incidents: s.c.Incidents,
		Weights: s.c.Weights, Tail: s.c.Tail, Cold: s.c.Cold, World: s.c.World,
	}
	for i := range s.space.specs {
		h.Names = append(h.Names, s.space.specs[i].Name)
	}
	if err := s.journal.keep(record{Study: h}); err != nil {
		return err
	}
	if resumed {
		if err := s.probe(); err != nil {
			return err
		}
	}
	d := model.DefaultParams()
	points := []point{h.InForce}
	if !s.c.Cold && len(s.space.changed(h.InForce, s.space.of(&d))) > 0 && s.c.Trials > 1 {
		x := slices.Clone(h.InForce)
		for _, i := range s.space.axes {
			x[i] = s.space.specs[i].Default
		}
		points = append(points, x)
	}
	for i, x := range points {
		all, err := s.ask([]string{"in force", "defaults"}[i], []point{x}, nil)
		if err != nil {
			return err
		}
		if i == 0 {
			s.base = all[0]
		}
		if err := s.race(all); err != nil {
			return err
		}
	}
	return nil
}

// probe lives the first run of the journal through again: a build whose laws
// give something else must not go on with the figures of another.
func (s *study) probe() error {
	for _, rec := range s.journal.tape {
		if rec.Run == nil {
			continue
		}
		if rec.Run.Params != s.c.InForce.Hash() || rec.Run.Incident < 0 || rec.Run.Incident >= len(s.c.Incidents) {
			return fmt.Errorf("%w: its first run is not of the parameters in force", ErrOther)
		}
		job := Job{Incident: rec.Run.Incident, Seed: rec.Run.Seed, Params: s.c.InForce}
		return s.eval([]Job{job}, func(o Outcome) error {
			if o.Digest != rec.Run.Digest || o.Losses != rec.Run.Losses {
				return fmt.Errorf("%w: this build lives %s through in another way", ErrOther, s.c.Incidents[job.Incident].Name)
			}
			return nil
		})
	}
	return nil
}

// ask makes trials of points and writes them down before anything is run.
func (s *study) ask(kind string, points []point, state *CMAState) ([]*Trial, error) {
	rec := &ask{First: len(s.trials), Kind: kind, Points: points, State: state}
	if err := s.journal.keep(record{Ask: rec}); err != nil {
		return nil, err
	}
	var all []*Trial
	for _, x := range points {
		t := s.trial(kind, x)
		t.ID, t.batch = len(s.trials), rec.First
		s.trials = append(s.trials, t)
		all = append(all, t)
	}
	return all, nil
}

func (s *study) trial(kind string, x point) *Trial {
	p := s.space.params(x)
	return &Trial{ID: -1, Kind: kind, Values: x, Hash: p.Hash(), params: p}
}

// live lives every trial through every pair, except what is known already.
func (s *study) live(trials []*Trial, pairs []pair) error {
	var keys []key
	var jobs []Job
	wanted := map[key]bool{}
	for _, p := range pairs {
		for _, t := range trials {
			k := key{t.Hash, p}
			if _, ok := s.known[k]; ok || wanted[k] {
				continue
			}
			wanted[k] = true
			if s.journal.replaying() {
				if err := s.replay(k); err != nil {
					return err
				}
				continue
			}
			keys = append(keys, k)
			jobs = append(jobs, Job{p.incident, p.seed, t.params})
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	i := 0
	err := s.eval(jobs, func(o Outcome) error {
		i++
		return s.took(keys[i-1], o)
	})
	if err == nil && i != len(jobs) {
		err = fmt.Errorf("%d of %d runs came back", i, len(jobs))
	}
	return err
}

// replay takes the next run from the journal.
func (s *study) replay(k key) error {
	rec := s.journal.next()
	if r := rec.Run; r == nil || r.Params != k.params || r.Incident != k.incident || r.Seed != k.seed {
		return fmt.Errorf("%w: record %d is not the run that follows", ErrOther, s.journal.read)
	}
	s.known[k] = Outcome{Losses: rec.Run.Losses, Broken: rec.Run.Broken, Digest: rec.Run.Digest}
	s.runs++
	return nil
}

// took notes a run.
func (s *study) took(k key, o Outcome) error {
	s.known[k] = o
	s.runs++
	err := s.journal.keep(record{Run: &run{
		Params: k.params, Incident: k.incident, Seed: k.seed,
		Losses: o.Losses, Broken: o.Broken, Digest: o.Digest,
	}})
	s.tell()
	return err
}

// tell says how far the study is.
func (s *study) tell() {
	p := Progress{Phase: s.phase, Trials: len(s.trials), Of: s.c.Trials, Runs: s.runs}
	if s.base != nil && s.best != nil {
		p.InForce, p.Best = s.base.Score, s.best.Score
	}
	end := 2 * len(s.verdict)
	switch s.phase {
	case "search":
		perTrial := float64(s.runs) / float64(max(1, len(s.trials)))
		p.RunsLeft = int(perTrial*float64(max(0, s.c.Trials-len(s.trials)))) + selectionSets*len(s.selection) + end
	case "selection":
		p.RunsLeft = selectionSets/2*len(s.selection) + end
	default:
		p.RunsLeft = end / 2
	}
	s.progress(p)
}

// losses are a trial's, weighted, over pairs that it lived through.
func (s *study) losses(t *Trial, pairs []pair) []float64 {
	all := make([]float64, len(pairs))
	for i, p := range pairs {
		o := s.known[key{t.Hash, p}]
		all[i] = s.c.Weights.loss(&o.Losses)
	}
	return all
}

// outcomes are a trial's over pairs.
func (s *study) outcomes(t *Trial, pairs []pair) []Outcome {
	all := make([]Outcome, len(pairs))
	for i, p := range pairs {
		all[i] = s.known[key{t.Hash, p}]
	}
	return all
}

// far is what a trial pays for its way from the parameters in force: so little
// that it decides only between equals.
func (s *study) far(t *Trial) float64 {
	const price = 0.02 // for every searched parameter moved across its range
	return price * s.space.distance(t.Values, s.base.Values)
}
