package classify

import (
	"bytes"
	"strconv"

	"weir/model"
)

// place says where in an envelope a member stands.
type place uint8

const (
	inRoot  place = iota // the root, or a wrapper that stands for it
	inBase               // an error member that is there on success too
	inError              // the error
	inSide               // beside the answer: told, but no proof of failure
)

// walker reads one JSON envelope into facts. Containers are entered to
// maxDepth levels and only where an error, a limit or an end can stand.
type walker struct {
	lexer
	f *facts
	// deep enters members of unknown meaning too, which only an answer that
	// is a refusal by its status may have.
	deep bool
	nest int
	// choices is set while what is looked through are an answer's choices.
	choices bool
}

// read adds what the JSON text b holds to f. whole is false when b is not
// JSON, or ends before its end; rest is what follows the first value.
func (f *facts) read(b []byte, deep bool) (rest []byte, whole bool) {
	w := walker{lexer: lexer{b: b}, f: f, deep: deep}
	w.root()
	return b[min(w.i, len(b)):], !w.cut && !w.bad
}

func (w *walker) root() {
	switch w.peek() {
	case '{':
		w.object(inRoot, 0)
	case '[':
		w.list(inRoot, 0)
	case '"':
		w.f.addText(w.text(maxPiece))
		w.f.answer = true
	case 0:
		w.cut = true
	default:
		v := w.scalar()
		w.f.answer = string(v) != "null"
	}
}

// object reads the members of the object at the cursor and returns how many
// it has.
func (w *walker) object(in place, depth int) (members int) {
	if depth >= maxDepth {
		w.skip()
		return 1
	}
	var buf [40]byte
	w.i++
	for {
		switch c := w.peek(); c {
		case '"', '\'':
			raw := w.str()
			if w.peek() != ':' {
				w.bad = !w.cut
				continue
			}
			w.i++
			members++
			w.member(in, raw, plainKey(buf[:0], raw), depth+1)
		case '}':
			w.i++
			return members
		case ',':
			w.i++
		case 0:
			w.cut = true
			return members
		default:
			w.bad = true
			w.i++
		}
	}
}

// list reads the elements of the list at the cursor.
func (w *walker) list(in place, depth int) (elements int) {
	if depth >= maxDepth {
		w.skip()
		return 1
	}
	w.i++
	for {
		switch w.peek() {
		case ']':
			w.i++
			return elements
		case ',':
			w.i++
			continue
		case 0:
			w.cut = true
			return elements
		case '}', ':':
			w.bad = true
			w.i++
			continue
		case '{':
			w.object(in, depth+1)
		case '"', '\'':
			text := w.text(maxPiece)
			if in != inRoot {
				w.message(text)
			}
		default:
			if in == inRoot {
				w.f.answer = true // a bare list of numbers is an embedding
			}
			w.skip()
		}
		elements++
	}
}

// member reads one value whose key is raw, in plain form key.
func (w *walker) member(in place, raw, key []byte, depth int) {
	r := roleOf(key)
	w.f.mark(key)
	switch c := w.peek(); r {
	case roleError:
		w.failure(in, raw, key, depth)
	case roleCode:
		w.code(in, depth)
	case roleKind:
		w.words(in, key, depth)
	case roleText:
		if c == '{' && in == inRoot && string(key) == "message" {
			w.f.answer = w.payload(0) || w.f.answer
			return
		}
		if c == '{' && bytes.HasPrefix(key, []byte("err")) {
			w.failure(in, raw, key, depth)
			return
		}
		w.more(in, key, depth)
	case roleInto:
		w.more(in, key, depth)
	case roleData:
		w.data(in, depth)
	case roleFlag:
		v := w.plain()
		w.f.failed = w.f.failed || in == inRoot && (string(v) == "false" || string(v) == "False")
	case roleObject:
		w.f.failed = w.f.failed || string(w.plain()) == "error" && in == inRoot
	case rolePayload, roleContent:
		w.output(in, key, r)
	case roleFinish:
		w.finish(depth)
	case roleDone:
		v := string(w.plain())
		w.f.done = w.f.done || v == "true"
		w.f.undone = w.f.undone || v == "false"
	case roleUsage:
		w.usage()
	case roleCount:
		w.count(key)
	case roleWait:
		w.wait(key, depth)
	case roleHeaders:
		w.headers()
	case roleLimit:
		w.number(&w.f.limit, depth)
	case roleRemaining:
		w.number(&w.f.remaining, depth)
	case roleUsed:
		w.number(&w.f.used, depth)
	case roleBlocked:
		w.f.blocked = len(w.plain()) > 0 || w.f.blocked
	case roleNone, roleIgnore:
		if r == roleNone && (in == inError || w.deep) && (c == '{' || c == '[') {
			w.enter(in, depth)
			return
		}
		w.skip()
	}
}

// enter descends into the container at the cursor, or skips a scalar.
func (w *walker) enter(in place, depth int) int {
	switch w.peek() {
	case '{':
		return w.object(in, depth)
	case '[':
		return w.list(in, depth)
	}
	w.skip()
	return 0
}

// failure reads an error member. Empty ones (null, "", {}, [], false, 0) say
// that all is well, and beside the answer they prove nothing.
func (w *walker) failure(in place, raw, key []byte, depth int) {
	inside, proof := inError, in != inSide
	if string(key) == "baseresp" {
		inside, proof = inBase, false
	}
	full := false
	switch w.peek() {
	case '{', '[':
		full = w.enter(inside, depth) > 0
	case '"', '\'':
		text := w.text(maxPiece)
		if full = !succeeds(text); full {
			w.message(text)
			if bytes.IndexByte(text, ' ') < 0 {
				w.f.addCode(text)
			}
		}
	default:
		v := w.scalar()
		if full = !succeeds(v) && !isFalse(v); full {
			w.f.addCode(v)
		}
	}
	if full && bytes.HasSuffix(key, []byte("exception")) {
		w.f.addCode(raw)
	}
	w.f.failed = w.f.failed || full && proof
}

func isFalse(v []byte) bool {
	switch string(v) {
	case "false", "False", "None":
		return true
	}
	return false
}

// code reads a code, which outside the error itself may mean success.
func (w *walker) code(in place, depth int) {
	if c := w.peek(); c == '{' || c == '[' {
		w.enter(in, depth)
		return
	}
	v := w.plain()
	if succeeds(v) {
		w.f.zero = w.f.zero || in == inRoot && len(v) > 0
		return
	}
	w.f.addCode(v)
	if !w.f.addStatus(v) && w.f.code == "" {
		w.f.code = cleanCode(string(v[:min(len(v), maxCode)]))
	}
	switch in {
	case inRoot:
		w.f.nonzero = true
	case inBase:
		w.f.failed = true
	case inError, inSide:
	}
}

// words reads a type, reason or status.
func (w *walker) words(in place, key []byte, depth int) {
	if c := w.peek(); c == '{' || c == '[' {
		w.enter(in, depth)
		return
	}
	v := w.plain()
	if in == inRoot && (string(key) == "type" || string(key) == "event") && w.f.kind == "" {
		w.f.kind = string(v[:min(len(v), maxCode)])
	}
	if succeeds(v) {
		return
	}
	w.f.addCode(v)
	w.f.addStatus(v)
	if in != inRoot {
		return
	}
	switch string(key) {
	case "type", "event":
		w.f.failed = w.f.failed || string(v) == "error"
	case "status":
		switch string(bytes.ToLower(v)) {
		case "error", "failed", "failure", "fail", "false":
			w.f.failed = true
		}
		n, ok := parseCount(v)
		w.f.nonzero = w.f.nonzero || ok && n >= 400
	}
}

// more reads a message, or a container with more of the same.
func (w *walker) more(in place, key []byte, depth int) {
	switch w.peek() {
	case '{', '[':
		switch string(key) {
		case "response", "header": // they stand for the root
		default:
			if in == inRoot && !w.deep {
				in = inSide
			}
		}
		w.enter(in, depth)
	case '"', '\'':
		text := w.text(maxPiece)
		switch {
		case string(key) == "response" && in == inRoot:
			w.f.answer = w.f.answer || len(text) > 0
			w.f.content = w.f.content || len(text) > 0
		case in == inRoot && len(text) > 0 && succeeds(text):
			w.f.zero = true
		default:
			w.message(text)
		}
	default:
		w.scalar()
	}
}

// data reads the payload of a wrapper, which may tell about an error instead.
func (w *walker) data(in place, depth int) {
	switch w.peek() {
	case '{':
		if in == inRoot {
			in = inSide
		}
		w.object(in, depth)
	case '[':
		if in == inError {
			w.list(in, depth)
			return
		}
		start := w.i
		w.skip()
		w.f.answer = w.f.answer || len(bytes.TrimSpace(w.b[start+1:w.i])) > 1
	default:
		w.skip()
	}
}

// message keeps text for people. A JSON text inside it is read as part of the
// error, since relays wrap the answer of their upstream that way.
func (w *walker) message(text []byte) {
	at := embedded(text)
	if at < 0 || w.nest >= maxNest {
		w.f.addText(text)
		return
	}
	before := len(w.f.codes) + len(w.f.text)
	inner := walker{lexer: lexer{b: text[at:]}, f: w.f, deep: true, nest: w.nest + 1}
	inner.enter(inError, 0)
	if len(w.f.codes)+len(w.f.text) == before {
		w.f.addText(text)
		return
	}
	w.f.addText(text[:at])
	w.f.addText(inner.b[min(inner.i, len(inner.b)):])
}

// embedded returns where in text a JSON object with a quoted key begins, or -1.
func embedded(text []byte) int {
	for at := 0; ; at++ {
		n := bytes.IndexByte(text[at:], '{')
		if n < 0 {
			return -1
		}
		at += n
		rest := bytes.TrimLeft(text[at+1:min(at+8, len(text))], " \n\t")
		if len(rest) > 0 && (rest[0] == '"' || rest[0] == '\'') {
			return at
		}
	}
}

// text reads a string and returns at most limit bytes of it, unescaped.
func (w *walker) text(limit int) []byte {
	raw := w.str()
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[:min(len(raw), limit)]
	}
	return unescape(nil, raw, limit)
}

// plain reads a scalar of any kind; containers give nil.
func (w *walker) plain() []byte {
	switch w.peek() {
	case '"', '\'':
		return w.text(maxPiece)
	case '{', '[':
		w.skip()
		return nil
	}
	v := w.scalar()
	if string(v) == "null" || string(v) == "None" {
		return nil
	}
	return v
}

// number reads a count; one that was read before stays.
func (w *walker) number(to *int64, depth int) {
	if c := w.peek(); c == '{' || c == '[' {
		w.enter(inSide, depth)
		return
	}
	if n, ok := parseCount(w.plain()); ok && *to < 0 {
		*to = n
	}
}

// parseCount reads a whole or decimal number that is not negative.
func parseCount(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 24 {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(bytes.ReplaceAll(b, []byte(","), nil)), 64)
	if err != nil || !(x >= 0 && x < 1<<62) {
		return 0, false
	}
	return int64(x), true
}

func (w *walker) wait(key []byte, depth int) {
	if c := w.peek(); c == '{' || c == '[' {
		w.enter(inSide, depth)
		return
	}
	v := w.plain()
	if len(v) > 0 && len(v) <= 64 && len(w.f.waits) < maxWaits {
		w.f.waits = append(w.f.waits, pair{string(key), string(v)})
	}
}

// headers reads header fields that a body quotes.
func (w *walker) headers() {
	if w.peek() != '{' {
		w.skip()
		return
	}
	w.i++
	for {
		switch w.peek() {
		case '"', '\'':
			key := w.text(64)
			if w.peek() != ':' {
				continue
			}
			w.i++
			v := w.plain()
			if len(v) > 0 && len(v) <= 128 && len(w.f.pairs) < maxPairs {
				w.f.pairs = append(w.f.pairs, pair{string(bytes.ToLower(key)), string(v)})
			}
		case '}':
			w.i++
			return
		case 0:
			w.cut = true
			return
		default:
			w.i++
		}
	}
}

// finish reads why a model stopped: a word, or an object with its type and, of
// a failure, what more there is to say.
func (w *walker) finish(depth int) {
	if w.peek() == '{' {
		codes := len(w.f.codes)
		w.enter(inSide, depth)
		for _, code := range w.f.codes[codes:] {
			if failedEnd(code) {
				w.f.finish, w.f.failed = code, true
				return
			}
		}
		w.f.finish = "stop"
		return
	}
	v := w.plain()
	if len(v) > 0 && len(v) <= maxCode && string(v) != "null" {
		w.f.finish = string(v)
	}
}

func (w *walker) count(key []byte) {
	n, ok := parseCount(w.plain())
	if !ok {
		return
	}
	w.f.usage.Known = true
	if string(key) == "evalcount" {
		w.f.usage.Out = model.Tokens(n)
	} else {
		w.f.usage.In = model.Tokens(n)
	}
}
