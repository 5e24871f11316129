package strict

import "github.com/goccy/go-yaml/ast"

// Names collects the values of name in the mappings of a list under key of f,
// and reports to r those used twice.
func (r *Reader) Names(f *Fields, key string) map[string]bool {
	seen := map[string]bool{}
	f.Each(key, func(c *Fields) {
		n := c.Get("name")
		if n == nil {
			return
		}
		name := n.GetToken().Value
		if seen[name] {
			r.Fault(n, "%s: the name %q is used twice", c.path, name)
		}
		seen[name] = true
	})
	return seen
}

// Each visits the mappings of a list, of whatever else is there none.
func (f *Fields) Each(key string, visit func(*Fields)) {
	seq, ok := f.Get(key).(*ast.SequenceNode)
	if !ok {
		return
	}
	quiet := &Reader{}
	quiet.Sequence(seq, f.Sub(key), func(n ast.Node, path string) {
		if c := quiet.Mapping(n, path); c != nil {
			visit(c)
		}
	})
}

// Refer reports a key of c whose value is not among known; what says what is
// named.
func (r *Reader) Refer(c *Fields, key, what string, known map[string]bool) {
	if n := c.Get(key); n != nil {
		r.Known(n, what, known)
	}
}

// Known reports a node whose value is not among known.
func (r *Reader) Known(n ast.Node, what string, known map[string]bool) {
	if name := n.GetToken().Value; !known[name] {
		r.Fault(n, "there is no %s named %q", what, name)
	}
}
