package incident

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Step is one change of an incident's script, for people.
type Step struct {
	At   time.Duration
	Text string
}

// Script says what changes when: of the providers, then of the fleet, in order
// of time.
func (i *Incident) Script() []Step {
	var out []Step
	for k := range i.Providers {
		p := &i.Providers[k]
		law := p.Law
		for _, c := range p.Changes {
			out = append(out, Step{c.At, p.Name + ": " + c.says(&law)})
			law = c.To
		}
	}
	for k := range i.Fleet.Changes {
		c := &i.Fleet.Changes[k]
		out = append(out, Step{c.At, c.says()})
	}
	slices.SortStableFunc(out, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return out
}

// says is what a change does to a law.
func (c *Change) says(before *Law) string {
	var parts []string
	show := func(what string, from, to int64) {
		if from != to {
			parts = append(parts, fmt.Sprintf("%s %s → %s", what, limitText(from), limitText(to)))
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
	return strings.Join(parts, ", ") + lasting("over", c.Over)
}

func limitText(n int64) string {
	if n < 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

func lasting(word string, d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return fmt.Sprintf(", %s %.1f s", word, d.Seconds())
}

// says is what a change does to the fleet.
func (c *FleetChange) says() string {
	switch c.Kind {
	case ControllerDown:
		return "controller down" + lasting("for", c.For)
	case AgentCount:
		return fmt.Sprintf("%d agents", c.Count)
	case Partition:
		return fmt.Sprintf("%d agents cut off", len(c.Agents)) + lasting("for", c.For)
	case AgentCrash:
		return fmt.Sprintf("%d agents crash", len(c.Agents)) + lasting("for", c.For)
	case Pause:
		return "applications paused" + lasting("for", c.For) + lasting("back over", c.Over)
	}
	return string(c.Kind)
}
