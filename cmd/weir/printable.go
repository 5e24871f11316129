package main

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// printable returns JSON whose strings hold nothing that a terminal would obey:
// what an agent or a provider says comes as far as a reason or a version, and
// must not move an operator's cursor. Other bytes stay as they are.
func printable(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for len(data) > 0 {
		size, good := symbol(data)
		if good {
			out = append(out, data[:size]...)
		} else {
			out = append(out, '?')
		}
		data = data[size:]
	}
	return out
}

// symbol returns the length of the character or escape that JSON begins with,
// and whether it prints.
func symbol(data []byte) (size int, good bool) {
	if data[0] != '\\' || len(data) < 2 {
		c, size := utf8.DecodeRune(data)
		return size, printableRune(c) || bytes.IndexByte([]byte("\n\r\t"), data[0]) >= 0
	}
	switch data[1] {
	case 'b', 'f', 'n', 'r', 't':
		return 2, false
	case 'u':
		if c, err := strconv.ParseUint(string(data[2:min(6, len(data))]), 16, 16); err == nil && len(data) >= 6 {
			return 6, printableRune(rune(c))
		}
	}
	return 2, true
}

// printableRune reports whether c is no control character and no break of a
// line.
func printableRune(c rune) bool {
	return c >= ' ' && (c < 0x7f || c >= 0xa0) && c != 0x2028 && c != 0x2029
}
