package demo

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"
)

// live shows the run while it goes on: a table drawn over itself on a
// terminal, a line every few seconds elsewhere.
type live struct {
	out      io.Writer
	terminal bool
	phases   []string
	length   time.Duration
	rows     [][]string // by phase: the newest numbers
	drawn    int        // lines on the screen that are ours
	next     time.Duration
}

// lineEvery is the interval of lines where there is no terminal.
const lineEvery = 5 * time.Second

// liveRows name the numbers shown.
var liveRows = [...]string{"wanted", "completed", "could have been", "attempts", "refused", "in flight", "capacity", "window", "call p50"}

func newLive(out io.Writer, phases []string, length time.Duration) *live {
	l := &live{out: out, phases: phases, length: length, rows: make([][]string, len(phases))}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		l.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return l
}

// say writes a line that stays.
func (l *live) say(format string, args ...any) {
	if l.out == nil {
		return
	}
	l.wipe()
	fmt.Fprintf(l.out, format+"\n", args...)
}

// begin starts a phase.
func (l *live) begin(phase int) {
	l.next = 0
	if !l.terminal {
		l.say("%s, %s:", l.phases[phase], l.length)
	}
}

// show takes a sample of a phase.
func (l *live) show(phase int, s *sample) {
	if l.out == nil {
		return
	}
	l.rows[phase] = []string{
		count(s.load.Total.Offered), count(s.load.Total.Completed), count(s.books.CouldHaveServed),
		count(s.books.Offered), count(s.books.Refused.Total()), count(s.books.Running + s.books.Waiting + s.books.Ghosts),
		number(s.capacity, ""), number(s.window, ""), number(seconds(s.load.P50), " s"),
	}
	if l.terminal {
		l.draw(phase, s.at)
		return
	}
	if s.at < l.next && s.at < l.length {
		return
	}
	l.next = s.at + lineEvery
	fields := make([]string, len(liveRows))
	for i, name := range liveRows {
		fields[i] = name + " " + l.rows[phase][i]
	}
	fmt.Fprintf(l.out, "  %3.0f s  %s\n", s.at.Seconds(), strings.Join(fields, ", "))
}

// draw draws the table over the one before.
func (l *live) draw(phase int, at time.Duration) {
	var b strings.Builder
	b.WriteString(l.back())
	fmt.Fprintf(&b, "%-18s", "")
	for _, name := range l.phases {
		fmt.Fprintf(&b, "%16s", name)
	}
	b.WriteString("\n")
	for i, name := range liveRows {
		fmt.Fprintf(&b, "%-18s", name)
		for p := range l.phases {
			text := ""
			if l.rows[p] != nil {
				text = l.rows[p][i]
			}
			fmt.Fprintf(&b, "%16s", text)
		}
		b.WriteString("\n")
	}
	b.WriteString(l.bar(phase, at) + "\n")
	l.drawn = len(liveRows) + 2
	_, _ = io.WriteString(l.out, b.String()) // a lost screen must not end the run
}

// bar is the progress over all phases.
func (l *live) bar(phase int, at time.Duration) string {
	const width = 40
	done := (time.Duration(phase)*l.length + at).Seconds() / (time.Duration(len(l.phases)) * l.length).Seconds()
	full := min(width, int(done*width))
	return fmt.Sprintf("[%s%s] %3.0f %%  %s", strings.Repeat("=", full), strings.Repeat(" ", width-full), 100*min(done, 1), l.phases[phase])
}

// back moves over what was drawn and clears it.
func (l *live) back() string {
	if l.drawn == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\x1b[J", l.drawn)
}

// wipe takes the table off the screen.
func (l *live) wipe() {
	if l.drawn > 0 {
		_, _ = io.WriteString(l.out, l.back())
		l.drawn = 0
	}
}

func count(n int64) string { return fmt.Sprint(n) }

func number(v float64, unit string) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v == float64(int64(v)):
		return fmt.Sprintf("%.0f%s", v, unit)
	}
	return fmt.Sprintf("%.2f%s", v, unit)
}
