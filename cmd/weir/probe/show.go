package probe

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// barWidth is the width of a full bar in characters.
const barWidth = 32

// Cost says for people what a probe may cost at most.
func (b Bounds) Cost() string {
	return fmt.Sprintf("at most %d calls, %d tokens, %d refused calls and %s", b.Requests, b.Tokens, b.Refusals, b.Time)
}

// Show writes the success curve and the findings for people.
func (o *Outcome) Show(w io.Writer) {
	stage := ""
	for i := range o.Steps {
		s := &o.Steps[i]
		if s.Stage != stage {
			stage = s.Stage
			fmt.Fprintf(w, "%s\n", heading(stage))
		}
		s.show(w)
	}
	fmt.Fprintf(w, "\nspent: %d calls, %d tokens, %d refused, %s\n", o.Spent.Requests, o.Spent.Tokens, o.Spent.Refusals, o.Spent.Time.Round(time.Second))
	for _, f := range o.Findings {
		fmt.Fprintf(w, "%-12s %s\n", f.Dimension, f.text())
	}
}

func heading(stage string) string {
	if stage == "concurrency" {
		return "\ncalls at once  let through"
	}
	return fmt.Sprintf("\n%8s/min   let through", stage)
}

// show writes one line of the curve.
func (s *Step) show(w io.Writer) {
	full := 0
	if s.Sent > 0 {
		full = s.OK * barWidth / s.Sent
	}
	fmt.Fprintf(w, "%12d  %s%s %3d of %-3d  %6.2f s", s.Level, strings.Repeat("█", full), strings.Repeat("░", barWidth-full), s.OK, s.Sent, s.P50.Seconds())
	if s.Refused > 0 {
		fmt.Fprintf(w, "  %d refused", s.Refused)
		if s.Code != "" {
			fmt.Fprintf(w, " (%.40q)", s.Code)
		}
	}
	if s.Failed > 0 {
		fmt.Fprintf(w, "  %d failed", s.Failed)
	}
	fmt.Fprintln(w)
}

// text says a finding in one line.
func (f *Finding) text() string {
	high := "not found"
	if f.High != nil {
		high = fmt.Sprint(*f.High)
	}
	text := fmt.Sprintf("%d to %s", f.Low, high)
	switch {
	case f.High != nil && f.Low == *f.High:
		text = fmt.Sprint(f.Low)
	case f.High == nil && f.Low == 0:
		text = "not found"
	case f.High == nil:
		text = fmt.Sprintf("more than %d, upper end not found", f.Low-1)
	}
	if f.Proposed != nil {
		text += fmt.Sprintf("; proposed %d", *f.Proposed)
	}
	return text + ": " + f.Note
}
