package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/agent/classify"
	"weir/events"
	"weir/model"
)

// requestFields are the fields of a request log, in their order. A log with
// times has the instant at which the call was sent besides.
var requestFields = [...]string{
	"request_id", "tenant", "channel", "input_tokens", "output_tokens", "http_status", "error_class", "latency_ms", "attempt", "retryable",
}

const timeField = "timestamp"

// requestLine is one call.
type requestLine struct {
	RequestID    string  `json:"request_id"`
	Tenant       string  `json:"tenant"`
	Channel      string  `json:"channel"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	HTTPStatus   int     `json:"http_status"` // 0 when there was no answer
	ErrorClass   string  `json:"error_class"` // empty for a success
	LatencyMS    float64 `json:"latency_ms"`
	Attempt      int     `json:"attempt"` // from 1
	Retryable    bool    `json:"retryable"`
	Timestamp    string  `json:"timestamp,omitempty"`
}

// lineOf describes an attempt; sent is when it was sent.
func lineOf(channel string, a *model.Attempt, sent model.Nanos, withTime bool) requestLine {
	l := requestLine{
		RequestID: fmt.Sprintf("%016x", a.Request), Tenant: a.Tenant, Channel: channel,
		InputTokens: int64(a.In), OutputTokens: int64(a.Out), HTTPStatus: int(a.Status),
		LatencyMS: math.Round(float64(a.Took)/1e3) / 1e3, Attempt: int(a.Try), Retryable: (&classify.Verdict{Class: a.Class}).Retryable(),
	}
	if a.Class != model.ClassOK {
		l.ErrorClass = a.Class.String()
	}
	if withTime {
		l.Timestamp = time.Unix(0, int64(sent)).UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	return l
}

// csv returns the line's fields in their order.
func (l *requestLine) csv(withTime bool) []string {
	row := []string{
		l.RequestID, l.Tenant, l.Channel, strconv.FormatInt(l.InputTokens, 10), strconv.FormatInt(l.OutputTokens, 10), strconv.Itoa(l.HTTPStatus),
		l.ErrorClass, strconv.FormatFloat(l.LatencyMS, 'f', -1, 64), strconv.Itoa(l.Attempt), strconv.FormatBool(l.Retryable),
	}
	if withTime {
		row = append(row, l.Timestamp)
	}
	return row
}

// requestWriter writes request lines as CSV or as JSON lines.
type requestWriter struct {
	buf   *bufio.Writer
	table *csv.Writer // nil for JSON lines
	lines *json.Encoder
	time  bool
	n     uint64
}

func newRequestWriter(out io.Writer, asCSV, withTime bool) (*requestWriter, error) {
	w := &requestWriter{buf: bufio.NewWriterSize(out, 64<<10), time: withTime}
	if !asCSV {
		w.lines = json.NewEncoder(w.buf)
		w.lines.SetEscapeHTML(false)
		return w, nil
	}
	w.table = csv.NewWriter(w.buf)
	header := requestFields[:]
	if withTime {
		header = append(slices.Clip(header), timeField)
	}
	return w, w.table.Write(header)
}

// write writes one call.
func (w *requestWriter) write(channel string, a *model.Attempt, sent model.Nanos) error {
	w.n++
	l := lineOf(channel, a, sent, w.time)
	if w.table == nil {
		return w.lines.Encode(&l)
	}
	return w.table.Write(l.csv(w.time))
}

func (w *requestWriter) flush() error {
	if w.table != nil {
		w.table.Flush()
		if err := w.table.Error(); err != nil {
			return err
		}
	}
	return w.buf.Flush()
}

// eachCall calls take with every call of a source, each once: what was sent
// again is known by folding. ended is by the log's clock.
func eachCall(ctx context.Context, s *records, take func(channel string, a *model.Attempt, ended model.Nanos) error) (*model.Fleet, error) {
	fleet, err := s.base()
	if err != nil {
		return nil, fmt.Errorf("read the stored snapshot: %w", err)
	}
	var fx model.Effects
	decoder := events.NewDecoder()
	from := fleet.Seq()
	_, err = s.each(ctx, func(e events.Entry) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("record %d leads to an impossible state: %v", e.Seq, p)
			}
		}()
		if e.Seq <= from {
			return nil
		}
		rec, _ := decoder.Record(e) // the fold counts what cannot be read
		before := fleet.Counters().Attempts
		fx.Reset()
		fleet.Apply(rec, &fx)
		report, ok := rec.Fact.(*model.Attempts)
		if !ok || fleet.Counters().Attempts == before {
			return nil
		}
		for i := range report.Attempts {
			a := &report.Attempts[i]
			if int(a.Channel) >= len(report.Channels) {
				continue
			}
			if err := take(report.Channels[a.Channel].Channel, a, rec.Time-min(max(a.Age, 0), model.Hour)); err != nil {
				return err
			}
		}
		return nil
	})
	return fleet, asInput(err)
}

// writeRequests writes the calls of a source that lie within the bounds of
// export.
func (c *exportCommand) writeRequests(ctx context.Context, s *records, out io.Writer) (uint64, error) {
	w, err := newRequestWriter(out, strings.HasSuffix(strings.ToLower(c.File), ".csv"), c.Times)
	if err != nil {
		return 0, err
	}
	inner := *s
	inner.each = func(ctx context.Context, take func(events.Entry) error) (journalTail, error) {
		return s.each(ctx, func(e events.Entry) error {
			if c.To > 0 && e.Seq > c.To || e.Seq < c.From {
				return nil
			}
			return take(e)
		})
	}
	if _, err = eachCall(ctx, &inner, func(channel string, a *model.Attempt, ended model.Nanos) error {
		return w.write(channel, a, ended-min(max(a.Took, 0), 24*model.Hour))
	}); err != nil {
		return w.n, err
	}
	return w.n, w.flush()
}
