package incident

import (
	"fmt"
	"io/fs"
	"strings"

	"weir/sim/incidents"
)

// Builtin returns the built-in incident with that name.
func Builtin(name string) (*Incident, error) {
	f, err := incidents.Files().Open(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no built-in incident %q; there are: %s", name, strings.Join(List(), ", "))
	}
	defer func() { _ = f.Close() }() // an embedded file has nothing to lose
	inc, err := Parse(name+".yaml", f)
	if err != nil {
		return nil, fmt.Errorf("parse built-in incident: %w", err)
	}
	return inc, nil
}

// List returns the names of the built-in incidents in alphabetical order.
func List() []string {
	names, err := fs.Glob(incidents.Files(), "*.yaml")
	if err != nil {
		panic("incident: BUG: bad pattern: " + err.Error())
	}
	for i, n := range names {
		names[i] = strings.TrimSuffix(n, ".yaml")
	}
	return names
}
