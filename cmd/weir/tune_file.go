package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"weir/model"
	"weir/sim/tune"
)

// studyFile is a study's journal on disk; without a path it is in memory only.
type studyFile struct {
	path    string
	file    *os.File
	size    int64
	journal *tune.Journal
}

// openStudy reads what is there and cuts off a last line that was torn.
func openStudy(path string) (*studyFile, error) {
	s := &studyFile{path: path, journal: tune.NewJournal(nil)}
	if path == "" {
		return s, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, badInput(fmt.Errorf("--study: %w", err))
	}
	s.file = f
	if s.journal, s.size, err = tune.OpenJournal(f, s); err == nil {
		err = f.Truncate(s.size)
	}
	if err != nil {
		return nil, badInput(errors.Join(fmt.Errorf("--study=%s: %w", path, err), f.Close()))
	}
	return s, nil
}

// Write appends. A file that has grown by itself belongs to another process.
func (s *studyFile) Write(b []byte) (int, error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("look at %s: %w", s.path, err)
	}
	if info.Size() != s.size {
		return 0, fmt.Errorf("%s was changed by another process while this one was at it", s.path)
	}
	n, err := s.file.Write(b)
	s.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("append to %s: %w", s.path, err)
	}
	return n, nil
}

func (s *studyFile) close() error {
	if s.file == nil {
		return nil
	}
	if err := errors.Join(s.file.Sync(), s.file.Close()); err != nil {
		return fmt.Errorf("close %s: %w", s.path, err)
	}
	return nil
}

// paramsFile writes the parameters that should be in force after a study, with
// where they come from.
func (c *simTuneCommand) paramsFile(g *ground, r *tune.Result) func(io.Writer) error {
	return func(out io.Writer) error {
		var b strings.Builder
		line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
		line("# Written by weir sim tune, version %s, law version %d.", version(), model.LawVersion)
		line("# %s", r.Verdict.Why)
		line("# In force before: %s. Study: seed %d, %d trials, %d seeds, %d runs.", r.InForce.Hash, c.Seed, c.Trials, c.Seeds, r.Runs)
		for _, i := range g.names {
			line("# Incident %s, %s.", i.Name, i.Hash)
		}
		line("name: %q", paramsName(r))
		line("by: weir sim tune")
		line("why: %q", r.Verdict.Why)
		line("params:")
		for i, spec := range model.ParamSpecs() {
			v, was := spec.Get(&r.Params), r.InForce.Values[i]
			note := ""
			if v != was {
				note = "  # was " + paramText(&spec, was)
			}
			line("  %s: %s%s", spec.Name, paramText(&spec, v), note)
		}
		_, err := io.WriteString(out, b.String())
		return err
	}
}

// paramsName names the set by its hash.
func paramsName(r *tune.Result) string {
	if r.Verdict.Recommend {
		return "tuned-" + r.Params.Hash()
	}
	return "kept-" + r.Params.Hash()
}

// paramText is a value as a file of parameters says it.
func paramText(spec *model.ParamSpec, v int64) string {
	if spec.Unit == "ns" && v > 0 {
		return time.Duration(v).String()
	}
	return fmt.Sprint(v)
}
