package demo

import (
	"time"

	"weir/cmd/weir/report"
	"weir/sim/incident"
)

// lastChange is the instant from which the script leaves the providers alone.
func lastChange(inc *incident.Incident) time.Duration {
	last := time.Duration(0)
	for i := range inc.Providers {
		for _, c := range inc.Providers[i].Changes {
			last = max(last, c.At+c.Over)
		}
	}
	return last
}

// marks are the script's changes as a report shows them.
func marks(inc *incident.Incident) []report.Mark {
	var out []report.Mark
	for _, s := range inc.Script() {
		out = append(out, report.Mark{At: s.At.Seconds(), Text: s.Text})
	}
	return out
}
