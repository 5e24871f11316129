package classify

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"weir/model"
)

// Bounds of a Stream: a frame is judged by its first headSize bytes and the
// usage in its last, whatever its length.
const headSize = 32 << 10

// window keeps the head and the tail of a text of any length.
type window struct {
	head, tail []byte
	long       bool // something in between is missing
}

func (w *window) reset() {
	w.head, w.tail, w.long = w.head[:0], w.tail[:0], false
}

func (w *window) add(p []byte) {
	if room := headSize - len(w.head); room > 0 {
		n := min(room, len(p))
		w.head = append(w.head, p[:n]...)
		p = p[n:]
	}
	if len(p) == 0 {
		return
	}
	w.long = true
	if len(p) >= tailSize {
		w.tail = append(w.tail[:0], p[len(p)-tailSize:]...)
		return
	}
	if len(w.tail)+len(p) > 2*tailSize {
		n := copy(w.tail, w.tail[len(w.tail)-tailSize:])
		w.tail = w.tail[:n]
	}
	w.tail = append(w.tail, p...)
}

// join adds a text of which the middle may be missing.
func (w *window) join(head []byte, rest *window) {
	w.add(head)
	if rest != nil && rest.long {
		w.long = true
		w.tail = append(w.tail[:0], rest.end()...)
	}
}

// end returns the tail as far as it is kept.
func (w *window) end() []byte {
	return w.tail[max(0, len(w.tail)-tailSize):]
}

// Stream judges an answer while its body passes: server-sent events, one JSON
// text a line, or a plain body. It keeps less than 256 KiB, whatever comes, and
// belongs to one goroutine.
type Stream struct {
	c *Classifier
	a Answer

	form  form
	begun bool
	lines bool // JSON texts, one a line
	whole bool // one body, no lines

	line  window // what came of an unfinished line
	frame window // data of the event that is being read
	data  bool   // it has data
	raw   bool   // it is bare JSON over several lines
	event string // its name
	body  window // a body that is no stream, and the first line of one

	frames int // with data, end marks left out
	status int // quoted in a comment
	f      facts
	fault  facts // of the frame that told a failure
	usage  Usage

	content, terminal, failed bool
}

// Stream returns a judge for the body of a, of which all but Body is known.
func (c *Classifier) Stream(a Answer) *Stream {
	s := &Stream{c: c, a: a}
	s.a.Body = nil
	s.f.reset()
	return s
}

// Content reports whether output of the model has been seen: text, a tool
// call, reasoning. Of a body that is no stream this is known only at its end,
// or once it is too long to be an error.
func (s *Stream) Content() bool { return s.content || s.body.long && s.a.Status < 300 }

// Terminal reports whether the answer's regular end has been seen.
func (s *Stream) Terminal() bool { return s.terminal }

// Failed reports whether an event has told a failure before the regular end;
// Failure says which.
func (s *Stream) Failed() bool { return s.failed }

// Usage returns the tokens that the events so far say were used.
func (s *Stream) Usage() Usage { return s.usage }

// Failure returns the verdict of the event that told a failure; ok is false
// when none did.
func (s *Stream) Failure(now time.Time) (v Verdict, ok bool) {
	if !s.failed {
		return Verdict{}, false
	}
	s.a.Now = now
	v, _ = s.c.failure(&s.a, &s.fault, true)
	v.Usage = s.usage
	return v, true
}

// Write takes the next bytes of the body. It never fails.
func (s *Stream) Write(p []byte) (int, error) {
	n := len(p)
	if !s.begun {
		s.body.add(p)
		p = s.begin()
	}
	for len(p) > 0 {
		switch {
		case s.form == formJSON && !s.lines && !s.whole:
			p = s.firstLine(p)
		case s.form == formEvents || s.lines:
			p = s.nextLine(p)
		default:
			s.body.add(p)
			p = nil
		}
	}
	return n, nil
}

// begin decides what the body is once enough of it came, and returns what is
// to be read again then. Blank lines before it keep the connection alive.
func (s *Stream) begin() []byte {
	b := lead(s.body.head)
	if len(b) == 0 {
		s.body.reset()
		return nil
	}
	if len(b) < len("error: {") && bytes.IndexByte(b, '\n') < 0 {
		return nil
	}
	s.begun = true
	s.whole = s.a.Status >= 300 || s.a.Status < 200
	if !s.whole {
		s.form = sniff(b)
	}
	if s.form != formEvents && s.form != formJSON {
		return nil
	}
	p := bytes.Clone(b)
	s.body.reset()
	return p
}

// firstLine takes the rest of a JSON body's first line, which tells whether
// more lines of JSON follow.
func (s *Stream) firstLine(p []byte) []byte {
	at := bytes.IndexByte(p, '\n')
	if at < 0 {
		s.body.add(p)
		return nil
	}
	s.body.add(p[:at+1])
	s.f.reset()
	if _, complete := s.f.read(s.body.head, false); complete && !s.body.long {
		s.lines = true
		s.take(s.body.head, nil)
	} else {
		s.whole = true
	}
	return p[at+1:]
}

// nextLine takes bytes up to the end of a line.
func (s *Stream) nextLine(p []byte) []byte {
	line, rest, ended := bytes.Cut(p, []byte{'\n'})
	if !ended {
		s.line.add(p)
		return nil
	}
	if len(s.line.head) == 0 {
		s.takeLine(line, nil)
	} else {
		s.line.add(line)
		s.takeLine(s.line.head, &s.line)
		s.line.reset()
	}
	return rest
}

// takeLine takes one line; rest has its tail if it is too long.
func (s *Stream) takeLine(line []byte, rest *window) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	switch {
	case s.lines:
		s.take(line, rest)
		return
	case len(line) == 0:
		s.dispatch()
		return
	case line[0] == '{': // an error may come as bare JSON after the events
		s.dispatch()
		s.raw = true
	}
	if s.raw {
		s.addData(line, rest)
		if line[len(line)-1] == '}' && (line[0] == '{' || line[0] == '}') {
			s.dispatch()
		}
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		s.addData(value, rest)
	case "event":
		s.event = string(value[:min(len(value), 64)])
	case "error":
		s.event = "error"
		s.addData(value, rest)
	case "":
		if code, ok := bytes.CutPrefix(value, []byte("HTTP_STATUS/")); ok {
			s.status, _ = strconv.Atoi(string(code[:min(len(code), 3)]))
		}
	}
}

// addData adds a line to the data of the event that is being read.
func (s *Stream) addData(value []byte, rest *window) {
	if s.data {
		s.frame.add([]byte("\n"))
	}
	s.frame.join(value, rest)
	s.data = true
}

// dispatch ends the event that is being read.
func (s *Stream) dispatch() {
	if s.data {
		s.take(s.frame.head, &s.frame)
		s.frame.reset()
	}
	s.data, s.raw, s.event = false, false, ""
}

// take judges one frame; rest has its tail if it is too long.
func (s *Stream) take(data []byte, rest *window) {
	data = lead(data)
	if len(data) == 0 {
		return
	}
	if bytes.HasPrefix(bytes.TrimPrefix(data, []byte{'"'}), []byte("[DONE]")) {
		s.terminal = s.terminal || s.frames > 0 && !s.failed
		return
	}
	if s.frames++; s.frames == 2 && s.lines {
		s.body = window{}
	}
	s.f.reset()
	whole := true
	if data[0] == '{' || data[0] == '[' {
		_, whole = s.f.read(data, false)
		if rest != nil && rest.long {
			s.f.readTail(rest.end())
			whole = true // as far as can be seen
		}
	} else if s.event == "error" {
		s.f.addText(data[:min(len(data), maxPiece)])
	}
	s.usage.merge(s.f.usage)
	if s.terminal || s.failed {
		return // what follows an end changes nothing but the usage
	}
	s.content = s.content || s.f.content
	if s.f.refused() || s.event == "error" || failsStream(s.f.kind) || failsStream(s.event) || failedEnd(s.f.finish) {
		s.fault, s.f = s.f, s.fault
		if s.fault.status == 0 && s.status >= 400 {
			s.fault.status = s.status
		}
		s.failed = true
		return
	}
	s.terminal = whole && (s.f.finish != "" || s.f.done || endsStream(s.f.kind) || endsStream(s.event)) // an end that broke off is none
}

// endsStream reports whether an event of that type is the regular end.
func endsStream(kind string) bool {
	switch kind {
	case "message_stop", "response.completed", "response.incomplete", "response.done", "message-end", "message_end", "stream-end", "conversation.chat.completed", "task-finished", "done", "end", "complete", "completed", "finished":
		return true
	}
	return false
}

// failsStream reports whether an event of that type says that the whole answer
// failed; what is "response.x.failed" is a part of it, as a tool's call.
func failsStream(kind string) bool {
	part, ok := strings.CutSuffix(kind, "failed")
	return ok && part != "" && (part == "response." || !strings.HasPrefix(part, "response."))
}

// Close judges the answer after its last byte. transportError says what broke
// the body off, empty if it ended by itself.
func (s *Stream) Close(now time.Time, transportError string) Verdict {
	s.a.Now, s.a.TransportError = now, transportError
	if !s.begun || s.form != formEvents && !s.lines {
		return s.closeBody()
	}
	if len(s.line.head) > 0 { // an end without a line feed
		s.takeLine(s.line.head, &s.line)
		s.line.reset()
	}
	s.dispatch()
	if s.lines && s.frames == 1 {
		return s.closeBody()
	}
	if v, ok := s.Failure(now); ok {
		return v
	}
	switch {
	case s.terminal:
		return s.c.accept(&s.a, law(model.ClassOK, "stream"), s.usage)
	case transportError != "":
		return s.c.accept(&s.a, law(model.ClassTransport, "broken-off"), s.usage)
	case s.frames == 0:
		return s.c.accept(&s.a, law(model.ClassTransport, "empty-stream"), s.usage)
	}
	return s.c.accept(&s.a, law(model.ClassTransport, "truncated-stream"), s.usage)
}

// closeBody judges a body that is no stream.
func (s *Stream) closeBody() Verdict {
	success := s.a.Status >= 200 && s.a.Status < 300
	switch {
	case !s.body.long || !success || s.form == formPage:
		s.a.Body = s.body.head
		return s.c.judgeOne(&s.a)
	case s.form != formJSON && s.a.TransportError == "" && compressed(s.a.Header, s.body.head):
		return s.c.accept(&s.a, law(model.ClassOK, "unread-body"), Usage{})
	case s.form != formJSON:
		return s.c.judgeText(&s.a)
	}
	var f facts
	f.reset()
	whole := f.readParts(s.body.head, s.body.end())
	return s.c.judgeFacts(&s.a, &f, whole)
}
