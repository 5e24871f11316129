package strict

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Bounds of what a file may say, wide enough for everybody and far from
// overflow.
const (
	// MaxSpan is the longest duration.
	MaxSpan = 366 * 24 * time.Hour
	// MaxList is the most entries of a list.
	MaxList = 10_000
	// MaxText is the longest text, MaxName the longest name, in bytes.
	MaxText = 1000
	MaxName = 64
	// PPM is one, in parts per million: the unit of ratios.
	PPM = 1_000_000
)

// Reader walks a syntax tree and collects faults. The zero value is ready; its
// faults belong to no file, which is of use when a tree is looked at again.
type Reader struct {
	name   string
	faults []Fault
	// OnNumber, if not nil, is told the address of each number that is set.
	OnNumber func(*int64)
}

// Fault reports something at a node.
func (r *Reader) Fault(at ast.Node, format string, args ...any) {
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

// Mapping starts reading a mapping, whose keys the YAML parser found unique; it
// returns nil and reports when the node is something else. path names the
// mapping in messages; "" is the document.
func (r *Reader) Mapping(n ast.Node, path string) *Fields {
	f := &Fields{r: r, path: path, at: n, byKey: map[string]entry{}}
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			f.put(v)
		}
	case *ast.MappingValueNode:
		f.put(n)
	case *ast.NullNode:
	default:
		if path == "" {
			path = "the file"
		}
		r.Fault(n, "%s: must be a mapping of keys", path)
		return nil
	}
	return f
}

// Sequence calls read for each element of a list.
func (r *Reader) Sequence(n ast.Node, path string, read func(n ast.Node, path string)) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		r.Fault(n, "%s: must be a list", path)
		return
	}
	if len(seq.Values) > MaxList {
		r.Fault(n, "%s: has %d entries, at most %d are allowed", path, len(seq.Values), MaxList)
		return
	}
	for i, v := range seq.Values {
		read(v, path+"["+strconv.Itoa(i)+"]")
	}
}

// Text reads a short string; a number written without quotes counts as one. It
// returns "" after a fault.
func (r *Reader) Text(n ast.Node, path string) string {
	var s string
	switch n := n.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		s = n.GetToken().Value
	default:
		r.Fault(n, "%s: must be a text", path)
		return ""
	}
	if len(s) > MaxText {
		r.Fault(n, "%s: longer than %d bytes", path, MaxText)
		return ""
	}
	return s
}

// Name reads an identifier, which becomes a part of subjects and labels: 1 to
// MaxName letters, digits, '.', '_' or '-'. It returns "" after a fault.
func (r *Reader) Name(n ast.Node, path string) string {
	s := r.Text(n, path)
	good := s != "" && len(s) <= MaxName
	for _, c := range []byte(s) {
		good = good && (c == '-' || c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	}
	if !good {
		r.Fault(n, "%s: a name is 1 to %d letters, digits, '.', '_' or '-', got %q", path, MaxName, s)
		return ""
	}
	return s
}

// Count reads a whole number from least to most; ok is false after a fault.
func (r *Reader) Count(n ast.Node, path string, least, most int64) (v int64, ok bool) {
	x, ok := Number(n)
	if !ok || x != math.Trunc(x) {
		r.Fault(n, "%s: must be a whole number, got %s", path, Show(n))
		return 0, false
	}
	if x < float64(least) || x > float64(most) {
		r.Fault(n, "%s: must be from %d to %d, got %s", path, least, most, Show(n))
		return 0, false
	}
	return int64(x), true
}

// Ratio reads a decimal number from least to most into parts per million, in
// which both bounds are; ok is false after a fault.
func (r *Reader) Ratio(n ast.Node, path string, least, most int64) (ppm int64, ok bool) {
	v, ok := Number(n)
	if !ok {
		r.Fault(n, "%s: must be a number, got %s", path, Show(n))
		return 0, false
	}
	v = math.Round(v * PPM)
	if v < float64(least) || v > float64(most) {
		r.Fault(n, "%s: must be from %s to %s, got %s", path, decimal(least), decimal(most), Show(n))
		return 0, false
	}
	return int64(v), true
}

// Span reads a duration, as Go writes it, of at least least and at most
// MaxSpan; ok is false after a fault.
func (r *Reader) Span(n ast.Node, path string, least time.Duration) (d time.Duration, ok bool) {
	d, err := time.ParseDuration(n.GetToken().Value)
	_, isText := n.(*ast.StringNode)
	_, isZero := n.(*ast.IntegerNode)
	switch {
	case err != nil || !isText && !isZero:
		r.Fault(n, "%s: must be a duration such as 500ms, 90s or 1h30m, got %s", path, Show(n))
	case d < least || d > MaxSpan:
		r.Fault(n, "%s: must be from %v to %v, got %v", path, least, MaxSpan, d)
	default:
		return d, true
	}
	return 0, false
}

// Number returns a scalar's numeric value; not a number, infinity and text are
// refused.
func Number(n ast.Node) (v float64, ok bool) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		v, err := strconv.ParseFloat(strings.ReplaceAll(n.GetToken().Value, "_", ""), 64)
		return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return 0, false
}

// Show quotes what the file says at a node, shortened.
func Show(n ast.Node) string {
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
