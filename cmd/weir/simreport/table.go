package simreport

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"weir/sim/world"
)

// Table prints incidents and policies for people, a row each, over all seeds.
type Table struct {
	w       *tabwriter.Writer
	changes func(incident string) bool
	runs    []world.Figures // of the row to come
}

// NewTable returns a table that Show fills and End prints. changes says of
// which incidents the script changes anything.
func NewTable(out io.Writer, changes func(incident string) bool) *Table {
	t := &Table{w: tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight), changes: changes}
	t.row("incident", "policy", "seeds", "of oracle", "least", "most", "wasted", "most", "p50", "p99", "most", "collapsed", "recovered", "in", "most")
	return t
}

func (t *Table) row(columns ...string) {
	fmt.Fprintln(t.w, strings.Join(columns, "\t")+"\t")
}

// Show takes the next run, in the order of incident, policy and seed.
func (t *Table) Show(f *world.Figures) error {
	if len(t.runs) > 0 && (t.runs[0].Incident != f.Incident || t.runs[0].Policy != f.Policy) {
		t.flush()
	}
	t.runs = append(t.runs, *f)
	return nil
}

func (t *Table) flush() {
	if len(t.runs) == 0 {
		return
	}
	c := CellOf(t.runs, t.changes(t.runs[0].Incident))
	t.row(
		c.Incident, c.Policy, fmt.Sprint(c.Seeds), percent(c.Goodput.Median), percent(c.Goodput.Least), percent(c.Goodput.Most),
		percent(c.Waste.Median), percent(c.Waste.Most), seconds(c.P50.Median), seconds(c.P99.Median), seconds(c.P99.Most),
		chance(c.Collapsed), chance(c.Recovered), seconds(c.Recovery.Median), seconds(c.Recovery.Most),
	)
	t.runs = t.runs[:0]
}

// End prints the table. Columns named "most" and "least" are the extremes of
// the column to their left over the seeds; the others are medians.
func (t *Table) End() error {
	t.flush()
	if err := t.w.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

const none = "–"

func percent(n Number) string {
	if math.IsNaN(float64(n)) {
		return none
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n))
}

func seconds(n Number) string {
	switch v := float64(n); {
	case math.IsNaN(v):
		return none
	case v >= 100:
		return fmt.Sprintf("%.0fs", v)
	case v >= 10:
		return fmt.Sprintf("%.1fs", v)
	default:
		return fmt.Sprintf("%.2fs", v)
	}
}

// chance is "k/n (low–high %)", a dash of nothing.
func chance(s Share) string {
	if s.N == 0 {
		return none
	}
	return fmt.Sprintf("%d/%d (%.0f–%.0f %%)", s.K, s.N, 100*float64(s.Low), 100*float64(s.High))
}
