package classify

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// lexer walks JSON without building values. It forgives what providers and
// relays do to JSON: single quotes and None (a printed Python dict), trailing
// text, cut ends. It never goes back, so a walk is linear.
type lexer struct {
	b []byte
	i int
	// cut is set when the text ended inside a value.
	cut bool
	// bad is set when something that is not JSON stood where a value should.
	bad bool
}

func (l *lexer) space() {
	for l.i < len(l.b) {
		switch l.b[l.i] {
		case ' ', '\t', '\r', '\n':
			l.i++
		default:
			return
		}
	}
}

// peek returns the next byte that is not white space, 0 at the end.
func (l *lexer) peek() byte {
	l.space()
	if l.i >= len(l.b) {
		return 0
	}
	return l.b[l.i]
}

// str reads a string at its opening quote and returns what is between the
// quotes, still escaped.
func (l *lexer) str() (raw []byte) {
	quote := l.b[l.i]
	l.i++
	start := l.i
	for {
		n := bytes.IndexByte(l.b[l.i:], quote)
		if n < 0 {
			raw = l.b[start:]
			l.i, l.cut = len(l.b), true
			return raw
		}
		end := l.i + n
		l.i = end + 1
		if !escaped(l.b[start:end]) {
			return l.b[start:end]
		}
	}
}

// escaped reports whether b ends with an odd number of backslashes.
func escaped(b []byte) bool {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// scalar reads a number or a word such as true, null or None.
func (l *lexer) scalar() []byte {
	start := l.i
	for l.i < len(l.b) {
		switch c := l.b[l.i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '+', c == '.':
			l.i++
			continue
		}
		break
	}
	if l.i == start {
		l.bad = true
		l.i++ // always forward
	}
	return l.b[start:min(l.i, len(l.b))]
}

// skip passes over one value of any depth without recursion.
func (l *lexer) skip() {
	depth := 0
	for {
		switch c := l.peek(); c {
		case 0:
			if l.i >= len(l.b) {
				l.cut = true
				return
			}
			l.bad = true
			l.i++
		case '"', '\'':
			l.str()
		case '{', '[':
			depth++
			l.i++
		case '}', ']':
			if depth == 0 {
				l.bad = true
				return
			}
			depth--
			l.i++
		case ',', ':':
			if depth == 0 {
				l.bad = true
				return
			}
			l.i++
			continue
		default:
			l.scalar()
		}
		if depth == 0 {
			return
		}
	}
}

// unescape appends the text of an escaped JSON string to dst, at most limit
// bytes of it.
func unescape(dst, raw []byte, limit int) []byte {
	end := len(dst) + limit
	for len(raw) > 0 && len(dst) < end {
		n := bytes.IndexByte(raw, '\\')
		if n != 0 {
			if n < 0 {
				n = len(raw)
			}
			take := min(n, end-len(dst))
			dst = append(dst, raw[:take]...)
			raw = raw[take:]
			continue
		}
		if len(raw) < 2 {
			return dst
		}
		var r rune
		r, raw = unescapeOne(raw)
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// unescapeOne decodes the escape at the start of raw, which has at least two
// bytes, and returns the rest.
func unescapeOne(raw []byte) (rune, []byte) {
	c := raw[1]
	switch c {
	case 'n', 'r', 't', 'b', 'f':
		return ' ', raw[2:]
	case 'u':
	default:
		return rune(c), raw[2:]
	}
	r, ok := hex4(raw[2:])
	if !ok {
		return utf8.RuneError, raw[2:]
	}
	raw = raw[6:]
	if utf16.IsSurrogate(r) && len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
		if low, ok := hex4(raw[2:]); ok {
			return utf16.DecodeRune(r, low), raw[6:]
		}
	}
	return r, raw
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
