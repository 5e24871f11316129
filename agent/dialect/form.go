package dialect

import (
	"bytes"
	"errors"
	"mime"
	"strings"
)

// Bounds of a form: of how many parts the fields are looked at, and how long
// the header of one may be, in bytes.
const (
	maxParts      = 256
	maxPartHeader = 4 << 10
)

// ErrNotForm says that the body is not the form that its content type
// promises; it is the caller's mistake.
var ErrNotForm = errors.New("the request body is not multipart/form-data with the boundary it names")

// readForm reads a body of type multipart/form-data. Of a file only the
// length matters: it costs what a picture does.
func readForm(raw []byte, boundary string) (*Body, error) {
	delimiter := []byte("--" + boundary)
	if boundary == "" || !bytes.HasPrefix(raw, delimiter) {
		return nil, ErrNotForm
	}
	b := &Body{raw: raw, form: true}
	seen, ended := false, false
	at := len(delimiter)
	for n := 0; n < maxParts && !ended; n++ {
		if bytes.HasPrefix(raw[at:], []byte("--")) {
			ended = true
			break
		}
		end := bytes.Index(raw[at:], append([]byte("\r\n"), delimiter...))
		if end < 0 {
			return nil, ErrNotForm
		}
		end += at
		header, start := partHeader(raw, at, end)
		named, err := b.readPart(header, start, end)
		if err != nil {
			return nil, err
		}
		seen = seen || named
		at = end + 2 + len(delimiter)
	}
	if !ended {
		return nil, ErrNotForm
	}
	b.Input = max(1, b.Input)
	if seen && b.Model == "" {
		return nil, ErrNoModel
	}
	return b, nil
}

// partHeader returns the header of the part in raw[at:end] and where its
// content starts.
func partHeader(raw []byte, at, end int) (header []byte, start int) {
	size := bytes.Index(raw[at:end], []byte("\r\n\r\n"))
	if size < 0 || size > maxPartHeader {
		return nil, end
	}
	return raw[at : at+size], at + size + 4
}

// readPart takes one part; named reports that it is the model.
func (b *Body) readPart(header []byte, start, end int) (named bool, err error) {
	name, file := partName(header)
	v := b.raw[start:end]
	switch {
	case file:
		b.Input += binaryTokens
		return false, nil
	case name == "model":
		if len(v) > maxModel || bytes.ContainsAny(v, "\r\n") {
			return true, ErrNoModel
		}
		b.Model = string(v)
		b.models = append(b.models, member{start: start, end: end})
		return true, nil
	case name == "stream":
		b.Stream = string(v) == "true"
	}
	b.Input += Estimate(v)
	return false, nil
}

// partName returns a part's field, and whether it is a file.
func partName(header []byte) (name string, file bool) {
	for line := range bytes.SplitSeq(header, []byte("\r\n")) {
		key, value, ok := strings.Cut(string(line), ":")
		if !ok || !strings.EqualFold(strings.TrimSpace(key), "Content-Disposition") {
			continue
		}
		if _, params, err := mime.ParseMediaType(value); err == nil {
			_, file = params["filename"]
			return params["name"], file
		}
	}
	return "", false
}
