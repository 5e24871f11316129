package incident

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"weir/sim/incidents"
)

// Builtin returns the built-in incident with that name. NAME-N is the incident
// NAME with N agents where its file lists N under `also`.
func Builtin(name string) (*Incident, error) {
	inc, err := read(name)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return inc, err
	}
	if base, n, ok := variant(name); ok {
		if inc, err := read(base); err == nil && slices.Contains(inc.Fleet.Also, n) {
			return inc.WithAgents(n), nil
		}
	}
	return nil, fmt.Errorf("no built-in incident %q; there are: %s", name, strings.Join(List(), ", "))
}

// variant parts NAME-N.
func variant(name string) (base string, agents int, ok bool) {
	cut := strings.LastIndexByte(name, '-')
	if cut < 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(name[cut+1:])
	return name[:cut], n, err == nil && n > 0
}

// read parses one built-in file; the error wraps fs.ErrNotExist for no such.
func read(name string) (*Incident, error) {
	f, err := incidents.Files().Open(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("open built-in incident: %w", fs.ErrNotExist)
	}
	defer func() { _ = f.Close() }() // an embedded file has nothing to lose
	inc, err := Parse(name+".yaml", f)
	if err != nil {
		return nil, fmt.Errorf("parse built-in incident: %w", err)
	}
	return inc, nil
}

// List returns the names of the built-in incidents in alphabetical order, each
// followed by those of its variants from few agents to many.
func List() []string {
	files, err := fs.Glob(incidents.Files(), "*.yaml")
	if err != nil {
		panic("incident: BUG: bad pattern: " + err.Error())
	}
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(file, ".yaml")
		names = append(names, name)
		inc, err := read(name)
		if err != nil {
			continue // asking for it by name tells why
		}
		for _, n := range slices.Sorted(slices.Values(inc.Fleet.Also)) {
			names = append(names, fmt.Sprintf("%s-%d", name, n))
		}
	}
	return names
}
