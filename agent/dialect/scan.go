package dialect

import (
	"bytes"
	"encoding/json"
)

// member is one member of a JSON object: where its key and its value stand,
// quotes included.
type member struct{ keyStart, keyEnd, start, end int }

// members calls yield for each member of the object that valid JSON b is;
// it reports false when b is no object. Depth costs nothing.
func members(b []byte, yield func(m member)) bool {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	for i = space(b, i+1); i < len(b) && b[i] == '"'; i = space(b, i+1) {
		var m member
		m.keyStart = i
		m.keyEnd = text(b, i)
		i = space(b, m.keyEnd) + 1 // the colon
		m.start = space(b, i)
		m.end = value(b, m.start)
		yield(m)
		i = space(b, m.end)
		if i >= len(b) || b[i] != ',' {
			break
		}
	}
	return true
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// text returns the index after the string that starts at i.
func text(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// value returns the index after the value that starts at i.
func value(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = text(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(b)
}

// key returns the name of m, however it is escaped. A name too long to be one
// of those looked for is "".
func key(b []byte, m member) string {
	const longest = 6 * 32
	raw := b[m.keyStart+1 : m.keyEnd-1]
	if len(raw) > longest {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	var s string
	if json.Unmarshal(b[m.keyStart:m.keyEnd], &s) != nil {
		return ""
	}
	return s
}
