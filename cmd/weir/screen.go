package main

import (
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
)

// screenWidth is how many columns a terminal has; 0, without a bound, where what
// is written goes to none.
func screenWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !terminal(w) {
		return 0
	}
	columns, _, err := term.GetSize(f.Fd())
	if err != nil {
		return 0
	}
	return columns
}

// wrapped is a text with its lines broken at a width, if there is one; what
// follows in a line that was broken is indented.
func wrapped(text string, indent, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if ansi.StringWidth(strings.TrimSuffix(line, "\n")) <= width {
			b.WriteString(line)
			continue
		}
		inner := ansi.Wrap(line, max(width-indent, 1), " ")
		b.WriteString(strings.ReplaceAll(strings.TrimSuffix(inner, "\n"), "\n", "\n"+strings.Repeat(" ", indent)))
		if strings.HasSuffix(line, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// grid is rows under headings, each column as wide as what a terminal shows of
// its widest cell.
type grid struct {
	rows [][]string // the headings first; all of one length
}

func (t *grid) add(cells ...string) { t.rows = append(t.rows, cells) }

// leastLast is what must be left for the last column to be broken in its place.
const leastLast = 24

// text is the grid at a width, or without a bound for 0. Where it is too wide,
// the last column is broken into lines; where that does not help, each row
// becomes a paragraph.
func (t *grid) text(width int) string {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for k, cell := range row {
			widths[k] = max(widths[k], ansi.StringWidth(cell))
		}
	}
	last := len(widths) - 1
	before := 0
	for _, w := range widths[:last] {
		before += w + 2
	}
	if width > 0 && before+min(widths[last], leastLast) > width {
		return t.paragraphs(width)
	}
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for k, cell := range row[:last] {
			line.WriteString(cell + strings.Repeat(" ", widths[k]-ansi.StringWidth(cell)+2))
		}
		end := row[last]
		if width > 0 {
			end = strings.ReplaceAll(ansi.Wrap(end, width-before, " "), "\n", "\n"+strings.Repeat(" ", before))
		}
		b.WriteString(strings.TrimRight(line.String()+end, " ") + "\n")
	}
	return b.String()
}

// paragraphs writes each row as its name and a sentence of headings and cells.
func (t *grid) paragraphs(width int) string {
	heads := t.rows[0]
	var b strings.Builder
	b.WriteString(heads[0] + "\n")
	for _, row := range t.rows[1:] {
		b.WriteString(row[0] + "\n")
		var parts []string
		for k, cell := range row[1:] {
			if cell != "" && cell != "-" {
				parts = append(parts, strings.ToLower(heads[k+1])+" "+cell)
			}
		}
		inner := ansi.Wrap(strings.Join(parts, ", "), max(width-2, 1), " ")
		b.WriteString("  " + strings.ReplaceAll(inner, "\n", "\n  ") + "\n")
	}
	return b.String()
}
