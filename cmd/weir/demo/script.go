package demo

import (
	"fmt"
	"strings"
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
	for i := range inc.Providers {
		p := &inc.Providers[i]
		law := p.Law
		for _, c := range p.Changes {
			out = append(out, report.Mark{At: c.At.Seconds(), Text: change(p.Name, &law, &c)})
			law = c.To
		}
	}
	return out
}

// change says what a change does to a provider.
func change(name string, before *incident.Law, c *incident.Change) string {
	var parts []string
	show := func(what string, from, to int64) {
		if from != to {
			parts = append(parts, fmt.Sprintf("%s %s → %s", what, limit(from), limit(to)))
		}
	}
	show("concurrency", before.Concurrency, c.To.Concurrency)
	show("queue", before.Queue, c.To.Queue)
	show("other tenants' calls", before.Background, c.To.Background)
	show("requests a minute", before.RPM.Limit, c.To.RPM.Limit)
	show("tokens a minute", before.TPM.Limit, c.To.TPM.Limit)
	if len(parts) == 0 {
		parts = append(parts, "the law changes")
	}
	text := name + ": " + strings.Join(parts, ", ")
	if c.Over > 0 {
		text += fmt.Sprintf(", over %.1f s", c.Over.Seconds())
	}
	return text
}

func limit(n int64) string {
	if n < 0 {
		return "none"
	}
	return fmt.Sprint(n)
}
