package workload

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/sim/draw"
	"weir/sim/incident"
)

// Row is one recorded arrival.
type Row struct {
	At            int64 // ns since the first row
	Input, Output int64 // tokens
}

// Trace is recorded arrivals in order of time.
type Trace []Row

// maxRows bounds a trace; a row takes 24 bytes.
const maxRows = 5_000_000

// coarsest is how far rows with the same time stamp are spread at most: some
// traces are rounded to three seconds.
const coarsest = 3 * int64(time.Second)

// ReadTrace reads a trace as CSV with a header line. It knows the columns of
// public traces: a time (TIMESTAMP as date and time, timestamp_ms, or
// timestamp_s or at_s as seconds), input tokens (ContextTokens, input_length,
// input_tokens) and output tokens (GeneratedTokens, output_length,
// output_tokens), in any letter case and order, among others. Rows that share
// a time stamp are spread evenly up to the next one, at most three seconds:
// they come from a rounded clock, and a burst of them never happened.
func ReadTrace(name string, r io.Reader) (Trace, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	header, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("read header of trace %s: %w", name, err)
	}
	columns, err := findColumns(header)
	if err != nil {
		return nil, fmt.Errorf("read header of trace %s: %w", name, err)
	}
	var t Trace
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read trace %s: %w", name, err)
		}
		row, err := columns.row(record)
		if err != nil {
			line, _ := in.FieldPos(0)
			return nil, fmt.Errorf("read trace %s:%d: %w", name, line, err)
		}
		if len(t) == maxRows {
			return nil, fmt.Errorf("read trace %s: more than %d rows", name, maxRows)
		}
		t = append(t, row)
	}
	if len(t) == 0 {
		return nil, fmt.Errorf("read trace %s: no rows", name)
	}
	t.normalise()
	return t, nil
}

// columns says where a record's fields are and how its time is written.
type columns struct {
	at, input, output int
	unit              int64 // ns per unit of time; 0 for date and time
}

func findColumns(header []string) (columns, error) {
	c := columns{-1, -1, -1, 0}
	for i, name := range header {
		switch strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))) {
		case "timestamp":
			c.at, c.unit = i, 0
		case "timestamp_ms":
			c.at, c.unit = i, int64(time.Millisecond)
		case "timestamp_s", "at_s":
			c.at, c.unit = i, int64(time.Second)
		case "contexttokens", "input_length", "input_tokens":
			c.input = i
		case "generatedtokens", "output_length", "output_tokens":
			c.output = i
		}
	}
	if c.at < 0 || c.input < 0 || c.output < 0 {
		return c, errors.New("needs columns for time, input tokens and output tokens, such as at_s,input_tokens,output_tokens")
	}
	return c, nil
}

// The instants of year 1 to 9999 do not fit nanoseconds; these do, by far.
const maxSeconds = 4_000_000_000

func (c columns) row(record []string) (Row, error) {
	at, err := c.instant(strings.TrimSpace(record[c.at]))
	if err != nil {
		return Row{}, err
	}
	input, err := tokens(record[c.input])
	if err != nil {
		return Row{}, err
	}
	output, err := tokens(record[c.output])
	return Row{at, input, output}, err
}

func (c columns) instant(s string) (int64, error) {
	if c.unit == 0 {
		for _, layout := range []string{time.DateTime, time.RFC3339} {
			if t, err := time.Parse(layout, s); err == nil && t.Unix() > -maxSeconds && t.Unix() < maxSeconds {
				return t.UnixNano(), nil
			}
		}
		return 0, fmt.Errorf("%.40q is no date and time", s)
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.Abs(v*float64(c.unit)) > maxSeconds*1e9 {
		return 0, fmt.Errorf("%.40q is no time", s)
	}
	return int64(math.Round(v * float64(c.unit))), nil
}

func tokens(s string) (int64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || v < 0 || v > 100_000_000 {
		return 0, fmt.Errorf("%.40q is no number of tokens", s)
	}
	return int64(v), nil
}

// normalise sorts by time, counts from the first row and spreads rows that
// share a time stamp.
func (t Trace) normalise() {
	slices.SortStableFunc(t, func(a, b Row) int { return cmp.Compare(a.At, b.At) })
	first := t[0].At
	for i := range t {
		t[i].At -= first
	}
	for i := 0; i < len(t); {
		end := i + 1
		for end < len(t) && t[end].At == t[i].At {
			end++
		}
		room := coarsest
		if end < len(t) {
			room = min(room, t[end].At-t[i].At)
		}
		at, n := t[i].At, int64(end-i)
		for k := i; k < end; k++ {
			t[k].At = at + room/n*int64(k-i)
		}
		i = end
	}
}

// length is the time of the trace including the mean gap after its last row.
func (t Trace) length() int64 {
	last := t[len(t)-1].At
	return last + max(1, last/max(1, int64(len(t))-1))
}

// traceStream starts one copy of a trace. The first is the trace as it was;
// each other one is a further client population, the same trace turned by a
// random part of its length, so that bursts do not coincide.
func (g *Generator) traceStream(workload int, c, start int64) stream {
	t := g.traces[g.incident.Workloads[workload].Arrivals.File]
	s := stream{workload: workload, agent: anyAgent, key: uint64(c), rows: len(t), shift: start}
	if c > 0 {
		turn := g.seed.Below(t.length(), draw.TraceTurn, g.entity(&s), 0)
		s.row, _ = slices.BinarySearchFunc(t, turn, func(r Row, at int64) int { return cmp.Compare(r.At, at) })
		s.shift -= turn
		if s.row == len(t) {
			s.row = 0
			s.shift += t.length()
		}
	}
	s.at = s.shift + t[s.row].At
	return s
}

// advanceTrace goes to the next row, around the end once.
func (s *stream) advanceTrace(t Trace) {
	s.n++
	s.row++
	if s.rows--; s.rows == 0 {
		s.at = Never
		return
	}
	if s.row == len(t) {
		s.row = 0
		s.shift += t.length()
	}
	s.at = s.shift + t[s.row].At
}

// thinned reports whether the scale leaves this row of the last copy out.
func (s *stream) thinned(g *Generator) bool {
	a := &g.incident.Workloads[s.workload].Arrivals
	if a.Kind != incident.ArriveTrace {
		return false
	}
	share := a.Scale - int64(s.key)*incident.PPM
	return share < incident.PPM && g.seed.Below(incident.PPM, draw.TraceThin, g.entity(s), s.n) >= share
}
