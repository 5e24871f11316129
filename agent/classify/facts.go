package classify

import (
	"bytes"
	"slices"
	"strconv"

	"weir/model"
)

// Bounds of what is kept of one answer.
const (
	maxText  = 8 << 10 // bytes of error text
	maxPiece = 4 << 10 // bytes of one message
	maxCodes = 24
	maxCode  = 160 // bytes of one code; longer ones are prose
	maxWaits = 8
	maxPairs = 32 // header fields quoted in a body
	maxNest  = 3  // JSON in strings in JSON
	maxDepth = 12 // levels of containers looked into
)

// facts is what was read from one envelope: a body, or one frame of a stream.
// It holds nothing of an answer's text.
type facts struct {
	codes []string
	text  []byte // messages, separated by line feeds
	waits []pair // fields that name a wait or a reset, by plain key
	pairs []pair // header fields quoted in the body
	keys  marks  // envelope keys that give a provider family away

	limit, remaining, used, requested int64 // negative: not said

	code   string // the first code that is no HTTP status
	status int    // an HTTP status quoted by the envelope, 0 if none
	kind   string // the root's type, for events of a stream
	finish string // why the model stopped, as the provider says it
	usage  Usage

	failed  bool // an error member that is not empty, or a failure flag
	nonzero bool // a code of the root that does not mean success
	zero    bool // a code of the root, or its message, that means success
	answer  bool // the payload of an answer, not empty
	content bool // text, a tool call or other output of a model
	done    bool // an explicit end mark
	undone  bool // one that says that more follows
	blocked bool // the prompt was refused
	hollow  bool // a list of answers that is empty
}

// pair is a key and its value as text.
type pair struct{ key, value string }

// marks is a set of envelope keys; the n-th bit stands for the n-th markKeys.
type marks uint8

// markKeys lists the plain keys that rule tables may name as family marks.
var markKeys = [...]string{"baseresp", "errorcode", "response", "header", "quotaid"}

func (f *facts) reset() {
	*f = facts{codes: f.codes[:0], text: f.text[:0], waits: f.waits[:0], pairs: f.pairs[:0], limit: -1, remaining: -1, used: -1, requested: -1}
}

// mark remembers key if it is one of markKeys.
func (f *facts) mark(key []byte) {
	for i, k := range markKeys {
		if string(key) == k {
			f.keys |= 1 << i
		}
	}
}

// addCode keeps one code or type.
func (f *facts) addCode(value []byte) {
	if len(value) == 0 || len(value) > maxCode || len(f.codes) >= maxCodes {
		return
	}
	if code := string(value); !slices.Contains(f.codes, code) {
		f.codes = append(f.codes, code)
	}
}

// addText keeps one message within the bound.
func (f *facts) addText(value []byte) {
	value = bytes.TrimSpace(value)
	room := maxText - len(f.text) - 1
	if len(value) == 0 || room <= 0 {
		return
	}
	f.text = append(f.text, value[:min(len(value), room)]...)
	f.text = append(f.text, '\n')
}

// addStatus notes an HTTP status quoted by the envelope, of which the first
// one counts, and reports whether value is one.
func (f *facts) addStatus(value []byte) bool {
	n, err := strconv.Atoi(string(value))
	if err != nil || !isStatus(n) {
		return false
	}
	if f.status == 0 {
		f.status = n
	}
	return true
}

// isStatus reports whether n is an HTTP status of a failure in common use;
// providers number their own codes from 400 on, too.
func isStatus(n int) bool {
	switch {
	case n >= 400 && n <= 431, n == 451, n == 498, n == 499, n >= 500 && n <= 511, n >= 520 && n <= 530:
		return true
	}
	return false
}

// refused reports whether the envelope itself, whatever the HTTP status, says
// that there is no answer.
func (f *facts) refused() bool {
	switch {
	case f.failed, f.blocked && !f.answer:
		return true
	case f.nonzero && !f.zero && !f.answer:
		return true
	}
	return false
}

// Usage is what the provider said a call used. In includes what was read from
// or written to a cache, Cached is the part of In read from one.
type Usage struct {
	In, Cached, Out model.Tokens
	// Known is set when the provider said so; then the numbers are its own.
	Known bool
}

// merge takes over what u says, since later frames count everything so far.
func (u *Usage) merge(v Usage) {
	if !v.Known {
		return
	}
	u.Known = true
	u.In = max(u.In, v.In)
	u.Cached = max(u.Cached, v.Cached)
	u.Out = max(u.Out, v.Out)
}
