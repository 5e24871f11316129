package calibrate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"weir/model"
)

// Bounds of a request log.
const (
	maxLine    = 1 << 20 // bytes of one line; a longer one is broken
	maxBytes   = 8 << 30 // of a whole log, unpacked
	maxDepth   = 6       // of objects within a line
	maxShown   = 20      // broken lines that are listed
	maxColumns = 256
)

// Field is what a column means.
type Field string

// The fields, as --column names them.
const (
	FieldTime    Field = "time"
	FieldEnd     Field = "end"
	FieldLatency Field = "latency"
	FieldRequest Field = "request_id"
	FieldAttempt Field = "attempt"
	FieldChannel Field = "channel"
	FieldTenant  Field = "tenant"
	FieldInput   Field = "input_tokens"
	FieldOutput  Field = "output_tokens"
	FieldStatus  Field = "http_status"
	FieldClass   Field = "error_class"
	FieldRetry   Field = "retry_after"
)

// Fields lists every field in a fixed order.
func Fields() []Field {
	return []Field{
		FieldTime, FieldEnd, FieldLatency, FieldRequest, FieldAttempt, FieldChannel, FieldTenant, FieldInput, FieldOutput,
		FieldStatus, FieldClass, FieldRetry,
	}
}

// known are the names of columns that need no mapping, in order of preference:
// those of weir log export, of LiteLLM's logs, and of OpenTelemetry's GenAI
// spans, by their current and their former names.
func known() map[Field][]string {
	return map[Field][]string{
		FieldTime:    {"timestamp", "time", "starttime", "start_time", "start_time_unix_nano", "starttimeunixnano", "created_at", "ts"},
		FieldEnd:     {"endtime", "end_time", "end_time_unix_nano", "endtimeunixnano"},
		FieldLatency: {"latency_ms", "duration_ms", "request_duration_ms", "response_time", "latency_s", "duration_s", "latency", "duration", "gen_ai.client.operation.duration"},
		FieldRequest: {"request_id", "litellm_call_id", "call_id", "trace_id", "traceid", "id"},
		FieldAttempt: {"attempt", "attempted_retries", "http.request.resend_count"},
		FieldChannel: {"channel", "model_id", "gen_ai.request.model", "gen_ai.response.model", "model", "model_group"},
		FieldTenant:  {"tenant", "team_alias", "team_id", "end_user", "user", "api_key_alias", "user_id", "service.name"},
		FieldInput:   {"input_tokens", "prompt_tokens", "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "usage.prompt_tokens", "usage.input_tokens"},
		FieldOutput:  {"output_tokens", "completion_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "usage.completion_tokens", "usage.output_tokens"},
		FieldStatus:  {"http_status", "http.response.status_code", "http.status_code", "status_code", "error_information.error_code", "metadata.error_information.error_code"},
		FieldClass:   {"error_class", "error.type", "error_information.error_class", "metadata.error_information.error_class", "exception_class", "status"},
		FieldRetry:   {"retry_after_s", "retry_after", "retry_after_ms"},
	}
}

// ReadOptions say how a request log is to be understood.
type ReadOptions struct {
	// Columns maps fields to columns that the log names otherwise; a nested
	// one is written with dots.
	Columns map[Field]string
	// TimeIsEnd is set when the column of time says when a call ended.
	TimeIsEnd bool
	// Channel is the name for calls whose line names none.
	Channel string
}

// ReadResult is what became of the lines.
type ReadResult struct {
	Lines  uint64 `json:"lines"`
	Calls  uint64 `json:"calls"`
	Broken uint64 `json:"broken"`
	// First are the first broken lines.
	First []BrokenLine `json:"first_broken"`
}

// BrokenLine is a line that is no call.
type BrokenLine struct {
	Line   uint64 `json:"line"`
	Reason string `json:"reason"`
}

func (r *ReadResult) broken(line uint64, err error) {
	r.Broken++
	if len(r.First) < maxShown {
		r.First = append(r.First, BrokenLine{line, err.Error()})
	}
}

// ErrNoTime says that a log has no column of time.
var ErrNoTime = errors.New("no column says when a call was sent, so neither load nor arrivals are known; map one with --column time=NAME, and see weir log export --times")

// Read reads a request log, CSV with a header line or an object a line, packed
// with gzip or not, into l. A line that cannot be read is counted and listed;
// only a log that cannot be read at all is an error.
func Read(in io.Reader, l *Log, o ReadOptions) (ReadResult, error) {
	in, err := unpacked(in)
	res := ReadResult{First: []BrokenLine{}}
	if err != nil {
		return res, err
	}
	r := &lineReader{in: bufio.NewReaderSize(io.LimitReader(in, maxBytes+1), 64<<10)}
	p := &parser{o: o}
	for {
		line, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, errLong) {
			if res.Calls > 0 && errors.Is(err, io.ErrUnexpectedEOF) {
				res.broken(r.line, errors.New("the file is cut off here"))
				break
			}
			return res, fmt.Errorf("read line %d: %w", r.line, err)
		}
		if r.read > maxBytes {
			return res, fmt.Errorf("read line %d: the log is larger than %d GiB unpacked", r.line, maxBytes>>30)
		}
		if len(bytes.TrimSpace(line)) == 0 && err == nil {
			continue
		}
		res.Lines++
		if err == nil {
			err = p.line(line, l)
		}
		switch {
		case errors.Is(err, errHeader):
			res.Lines--
		case errors.Is(err, ErrNoTime):
			return res, err
		case err != nil:
			res.broken(r.line, err)
		default:
			res.Calls++
		}
	}
	return res, nil
}

// unpacked unpacks what begins as gzip does.
func unpacked(in io.Reader) (io.Reader, error) {
	b := bufio.NewReader(in)
	if head, _ := b.Peek(2); len(head) == 2 && head[0] == 0x1f && head[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		return z, nil
	}
	return b, nil
}

var errLong = fmt.Errorf("longer than %d bytes", maxLine)

// lineReader reads lines and passes over those that are too long.
type lineReader struct {
	in   *bufio.Reader
	long []byte
	line uint64
	read int64
}

// next returns the next line, good until the call after, or errLong.
func (r *lineReader) next() ([]byte, error) {
	r.line++
	r.long = r.long[:0]
	tooLong := false
	for {
		part, err := r.in.ReadSlice('\n')
		r.read += int64(len(part))
		switch {
		case err == nil && len(r.long) == 0 && !tooLong:
			return part, nil
		case len(r.long)+len(part) > maxLine:
			tooLong = true
			r.long = r.long[:0]
		case !tooLong:
			r.long = append(r.long, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if r.read > maxBytes {
				return nil, errLong
			}
			continue
		case errors.Is(err, io.EOF) && len(r.long) == 0 && !tooLong:
			return nil, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case tooLong:
			return nil, errLong
		}
		return r.long, nil
	}
}

var errHeader = errors.New("a header")

// parser turns lines into calls.
type parser struct {
	o ReadOptions
	// csv is set once a line began as no object; columns is its header.
	csv, json bool
	columns   map[Field]column
	cells     []string
	paths     map[Field][]string
	// wanted says which field a name stands for, and how good a name it is;
	// found are a line's values by field.
	wanted map[string][]want
	found  []found
	index  map[Field]int // places in found
	key    []byte
}

// want is a field that a name may stand for; the lowest rank is taken.
type want struct{ field, rank int }

// found is a value with the name it stood under.
type found struct {
	v    any
	name string
	rank int
}

// column is where a field stands and in which unit.
type column struct {
	at   int
	name string
}

func (p *parser) line(line []byte, l *Log) error {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
	if !p.csv && !p.json {
		p.json = len(line) > 0 && line[0] == '{'
		p.csv = !p.json
		if p.csv {
			return p.header(line)
		}
	}
	if p.csv {
		return p.row(line, l)
	}
	return p.object(line, l)
}

// names lists the columns that may hold a field.
func (p *parser) names(f Field) []string {
	if p.paths == nil {
		p.paths = known()
		for f, name := range p.o.Columns {
			p.paths[f] = []string{strings.ToLower(name)}
		}
	}
	return p.paths[f]
}

func (p *parser) header(line []byte) error {
	var err error
	if p.cells, err = cut(string(line), p.cells[:0]); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	at := map[string]int{}
	for i, name := range p.cells {
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := at[name]; !twice {
			at[name] = i
		}
	}
	p.columns = map[Field]column{}
	for _, f := range Fields() {
		for _, name := range p.names(f) {
			if i, ok := at[name]; ok {
				p.columns[f] = column{i, name}
				break
			}
		}
	}
	for f, name := range p.o.Columns {
		if _, ok := p.columns[f]; !ok {
			return fmt.Errorf("header: there is no column %q: %w", name, ErrNoTime)
		}
	}
	if _, ok := p.columns[FieldTime]; !ok {
		if _, ok := p.columns[FieldEnd]; !ok {
			return ErrNoTime
		}
	}
	return errHeader
}

func (p *parser) row(line []byte, l *Log) error {
	var err error
	if p.cells, err = cut(string(line), p.cells[:0]); err != nil {
		return err
	}
	return p.call(l, func(f Field) (any, string) {
		c, ok := p.columns[f]
		if !ok || c.at >= len(p.cells) || p.cells[c.at] == "" {
			return nil, ""
		}
		return p.cells[c.at], c.name
	})
}

// cut takes a line of CSV apart. A field does not go on in the next line.
func cut(line string, cells []string) ([]string, error) {
	for {
		if len(cells) >= maxColumns {
			return cells, fmt.Errorf("more than %d columns", maxColumns)
		}
		if !strings.HasPrefix(line, `"`) {
			cell, rest, more := strings.Cut(line, ",")
			cells = append(cells, cell)
			if !more {
				return cells, nil
			}
			line = rest
			continue
		}
		var b strings.Builder
		line = line[1:]
		for {
			part, rest, ok := strings.Cut(line, `"`)
			if !ok {
				return cells, errors.New("a quote is not closed")
			}
			b.WriteString(part)
			line = rest
			if !strings.HasPrefix(line, `"`) {
				break
			}
			b.WriteByte('"')
			line = line[1:]
		}
		cells = append(cells, b.String())
		if line == "" {
			return cells, nil
		}
		if line[0] != ',' {
			return cells, errors.New("something follows a closing quote")
		}
		line = line[1:]
	}
}

func (p *parser) object(line []byte, l *Log) error {
	p.begin()
	if p.simple(line) {
		return p.call(l, p.get)
	}
	if depth(line) > maxDepth*4 {
		return errors.New("nested too deep")
	}
	p.begin()
	var o map[string]any
	if err := json.Unmarshal(line, &o); err != nil {
		return fmt.Errorf("no JSON object: %w", err)
	}
	p.flatten("", o, 0)
	return p.call(l, p.get)
}

// begin forgets the line before.
func (p *parser) begin() {
	if p.wanted == nil {
		p.wanted, p.index = map[string][]want{}, map[Field]int{}
		for i, f := range Fields() {
			p.index[f] = i
			for rank, name := range p.names(f) {
				p.wanted[name] = append(p.wanted[name], want{i, rank})
			}
		}
		p.found = make([]found, len(Fields()))
	}
	clear(p.found)
}

// put takes a value under a name in lower case.
func (p *parser) put(name string, v any) {
	if v == nil || v == "" {
		return
	}
	for _, w := range p.wanted[name] {
		if at := &p.found[w.field]; at.v == nil || w.rank < at.rank {
			*at = found{v, name, w.rank}
		}
	}
}

func (p *parser) get(f Field) (any, string) {
	at := &p.found[p.index[f]]
	return at.v, at.name
}

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

// flatten writes nested objects with dots, attributes of a span without the
// word, and OTLP's lists of key and value as what they mean.
func (p *parser) flatten(prefix string, v any, level int) {
	if level > maxDepth {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			low := strings.ToLower(k)
			if low == "attributes" {
				p.flatten(prefix, v[k], level+1)
				continue
			}
			p.flatten(join(prefix, low), v[k], level+1)
		}
	case []any:
		for _, x := range v {
			pair, ok := x.(map[string]any)
			if !ok {
				return
			}
			key, ok := pair["key"].(string)
			value, is := pair["value"].(map[string]any)
			if ok && is && len(value) == 1 {
				for _, inner := range value {
					p.flatten(join(prefix, strings.ToLower(key)), inner, level+1)
				}
			}
		}
	default:
		p.put(prefix, v)
	}
}

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

// call makes a call of what a line says.
func (p *parser) call(l *Log, get func(Field) (any, string)) error {
	c := Call{RetryAfter: -1, Channel: p.o.Channel, Try: 1}
	if err := p.times(&c, get); err != nil {
		return err
	}
	text := func(f Field, dst *string) {
		if v, _ := get(f); v != nil {
			*dst = said(v)
		}
	}
	text(FieldChannel, &c.Channel)
	text(FieldTenant, &c.Tenant)
	if c.Channel == "" {
		c.Channel = "main"
	}
	if v, _ := get(FieldRequest); v != nil {
		c.Request = max(hash(said(v)), 1)
	}
	for i, f := range [...]Field{FieldInput, FieldOutput} {
		v, _ := get(f)
		if v == nil {
			continue
		}
		n, err := number(v)
		if err != nil || n < 0 || n > maxTokens {
			return fmt.Errorf("%s is %.40q", f, said(v))
		}
		*[...]*int64{&c.Input, &c.Output}[i] = int64(n)
	}
	if v, unit := get(FieldRetry); v != nil {
		if d, err := span(v, unit); err == nil {
			c.RetryAfter = d
		}
	}
	if err := outcome(&c, get); err != nil {
		return err
	}
	before := l.Odd
	if l.Add(&c); l.Odd > before {
		return errors.New("a time, size or class that cannot be")
	}
	return nil
}

func (p *parser) times(c *Call, get func(Field) (any, string)) error {
	v, _ := get(FieldTime)
	end, _ := get(FieldEnd)
	took, unit := get(FieldLatency)
	var err error
	if took != nil {
		if c.Took, err = span(took, unit); err != nil {
			return fmt.Errorf("latency: %w", err)
		}
	}
	switch {
	case v != nil:
		if c.Sent, err = instant(v); err != nil {
			return fmt.Errorf("time: %w", err)
		}
		if p.o.TimeIsEnd {
			c.Sent -= c.Took
			return nil
		}
		if end != nil && took == nil {
			e, err := instant(end)
			if err != nil {
				return fmt.Errorf("end: %w", err)
			}
			c.Took = e - c.Sent
		}
	case end != nil:
		e, err := instant(end)
		if err != nil {
			return fmt.Errorf("end: %w", err)
		}
		c.Sent = e - c.Took
	default:
		return errors.New("it has no time")
	}
	return nil
}

// hash is FNV-1a.
func hash(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h
}

// said is a value as text.
func said(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return fmt.Sprint(v)
}

// number reads a number, written as one or as text.
func number(v any) (float64, error) {
	switch v := v.(type) {
	case float64:
		return v, nil
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil || math.IsNaN(f) {
			return 0, fmt.Errorf("%.40q is no number", v)
		}
		return f, nil
	}
	return 0, fmt.Errorf("%.40q is no number", fmt.Sprint(v))
}

// span reads a duration: a number in the unit that its column's name ends in,
// seconds if it says none, or as Go writes durations.
func span(v any, column string) (model.Nanos, error) {
	n, err := number(v)
	if err != nil {
		if s, ok := v.(string); ok {
			if d, err := time.ParseDuration(strings.TrimSpace(s)); err == nil {
				return model.Nanos(d), nil
			}
		}
		return 0, err
	}
	unit := 1e9
	switch {
	case strings.HasSuffix(column, "ms"), strings.HasSuffix(column, "millis"):
		unit = 1e6
	case strings.HasSuffix(column, "us"), strings.HasSuffix(column, "micros"):
		unit = 1e3
	case strings.HasSuffix(column, "ns"), strings.HasSuffix(column, "nanos"), strings.HasSuffix(column, "nano"):
		unit = 1
	}
	if n*unit < 0 || n*unit > float64(maxTook) {
		return 0, fmt.Errorf("%.40q is no time that a call takes", fmt.Sprint(v))
	}
	return model.Nanos(n * unit), nil
}

// instant reads a time: date and time, or seconds, milliseconds, microseconds
// or nanoseconds since 1970, by their size.
func instant(v any) (model.Nanos, error) {
	if s, ok := v.(string); ok {
		s = strings.TrimSpace(s)
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999"} {
			if t, err := time.Parse(layout, s); err == nil && t.Year() >= 1970 && t.Year() < 2200 {
				return model.Nanos(t.UnixNano()), nil
			}
		}
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 1e17 {
			return model.Nanos(n), nil // nanoseconds, without the loss of a float
		}
	}
	n, err := number(v)
	if err != nil {
		return 0, fmt.Errorf("%.40q is no date and time", fmt.Sprint(v))
	}
	for _, unit := range []float64{1e9, 1e6, 1e3, 1} {
		if at := n * unit; n >= 0 && at < float64(maxTime) {
			return model.Nanos(math.Round(at)), nil
		}
	}
	return 0, fmt.Errorf("%.40q is no date and time", fmt.Sprint(v))
}

// outcome reads what became of a call.
func outcome(c *Call, get func(Field) (any, string)) error {
	if v, _ := get(FieldStatus); v != nil {
		if n, err := number(v); err == nil && n >= 0 && n < 1000 {
			c.Status = int(n)
		}
	}
	if v, _ := get(FieldAttempt); v != nil {
		if n, err := number(v); err == nil && n >= 0 && n < 1e6 {
			c.Try = max(int(n), 1)
		}
	}
	name := ""
	if v, _ := get(FieldClass); v != nil {
		name = strings.TrimSpace(said(v))
	}
	c.Class, c.Code = classOf(name, c.Status)
	if c.Class == 0 {
		return fmt.Errorf("error_class %.40q and status %d say nothing", name, c.Status)
	}
	if c.Class == model.ClassOK && c.Status == 0 {
		c.Status = 200
	}
	return nil
}

// classOf is what a word and a status say together, and the word as a code
// where it is one of the provider's.
func classOf(word string, status int) (model.Class, string) {
	if c, ok := model.ParseClass(word); ok {
		return c, ""
	}
	if n, err := strconv.Atoi(word); err == nil && status == 0 && n >= 100 && n < 600 {
		status, word = n, ""
	}
	low := strings.ToLower(word)
	switch low {
	case "", "none", "null", "ok", "success", "false", "unset", "<nil>":
		return byStatus(status, low != "" || status == 0), ""
	}
	for _, w := range words() {
		if strings.Contains(low, w.part) {
			return w.class, word
		}
	}
	return byStatus(status, false), word
}

type word struct {
	part  string
	class model.Class
}

// words are parts of names that error classes have.
func words() []word {
	return []word{
		{"quota", model.ClassQuotaExhausted},
		{"budget", model.ClassQuotaExhausted},
		{"insufficient", model.ClassQuotaExhausted},
		{"ratelimit", model.ClassRateLimited},
		{"rate_limit", model.ClassRateLimited},
		{"too_many", model.ClassRateLimited},
		{"toomany", model.ClassRateLimited},
		{"resource_exhausted", model.ClassRateLimited},
		{"1002", model.ClassRateLimited},
		{"14003", model.ClassRateLimited},
		{"overload", model.ClassOverloaded},
		{"unavailable", model.ClassOverloaded},
		{"2064", model.ClassOverloaded},
		{"internalserver", model.ClassOverloaded},
		{"internal_server", model.ClassOverloaded},
		{"auth", model.ClassAuth},
		{"permission", model.ClassAuth},
		{"api_key", model.ClassAuth},
		{"cancel", model.ClassCanceled},
		{"timeout", model.ClassTransport},
		{"connection", model.ClassTransport},
		{"transport", model.ClassTransport},
		{"badrequest", model.ClassInvalid},
		{"bad_request", model.ClassInvalid},
		{"invalid", model.ClassInvalid},
		{"notfound", model.ClassInvalid},
		{"contextwindow", model.ClassInvalid},
	}
}

// byStatus is what a status alone says. fine is set when a word says success.
func byStatus(status int, fine bool) model.Class {
	switch {
	case status >= 200 && status < 400, status == 0 && fine:
		return model.ClassOK
	case status == 429:
		return model.ClassRateLimited
	case status == 401, status == 403:
		return model.ClassAuth
	case status == 402:
		return model.ClassQuotaExhausted
	case status == 408, status == 499:
		return model.ClassTransport
	case status >= 500 && status < 600:
		return model.ClassOverloaded
	case status >= 400 && status < 500:
		return model.ClassInvalid
	case status == 0:
		return model.ClassTransport
	}
	return 0
}
