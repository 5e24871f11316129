package dialect

import (
	"bytes"
	"encoding/json"
)

// MaxFrame is the largest frame of an event stream that is kept together, in
// bytes; a longer one passes in pieces.
const MaxFrame = 64 << 10

// Framer cuts an event stream into frames: the lines up to and including a
// blank one. The zero value is ready.
type Framer struct {
	buf    []byte
	start  int // of what was not yet returned
	seen   int // up to where no end was found
	inside bool
}

// Write takes the next bytes of the stream. It never fails.
func (f *Framer) Write(p []byte) (int, error) {
	if f.start > 0 {
		n := copy(f.buf, f.buf[f.start:])
		f.buf, f.seen, f.start = f.buf[:n], f.seen-f.start, 0
	}
	f.buf = append(f.buf, p...)
	return len(p), nil
}

// Next returns the next frame, or nil when there is none yet. whole is false
// for a piece of a frame longer than MaxFrame. The bytes are valid until the
// next Write.
func (f *Framer) Next() (frame []byte, whole bool) {
	rest := f.buf[f.start:]
	if end := f.end(); end > 0 {
		whole = !f.inside
		f.inside = false
		return f.take(end), whole
	}
	if len(rest) > MaxFrame {
		f.inside = true
		return f.take(len(rest) - 3), false // a blank line is at most four bytes
	}
	return nil, false
}

// Rest returns what stands after the last frame and forgets it: the part of a
// frame whose end never came.
func (f *Framer) Rest() []byte { return f.take(len(f.buf) - f.start) }

func (f *Framer) take(n int) []byte {
	p := f.buf[f.start : f.start+n]
	f.start += n
	f.seen = f.start
	return p
}

// end returns the length of the frame at the start, 0 when it has no end yet.
func (f *Framer) end() int {
	for i := f.seen; i < len(f.buf); i++ {
		if f.buf[i] != '\n' && f.buf[i] != '\r' {
			continue
		}
		n, wait := blank(f.buf[i:])
		if wait {
			f.seen = i
			return 0
		}
		if n > 0 {
			return i + n - f.start
		}
	}
	f.seen = len(f.buf)
	return 0
}

// blank returns the length of an end of line followed by a blank line, 0 when
// b starts otherwise; wait is set when more bytes could make b one. After
// "\r\n\r" it does not wait for the "\n": that is one more blank line.
func blank(b []byte) (n int, wait bool) {
	first := eol(b)
	if first == len(b) {
		return 0, true
	}
	if second := eol(b[first:]); second > 0 {
		return first + second, false
	}
	return 0, false
}

// eol returns the length of the end of line that b starts with.
func eol(b []byte) int {
	switch {
	case len(b) == 0:
		return 0
	case b[0] == '\n':
		return 1
	case b[0] == '\r' && len(b) > 1 && b[1] == '\n':
		return 2
	case b[0] == '\r':
		return 1
	}
	return 0
}

// UsageOnly reports whether a frame is the chunk that a chat stream sends only
// because its usage was asked for: no choices, a usage, and no error.
func UsageOnly(frame []byte) bool {
	if !bytes.Contains(frame, []byte(`"usage"`)) {
		return false
	}
	data, ok := Data(frame)
	if !ok || !json.Valid(data) {
		return false
	}
	choices, usage, fault := false, false, false
	members(data, func(m member) {
		v := data[m.start:m.end]
		switch key(data, m) {
		case "choices":
			choices = v[0] == '[' && space(v, 1) == len(v)-1
		case "usage":
			usage = v[0] == '{'
		case "error", "base_resp":
			fault = fault || v[0] == '{'
		}
	})
	return choices && usage && !fault
}

// Data returns the data of a frame with one data line; ok is false when it
// has none or several.
func Data(frame []byte) (data []byte, ok bool) {
	for len(frame) > 0 {
		line := frame
		if i := bytes.IndexAny(frame, "\r\n"); i >= 0 {
			line, frame = frame[:i], frame[i+1:]
		} else {
			frame = nil
		}
		rest, found := bytes.CutPrefix(line, []byte("data:"))
		if !found {
			continue
		}
		if ok {
			return nil, false
		}
		data, ok = bytes.TrimSpace(rest), true
	}
	return data, ok
}
