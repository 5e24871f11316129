package incident

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with an incident file.
type Fault struct {
	Line, Col int    // from 1; 0 when the place is not known
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

// maxFaults bounds what one file can make us say.
const maxFaults = 100

// faultList collects faults while a file is read.
type faultList struct {
	name   string
	faults []Fault
}

func (l *faultList) add(line, col int, format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	l.faults = append(l.faults, Fault{line, col, text})
}

// err returns the faults as an error, or nil when there are none.
func (l *faultList) err() error {
	if len(l.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(l.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if more := len(l.faults) - maxFaults; more > 0 {
		last := l.faults[maxFaults]
		l.faults = append(l.faults[:maxFaults], Fault{last.Line, last.Col, fmt.Sprintf("and %d more faults", more)})
	}
	return &ParseError{Name: l.name, Faults: l.faults}
}
