package calibrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

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
