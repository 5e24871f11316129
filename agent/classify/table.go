package classify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"weir/model"
)

// maxTable bounds a rule file.
const maxTable = 1 << 20

// tableFile is a rule file as written.
type tableFile struct {
	// Version is raised with every change of the file; it is part of each
	// verdict. At least 1.
	Version int `yaml:"version"`
	// Family is the first half of a rule's name in verdicts.
	Family word `yaml:"family"`
	// Providers are the names the rules hold for; none means all.
	Providers []word `yaml:"providers"`
	// Marks are envelope keys that give the family away when it speaks under
	// another name.
	Marks    []word        `yaml:"marks"`
	Rules    []ruleFile    `yaml:"rules"`
	Measures []measureFile `yaml:"measures"`
}

type ruleFile struct {
	Name    word   `yaml:"name"`
	Status  []word `yaml:"status"`
	Code    []word `yaml:"code"`
	Words   []word `yaml:"words"`
	And     []word `yaml:"and"`
	Unless  []word `yaml:"unless"`
	Pattern word   `yaml:"pattern"`
	Finish  []word `yaml:"finish"`
	Within  word   `yaml:"within"`
	Beyond  word   `yaml:"beyond"`

	Class     word `yaml:"class"`
	Dimension word `yaml:"dimension"`
	Guess     word `yaml:"guess"`
	Scope     word `yaml:"scope"`

	line int
}

type measureFile struct {
	Dimension word   `yaml:"dimension"`
	Classes   []word `yaml:"classes"`
	Code      []word `yaml:"code"`
	Words     []word `yaml:"words"`
	Unless    []word `yaml:"unless"`
}

// word is a scalar with the line it stands in.
type word struct {
	text string
	line int
}

// UnmarshalYAML keeps a scalar's text as written, be it a number or not.
func (w *word) UnmarshalYAML(node ast.Node) error {
	token := node.GetToken()
	if _, ok := node.(ast.ScalarNode); !ok {
		return &yaml.UnexpectedNodeTypeError{Actual: node.Type(), Expected: ast.StringType, Token: token}
	}
	w.text, w.line = token.Value, token.Position.Line
	return nil
}

// UnmarshalYAML notes the line a rule begins at.
func (r *ruleFile) UnmarshalYAML(node ast.Node) error {
	type plain ruleFile
	if err := yaml.NodeToValue(node, (*plain)(r), yaml.Strict()); err != nil {
		return err
	}
	r.line = node.GetToken().Position.Line
	return nil
}

// loader compiles rule files and keeps the faults it finds.
type loader struct {
	file   string
	names  map[string]string // full name without version: where it stands
	faults []error
}

func (l *loader) fault(line int, format string, args ...any) {
	l.faults = append(l.faults, fmt.Errorf("%s:%d: %s", l.file, line, fmt.Sprintf(format, args...)))
}

// load compiles one file. Faults are collected, so that one pass shows all.
func (l *loader) load(name string, data []byte) table {
	l.file = name
	if len(data) > maxTable {
		l.fault(1, "file of %d bytes is larger than %d", len(data), maxTable)
		return table{}
	}
	var f tableFile
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&f); err != nil {
		var e yaml.Error
		switch {
		case errors.Is(err, io.EOF):
			l.fault(1, "file is empty")
		case errors.As(err, &e) && e.GetToken() != nil:
			l.fault(e.GetToken().Position.Line, "%s", e.GetMessage())
		default:
			l.fault(1, "%s", err)
		}
		return table{}
	}
	if f.Version < 1 {
		l.fault(1, "version is %d, want a number from 1", f.Version)
	}
	if !isName(f.Family.text) {
		l.fault(max(f.Family.line, 1), "family %q is not a name of a-z, 0-9, - and .", f.Family.text)
	}
	t := table{family: f.Family.text}
	for _, p := range f.Providers {
		t.providers = append(t.providers, l.name(p))
	}
	for _, m := range f.Marks {
		t.marks |= l.mark(m)
	}
	for i := range f.Rules {
		t.rules = append(t.rules, l.rule(&f.Rules[i], f.Family.text, f.Version))
	}
	for i := range f.Measures {
		t.measures = append(t.measures, l.measure(&f.Measures[i]))
	}
	return t
}

func isName(s string) bool {
	return s != "" && len(s) <= 40 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

func (l *loader) name(w word) []byte {
	name := words(nil, []byte(w.text))
	if len(name) < 2 {
		l.fault(w.line, "provider %q has no letters", w.text)
	}
	return name
}

func (l *loader) mark(w word) marks {
	if i := slices.Index(markKeys[:], string(plainKey(nil, []byte(w.text)))); i >= 0 {
		return 1 << i
	}
	l.fault(w.line, "mark %q is not one of %s", w.text, strings.Join(markKeys[:], ", "))
	return 0
}

func (l *loader) rule(f *ruleFile, family string, version int) rule {
	full := family + "/" + f.Name.text
	if !isName(f.Name.text) {
		l.fault(f.line, "rule name %q is not a name of a-z, 0-9, - and .", f.Name.text)
	} else if at, taken := l.names[full]; taken {
		l.fault(f.Name.line, "rule %s stands at %s already", full, at)
	}
	l.names[full] = fmt.Sprintf("%s:%d", l.file, f.line)
	r := rule{
		name:   full + "@" + strconv.Itoa(version),
		codes:  l.codes(f.Code),
		words:  l.phrases(f.Words),
		and:    l.phrases(f.And),
		unless: l.phrases(f.Unless),
	}
	for _, s := range f.Status {
		r.status = append(r.status, l.status(s))
	}
	for _, s := range f.Finish {
		r.finish = append(r.finish, strings.ToLower(s.text))
	}
	if f.Pattern.text != "" {
		var err error
		if r.pattern, err = regexp.Compile(f.Pattern.text); err != nil {
			l.fault(f.Pattern.line, "pattern: %s", err)
		}
	}
	r.within, r.beyond = l.span(f.Within), l.span(f.Beyond)
	if len(r.status)+len(r.codes)+len(r.words)+len(r.finish) == 0 && r.pattern == nil {
		l.fault(f.line, "rule %s has no status, code, words, pattern or finish to go by", full)
	}
	r.class = l.class(f.Class, f.line)
	r.dimension = l.dimension(f.Dimension)
	r.guess = l.dimension(f.Guess)
	if f.Scope.text != "" {
		if r.scope, r.scoped = parseScope(f.Scope.text); !r.scoped {
			l.fault(f.Scope.line, "scope %q is not request, channel or group", f.Scope.text)
		}
	}
	return r
}

func (l *loader) measure(f *measureFile) measure {
	m := measure{dimension: l.dimension(f.Dimension), codes: l.codes(f.Code), words: l.phrases(f.Words), unless: l.phrases(f.Unless)}
	for _, c := range f.Classes {
		m.classes = append(m.classes, l.class(c, c.line))
	}
	return m
}

func (l *loader) span(w word) model.Nanos {
	if w.text == "" {
		return 0
	}
	d, err := time.ParseDuration(w.text)
	if err != nil || d <= 0 {
		l.fault(w.line, "%q is not a duration such as 1h", w.text)
	}
	return model.Nanos(d)
}

func (l *loader) class(w word, line int) model.Class {
	c, ok := model.ParseClass(w.text)
	if !ok {
		l.fault(max(w.line, line), "class %q is not one of %v", w.text, model.Classes)
	}
	return c
}

func (l *loader) dimension(w word) model.Dimension {
	if w.text == "" {
		return model.DimNone
	}
	d, ok := model.ParseDimension(w.text)
	if !ok {
		l.fault(w.line, "dimension %q is not requests, tokens, concurrency, day or credits", w.text)
	}
	return d
}

func (l *loader) codes(list []word) []codePattern {
	var codes []codePattern
	for _, w := range list {
		text, prefix := strings.CutSuffix(strings.ToLower(w.text), "*")
		if text == "" {
			l.fault(w.line, "code %q matches everything", w.text)
		}
		codes = append(codes, codePattern{text, prefix})
	}
	return codes
}

func (l *loader) phrases(list []word) []phrase {
	var phrases []phrase
	for _, w := range list {
		p := newPhrase(w.text)
		if len(p.parts) == 0 || len(p.parts[0]) < 3 {
			l.fault(w.line, "phrase %q does not begin with a word of two letters", w.text)
			continue
		}
		phrases = append(phrases, p)
	}
	return phrases
}

// status reads 429, 500-599 or 5xx.
func (l *loader) status(w word) statusRange {
	if len(w.text) == 3 && strings.HasSuffix(w.text, "xx") && isDigit(rune(w.text[0])) {
		from := int(w.text[0]-'0') * 100
		return statusRange{from, from + 99}
	}
	low, high, isRange := strings.Cut(w.text, "-")
	if !isRange {
		high = low
	}
	from, err1 := strconv.Atoi(low)
	to, err2 := strconv.Atoi(high)
	if err1 != nil || err2 != nil || from < 100 || to > 999 || from > to {
		l.fault(w.line, "status %q is not such as 429, 500-599 or 5xx", w.text)
	}
	return statusRange{from, to}
}
