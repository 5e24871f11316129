package classify

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"weir/model"
)

//go:embed rules/*.yaml
var shipped embed.FS

// genericFile is asked after every family.
const genericFile = "generic.yaml"

// Table is a rule file, to be asked before the shipped ones.
type Table struct {
	// Name is shown in faults, as the file's path is.
	Name string
	Data []byte
}

// Classifier judges answers. It never changes and is safe for concurrent use.
type Classifier struct {
	tables  []table // in the order they are asked
	version string
}

// New returns a classifier that asks tables in order, then the shipped rules.
// The error lists every fault of the tables, each with file and line.
func New(tables ...Table) (*Classifier, error) {
	files, err := shippedTables()
	if err != nil {
		return nil, err
	}
	c := &Classifier{}
	l := loader{names: map[string]string{}}
	sum := sha256.New()
	for _, t := range append(slices.Clip(tables), files...) {
		c.tables = append(c.tables, l.load(t.Name, t.Data))
		sum.Write(t.Data) // a hash never fails
	}
	if err := errors.Join(l.faults...); err != nil {
		return nil, err
	}
	c.version = hex.EncodeToString(sum.Sum(nil)[:4])
	return c, nil
}

// Version names the rules in use: it changes with every change of a table.
func (c *Classifier) Version() string { return c.version }

// shippedTables returns the embedded tables, families by name, generic last.
func shippedTables() ([]Table, error) {
	entries, err := shipped.ReadDir("rules")
	if err != nil {
		return nil, fmt.Errorf("list shipped rules: %w", err)
	}
	var tables []Table
	var generic Table
	for _, e := range entries {
		data, err := shipped.ReadFile(path.Join("rules", e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read shipped rules: %w", err)
		}
		t := Table{Name: e.Name(), Data: data}
		if e.Name() == genericFile {
			generic = t
			continue
		}
		tables = append(tables, t)
	}
	return append(tables, generic), nil
}

// Classify judges one answer that came as a whole.
func (c *Classifier) Classify(a Answer) Verdict {
	switch {
	case a.Status < 200:
		return c.unanswered(&a)
	case a.Status < 300:
		return c.judgeBody(&a, true)
	}
	return c.judgeRefusal(&a)
}

// judgeOne judges an answer of which the body is no stream.
func (c *Classifier) judgeOne(a *Answer) Verdict {
	if a.Status >= 200 && a.Status < 300 {
		return c.judgeBody(a, false)
	}
	return c.Classify(*a)
}

// unanswered judges an attempt without a status.
func (c *Classifier) unanswered(a *Answer) Verdict {
	trouble := strings.ToLower(a.TransportError)
	for _, word := range [...]string{"context canceled", "request canceled by", "canceled by client", "cancelled by client", "client disconnected"} {
		if strings.Contains(trouble, word) {
			return law(model.ClassCanceled, "canceled")
		}
	}
	return law(model.ClassTransport, "no-answer")
}
