package classify

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"

	"weir/model"
)

// MaxBody is how much of a body is looked at; callers need not keep more of a
// refusal's.
const MaxBody = 1 << 20

// tailSize is how much of the end of a longer body is kept for its usage.
const tailSize = 16 << 10

// form is what a body turned out to be, whatever its header says.
type form uint8

const (
	formEmpty form = iota
	formJSON
	formEvents // server-sent events
	formPage   // HTML or XML
	formText
)

// inflate undoes compression, declared or not, up to MaxBody bytes. It reports
// false for one that is not known here.
func inflate(h http.Header, b []byte) ([]byte, bool) {
	encoding := header(h, "Content-Encoding")
	var r io.Reader
	var err error
	switch {
	case len(b) > 2 && b[0] == 0x1f && b[1] == 0x8b:
		r, err = gzip.NewReader(bytes.NewReader(b))
	case len(b) > 2 && b[0] == 0x78 && (int(b[0])<<8|int(b[1]))%31 == 0:
		r, err = zlib.NewReader(bytes.NewReader(b))
	case strings.Contains(encoding, "deflate") && sniff(b) == formText:
		r = flate.NewReader(bytes.NewReader(b))
	case encoding != "" && encoding != "identity" && sniff(b) == formText:
		return nil, false
	default:
		return b, true
	}
	if err != nil {
		return nil, true // broken from the start: as good as empty
	}
	plain, _ := io.ReadAll(io.LimitReader(r, MaxBody))
	return plain, true // what came before a broken end still counts
}

// compressed reports whether a body is, by its header or its first bytes.
func compressed(h http.Header, b []byte) bool {
	encoding := header(h, "Content-Encoding")
	return encoding != "" && encoding != "identity" || bytes.HasPrefix(b, []byte{0x1f, 0x8b})
}

// sniff tells a body's form by its first bytes.
func sniff(b []byte) form {
	b = lead(b[:min(len(b), 64<<10)])
	if len(b) == 0 {
		return formEmpty
	}
	switch b[0] {
	case '{', '[', '"':
		return formJSON
	case '<':
		return formPage
	}
	switch string(bytes.TrimSpace(b[:min(len(b), 8)])) {
	case "null":
		return formEmpty
	case "true", "false":
		return formJSON
	}
	for _, field := range [...]string{"data:", "event:", "id:", "retry:", "error: {", ":"} {
		if bytes.HasPrefix(b, []byte(field)) {
			return formEvents
		}
	}
	return formText
}

// judgeBody judges an answer whose status promises success. lines allows more
// than one JSON text.
func (c *Classifier) judgeBody(a *Answer, lines bool) Verdict {
	body, readable := inflate(a.Header, a.Body)
	if !readable {
		if a.TransportError != "" {
			return c.accept(a, law(model.ClassTransport, "broken-off"), Usage{})
		}
		return c.accept(a, law(model.ClassOK, "unread-body"), Usage{})
	}
	switch sniff(body) {
	case formJSON:
		return c.judgeJSON(a, lead(body), lines)
	case formEvents:
		if !lines {
			return c.accept(a, law(model.ClassTransport, "empty-stream"), Usage{})
		}
		return c.judgeStream(a, body)
	case formEmpty:
		if (a.Status == 204 || a.Status == 205) && a.TransportError == "" {
			return c.accept(a, law(model.ClassOK, "no-content"), Usage{})
		}
		return c.accept(a, law(model.ClassTransport, "empty-body"), Usage{})
	case formPage:
		return c.accept(a, law(model.ClassTransport, "page-for-answer"), Usage{})
	case formText:
	}
	return c.judgeText(a)
}

// judgeText judges a body that is no form of JSON: a recording or a
// transcript is an answer, where JSON was promised it is none.
func (c *Classifier) judgeText(a *Answer) Verdict {
	kind := header(a.Header, "Content-Type")
	if a.TransportError != "" || kind == "" || strings.Contains(kind, "json") || strings.Contains(kind, "event-stream") {
		return c.accept(a, law(model.ClassTransport, "not-json"), Usage{})
	}
	return c.accept(a, law(model.ClassOK, "other-media"), Usage{})
}

// judgeStream judges a stream that came as a whole.
func (c *Classifier) judgeStream(a *Answer, body []byte) Verdict {
	s := c.Stream(*a)
	_, _ = s.Write(body) // never fails
	return s.Close(a.Now, a.TransportError)
}

// judgeJSON judges a JSON body of an answer whose status promises success.
func (c *Classifier) judgeJSON(a *Answer, body []byte, lines bool) Verdict {
	var f facts
	f.reset()
	rest, whole := f.readBody(body)
	if lines && whole && len(lead(rest)) > 0 {
		return c.judgeStream(a, body)
	}
	return c.judgeFacts(a, &f, whole)
}

// judgeFacts is the second half of judgeJSON.
func (c *Classifier) judgeFacts(a *Answer, f *facts, whole bool) Verdict {
	if f.refused() || failedEnd(f.finish) {
		v, _ := c.failure(a, f, true)
		return v
	}
	switch {
	case !whole && a.TransportError != "":
		return c.accept(a, law(model.ClassTransport, "broken-off"), f.usage)
	case !whole:
		return c.accept(a, law(model.ClassTransport, "truncated-body"), f.usage)
	case f.undone && !f.done && f.finish == "":
		return c.accept(a, law(model.ClassTransport, "truncated-stream"), f.usage)
	case f.answer || f.usage.Known:
		return c.accept(a, law(model.ClassOK, "answer"), f.usage)
	case f.hollow && !f.zero:
		return c.accept(a, law(model.ClassTransport, "no-choice"), f.usage)
	case len(f.text) > 0 && !f.zero:
		if v, ok := c.failure(a, f, false); ok {
			return v
		}
	}
	if a.Stream { // neither an answer nor the beginning of one
		return c.accept(a, law(model.ClassTransport, "no-choice"), f.usage)
	}
	return c.accept(a, law(model.ClassOK, "json"), f.usage)
}

// failedEnd reports whether a finish reason stands for a failure.
func failedEnd(reason string) bool {
	switch reason {
	case "", "stop", "STOP", "length", "tool_calls", "end_turn", "max_tokens", "content_filter":
		return false
	}
	reason = strings.ToLower(reason)
	for _, word := range [...]string{"error", "insufficient", "overload", "unavailable", "fail", "abort"} {
		if strings.Contains(reason, word) {
			return true
		}
	}
	return false
}

// accept completes a verdict that needs no table with what the header tells.
func (c *Classifier) accept(a *Answer, v Verdict, u Usage) Verdict {
	v.Usage = u
	if v.Class == model.ClassTransport {
		return v
	}
	for _, l := range headerLimits(a.Header, nil, a.Now) {
		v.Hints = append(v.Hints, l.hint)
	}
	return v
}

// judgeRefusal judges an answer whose status is none of success.
func (c *Classifier) judgeRefusal(a *Answer) Verdict {
	var f facts
	f.reset()
	body, readable := inflate(a.Header, a.Body)
	if readable {
		f.readRefusal(body)
	}
	v, _ := c.failure(a, &f, true)
	return v
}

// readRefusal reads an error body of any form.
func (f *facts) readRefusal(body []byte) {
	body = body[:min(len(body), MaxBody)]
	switch sniff(body) {
	case formJSON:
		rest := lead(body)
		for lines := 0; len(rest) > 0 && lines < 16; lines++ {
			rest, _ = f.read(rest, true)
			rest = lead(rest)
		}
		if len(f.text) == 0 { // an envelope of unknown members says something too
			f.addText(body[:min(len(body), maxPiece)])
		}
	case formEvents:
		for line := range bytes.Lines(lead(body)) {
			data, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:"))
			if !ok {
				continue
			}
			if sniff(data) == formJSON {
				f.read(lead(data), true)
			} else {
				f.addText(data)
			}
		}
	case formPage:
		f.addText(bytes.Join(bytes.Fields(plainText(nil, body, maxPiece)), []byte(" ")))
	case formText:
		f.addText(body[:min(len(body), maxPiece)])
	case formEmpty:
	}
}

// readBody reads the JSON body of an answer, of any length: of a very long one
// the head, and the usage and the end in its tail. whole reports whether it is
// complete as far as can be seen.
func (f *facts) readBody(body []byte) (rest []byte, whole bool) {
	if len(body) <= MaxBody {
		return f.read(body, false)
	}
	return nil, f.readParts(body[:MaxBody], body[len(body)-tailSize:])
}

// readParts reads a body of which the middle is missing.
func (f *facts) readParts(head, tail []byte) (whole bool) {
	f.read(head, false)
	f.readTail(tail)
	tail = bytes.TrimRight(tail, " \t\r\n")
	return len(tail) > 0 && (tail[len(tail)-1] == '}' || tail[len(tail)-1] == ']')
}

// readTail looks for usage in the end of a long text.
func (f *facts) readTail(tail []byte) {
	for _, key := range [...]string{`"usage"`, `"usageMetadata"`} {
		at := bytes.LastIndex(tail, []byte(key))
		if at < 0 {
			continue
		}
		w := walker{lexer: lexer{b: tail[at+len(key):]}, f: f}
		if w.peek() == ':' {
			w.i++
			if w.peek() == '{' {
				w.usage()
			}
		}
	}
}
