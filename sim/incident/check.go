package incident

import "github.com/goccy/go-yaml/ast"

// check reports names used twice, references that point nowhere, and what is
// impossible as a whole. It looks names up in the tree for their places.
func (r *reader) check(inc *Incident, body ast.Node) {
	top := &reader{}
	f := top.mapping(body, "")
	if f == nil {
		return
	}
	providers := r.names(f, "providers")
	channels := r.names(f, "channels")
	routes := r.names(f, "routes")
	groups := r.names(f, "groups")
	r.names(f, "workload")
	for _, key := range []string{"providers", "channels", "routes", "workload"} {
		if seq, ok := f.get(key).(*ast.SequenceNode); ok && len(seq.Values) == 0 {
			r.fault(seq, "%s: must not be empty", key)
		}
	}
	each(f, "channels", func(c *fields) {
		r.refer(c, "provider", "provider", providers)
		if f.has("groups") {
			c.list("groups", func(n ast.Node, _ string) { r.known(n, "group", groups) })
		}
	})
	each(f, "workload", func(w *fields) { r.refer(w, "route", "route", routes) })
	each(f, "routes", func(rt *fields) {
		rt.list("tiers", func(n ast.Node, _ string) { r.tierChannels(n, channels) })
	})
	r.checkAgents(inc, f)
}

// names collects the names of a list and reports those used twice.
func (r *reader) names(f *fields, key string) map[string]bool {
	seen := map[string]bool{}
	each(f, key, func(c *fields) {
		n := c.get("name")
		if n == nil {
			return
		}
		name := n.GetToken().Value
		if seen[name] {
			r.fault(n, "%s: the name %q is used twice", c.path, name)
		}
		seen[name] = true
	})
	return seen
}

// each visits the mappings of a list; faults in their shape were reported
// when they were read.
func each(f *fields, key string, visit func(*fields)) {
	seq, ok := f.get(key).(*ast.SequenceNode)
	if !ok {
		return
	}
	f.r.sequence(seq, key, func(n ast.Node, path string) {
		if c := f.r.mapping(n, path); c != nil {
			visit(c)
		}
	})
}

func (r *reader) refer(c *fields, key, what string, known map[string]bool) {
	if n := c.get(key); n != nil {
		r.known(n, what, known)
	}
}

func (r *reader) known(n ast.Node, what string, known map[string]bool) {
	if name := n.GetToken().Value; !known[name] {
		r.fault(n, "there is no %s named %q", what, name)
	}
}

func (r *reader) tierChannels(n ast.Node, channels map[string]bool) {
	quiet := &reader{}
	visit := func(n ast.Node, path string) {
		if w := quiet.mapping(n, path); w != nil {
			r.refer(w, "channel", "channel", channels)
		}
	}
	if _, short := n.(*ast.SequenceNode); short {
		quiet.sequence(n, "", visit)
		return
	}
	if t := quiet.mapping(n, ""); t != nil {
		t.list("channels", visit)
	}
}

// checkAgents reports agent indexes that never exist.
func (r *reader) checkAgents(inc *Incident, f *fields) {
	most := inc.Fleet.MaxAgents()
	fleet := f.child("fleet")
	if fleet == nil {
		return
	}
	fleet.list("changes", func(n ast.Node, path string) {
		c := fleet.r.mapping(n, path)
		if c == nil {
			return
		}
		c.list("agents", func(n ast.Node, path string) {
			if v, ok := number(n); ok && v >= float64(most) {
				r.fault(n, "%s: there is no agent %s, indexes go from 0 to %d", path, show(n), most-1)
			}
		})
	})
}
