package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
)

// maxNormal bounds the bodies that are brought into a normal form, in bytes; a
// larger one stands for itself.
const maxNormal = 1 << 20

// Normal returns the body in a form that is the same for requests that mean the
// same: members in order, no white space between them, numbers written one way,
// and without the members that ignore names. A name is a path such as
// metadata.trace; a star stands for each element of a list or each member. What
// is not one JSON object stays as it is.
func (b *Body) Normal(ignore []string) []byte {
	if b.form || len(b.raw) == 0 || len(b.raw) > maxNormal {
		return b.raw
	}
	in := json.NewDecoder(bytes.NewReader(b.raw))
	in.UseNumber()
	var root map[string]any
	if in.Decode(&root) != nil {
		return b.raw
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return b.raw
	}
	for _, path := range ignore {
		leaveOut(root, strings.Split(path, "."))
	}
	out, err := json.Marshal(plainNumbers(root)) // members sorted by name
	if err != nil {
		return b.raw
	}
	return out
}

// leaveOut removes the member at a path, where there is one.
func leaveOut(v any, path []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			switch {
			case path[0] != name && path[0] != "*":
			case len(path) == 1:
				delete(v, name)
			default:
				leaveOut(inner, path[1:])
			}
		}
	case []any:
		if path[0] != "*" || len(path) == 1 {
			return
		}
		for _, inner := range v {
			leaveOut(inner, path[1:])
		}
	}
}

// plainNumbers writes 1.0 and 1e0 as 1: the value counts, not its spelling. A
// number that a float cannot hold stays as it is written.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			v[name] = plainNumbers(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = plainNumbers(inner)
		}
	case json.Number:
		if x, err := v.Float64(); err == nil && math.Abs(x) < 1<<53 {
			return json.Number(strconv.FormatFloat(x, 'g', -1, 64))
		}
	}
	return v
}
