package incident

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds an incident file; traces are files of their own.
const maxFile = 1 << 20

// Parse reads an incident. name stands for the file in messages. The error is
// a *ParseError with every fault found, or what reading r gave.
func Parse(name string, r io.Reader) (*Incident, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read incident %s: %w", name, err)
	}
	rd := &reader{faultList: faultList{name: name}}
	if len(data) > maxFile {
		rd.add(1, 1, "file is larger than %d bytes", maxFile)
		return nil, rd.err()
	}
	body := rd.syntax(data)
	if body == nil {
		return nil, rd.err()
	}
	inc := rd.incident(body)
	rd.check(inc, body)
	if err := rd.err(); err != nil {
		return nil, err
	}
	return inc, nil
}

// syntax parses YAML and returns the one document's body; nil after a fault.
func (r *reader) syntax(data []byte) (body ast.Node) {
	defer func() {
		if p := recover(); p != nil {
			r.add(1, 1, "not readable as YAML: %v", p)
			body = nil
		}
	}()
	if depth := nesting(data); depth > maxNesting {
		r.add(1, 1, "nested %d deep, at most %d is allowed", depth, maxNesting)
		return nil
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		r.syntaxFault(err)
		return nil
	}
	docs := slices.DeleteFunc(slices.Clone(file.Docs), func(d *ast.DocumentNode) bool { return d.Body == nil })
	if len(docs) != 1 {
		r.add(1, 1, "must hold one YAML document, holds %d", len(docs))
		return nil
	}
	return docs[0].Body
}

// maxNesting bounds recursion of the YAML parser on hostile input; a real
// incident nests eight deep.
const maxNesting = 100

// nesting is an upper bound of the depth of flow brackets and block indents.
func nesting(data []byte) int {
	deepest, open, indent, atStart := 0, 0, 0, true
	for _, c := range data {
		switch {
		case c == '\n':
			atStart, indent = true, 0
		case atStart && (c == ' ' || c == '-' || c == '?' || c == ':'):
			indent++
		case c == '[' || c == '{':
			open++
		case (c == ']' || c == '}') && open > 0:
			open--
		}
		if c != '\n' && c != ' ' && c != '-' && c != '?' && c != ':' {
			atStart = false
		}
		deepest = max(deepest, open, indent/2)
	}
	return deepest
}

func (r *reader) syntaxFault(err error) {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
		p := at.GetToken().Position
		r.add(p.Line, p.Column, "not valid YAML: %s", at.GetMessage())
		return
	}
	r.add(1, 1, "not valid YAML: %v", err)
}

func (r *reader) incident(body ast.Node) *Incident {
	inc := &Incident{}
	f := r.mapping(body, "")
	if f == nil {
		return inc
	}
	f.name("name", &inc.Name)
	f.text("about", &inc.About)
	f.span("duration", &inc.Duration, time.Millisecond)
	for _, key := range []string{"name", "duration", "fleet", "channels", "routes", "providers", "workload"} {
		f.need(key)
	}
	if c := f.child("fleet"); c != nil {
		inc.Fleet = r.fleet(c)
	}
	f.list("groups", func(n ast.Node, path string) { inc.Groups = append(inc.Groups, r.group(n, path)) })
	f.list("channels", func(n ast.Node, path string) { inc.Channels = append(inc.Channels, r.channel(n, path)) })
	f.list("routes", func(n ast.Node, path string) { inc.Routes = append(inc.Routes, r.route(n, path)) })
	f.list("providers", func(n ast.Node, path string) { inc.Providers = append(inc.Providers, r.provider(n, path)) })
	f.list("workload", func(n ast.Node, path string) {
		inc.Workloads = append(inc.Workloads, r.workload(n, path, inc.Duration))
	})
	if len(inc.Workloads) > maxWorkloads {
		r.fault(f.get("workload"), "workload: has %d entries, at most %d are allowed", len(inc.Workloads), maxWorkloads)
	}
	f.done()
	return inc
}

func (r *reader) fleet(f *fields) Fleet {
	fleet := Fleet{Agents: 1}
	agents := int64(1)
	f.need("agents")
	f.count("agents", &agents, 1, maxList)
	fleet.Agents = int(agents)
	if b := f.child("bus"); b != nil {
		b.span("delay", &fleet.Bus.Delay, 0)
		b.span("jitter", &fleet.Bus.Jitter, 0)
		b.ratio("loss", &fleet.Bus.Loss, 0, PPM)
		b.done()
	}
	f.list("changes", func(n ast.Node, path string) {
		if c, ok := r.fleetChange(n, path); ok {
			fleet.Changes = append(fleet.Changes, c)
		}
	})
	f.done()
	slices.SortStableFunc(fleet.Changes, func(a, b FleetChange) int { return cmp.Compare(a.At, b.At) })
	return fleet
}

func (r *reader) fleetChange(n ast.Node, path string) (c FleetChange, ok bool) {
	f := r.mapping(n, path)
	if f == nil {
		return c, false
	}
	f.need("at")
	f.span("at", &c.At, 0)
	if f.need("kind") {
		choose(f, "kind", &c.Kind, ControllerDown, AgentCount, Partition, AgentCrash)
	}
	switch c.Kind {
	case ControllerDown:
		f.need("for")
		f.span("for", &c.For, time.Nanosecond)
	case AgentCount:
		count := int64(0)
		f.need("count")
		f.count("count", &count, 1, maxList)
		c.Count = int(count)
	case Partition:
		f.need("for")
		f.span("for", &c.For, time.Nanosecond)
		c.Agents = f.agents()
	case AgentCrash:
		f.span("for", &c.For, 0)
		c.Agents = f.agents()
	default:
		return c, false
	}
	f.done()
	return c, true
}

func (f *fields) agents() []int {
	var out []int
	f.need("agents")
	f.list("agents", func(n ast.Node, path string) {
		if v, ok := f.r.count(n, path, 0, maxList); ok {
			out = append(out, int(v))
		}
	})
	return out
}

func (f *fields) limits() Limits {
	l := noLimits()
	c := f.child("limits")
	if c == nil {
		return l
	}
	c.count("rpm", &l.RPM, 0, maxTokens)
	c.count("tpm", &l.TPM, 0, maxTokens)
	c.count("input_tpm", &l.InputTPM, 0, maxTokens)
	c.count("output_tpm", &l.OutputTPM, 0, maxTokens)
	c.count("concurrency", &l.Concurrency, 0, maxCount)
	c.count("requests_per_day", &l.RequestsPerDay, 0, maxDaily)
	c.count("tokens_per_day", &l.TokensPerDay, 0, maxDaily)
	c.done()
	return l
}

func (r *reader) group(n ast.Node, path string) (g Group) {
	g.Limits = noLimits()
	f := r.mapping(n, path)
	if f == nil {
		return g
	}
	f.need("name")
	f.name("name", &g.Name)
	g.Limits = f.limits()
	f.done()
	return g
}

func (r *reader) channel(n ast.Node, path string) Channel {
	c := Channel{Limits: noLimits(), Charge: ChargeActual, Loss: LossSafe}
	f := r.mapping(n, path)
	if f == nil {
		return c
	}
	f.need("name")
	f.name("name", &c.Name)
	f.need("provider")
	f.name("provider", &c.Provider)
	f.list("groups", func(n ast.Node, path string) { c.Groups = append(c.Groups, r.name(n, path)) })
	c.Limits = f.limits()
	choose(f, "charge", &c.Charge, ChargeActual, ChargeMaxTokens)
	choose(f, "on_controller_loss", &c.Loss, LossSafe, LossZero, LossLast)
	alone := int64(0)
	f.count("alone", &alone, 0, maxCount)
	c.Alone = int(alone)
	f.done()
	return c
}

func (r *reader) route(n ast.Node, path string) (rt Route) {
	f := r.mapping(n, path)
	if f == nil {
		return rt
	}
	f.need("name")
	f.name("name", &rt.Name)
	f.need("tiers")
	f.list("tiers", func(n ast.Node, path string) { rt.Tiers = append(rt.Tiers, r.tier(n, path)) })
	if f.has("tiers") && len(rt.Tiers) == 0 {
		r.fault(n, "%s.tiers: needs at least one tier", path)
	}
	f.done()
	return rt
}

// tier reads the short form, a list of channels, or the full one.
func (r *reader) tier(n ast.Node, path string) (t Tier) {
	weighted := func(n ast.Node, path string) { t.Channels = append(t.Channels, r.weighted(n, path)) }
	if _, short := n.(*ast.SequenceNode); short {
		r.sequence(n, path, weighted)
	} else if f := r.mapping(n, path); f != nil {
		f.list("channels", weighted)
		f.text("capability", &t.Capability)
		f.text("rule", &t.Rule)
		f.done()
	} else {
		return t
	}
	if (len(t.Channels) == 0) == (t.Rule == "") {
		r.fault(n, "%s: needs either channels or a rule", path)
	}
	return t
}

func (r *reader) weighted(n ast.Node, path string) Weighted {
	w := Weighted{Weight: PPM}
	f := r.mapping(n, path)
	if f == nil {
		return w
	}
	f.need("channel")
	f.name("channel", &w.Channel)
	f.ratio("weight", &w.Weight, 1, maxRatio)
	f.done()
	return w
}
