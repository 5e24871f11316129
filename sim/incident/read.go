package incident

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Bounds that keep every later computation far from overflow. They are wider
// than any provider or fleet.
const (
	maxCount  = 1_000_000
	maxTokens = 100_000_000 // a burst of this many still fits the bucket's integer
	maxSpan   = 366 * 24 * time.Hour
	maxRatio  = 1000 * PPM
	maxList   = 10_000
	maxText   = 1000
	// maxWorkloads keeps a workload's index within ten bits of a request number.
	maxWorkloads = 1000
)

// reader walks the syntax tree and collects faults.
type reader struct {
	faultList
	// moved holds the addresses of the numbers that were set since the last
	// reset, so that a change knows what it moves.
	moved map[*int64]bool
}

// fault reports something at a node.
func (r *reader) fault(at ast.Node, format string, args ...any) {
	line, col := 1, 1
	if at != nil {
		if t := place(at).GetToken(); t != nil && t.Position != nil {
			line, col = t.Position.Line, t.Position.Column
		}
	}
	r.add(line, col, format, args...)
}

// place is the node whose token a person would point at: a block mapping's own
// token is a colon in its middle.
func place(n ast.Node) ast.Node {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return m.Values[0].Key
		}
	case *ast.MappingValueNode:
		return m.Key
	}
	return n
}

// fields reads one mapping. Each read marks its key; done reports the rest.
type fields struct {
	r     *reader
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

// mapping starts reading a mapping, whose keys the YAML parser found unique; it returns nil and reports when the node
// is something else.
func (r *reader) mapping(n ast.Node, path string) *fields {
	f := &fields{r: r, path: path, at: n, byKey: map[string]entry{}}
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			f.put(v)
		}
	case *ast.MappingValueNode:
		f.put(n)
	case *ast.NullNode:
	default:
		r.fault(n, "%s: must be a mapping of keys", path)
		return nil
	}
	return f
}

func (f *fields) put(v *ast.MappingValueNode) {
	name := v.Key.GetToken().Value
	if v.Key.IsMergeKey() {
		f.r.fault(v.Key, "%s: merge keys are not supported", f.path)
		return
	}
	f.byKey[name] = entry{v.Key, v.Value}
	f.names = append(f.names, name)
}

// sub names a key for messages.
func (f *fields) sub(key string) string {
	if f.path == "" {
		return key
	}
	return f.path + "." + key
}

// get returns the node under a key, or nil, and marks the key as known.
func (f *fields) get(key string) ast.Node {
	f.known = append(f.known, key)
	return f.byKey[key].value
}

// has reports whether the file sets a key.
func (f *fields) has(key string) bool {
	_, ok := f.byKey[key]
	return ok
}

// need reports a missing key and whether it is there.
func (f *fields) need(key string) bool {
	if !f.has(key) {
		f.r.fault(f.at, "%s: missing", f.sub(key))
		return false
	}
	return true
}

// done reports every key that nothing asked for.
func (f *fields) done() {
	for _, name := range f.names {
		if slices.Contains(f.known, name) {
			continue
		}
		known := slices.Sorted(slices.Values(f.known))
		f.r.fault(f.byKey[name].key, "%s: unknown key; known here: %s", f.sub(name), strings.Join(slices.Compact(known), ", "))
	}
}

// child starts reading a mapping under a key; nil when absent or faulty.
func (f *fields) child(key string) *fields {
	n := f.get(key)
	if n == nil {
		return nil
	}
	return f.r.mapping(n, f.sub(key))
}

// list calls read for each element of a sequence under a key.
func (f *fields) list(key string, read func(n ast.Node, path string)) {
	n := f.get(key)
	if n == nil {
		return
	}
	f.r.sequence(n, f.sub(key), read)
}

func (r *reader) sequence(n ast.Node, path string, read func(n ast.Node, path string)) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fault(n, "%s: must be a list", path)
		return
	}
	if len(seq.Values) > maxList {
		r.fault(n, "%s: has %d entries, at most %d are allowed", path, len(seq.Values), maxList)
		return
	}
	for i, v := range seq.Values {
		read(v, path+"["+strconv.Itoa(i)+"]")
	}
}

// text reads a short string; a number written without quotes counts as one.
func (f *fields) text(key string, dst *string) {
	if n := f.get(key); n != nil {
		*dst = f.r.text(n, f.sub(key))
	}
}

func (r *reader) text(n ast.Node, path string) string {
	var s string
	switch n := n.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		s = n.GetToken().Value
	default:
		r.fault(n, "%s: must be a text", path)
		return ""
	}
	if len(s) > maxText {
		r.fault(n, "%s: longer than %d bytes", path, maxText)
		return ""
	}
	return s
}

// name reads an identifier: it becomes a part of subjects and labels.
func (f *fields) name(key string, dst *string) {
	n := f.get(key)
	if n == nil {
		return
	}
	*dst = f.r.name(n, f.sub(key))
}

func (r *reader) name(n ast.Node, path string) string {
	s := r.text(n, path)
	good := s != "" && len(s) <= 64
	for _, c := range []byte(s) {
		good = good && (c == '-' || c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	}
	if !good {
		r.fault(n, "%s: a name is 1 to 64 letters, digits, '.', '_' or '-', got %q", path, s)
		return ""
	}
	return s
}

// count reads a whole number from least to most.
func (f *fields) count(key string, dst *int64, least, most int64) {
	n := f.get(key)
	if n == nil {
		return
	}
	if v, ok := f.r.count(n, f.sub(key), least, most); ok {
		*dst = v
		f.r.mark(dst)
	}
}

func (r *reader) count(n ast.Node, path string, least, most int64) (int64, bool) {
	v, ok := number(n)
	if !ok || v != math.Trunc(v) {
		r.fault(n, "%s: must be a whole number, got %s", path, show(n))
		return 0, false
	}
	if v < float64(least) || v > float64(most) {
		r.fault(n, "%s: must be from %d to %d, got %s", path, least, most, show(n))
		return 0, false
	}
	return int64(v), true
}

// ratio reads a decimal number from least to most (both in ppm) into ppm.
func (f *fields) ratio(key string, dst *int64, least, most int64) {
	n := f.get(key)
	if n == nil {
		return
	}
	if v, ok := f.r.ratio(n, f.sub(key), least, most); ok {
		*dst = v
		f.r.mark(dst)
	}
}

func (r *reader) ratio(n ast.Node, path string, least, most int64) (int64, bool) {
	v, ok := number(n)
	if !ok {
		r.fault(n, "%s: must be a number, got %s", path, show(n))
		return 0, false
	}
	v = math.Round(v * PPM)
	if v < float64(least) || v > float64(most) {
		r.fault(n, "%s: must be from %s to %s, got %s", path, decimal(least), decimal(most), show(n))
		return 0, false
	}
	return int64(v), true
}

// span reads a duration of least or more.
func (f *fields) span(key string, dst *time.Duration, least time.Duration) {
	n := f.get(key)
	if n == nil {
		return
	}
	d, err := time.ParseDuration(n.GetToken().Value)
	_, isText := n.(*ast.StringNode)
	_, isZero := n.(*ast.IntegerNode)
	switch {
	case err != nil || !isText && !isZero:
		f.r.fault(n, "%s: must be a duration such as 500ms, 90s or 1h30m, got %s", f.sub(key), show(n))
	case d < least || d > maxSpan:
		f.r.fault(n, "%s: must be from %v to %v, got %v", f.sub(key), least, maxSpan, d)
	default:
		*dst = d
		f.r.mark((*int64)(dst))
	}
}

// flag reads true or false.
func (f *fields) flag(key string, dst *bool) {
	switch n := f.get(key).(type) {
	case nil:
	case *ast.BoolNode:
		*dst = n.Value
	default:
		f.r.fault(n, "%s: must be true or false, got %s", f.sub(key), show(n))
	}
}

// choose reads one of a few words.
func choose[T ~string](f *fields, key string, dst *T, allowed ...T) {
	n := f.get(key)
	if n == nil {
		return
	}
	word := T(f.r.text(n, f.sub(key)))
	if !slices.Contains(allowed, word) {
		words := make([]string, len(allowed))
		for i, a := range allowed {
			words[i] = string(a)
		}
		f.r.fault(n, "%s: must be one of %s, got %q", f.sub(key), strings.Join(words, ", "), word)
		return
	}
	*dst = word
}

func (r *reader) mark(number *int64) {
	if r.moved != nil {
		r.moved[number] = true
	}
}

// number returns a scalar's numeric value; not a number, infinity and text are
// refused.
func number(n ast.Node) (float64, bool) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		v, err := strconv.ParseFloat(strings.ReplaceAll(n.GetToken().Value, "_", ""), 64)
		return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return 0, false
}

// show quotes what the file says, shortened.
func show(n ast.Node) string {
	s := n.GetToken().Value
	if len(s) > 40 {
		s = s[:40] + "…"
	}
	return strconv.Quote(s)
}

// decimal prints ppm as a plain number.
func decimal(ppm int64) string {
	return strconv.FormatFloat(float64(ppm)/PPM, 'f', -1, 64)
}
