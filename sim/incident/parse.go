package incident

import (
	"cmp"
	"io"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"weir/sim/strict"
)

// Bounds that keep every later computation far from overflow. They are wider
// than any provider or fleet.
const (
	maxCount  = 1_000_000
	maxTokens = 100_000_000 // a burst of this many still fits the bucket's integer
	maxRatio  = 1000 * PPM
	// maxWorkloads keeps a workload's index within ten bits of a request number.
	maxWorkloads = 1000
)

// reader reads an incident's tree.
type reader struct {
	*strict.Reader
	// moved holds the addresses of the numbers that were set since the last
	// reset, so that a change knows what it moves.
	moved map[*int64]bool
}

// Parse reads an incident. name stands for the file in messages. The error is
// a *strict.ParseError with every fault found, or what reading in gave.
func Parse(name string, in io.Reader) (*Incident, error) {
	doc, body, err := strict.Document(name, in)
	if err != nil {
		return nil, err
	}
	r := &reader{Reader: doc}
	r.OnNumber = func(n *int64) {
		if r.moved != nil {
			r.moved[n] = true
		}
	}
	inc := r.incident(body)
	r.check(inc, body)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return inc, nil
}

func (r *reader) incident(body ast.Node) *Incident {
	inc := &Incident{}
	f := r.Mapping(body, "")
	if f == nil {
		return inc
	}
	f.Name("name", &inc.Name)
	f.Text("about", &inc.About)
	f.Span("duration", &inc.Duration, time.Millisecond)
	for _, key := range []string{"name", "duration", "fleet", "channels", "routes", "providers", "workload"} {
		f.Need(key)
	}
	if c := f.Child("fleet"); c != nil {
		inc.Fleet = r.fleet(c)
	}
	f.List("groups", func(n ast.Node, path string) { inc.Groups = append(inc.Groups, r.group(n, path)) })
	f.List("channels", func(n ast.Node, path string) { inc.Channels = append(inc.Channels, r.channel(n, path)) })
	f.List("routes", func(n ast.Node, path string) { inc.Routes = append(inc.Routes, r.route(n, path)) })
	f.List("providers", func(n ast.Node, path string) { inc.Providers = append(inc.Providers, r.provider(n, path)) })
	f.List("workload", func(n ast.Node, path string) {
		inc.Workloads = append(inc.Workloads, r.workload(n, path, inc.Duration))
	})
	f.List("tenants", func(n ast.Node, path string) { inc.Tenants = append(inc.Tenants, r.tenant(n, path)) })
	if len(inc.Workloads) > maxWorkloads {
		r.Fault(f.Get("workload"), "workload: has %d entries, at most %d are allowed", len(inc.Workloads), maxWorkloads)
	}
	f.Done()
	return inc
}

func (r *reader) fleet(f *strict.Fields) Fleet {
	fleet := Fleet{Agents: 1}
	agents := int64(1)
	f.Need("agents")
	f.Count("agents", &agents, 1, strict.MaxList)
	fleet.Agents = int(agents)
	f.List("also", func(n ast.Node, path string) {
		if v, ok := r.Count(n, path, 1, strict.MaxList); ok {
			fleet.Also = append(fleet.Also, int(v))
		}
	})
	if b := f.Child("bus"); b != nil {
		b.Span("delay", &fleet.Bus.Delay, 0)
		b.Span("jitter", &fleet.Bus.Jitter, 0)
		b.Ratio("loss", &fleet.Bus.Loss, 0, PPM)
		b.Done()
	}
	f.List("changes", func(n ast.Node, path string) {
		if c, ok := r.fleetChange(n, path); ok {
			fleet.Changes = append(fleet.Changes, c)
		}
	})
	f.Done()
	slices.SortStableFunc(fleet.Changes, func(a, b FleetChange) int { return cmp.Compare(a.At, b.At) })
	return fleet
}

func (r *reader) fleetChange(n ast.Node, path string) (c FleetChange, ok bool) {
	f := r.Mapping(n, path)
	if f == nil {
		return c, false
	}
	f.Need("at")
	f.Span("at", &c.At, 0)
	if f.Need("kind") {
		strict.Choose(f, "kind", &c.Kind, ControllerDown, AgentCount, Partition, AgentCrash, Pause)
	}
	switch c.Kind {
	case ControllerDown:
		f.Need("for")
		f.Span("for", &c.For, time.Nanosecond)
	case AgentCount:
		count := int64(0)
		f.Need("count")
		f.Count("count", &count, 1, strict.MaxList)
		c.Count = int(count)
	case Partition:
		f.Need("for")
		f.Span("for", &c.For, time.Nanosecond)
		f.Need("agents")
		c.Agents = r.agents(f)
	case AgentCrash:
		f.Span("for", &c.For, 0)
		f.Need("agents")
		c.Agents = r.agents(f)
	case Pause:
		f.Need("for")
		f.Span("for", &c.For, time.Nanosecond)
		f.Span("over", &c.Over, 0)
		f.Flag("drop", &c.Drop)
	default:
		return c, false
	}
	f.Done()
	return c, true
}

// agents reads a list of agent indexes.
func (r *reader) agents(f *strict.Fields) []int {
	var out []int
	f.List("agents", func(n ast.Node, path string) {
		if v, ok := r.Count(n, path, 0, strict.MaxList); ok {
			out = append(out, int(v))
		}
	})
	return out
}

func (r *reader) limits(f *strict.Fields) Limits {
	l := noLimits()
	c := f.Child("limits")
	if c == nil {
		return l
	}
	c.Count("rpm", &l.RPM, 0, maxTokens)
	c.Count("tpm", &l.TPM, 0, maxTokens)
	c.Count("input_tpm", &l.InputTPM, 0, maxTokens)
	c.Count("output_tpm", &l.OutputTPM, 0, maxTokens)
	c.Count("concurrency", &l.Concurrency, 0, maxCount)
	c.Count("requests_per_day", &l.RequestsPerDay, 0, maxDaily)
	c.Count("tokens_per_day", &l.TokensPerDay, 0, maxDaily)
	c.Done()
	return l
}

func (r *reader) group(n ast.Node, path string) (g Group) {
	g.Limits = noLimits()
	f := r.Mapping(n, path)
	if f == nil {
		return g
	}
	f.Need("name")
	f.Name("name", &g.Name)
	g.Limits = r.limits(f)
	f.Done()
	return g
}

func (r *reader) channel(n ast.Node, path string) Channel {
	c := Channel{Limits: noLimits(), Charge: ChargeActual, Loss: LossSafe}
	f := r.Mapping(n, path)
	if f == nil {
		return c
	}
	f.Need("name")
	f.Name("name", &c.Name)
	f.Need("provider")
	f.Name("provider", &c.Provider)
	f.List("groups", func(n ast.Node, path string) { c.Groups = append(c.Groups, r.Name(n, path)) })
	c.Limits = r.limits(f)
	strict.Choose(f, "charge", &c.Charge, ChargeActual, ChargeMaxTokens)
	c.Price = r.price(f)
	strict.Choose(f, "on_controller_loss", &c.Loss, LossSafe, LossZero, LossLast)
	alone := int64(0)
	f.Count("alone", &alone, 0, maxCount)
	c.Alone = int(alone)
	f.Done()
	return c
}

func (r *reader) route(n ast.Node, path string) (rt Route) {
	f := r.Mapping(n, path)
	if f == nil {
		return rt
	}
	f.Need("name")
	f.Name("name", &rt.Name)
	rt.Tiers = f.Tiers("tiers")
	f.Done()
	return rt
}
