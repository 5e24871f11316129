package classify

import (
	"bytes"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKept bounds what Redact leaves of a body, in bytes.
const MaxKept = 2 << 10

// The lengths, in letters and digits, from which a run of a refusal that stands
// in the request too is taken for its text: of Latin letters about four words,
// of others, in bytes, three characters.
const (
	quotedLatin = 20
	quotedOther = 9
)

// secretText finds what could be a key, a token, an address or an id: long
// words with digits among the letters, what follows Bearer, mail addresses and
// long numbers.
var secretText = regexp.MustCompile(`(?i)\bsk-[\w-]+|bearer\s+[\w.~+/=-]+|[\w.+-]+@[\w.-]+\.\w+|[a-z_-]*[0-9][\w-]{15,}|\b\d{9,}\b|\b(?:\d{1,3}\.){3}\d{1,3}\b`)

// Redactor makes refusals fit to be looked at by people who write rules.
type Redactor struct{ known map[string]bool }

// Redactor returns one that leaves the words of the classifier's rules alone.
func (c *Classifier) Redactor() *Redactor {
	known := map[string]bool{}
	add := func(list []phrase) {
		for i := range list {
			for _, part := range list[i].parts {
				for word := range strings.FieldsSeq(string(part)) {
					known[word] = true
				}
			}
		}
	}
	for i := range c.tables {
		for j := range c.tables[i].rules {
			r := &c.tables[i].rules[j]
			add(r.words)
			add(r.and)
			add(r.unless)
		}
	}
	for word := range strings.FieldsSeq("the for and not you your this that with from has have are was can could would will please error code type message status model request response") {
		known[word] = true
	}
	return &Redactor{known}
}

// Redact returns at most MaxKept bytes of a refusal's body in which nothing of
// the request is quoted and nothing looks like a key, an address or an id: stars
// stand for what was. A body that is no text gives "".
func (r *Redactor) Redact(body, request []byte) string {
	text := bytes.ToValidUTF8(body[:min(len(body), MaxKept)], nil)
	if bytes.IndexFunc(text, func(c rune) bool { return unicode.IsControl(c) && !unicode.IsSpace(c) }) >= 0 {
		return ""
	}
	hidden := make([]bool, len(text))
	hide := func(from, to int) {
		for i := from; i < to; i++ {
			hidden[i] = true
		}
	}
	for _, at := range secretText.FindAllIndex(text, -1) {
		hide(at[0], at[1])
	}
	if len(request) > 0 {
		asked := letters(request)
		r.hideRuns(text, asked, hide)
		r.hideWords(text, asked, hide)
	}
	var out strings.Builder
	for i := range len(text) {
		switch {
		case !hidden[i]:
			out.WriteByte(text[i])
		case i == 0 || !hidden[i-1]:
			out.WriteByte('*')
		}
	}
	return strings.ToValidUTF8(out.String(), "")
}

// plain is the letters and digits of a text, whatever stands between them and
// however they are escaped, and where in the text each byte of them comes from.
type plain struct {
	text []byte
	at   []int
}

func letters(text []byte) plain {
	p := plain{make([]byte, 0, len(text)), make([]int, 0, len(text))}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == '\\' && i+1 < len(text) {
			var rest []byte
			r, rest = unescapeOne(text[i:])
			size = len(text) - i - len(rest)
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n := len(p.text)
			p.text = utf8.AppendRune(p.text, unicode.ToLower(r))
			for range len(p.text) - n {
				p.at = append(p.at, i)
			}
		}
		i += size
	}
	return p
}

// hideRuns hides what of text stands in the request as it is.
func (r *Redactor) hideRuns(text []byte, asked plain, hide func(from, to int)) {
	told := letters(text)
	for _, size := range [...]int{quotedOther, quotedLatin} {
		windows := map[string][]int{}
		for i := 0; i+size <= len(told.text); i++ {
			w := told.text[i : i+size]
			if size == quotedLatin || bytes.IndexFunc(w, func(c rune) bool { return c < utf8.RuneSelf }) < 0 {
				windows[string(w)] = append(windows[string(w)], i)
			}
		}
		for i := 0; len(windows) > 0 && i+size <= len(asked.text); i++ {
			w := string(asked.text[i : i+size])
			for _, at := range windows[w] {
				end := len(text)
				if at+size < len(told.at) {
					end = told.at[at+size]
				}
				hide(told.at[at], end)
			}
			delete(windows, w)
		}
	}
}

// hideWords hides the words of text that the request has and no rule knows.
func (r *Redactor) hideWords(text []byte, asked plain, hide func(from, to int)) {
	for i := 0; i < len(text); {
		n := 0
		for i+n < len(text) {
			c, size := utf8.DecodeRune(text[i+n:])
			if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
				break
			}
			n += size
		}
		if n == 0 {
			_, n = utf8.DecodeRune(text[i:])
			i += n
			continue
		}
		word := bytes.ToLower(text[i : i+n])
		if n >= 3 && !r.knows(word) && bytes.Contains(asked.text, word) {
			hide(i, i+n)
		}
		i += n
	}
}

// knows reports whether a rule's phrase has a word that begins so, or is a code
// in hexadecimal digits of one byte.
func (r *Redactor) knows(word []byte) bool {
	if r.known[string(word)] {
		return true
	}
	for n := len(word) - 1; n >= max(4, len(word)-4); n-- { // phrases have stems: throttl
		if r.known[string(word[:n])] {
			return true
		}
	}
	_, err := hex.DecodeString(string(word))
	return err == nil && len(word) <= 4
}
