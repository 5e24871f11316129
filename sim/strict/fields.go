package strict

import (
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Fields reads one mapping. Each read marks its key as known; Done reports the
// rest. A read of a key that is absent or faulty leaves its variable as it was,
// so defaults are set before.
type Fields struct {
	r     *Reader
	path  string
	at    ast.Node
	names []string
	byKey map[string]entry
	known []string
}

type entry struct {
	key   ast.Node
	value ast.Node
}

func (f *Fields) put(v *ast.MappingValueNode) {
	name := v.Key.GetToken().Value
	if v.Key.IsMergeKey() {
		f.r.Fault(v.Key, "%s: merge keys are not supported", f.Sub(name))
		return
	}
	f.byKey[name] = entry{v.Key, v.Value}
	f.names = append(f.names, name)
}

// Node is the mapping's place in the file.
func (f *Fields) Node() ast.Node { return f.at }

// Path names the mapping for messages.
func (f *Fields) Path() string { return f.path }

// Sub names a key of the mapping for messages.
func (f *Fields) Sub(key string) string {
	if f.path == "" {
		return key
	}
	return f.path + "." + key
}

// Keys returns the keys the file sets, in its order.
func (f *Fields) Keys() []string { return f.names }

// Key returns the node of a key itself, or nil.
func (f *Fields) Key(key string) ast.Node { return f.byKey[key].key }

// Get returns the node under a key, or nil, and marks the key as known.
func (f *Fields) Get(key string) ast.Node {
	f.known = append(f.known, key)
	return f.byKey[key].value
}

// Has reports whether the file sets a key.
func (f *Fields) Has(key string) bool {
	_, ok := f.byKey[key]
	return ok
}

// Need reports a missing key and whether it is there.
func (f *Fields) Need(key string) bool {
	if !f.Has(key) {
		f.r.Fault(f.at, "%s: missing", f.Sub(key))
		return false
	}
	return true
}

// Done reports every key that nothing asked for.
func (f *Fields) Done() {
	for _, name := range f.names {
		if slices.Contains(f.known, name) {
			continue
		}
		known := slices.Sorted(slices.Values(f.known))
		f.r.Fault(f.byKey[name].key, "%s: unknown key; known here: %s", f.Sub(name), strings.Join(slices.Compact(known), ", "))
	}
}

// Child starts reading a mapping under a key; nil when absent or faulty.
func (f *Fields) Child(key string) *Fields {
	n := f.Get(key)
	if n == nil {
		return nil
	}
	return f.r.Mapping(n, f.Sub(key))
}

// List calls read for each element of a list under a key.
func (f *Fields) List(key string, read func(n ast.Node, path string)) {
	if n := f.Get(key); n != nil {
		f.r.Sequence(n, f.Sub(key), read)
	}
}

// Text reads a short string; a number written without quotes counts as one.
func (f *Fields) Text(key string, dst *string) {
	if n := f.Get(key); n != nil {
		*dst = f.r.Text(n, f.Sub(key))
	}
}

// Name reads an identifier; see Reader.Name.
func (f *Fields) Name(key string, dst *string) {
	if n := f.Get(key); n != nil {
		*dst = f.r.Name(n, f.Sub(key))
	}
}

// Count reads a whole number from least to most.
func (f *Fields) Count(key string, dst *int64, least, most int64) {
	n := f.Get(key)
	if n == nil {
		return
	}
	if v, ok := f.r.Count(n, f.Sub(key), least, most); ok {
		f.set(dst, v)
	}
}

// Ratio reads a decimal number from least to most (both in ppm) into ppm.
func (f *Fields) Ratio(key string, dst *int64, least, most int64) {
	n := f.Get(key)
	if n == nil {
		return
	}
	if v, ok := f.r.Ratio(n, f.Sub(key), least, most); ok {
		f.set(dst, v)
	}
}

// Span reads a duration of least or more.
func (f *Fields) Span(key string, dst *time.Duration, least time.Duration) {
	n := f.Get(key)
	if n == nil {
		return
	}
	if d, ok := f.r.Span(n, f.Sub(key), least); ok {
		f.set((*int64)(dst), int64(d))
	}
}

func (f *Fields) set(dst *int64, v int64) {
	*dst = v
	if f.r.OnNumber != nil {
		f.r.OnNumber(dst)
	}
}

// Flag reads true or false.
func (f *Fields) Flag(key string, dst *bool) {
	switch n := f.Get(key).(type) {
	case nil:
	case *ast.BoolNode:
		*dst = n.Value
	default:
		f.r.Fault(n, "%s: must be true or false, got %s", f.Sub(key), Show(n))
	}
}

// Choose reads one of a few words.
func Choose[T ~string](f *Fields, key string, dst *T, allowed ...T) {
	n := f.Get(key)
	if n == nil {
		return
	}
	word := T(f.r.Text(n, f.Sub(key)))
	if !slices.Contains(allowed, word) {
		words := make([]string, len(allowed))
		for i, a := range allowed {
			words[i] = string(a)
		}
		f.r.Fault(n, "%s: must be one of %s, got %q", f.Sub(key), strings.Join(words, ", "), word)
		return
	}
	*dst = word
}
