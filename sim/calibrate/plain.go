package calibrate

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// depth is how deep brackets open.
func depth(line []byte) (most int) {
	n := 0
	for _, c := range line {
		switch c {
		case '{', '[':
			n++
			most = max(most, n)
		case '}', ']':
			n--
		}
	}
	return most
}

// simple takes apart an object of plain texts, numbers and words, which most
// lines are, and reports whether it was one: nothing nested, nothing escaped.
func (p *parser) simple(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("{"))
	for ok {
		rest = bytes.TrimLeft(rest, " \t")
		var key []byte
		if key, rest, ok = plainText(rest); !ok {
			return false
		}
		rest = bytes.TrimLeft(rest, " \t")
		if rest, ok = bytes.CutPrefix(rest, []byte(":")); !ok {
			return false
		}
		rest = bytes.TrimLeft(rest, " \t")
		p.key = append(p.key[:0], key...)
		for i, c := range p.key {
			if c >= 'A' && c <= 'Z' {
				p.key[i] = c + 'a' - 'A'
			}
		}
		want := p.wanted[string(p.key)]
		if len(rest) == 0 {
			return false
		}
		if rest[0] == '"' {
			var text []byte
			if text, rest, ok = plainText(rest); !ok {
				return false
			}
			if want != nil {
				p.put(string(p.key), string(text))
			}
		} else if rest, ok = p.plainValue(rest, want != nil); !ok {
			return false
		}
		rest = bytes.TrimLeft(rest, " \t")
		if len(rest) == 1 && rest[0] == '}' {
			return true
		}
		rest, ok = bytes.CutPrefix(rest, []byte(","))
	}
	return false
}

// plainText cuts a quoted text without escapes off.
func plainText(b []byte) (text, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, b, false
	}
	end := bytes.IndexByte(b[1:], '"')
	if end < 0 {
		return nil, b, false
	}
	text = b[1 : 1+end]
	for _, c := range text {
		if c == '\\' || c < ' ' {
			return nil, b, false
		}
	}
	return text, b[2+end:], utf8.Valid(text)
}

// plainValue cuts a number or a word off.
func (p *parser) plainValue(b []byte, want bool) ([]byte, bool) {
	end := bytes.IndexAny(b, ",} \t")
	if end <= 0 {
		return b, false
	}
	text, rest := b[:end], b[end:]
	switch string(text) {
	case "null":
	case "true", "false":
		if want {
			p.put(string(p.key), text[0] == 't')
		}
	default:
		if text[0] != '-' && (text[0] < '0' || text[0] > '9') || !json.Valid(text) {
			return b, false
		}
		n, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return b, false
		}
		if want {
			p.put(string(p.key), n)
		}
	}
	return rest, true
}
