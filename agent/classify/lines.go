package classify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxLine bounds one line of input to Lines.
const maxLine = 32 << 20

// record is one line of input. Unknown members are ignored.
type record struct {
	ID             json.RawMessage            `json:"id"`
	Provider       string                     `json:"provider"`
	Status         int                        `json:"http_status"`
	Headers        map[string]json.RawMessage `json:"headers"`
	Body           string                     `json:"body"`
	Events         []string                   `json:"sse"`
	Stream         bool                       `json:"stream"`
	TransportError string                     `json:"transport_error"`
	Now            string                     `json:"now"`
}

// result is one line of output.
type result struct {
	ID         json.RawMessage `json:"id"`
	Class      string          `json:"class"`
	Retryable  bool            `json:"retryable"`
	RetryAfter *float64        `json:"retry_after_s"`
	Dimension  *string         `json:"dimension"`
	Limit      *int64          `json:"limit"`
	Remaining  *int64          `json:"remaining"`
	Scope      string          `json:"scope"`
	Code       *string         `json:"code"`
	Rule       string          `json:"rule"`
}

// Lines judges answers that stand in r as JSON objects, one a line, and writes
// a verdict a line to w in the same order. A line that is no such object is
// named on errw with its number and left out; bad counts them. err is trouble
// with r or w.
func Lines(r io.Reader, w, errw io.Writer, c *Classifier) (bad int, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	out := bufio.NewWriter(w)
	defer func() { err = errors.Join(err, out.Flush()) }()
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for number := 1; ; number++ {
		line, long, readErr := readLine(in)
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return bad, fmt.Errorf("read line %d: %w", number, readErr)
		}
		if len(bytes.TrimSpace(line)) > 0 || long {
			res, lineErr := judgeLine(line, long, c)
			if lineErr != nil {
				bad++
				if _, err := fmt.Fprintf(errw, "line %d: %s\n", number, lineErr); err != nil {
					return bad, fmt.Errorf("report line %d: %w", number, err)
				}
			} else if err := enc.Encode(res); err != nil {
				return bad, fmt.Errorf("write line %d: %w", number, err)
			}
		}
		if readErr != nil {
			return bad, nil
		}
	}
}

// Unknown copies those lines of r to w whose refusal no rule knows, as Lines
// reads them; lines that are none are left out.
func Unknown(r io.Reader, w io.Writer, c *Classifier) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, long, err := readLine(in)
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return fmt.Errorf("read unknown refusals: %w", err)
		}
		if a, _, err := parseLine(line); err == nil && !long {
			if v := c.Classify(a); v.Unknown() {
				if _, err := fmt.Fprintf(w, "%s\n", bytes.TrimRight(line, "\r\n")); err != nil {
					return fmt.Errorf("write unknown refusals: %w", err)
				}
			}
		}
		if last {
			return nil
		}
	}
}

// readLine reads a line; of one that is too long the rest is dropped.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			long = true
		} else if !long {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

func judgeLine(line []byte, long bool, c *Classifier) (*result, error) {
	if long {
		return nil, fmt.Errorf("longer than %d bytes", maxLine)
	}
	a, id, err := parseLine(line)
	if err != nil {
		return nil, err
	}
	v := c.Classify(a)
	return v.result(id), nil
}

func parseLine(line []byte) (Answer, json.RawMessage, error) {
	var rec record
	if err := json.Unmarshal(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")), &rec); err != nil {
		return Answer{}, nil, fmt.Errorf("parse answer: %w", err)
	}
	a := Answer{
		Provider: rec.Provider, Status: rec.Status, Header: make(http.Header, len(rec.Headers)),
		Body: []byte(rec.Body), Stream: rec.Stream, TransportError: rec.TransportError,
	}
	if len(rec.Events) > 0 {
		a.Body = []byte(strings.Join(rec.Events, ""))
	}
	for name, raw := range rec.Headers {
		for _, value := range headerValues(raw) {
			a.Header.Add(name, value)
		}
	}
	if rec.Now != "" {
		var err error
		if a.Now, err = time.Parse(time.RFC3339, rec.Now); err != nil {
			return Answer{}, nil, fmt.Errorf("parse now: %w", err)
		}
	}
	return a, rec.ID, nil
}

// headerValues reads a field's value: text, a number, or a list of them.
func headerValues(raw json.RawMessage) []string {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	var values []string
	for _, one := range list {
		var s string
		if json.Unmarshal(one, &s) != nil {
			s = string(one)
		}
		values = append(values, s)
	}
	return values
}

func (v *Verdict) result(id json.RawMessage) *result {
	r := &result{ID: id, Class: v.Class.String(), Retryable: v.Retryable(), Scope: v.Scope.String(), Rule: v.Rule}
	if len(id) == 0 {
		r.ID = json.RawMessage("null")
	}
	if v.RetryAfter >= 0 {
		s := v.RetryAfter.Duration().Seconds()
		r.RetryAfter = &s
	}
	if d := v.Dimension.String(); d != "" {
		r.Dimension = &d
	}
	if v.Limit >= 0 {
		r.Limit = &v.Limit
	}
	if v.Remaining >= 0 {
		r.Remaining = &v.Remaining
	}
	if v.Code != "" {
		r.Code = &v.Code
	}
	return r
}
