package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"weir/cmd/weir/config"
	"weir/model"
	"weir/sim/incident"
	"weir/sim/strict"
	"weir/sim/workload"
)

// read opens a file and hands it to parse. What parse finds wrong is bad input.
func read[T any](path string, parse func(name string, in io.Reader) (T, error)) (T, error) {
	var none T
	f, err := os.Open(path)
	if err != nil {
		return none, badInput(err)
	}
	defer func() { _ = f.Close() }() // only read
	v, err := parse(path, f)
	var faults *strict.ParseError
	switch {
	case errors.As(err, &faults):
		return none, badFile(faults)
	case err != nil:
		return none, badInput(err)
	}
	return v, nil
}

// configFlag names a weir.yaml.
type configFlag struct {
	Config string `short:"c" placeholder:"FILE" help:"Configuration file; ./weir.yaml if none is named."`
}

// defaultConfig is the file that is read when none is named.
const defaultConfig = "weir.yaml"

// need reads the file, which must have a channel.
func (c configFlag) need() (*config.File, error) {
	path := c.path()
	f, err := c.parse()
	if c.Config == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, badInput(fmt.Errorf("there is no %s here: weir init writes one to fill in, or name another", path))
	}
	if err != nil {
		return nil, err
	}
	if len(f.Model.Channels) == 0 {
		return nil, badFile(fmt.Errorf("%s:1:1: channels: there is none, so there is nothing to control; weir config check --help shows one", path))
	}
	return f, nil
}

// want reads the file if it is there or named, else returns the defaults.
func (c configFlag) want() (*config.File, error) {
	f, err := c.parse()
	if c.Config == "" && errors.Is(err, fs.ErrNotExist) {
		return config.Default(), nil
	}
	return f, err
}

func (c configFlag) path() string {
	if c.Config == "" {
		return defaultConfig
	}
	return c.Config
}

func (c configFlag) parse() (*config.File, error) {
	return read(c.path(), func(name string, in io.Reader) (*config.File, error) { return config.Parse(name, in, time.Now()) })
}

// readParams reads a file of parameters over the defaults.
func readParams(path string) (model.Params, error) {
	p, err := read(path, config.ParseParams)
	if err != nil {
		return model.Params{}, err
	}
	params, err := p.Apply(model.DefaultParams())
	return params, badInput(err)
}

// findIncident returns a built-in incident by its name, or one from a file.
func findIncident(name string) (*incident.Incident, error) {
	if slices.Contains(incident.List(), name) {
		return incident.Builtin(name)
	}
	inc, err := read(name, incident.Parse)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, badInput(fmt.Errorf("incident %s: there is no such file and no such built-in incident; weir sim list shows them", name))
	}
	return inc, err
}

// compress plays an incident in another time; 0 leaves it as it is.
func compress(inc *incident.Incident, to time.Duration) (*incident.Incident, error) {
	switch {
	case to < 0:
		return nil, badInput(fmt.Errorf("--compress=%s: want a time above 0", to))
	case to == 0:
		return inc, nil
	}
	return inc.Compress(to), nil
}

// traceFolder is where an incident's trace files are: the named folder, or
// the incident's own.
func traceFolder(named, incident string) string {
	if named != "" {
		return named
	}
	return filepath.Dir(incident)
}

// readTraces reads the files that an incident's arrivals name, from a folder.
func readTraces(inc *incident.Incident, dir string) (map[string]workload.Trace, error) {
	traces := map[string]workload.Trace{}
	for i := range inc.Workloads {
		a := &inc.Workloads[i].Arrivals
		if _, known := traces[a.File]; known || a.Kind != incident.ArriveTrace {
			continue
		}
		path := a.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		t, err := read(path, workload.ReadTrace)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, badInput(fmt.Errorf("trace of incident %s: %w; --traces names its folder", inc.Name, err))
		}
		if err != nil {
			return nil, err
		}
		traces[a.File] = t
	}
	return traces, nil
}

// create writes a file where there is none, and reports whether it did.
func create(path, text string) (bool, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = io.WriteString(f, text)
	return err == nil, errors.Join(err, f.Close())
}
