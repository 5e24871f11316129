package incident

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Write writes an incident as a file that Parse reads as the same incident:
// what is at its default is left out, one line for each channel, change and
// the like. The error is the writer's.
func Write(out io.Writer, inc *Incident) error {
	w := &writer{Writer: bufio.NewWriter(out)}
	w.line("name: %s", name(inc.Name))
	if inc.About != "" {
		w.line("about: %s", strconv.Quote(inc.About))
	}
	w.line("duration: %v", inc.Duration)
	w.fleet(&inc.Fleet)
	w.list("groups", len(inc.Groups), func(i int) string { return inc.Groups[i].flow() })
	w.list("channels", len(inc.Channels), func(i int) string { return inc.Channels[i].flow() })
	w.list("routes", len(inc.Routes), func(i int) string { return inc.Routes[i].flow() })
	w.line("providers:")
	for i := range inc.Providers {
		w.provider(&inc.Providers[i])
	}
	w.line("workload:")
	for i := range inc.Workloads {
		w.workload(&inc.Workloads[i], inc.Duration)
	}
	w.list("tenants", len(inc.Tenants), func(i int) string { return inc.Tenants[i].flow() })
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write incident %s: %w", inc.Name, err)
	}
	return nil
}

// writer writes lines; a fault shows when it is flushed.
type writer struct{ *bufio.Writer }

func (w *writer) line(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }

// list writes a list of one-line entries, or nothing.
func (w *writer) list(key string, n int, entry func(int) string) {
	if n == 0 {
		return
	}
	w.line("%s:", key)
	for i := range n {
		w.line("  - %s", entry(i))
	}
}

// keys writes the keys of a provider or workload.
func (w *writer) keys(entries flow) {
	for _, e := range entries {
		w.line("    %s", e)
	}
}

func (w *writer) fleet(f *Fleet) {
	w.line("fleet:")
	w.line("  agents: %d", f.Agents)
	if len(f.Also) > 0 {
		w.line("  also: %s", numbers(f.Also))
	}
	if f.Bus != (Bus{}) {
		var m flow
		m.span("delay", f.Bus.Delay, 0)
		m.span("jitter", f.Bus.Jitter, 0)
		m.ratio("loss", f.Bus.Loss, 0)
		w.line("  bus: %s", m)
	}
	if len(f.Changes) > 0 {
		w.line("  changes:")
	}
	for i := range f.Changes {
		w.line("    - %s", f.Changes[i].flow())
	}
}

func (c *FleetChange) flow() string {
	var m flow
	m.add("at", c.At)
	m.span("for", c.For, 0)
	m.add("kind", c.Kind)
	m.span("over", c.Over, 0)
	if c.Drop {
		m.add("drop", c.Drop)
	}
	if c.Kind == AgentCount {
		m.add("count", c.Count)
	}
	if c.Kind == Partition || c.Kind == AgentCrash {
		m.add("agents", numbers(c.Agents))
	}
	return m.String()
}

func (l *Limits) flow() string {
	var m flow
	m.count("rpm", l.RPM, Unlimited)
	m.count("tpm", l.TPM, Unlimited)
	m.count("input_tpm", l.InputTPM, Unlimited)
	m.count("output_tpm", l.OutputTPM, Unlimited)
	m.count("concurrency", l.Concurrency, Unlimited)
	m.count("requests_per_day", l.RequestsPerDay, Unlimited)
	m.count("tokens_per_day", l.TokensPerDay, Unlimited)
	return m.String()
}

func (g *Group) flow() string {
	var m flow
	m.add("name", name(g.Name))
	if g.Limits != noLimits() {
		m.add("limits", g.Limits.flow())
	}
	return m.String()
}

func (c *Channel) flow() string {
	var m flow
	m.add("name", name(c.Name))
	m.add("provider", name(c.Provider))
	if len(c.Groups) > 0 {
		groups := make([]string, len(c.Groups))
		for i, g := range c.Groups {
			groups[i] = name(g)
		}
		m.add("groups", "["+strings.Join(groups, ", ")+"]")
	}
	if c.Limits != noLimits() {
		m.add("limits", c.Limits.flow())
	}
	m.word("charge", c.Charge, ChargeActual)
	if c.Price != (Price{}) {
		m.add("price", c.Price.flow())
	}
	m.word("on_controller_loss", c.Loss, LossSafe)
	m.count("alone", int64(c.Alone), 0)
	return m.String()
}

func (r *Route) flow() string {
	tiers := make([]string, len(r.Tiers))
	for i := range r.Tiers {
		tiers[i] = tierFlow(&r.Tiers[i])
	}
	return "{name: " + name(r.Name) + ", tiers: [" + strings.Join(tiers, ", ") + "]}"
}

func tierFlow(t *Tier) string {
	var m flow
	channels := make([]string, len(t.Channels))
	for i, c := range t.Channels {
		var x flow
		x.add("channel", name(c.Channel))
		x.ratio("weight", c.Weight, PPM)
		channels[i] = x.String()
	}
	list := "[" + strings.Join(channels, ", ") + "]"
	if t.Capability == "" && t.Rule == "" {
		return list
	}
	if len(channels) > 0 {
		m.add("channels", list)
	}
	m.text("capability", t.Capability, "")
	m.text("rule", t.Rule, "")
	return m.String()
}

// flow is a mapping in one line.
type flow []string

// String returns the mapping.
func (m flow) String() string { return "{" + strings.Join(m, ", ") + "}" }

func (m *flow) add(key string, v any) { *m = append(*m, fmt.Sprintf("%s: %v", key, v)) }

// The following leave out what is at its default.

func (m *flow) count(key string, v, byDefault int64) {
	if v != byDefault {
		m.add(key, v)
	}
}

func (m *flow) span(key string, v, byDefault time.Duration) {
	if v != byDefault {
		m.add(key, v)
	}
}

func (m *flow) ratio(key string, v, byDefault int64) {
	if v != byDefault {
		m.add(key, ratio(v))
	}
}

func (m *flow) text(key, v, byDefault string) {
	if v != byDefault {
		m.add(key, strconv.Quote(v))
	}
}

func (m *flow) word(key string, v, byDefault any) {
	if v != byDefault {
		m.add(key, v)
	}
}

// ratio writes parts per million as a decimal number.
func ratio(ppm int64) string { return strconv.FormatFloat(float64(ppm)/PPM, 'f', -1, 64) }

func numbers(v []int) string { return strings.Join(strings.Fields(fmt.Sprint(v)), ", ") }

// name writes an identifier, in quotes where YAML would take it for something
// else.
func name(s string) string {
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return strconv.Quote(s)
	}
	if s == "" || (s[0] < 'a' || s[0] > 'z') && (s[0] < 'A' || s[0] > 'Z') {
		return strconv.Quote(s)
	}
	return s
}
