package load

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
)

// progress writes a line a second.
func (o *Options) progress(s *Snapshot) {
	if o.Stderr == nil {
		return
	}
	p50 := "-"
	if s.P50 >= 0 {
		p50 = fmt.Sprintf("%.2fs", s.P50.Seconds())
	}
	fmt.Fprintf(o.Stderr, "%6.1fs  wanted %d  completed %d  attempts %d  failed %d  in flight %d  held %d  p50 %s\n",
		s.At.Seconds(), s.Total.Offered, s.Total.Completed, s.Total.Attempts, s.Total.Failed, s.InFlight, s.Held, p50)
}

// finish writes the result.
func (o *Options) finish(r *Result) error {
	if o.Stdout == nil {
		return nil
	}
	if o.JSON {
		if err := json.NewEncoder(o.Stdout).Encode(r); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
		return nil
	}
	w := tabwriter.NewWriter(o.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(label, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\t\n", label, fmt.Sprintf(format, args...))
	}
	row("incident", "%s", r.Incident)
	row("seconds counted", "%.1f", r.Seconds)
	row("requests wanted", "%d", r.Offered)
	row("completed", "%d", r.Completed)
	row("completed a second", "%.2f", r.Goodput)
	row("attempts", "%d", r.Attempts)
	row("failed attempts", "%d", r.Failed)
	row("given up", "%d", r.GaveUp)
	row("dropped for want of room", "%d", r.Dropped)
	row("unfinished", "%d", r.Unfinished)
	row("call time p50 / p99", "%.2f s / %.2f s", r.Call.P50, r.Call.P99)
	row("request time p50 / p99", "%.2f s / %.2f s", r.Request.P50, r.Request.P99)
	row("noticed late by p50 / p99", "%.3f s / %.3f s", r.Lag.P50, r.Lag.P99)
	codes := slices.Collect(maps.Keys(r.Codes))
	slices.SortFunc(codes, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Codes[b], r.Codes[a]), cmp.Compare(a, b))
	})
	for _, c := range codes {
		row("failed with "+c, "%d", r.Codes[c])
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
