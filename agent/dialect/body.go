package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"weir/model"
)

// maxModel bounds a model's name in a request, in bytes.
const maxModel = 256

// maxMembers bounds the members of a request's object. What is known of each
// that is replaced or left out takes many times the room that it takes itself.
const maxMembers = 10_000

// maxOutput bounds what one request may claim to generate.
const maxOutput = 1 << 24

// The errors of ParseBody; each is the caller's mistake.
var (
	// ErrNotJSON says that the body is not one JSON object.
	ErrNotJSON = errors.New("the request body is not a JSON object")
	// ErrManyMembers says that the body's object has more members than any
	// request.
	ErrManyMembers = errors.New("the request body has more than 10000 members")
	// ErrNoModel says that the body names no model, or not as a string.
	ErrNoModel = errors.New("the request body has no string member \"model\"")
)

// Body is what an agent reads from a request's body and may change in it. It
// refers to the bytes it was parsed from, which must not change.
type Body struct {
	// Model is the model the client asks for: the last member of that name,
	// as most parsers take it.
	Model string
	// Stream is set when the answer shall come as a stream.
	Stream bool
	// MaxOutput is the bound on generated tokens the client set, 0 for none.
	MaxOutput model.Tokens
	// Input is the estimated tokens of the request.
	Input model.Tokens
	// WantsUsage is set when the client itself asked for a stream's usage.
	WantsUsage bool

	raw    []byte
	form   bool     // of type multipart/form-data: values are not quoted
	first  int      // the index after the opening brace
	models []member // every member "model", in any case: all are replaced
	opts   member   // the last member "stream_options"
	inner  member   // its last member "include_usage"
	solo   bool     // stream_options has no members
}

// Read reads the body of a request of that content type. Where the dialect
// does not need a model, none may be named, and the body may be anything.
func Read(d Dialect, contentType string, raw []byte) (*Body, error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err == nil && kind == "multipart/form-data" {
		return readForm(raw, params["boundary"])
	}
	if !d.NamesModel() && opaque(kind, raw) {
		return &Body{raw: raw, Input: 1}, nil
	}
	b, err := ParseBody(raw)
	if errors.Is(err, ErrNoModel) && !d.NamesModel() && len(b.models) == 0 {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// opaque reports whether a body is not read: there is none, or it says to be
// something else than JSON and looks it.
func opaque(kind string, raw []byte) bool {
	if at := space(raw, 0); at < len(raw) {
		return kind != "" && !strings.Contains(kind, "json") && raw[at] != '{'
	}
	return true
}

// ParseBody reads a request's body. With ErrNoModel what was read is returned.
func ParseBody(raw []byte) (*Body, error) {
	if !json.Valid(raw) {
		return nil, ErrNotJSON
	}
	b := &Body{raw: raw}
	found, n := false, 0
	ok := members(raw, func(m member) {
		if n++; n > maxMembers {
			return
		}
		v := raw[m.start:m.end]
		switch name := key(raw, m); name {
		case "model":
			b.models = append(b.models, m)
			b.Model, found = shortString(v)
		case "stream":
			b.Stream = string(v) == "true"
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			b.MaxOutput = max(b.MaxOutput, count(v))
		case "stream_options":
			b.readOptions(m)
		default:
			if strings.EqualFold(name, "model") {
				b.models = append(b.models, m) // some parsers take it for the same
			}
		}
	})
	switch {
	case !ok:
		return nil, ErrNotJSON
	case n > maxMembers:
		return nil, ErrManyMembers
	}
	b.first = bytes.IndexByte(raw, '{') + 1
	b.Input = Estimate(raw)
	if !found || b.Model == "" {
		return b, ErrNoModel
	}
	return b, nil
}

func (b *Body) readOptions(m member) {
	v := b.raw[m.start:m.end]
	b.opts, b.inner, b.WantsUsage, b.solo = m, member{}, false, true
	members(v, func(in member) {
		b.solo = false
		if key(v, in) == "include_usage" {
			b.inner = in
			b.WantsUsage = string(v[in.start:in.end]) == "true"
		}
	})
}

// Output returns the tokens to expect as output: the client's bound, or
// otherwise the given one; none where no text is generated.
func (b *Body) Output(d Dialect, otherwise model.Tokens) model.Tokens {
	if !d.generates() {
		return 0
	}
	if b.MaxOutput > 0 {
		return b.MaxOutput
	}
	return otherwise
}

// Rewritten is a body as it goes to a provider: pieces of the client's bytes
// and what was put between them.
type Rewritten struct {
	parts [][]byte
	size  int64
}

// Size is the length in bytes.
func (r *Rewritten) Size() int64 { return r.size }

// Reader returns a new reader over the body.
func (r *Rewritten) Reader() io.ReadCloser {
	if r.size == 0 {
		return http.NoBody
	}
	readers := make([]io.Reader, len(r.parts))
	for i, p := range r.parts {
		readers[i] = bytes.NewReader(p)
	}
	return io.NopCloser(io.MultiReader(readers...))
}

// NewReader is Reader in the form of http.Request.GetBody.
func (r *Rewritten) NewReader() (io.ReadCloser, error) { return r.Reader(), nil }

// edit replaces raw[start:end].
type edit struct {
	start, end int
	text       string
}

// Rewrite returns the body with the model's name replaced, the members named
// in drop left out and, with usage set, a stream asked for its usage. Nothing
// else changes.
func (b *Body) Rewrite(d Dialect, name string, usage bool, drop []string) *Rewritten {
	edits := make([]edit, 0, len(b.models)+1)
	for _, m := range b.models {
		edits = append(edits, edit{m.start, m.end, b.value(name)})
	}
	if usage && b.Stream && !b.WantsUsage && d.usageOnRequest() && !slices.Contains(drop, "stream_options") {
		edits = append(edits, b.askUsage())
	}
	edits = append(edits, b.leaveOut(drop)...)
	slices.SortStableFunc(edits, func(x, y edit) int { return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.end, y.end)) })
	r := &Rewritten{}
	at := 0
	for _, e := range edits {
		if e.start < at {
			continue // within what is left out
		}
		r.add(b.raw[at:e.start])
		r.add([]byte(e.text))
		at = e.end
	}
	r.add(b.raw[at:])
	return r
}

// leaveOut are the edits that take members out, each with one comma.
func (b *Body) leaveOut(names []string) (edits []edit) {
	if len(names) == 0 || b.form {
		return nil
	}
	kept, run := -1, -1 // the end of the last kept member, the start of those left out since
	members(b.raw, func(m member) {
		name := key(b.raw, m)
		if name != "model" && slices.Contains(names, name) {
			if run < 0 {
				run = m.keyStart
			}
			return
		}
		if run >= 0 {
			edits = append(edits, edit{run, m.keyStart, ""})
		}
		kept, run = m.end, -1
	})
	switch {
	case run < 0:
	case kept < 0:
		edits = append(edits, edit{b.first, bytes.LastIndexByte(b.raw, '}'), ""})
	default:
		edits = append(edits, edit{kept, bytes.LastIndexByte(b.raw, '}'), ""})
	}
	return edits
}

// Has returns the first of the names that is a member of the body's object,
// empty when none is.
func (b *Body) Has(names []string) (found string) {
	if len(names) == 0 || b.form || b.first == 0 {
		return ""
	}
	members(b.raw, func(m member) {
		if name := key(b.raw, m); found == "" && slices.Contains(names, name) {
			found = name
		}
	})
	return found
}

// Raw returns the bytes of the body, which must not be changed.
func (b *Body) Raw() []byte { return b.raw }

// value is a model's name as it stands in the body.
func (b *Body) value(name string) string {
	if b.form {
		return strings.Map(func(c rune) rune {
			if c < ' ' { // could end the part
				return -1
			}
			return c
		}, name)
	}
	return string(marshal(name))
}

// askUsage is the edit that sets stream_options.include_usage.
func (b *Body) askUsage() edit {
	switch {
	case b.opts.end == 0:
		return edit{b.first, b.first, `"stream_options":{"include_usage":true},`}
	case b.raw[b.opts.start] != '{':
		return edit{b.opts.start, b.opts.end, `{"include_usage":true}`}
	case b.inner.end > 0:
		return edit{b.opts.start + b.inner.start, b.opts.start + b.inner.end, "true"}
	case b.solo:
		return edit{b.opts.start + 1, b.opts.start + 1, `"include_usage":true`}
	}
	return edit{b.opts.start + 1, b.opts.start + 1, `"include_usage":true,`}
}

func (r *Rewritten) add(p []byte) {
	if len(p) > 0 {
		r.parts = append(r.parts, p)
		r.size += int64(len(p))
	}
}

func shortString(v []byte) (string, bool) {
	var s string
	if len(v) == 0 || v[0] != '"' || len(v) > 6*maxModel || json.Unmarshal(v, &s) != nil || len(s) > maxModel {
		return "", false
	}
	return s, true
}

// count reads a number of tokens; what is not a sensible one is none.
func count(v []byte) model.Tokens {
	if len(v) > 32 {
		return 0
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || !(f > 0) {
		return 0
	}
	return model.Tokens(min(f, maxOutput))
}
