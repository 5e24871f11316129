package model

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// The canonical encoding of a fleet is a list of parts, sorted by key:
//
//	agent/ID  channel/NAME  clock  config  day/ID  guard  head  params  past/NAME  pool/ID
//
// guard is there while a push is watched, past/NAME once there is one.
//
// A part is a version byte and the fields in a fixed order, numbers as
// varints (signed ones zigzag), strings and lists with their length first.
// Equal states have equal bytes, on every machine. The whole encoding is the
// parts one after another, each key and value with its length first; the
// digest is SHA-256 over it. The controller stores the parts that changed.

// stateVersion is the version of every part.
const stateVersion = 1

// ErrState says that an encoded state cannot be read.
var ErrState = errors.New("model: unreadable state")

// coder writes or reads one part; the same function does both, so that they
// cannot differ.
type coder struct {
	b       []byte
	at      int
	reading bool
	bad     bool
}

func num[T ~int | ~int64 | ~uint8 | ~uint32 | ~uint64](c *coder, v *T) {
	if !c.reading {
		c.b = binary.AppendVarint(c.b, int64(*v))
		return
	}
	x, n := binary.Varint(c.b[c.at:])
	if n <= 0 || int64(T(x)) != x {
		c.bad = true
		c.at = len(c.b)
		return
	}
	*v, c.at = T(x), c.at+n
}

func (c *coder) flag(v *bool) {
	var n uint8
	if *v {
		n = 1
	}
	num(c, &n)
	*v = n == 1
	c.bad = c.bad || n > 1
}

func (c *coder) str(v *string) {
	n := len(*v)
	num(c, &n)
	if !c.reading {
		c.b = append(c.b, *v...)
		return
	}
	if n < 0 || n > len(c.b)-c.at {
		c.bad = true
		c.at = len(c.b)
		return
	}
	*v, c.at = string(c.b[c.at:c.at+n]), c.at+n
}

// list codes a slice whose elements take at least one byte each.
func list[T any](c *coder, v *[]T, each func(*coder, *T)) {
	n := len(*v)
	num(c, &n)
	if c.reading {
		if n < 0 || n > len(c.b)-c.at {
			c.bad = true
			c.at = len(c.b)
			return
		}
		*v = nil
		for range n {
			var e T
			if each(c, &e); c.bad {
				return
			}
			*v = append(*v, e)
		}
		return
	}
	for i := range *v {
		each(c, &(*v)[i])
	}
}

func (c *coder) version() {
	v := uint8(stateVersion)
	num(c, &v)
	c.bad = c.bad || v != stateVersion
}

func write(code func(*coder)) []byte {
	var c coder
	c.version()
	code(&c)
	return c.b
}

func read(key string, b []byte, code func(*coder)) error {
	c := coder{b: b, reading: true}
	c.version()
	if !c.bad {
		code(&c)
	}
	if c.bad || c.at != len(b) {
		return fmt.Errorf("part %q: %w", key, ErrState)
	}
	return nil
}

// keys returns the keys of all parts, sorted.
func (f *Fleet) keys() []string {
	keys := make([]string, 0, 4+len(f.channels)+len(f.pools)+len(f.members)+len(f.days))
	keys = append(keys, "config", "head", "params")
	if f.guard != nil {
		keys = append(keys, "guard")
	}
	if f.wall != 0 {
		keys = append(keys, "clock")
	}
	for _, d := range f.days {
		keys = append(keys, "day/"+d.name)
	}
	for _, m := range f.members {
		keys = append(keys, "agent/"+m.agent)
	}
	for _, c := range f.channels {
		keys = append(keys, "channel/"+c.name)
		if len(c.past) > 0 {
			keys = append(keys, "past/"+c.name)
		}
	}
	for _, p := range f.pools {
		keys = append(keys, "pool/"+p.name)
	}
	slices.Sort(keys)
	return keys
}

// part encodes one part, or returns nil if there is none of that key.
func (f *Fleet) part(key string) []byte {
	kind, name, _ := strings.Cut(key, "/")
	switch kind {
	case "head":
		return write(func(c *coder) { c.head(f) })
	case "config":
		return write(func(c *coder) { c.config(f.config) })
	case "params":
		return write(func(c *coder) { c.params(&f.params) })
	case "guard":
		if f.guard != nil {
			return write(func(c *coder) { c.guard(f.guard) })
		}
	case "past":
		if ch := f.channel(name); ch != nil && len(ch.past) > 0 {
			return write(func(c *coder) { list(c, &ch.past, (*coder).past) })
		}
	case "clock":
		if f.wall != 0 {
			return write(func(c *coder) { c.clock(f) })
		}
	case "day":
		if d := f.day(name); d != nil {
			return write(func(c *coder) { c.day(d) })
		}
	case "agent":
		if m := f.member(name); m != nil {
			return write(func(c *coder) { c.member(m) })
		}
	case "channel":
		if ch := f.channel(name); ch != nil {
			return write(func(c *coder) { c.channel(ch) })
		}
	case "pool":
		if p := f.pool(name); p != nil {
			return write(func(c *coder) { c.pool(p) })
		}
	}
	return nil
}

// Parts yields the whole state, sorted by key.
func (f *Fleet) Parts() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, key := range f.keys() {
			if !yield(key, f.part(key)) {
				return
			}
		}
	}
}

// FleetFromParts restores a state from all its parts, in any order.
func FleetFromParts(parts iter.Seq2[string, []byte]) (*Fleet, error) {
	f := NewFleet()
	stored := map[string][]byte{}
	for key, value := range parts {
		stored[key] = slices.Clone(value)
	}
	for _, key := range []string{"head", "config", "params"} {
		if stored[key] == nil {
			return nil, fmt.Errorf("part %q is missing: %w", key, ErrState)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		if err := f.restore(key, stored[key]); err != nil {
			return nil, err
		}
	}
	for _, c := range f.channels {
		i := slices.IndexFunc(f.config.Channels, func(cfg ChannelConfig) bool { return cfg.Name == c.name })
		if i < 0 {
			return nil, fmt.Errorf("channel %q is not configured: %w", c.name, ErrState)
		}
		c.cfg = &f.config.Channels[i]
		if c.wants {
			f.want(c)
		}
	}
	for _, p := range f.pools {
		if p.wants {
			f.wantPool(p)
		}
	}
	for _, p := range f.pools {
		p.limits = f.config.limitsOf(p.name)
	}
	f.attachDays()
	f.hash = f.params.Params.Hash()
	f.cell = f.now / pastEvery
	f.alarm = 0
	f.Clean()
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	return f, nil
}

// restore reads one part into f. Keys come sorted, so lists stay sorted.
func (f *Fleet) restore(key string, value []byte) error {
	kind, name, _ := strings.Cut(key, "/")
	switch kind {
	case "head":
		return read(key, value, func(c *coder) { c.head(f) })
	case "config":
		f.config = &Config{}
		return read(key, value, func(c *coder) { c.config(f.config) })
	case "params":
		return read(key, value, func(c *coder) { c.params(&f.params) })
	case "guard":
		f.guard = &guard{}
		return read(key, value, func(c *coder) { c.guard(f.guard) })
	case "past":
		ch := f.channel(name)
		if ch == nil {
			return fmt.Errorf("part %q is of no channel: %w", key, ErrState)
		}
		return read(key, value, func(c *coder) { list(c, &ch.past, (*coder).past) })
	case "clock":
		return read(key, value, func(c *coder) { c.clock(f) })
	case "day":
		d := &day{name: name}
		f.days = append(f.days, d)
		return read(key, value, func(c *coder) { c.day(d) })
	case "agent":
		m := &member{agent: name}
		f.members = append(f.members, m)
		return read(key, value, func(c *coder) { c.member(m) })
	case "channel":
		ch := &channel{name: name}
		f.channels = append(f.channels, ch)
		err := read(key, value, func(c *coder) { c.channel(ch) })
		ch.derive()
		return err
	case "pool":
		p := &pool{name: name}
		f.pools = append(f.pools, p)
		f.poolRound++
		return read(key, value, func(c *coder) { c.pool(p) })
	}
	return fmt.Errorf("part %q is of an unknown kind: %w", key, ErrState)
}

// AppendBinary appends the canonical encoding of the whole state to b.
func (f *Fleet) AppendBinary(b []byte) []byte {
	for key, value := range f.Parts() {
		b = binary.AppendUvarint(b, uint64(len(key)))
		b = append(b, key...)
		b = binary.AppendUvarint(b, uint64(len(value)))
		b = append(b, value...)
	}
	return b
}

// Digest returns the SHA-256 of the canonical encoding.
func (f *Fleet) Digest() [32]byte { return sha256.Sum256(f.AppendBinary(nil)) }

// DecodeFleet is the inverse of AppendBinary. It returns ErrState for bytes
// that are not the encoding of a state.
func DecodeFleet(b []byte) (*Fleet, error) {
	bad := false
	next := func() []byte {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			bad = true
			return nil
		}
		v := b[k : k+int(n)]
		b = b[k+int(n):]
		return v
	}
	f, err := FleetFromParts(func(yield func(string, []byte) bool) {
		for len(b) > 0 && !bad {
			key := next()
			value := next()
			if bad || !yield(string(key), value) {
				return
			}
		}
	})
	if err == nil && bad {
		err = ErrState
	}
	return f, err
}
