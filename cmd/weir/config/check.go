package config

import (
	"github.com/goccy/go-yaml/ast"

	"weir/events"
	"weir/sim/strict"
)

// The most of each list that an entry of the log takes.
const (
	maxChannels = 4096
	maxGroupsOf = 64
)

// check reports names used twice, references that point nowhere, and what is
// impossible as a whole. It looks names up in the tree for their places.
func (r *reader) check(body ast.Node) {
	f := new(strict.Reader).Mapping(body, "")
	if f == nil {
		return
	}
	channels := r.Names(f, "channels")
	groups := r.Names(f, "groups")
	routes := r.Names(f, "routes")
	r.Names(f, "tenants")
	for _, key := range []string{"channels", "groups", "routes"} {
		if seq, ok := f.Get(key).(*ast.SequenceNode); ok && len(seq.Values) > maxChannels {
			r.Fault(seq, "%s: has %d entries, at most %d are allowed", key, len(seq.Values), maxChannels)
		}
	}
	f.Each("channels", func(c *strict.Fields) { r.checkGroups(c, groups) })
	f.Each("routes", func(rt *strict.Fields) { r.ReferTiers(rt, "tiers", channels) })
	if a := f.Child("agent"); a != nil {
		if c := a.Child("semantic_cache"); c != nil && c.Has("route") {
			r.Known(c.Get("route"), "route", routes)
		}
	}
	m := &r.file.Model
	m.Normalize()
	if r.Err() != nil {
		return
	}
	if err := m.Check(); err != nil {
		r.Fault(body, "%v", err)
	}
	if size := len(events.Encode(nil, m)); size > events.MaxEntry {
		r.Fault(body, "takes %d bytes in the log, at most %d are allowed", size, events.MaxEntry)
	}
}

func (r *reader) checkGroups(c *strict.Fields, groups map[string]bool) {
	n := 0
	c.List("groups", func(g ast.Node, path string) {
		r.Known(g, "group", groups)
		if n++; n == maxGroupsOf+1 {
			r.Fault(g, "%s: a channel draws on at most %d groups", path, maxGroupsOf)
		}
	})
}
