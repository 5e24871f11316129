package model

import (
	"iter"
	"maps"
	"slices"
)

// dirtySet is which parts changed since the last Clean. What has a mark of its
// own is put in once: it remembers the round in which it was.
type dirtySet struct {
	keys  map[string]struct{}
	head  bool
	whole bool
	round uint64 // counts Clean
}

// dirtyMark is what a part's owner remembers: one more than the round in which
// it was last put in, and its key.
type dirtyMark struct {
	round uint64
	key   string
}

func (d *dirtySet) mark(key string) {
	if d.keys == nil {
		d.keys = map[string]struct{}{}
	}
	d.keys[key] = struct{}{}
}

// once marks the part of that kind and name, whose mark is m.
func (d *dirtySet) once(m *dirtyMark, kind, name string) {
	if m.round == d.round+1 {
		return
	}
	if m.round = d.round + 1; m.key == "" {
		m.key = kind + name
	}
	d.mark(m.key)
}

func (d *dirtySet) gone(key string)    { d.mark(key) }
func (d *dirtySet) all()               { d.whole = true }
func (d *dirtySet) channel(c *channel) { d.once(&c.mark, "channel/", c.name) }
func (d *dirtySet) pool(p *pool)       { d.once(&p.mark, "pool/", p.name) }
func (d *dirtySet) member(m *member)   { d.once(&m.mark, "agent/", m.agent) }

// goneFrom marks the parts that old has and f has not.
func (d *dirtySet) goneFrom(old, f *Fleet) {
	for _, key := range old.keys() {
		if f.part(key) == nil {
			d.mark(key)
		}
	}
}

// DirtyParts yields the parts that changed since Clean, sorted by key; a part
// that is gone has a nil value.
func (f *Fleet) DirtyParts() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		keys := slices.Collect(maps.Keys(f.dirty.keys))
		if f.dirty.head {
			keys = append(keys, "head", "clock")
		}
		if f.dirty.whole {
			keys = append(keys, f.keys()...)
		}
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			if !yield(key, f.part(key)) {
				return
			}
		}
	}
}

// Clean forgets what changed: it was stored.
func (f *Fleet) Clean() {
	d := &f.dirty
	clear(d.keys)
	*d = dirtySet{keys: d.keys, round: d.round + 1}
}
