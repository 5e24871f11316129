package classify

import (
	"bytes"

	"weir/model"
)

// output reads a member that holds what a model said, or part of it. In an
// error it is text for people.
func (w *walker) output(in place, key []byte, r role) {
	c := w.peek()
	switch {
	case in == inError && (c == '"' || c == '\''):
		w.message(w.text(maxPiece))
	case in == inError || in == inBase:
		w.skip()
	case r == roleContent && c == '{':
		w.skip() // a setting echoed by the answer
	default:
		w.choices = string(key) == "choices"
		full := w.content(key, r, 0)
		w.f.answer = w.f.answer || full
		switch string(key) {
		case "choices", "candidates":
			w.f.hollow = w.f.hollow || !full
		}
	}
}

// payload looks through the container at the cursor for output, a finish
// reason, an end mark, an error of one choice, and usage. It reports whether
// the container holds anything. Texts are passed over unread.
func (w *walker) payload(level int) (full bool) {
	if level >= maxDepth {
		w.skip()
		return true
	}
	open := w.b[w.i]
	var buf [40]byte
	w.i++
	for {
		c := w.peek()
		switch {
		case c == 0:
			w.cut = true
			return full
		case c == '}' || c == ']':
			w.i++
			return full
		case c == ',':
			w.i++
			continue
		case c == ':':
			w.bad = true
			w.i++
			continue
		case open == '[':
			w.element(level)
		case c == '"':
			raw := w.str()
			if w.peek() != ':' {
				w.bad = !w.cut
				continue
			}
			w.i++
			w.part(plainKey(buf[:0], raw), level)
		default:
			w.bad = true
			w.i++
			continue
		}
		full = true
	}
}

func (w *walker) element(level int) {
	switch w.peek() {
	case '{', '[':
		w.payload(level + 1)
	default:
		w.skip()
	}
}

// part reads one member of a payload.
func (w *walker) part(key []byte, level int) {
	c := w.peek()
	switch r := roleOf(key); {
	case r == roleContent, r == rolePayload, r == roleText, r == roleData:
		w.content(key, r, level)
	case r == roleFinish:
		w.finish(level)
	case r == roleUsage:
		w.usage()
	case r == roleError && w.choices && level <= 2: // of a tool call it is no failure
		w.failure(inRoot, nil, key, level)
	case r == roleNone && (c == '{' || c == '[') && level < 6:
		w.payload(level + 1)
	default:
		w.skip()
	}
}

// content reads a member that may be output itself and reports whether it is
// not empty.
func (w *walker) content(key []byte, r role, level int) (full bool) {
	switch w.peek() {
	case '"':
		full = len(w.str()) > 0
		w.f.content = w.f.content || full && (r == roleContent || r == rolePayload || r == roleData)
	case '[':
		if r == roleContent {
			start := w.i
			w.skip()
			full = len(bytes.TrimSpace(w.b[start+1:w.i])) > 1
			w.f.content = w.f.content || full
			return full
		}
		full = w.payload(level + 1)
	case '{':
		full = w.payload(level + 1)
		switch string(key) {
		case "functioncall", "toolcall", "tooluse", "inlinedata":
			w.f.content = w.f.content || full
		}
	default:
		v := w.scalar()
		full = string(v) != "null" && string(v) != "false"
	}
	return full
}

// usage reads a usage object in any of the known spellings.
func (w *walker) usage() {
	if w.peek() != '{' {
		w.skip()
		return
	}
	var t tally
	w.tally(&t, 0)
	w.f.usage.merge(t.usage())
}

// tally is the counters of one usage object. Some providers count what came
// from a cache inside the input (cached), some beside it (read, written).
type tally struct {
	in, out, thought, cached, read, written, total int64

	known, inclusive bool
}

func (t *tally) usage() Usage {
	u := Usage{In: model.Tokens(t.in), Cached: model.Tokens(t.cached), Out: model.Tokens(t.out + t.thought), Known: t.known}
	if !t.inclusive {
		u.In += model.Tokens(t.read + t.written)
	}
	if t.read > 0 {
		u.Cached = model.Tokens(t.read)
	}
	if rest := model.Tokens(t.total) - u.In; u.Out == 0 && rest > 0 {
		u.Out = rest
	}
	u.Cached = min(u.Cached, u.In)
	return u
}

func (w *walker) tally(t *tally, depth int) {
	var buf [40]byte
	w.i++
	for {
		switch w.peek() {
		case '"':
			raw := w.str()
			if w.peek() != ':' {
				w.bad = !w.cut
				continue
			}
			w.i++
			w.tallyOne(t, plainKey(buf[:0], raw), depth)
		case '}':
			w.i++
			return
		case 0:
			w.cut = true
			return
		case ',':
			w.i++
		default:
			w.bad = true
			w.i++
		}
	}
}

// maxTokens bounds a counter, so that sums of hostile ones stay in range.
const maxTokens = 1 << 40

func (w *walker) tallyOne(t *tally, key []byte, depth int) {
	switch c := w.peek(); {
	case c == '{' && depth < 2:
		w.tally(t, depth+1)
		return
	case c == '{', c == '[':
		w.skip()
		return
	}
	n, ok := parseCount(w.plain())
	if !ok {
		return
	}
	n = min(n, maxTokens)
	switch string(key) {
	case "prompttokens", "prompttokencount":
		t.in, t.inclusive = n, true
	case "inputtokens", "inputtokencount":
		if t.in == 0 {
			t.in = n
		}
	case "completiontokens", "outputtokens", "candidatestokencount", "outputtokencount":
		t.out = n
	case "thoughtstokencount":
		t.thought = n
	case "cachedtokens", "promptcachehittokens", "cachedcontenttokencount":
		t.cached = n
	case "cachereadinputtokens", "cachereadinputtokencount":
		t.read = n
	case "cachecreationinputtokens", "cachewriteinputtokens":
		t.written = n
	case "totaltokens", "totaltokencount":
		t.total = n
	default:
		return
	}
	t.known = true
}
