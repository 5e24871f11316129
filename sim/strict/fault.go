package strict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with a file.
type Fault struct {
	Line, Col int    // from 1
	Text      string // what is wrong and what would be right, in one line
}

// ParseError is every fault found in one file, in the order of its lines.
type ParseError struct {
	Name   string
	Faults []Fault
}

// Error returns one line for each fault: name:line:col: text.
func (e *ParseError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = fmt.Sprintf("%s:%d:%d: %s", e.Name, f.Line, f.Col, f.Text)
	}
	return strings.Join(lines, "\n")
}

// MaxFaults bounds what one file can make us say; one more line counts the rest.
const MaxFaults = 100

func (r *Reader) add(line, col int, format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	r.faults = append(r.faults, Fault{line, col, text})
}

// Err returns the faults found so far as a *ParseError, or nil when there are
// none.
func (r *Reader) Err() error {
	if len(r.faults) == 0 {
		return nil
	}
	faults := slices.Clone(r.faults)
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if more := len(faults) - MaxFaults; more > 0 {
		last := faults[MaxFaults]
		faults = append(faults[:MaxFaults], Fault{last.Line, last.Col, fmt.Sprintf("and %d more faults", more)})
	}
	return &ParseError{Name: r.name, Faults: faults}
}
