package incident

import (
	"github.com/goccy/go-yaml/ast"

	"weir/sim/strict"
)

// check reports names used twice, references that point nowhere, and what is
// impossible as a whole. It looks names up in the tree for their places.
func (r *reader) check(inc *Incident, body ast.Node) {
	f := new(strict.Reader).Mapping(body, "")
	if f == nil {
		return
	}
	providers := r.Names(f, "providers")
	channels := r.Names(f, "channels")
	routes := r.Names(f, "routes")
	groups := r.Names(f, "groups")
	r.Names(f, "workload")
	r.Names(f, "tenants")
	for _, key := range []string{"providers", "channels", "routes", "workload"} {
		if seq, ok := f.Get(key).(*ast.SequenceNode); ok && len(seq.Values) == 0 {
			r.Fault(seq, "%s: must not be empty", key)
		}
	}
	f.Each("channels", func(c *strict.Fields) {
		r.Refer(c, "provider", "provider", providers)
		if f.Has("groups") {
			c.List("groups", func(n ast.Node, _ string) { r.Known(n, "group", groups) })
		}
	})
	f.Each("workload", func(w *strict.Fields) { r.Refer(w, "route", "route", routes) })
	f.Each("routes", func(rt *strict.Fields) { r.ReferTiers(rt, "tiers", channels) })
	tenants := map[string]bool{}
	for i := range inc.Workloads {
		tenants[inc.Workloads[i].Tenant] = true
	}
	f.Each("tenants", func(t *strict.Fields) { r.Refer(t, "name", "tenant of a workload", tenants) })
	r.checkAgents(inc, f)
}

// checkAgents reports agent indexes that never exist, with whichever number of
// agents the incident is run.
func (r *reader) checkAgents(inc *Incident, f *strict.Fields) {
	most := inc.Fleet.MaxAgents()
	for _, n := range inc.Fleet.Also {
		most = min(most, inc.WithAgents(n).Fleet.MaxAgents())
	}
	index := func(n ast.Node, path string) {
		if v, ok := strict.Number(n); ok && v >= float64(most) {
			r.Fault(n, "%s: there is no agent %s, indexes go from 0 to %d", path, strict.Show(n), most-1)
		}
	}
	if fleet := f.Child("fleet"); fleet != nil {
		fleet.Each("changes", func(c *strict.Fields) { c.List("agents", index) })
	}
	f.Each("workload", func(w *strict.Fields) {
		w.List("agents", index)
		arrivals := w.Child("arrivals")
		if arrivals == nil {
			return
		}
		if walk := arrivals.Child("walk"); walk != nil {
			if inc.Fleet.MaxAgents() > MaxWalk {
				r.Fault(walk.Node(), "%s: a walk is for at most %d agents", walk.Path(), MaxWalk)
			}
			walk.Each("jumps", func(j *strict.Fields) {
				if n := j.Get("agent"); n != nil {
					index(n, j.Sub("agent"))
				}
			})
		}
	})
}
