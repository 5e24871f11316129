package classify

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"weir/model"
)

// lawVersion is raised when a judgement made in code, not in a table, changes.
const lawVersion = "@1"

// law returns a verdict that needs no table.
func law(class model.Class, name string) Verdict {
	return Verdict{
		Class: class, Rule: "law/" + name + lawVersion, Scope: defaultScope(class, model.DimNone),
		Limit: -1, Remaining: -1, RetryAfter: unsaid,
	}
}

// codeHeaders are fields that carry an error code, textHeaders an explanation.
var (
	codeHeaders = [...]string{"X-Amzn-Errortype", "X-Ratelimit-Type", "X-Ms-Error-Code", "X-Error-Code", "X-Ca-Error-Code"}
	textHeaders = [...]string{"X-Ca-Error-Message", "X-Error-Message", "Grpc-Message"}
)

// failure judges a refusal that f was read from. known tells that it is one;
// if not, only a rule can make it one, and ok is false when none does.
func (c *Classifier) failure(a *Answer, f *facts, known bool) (v Verdict, ok bool) {
	if f.blocked && !f.failed && !f.answer {
		v = law(model.ClassInvalid, "prompt-blocked")
		v.Usage = f.usage
		return v, true
	}
	f.addHeaders(a.Header)
	e := newEvidence(a, f)
	v, r := c.decide(e)
	if r == nil && !known {
		return Verdict{}, false
	}
	if v.Code == "" {
		v.Code = f.code
	}
	if v.Code == "" {
		v.Code = mainCode(f.codes)
	}
	for _, l := range e.limits {
		v.Hints = append(v.Hints, l.hint)
	}
	c.measureLimit(&v, r, e)
	v.RetryAfter = waitFor(&v, e, a.Header)
	if r != nil {
		v.Scope = defaultScope(v.Class, v.Dimension)
		if r.scoped {
			v.Scope = r.scope
		}
	}
	v.Usage = f.usage
	return v, true
}

// addHeaders adds what header fields say about the error.
func (f *facts) addHeaders(h http.Header) {
	for _, name := range codeHeaders {
		if value := header(h, name); value != "" {
			value, _, _ = strings.Cut(value, ":")
			f.addCode([]byte(value))
		}
	}
	for _, name := range textHeaders {
		f.addText([]byte(header(h, name)))
	}
	if header(h, "Anthropic-Ratelimit-Unified-Status") == "rejected" { // a plan's window is used up
		f.addCode([]byte(header(h, "Anthropic-Ratelimit-Unified-Representative-Claim")))
	}
	if header(h, "X-Envoy-Ratelimited") == "true" {
		f.addCode([]byte("ratelimited"))
	}
	if header(h, "X-Envoy-Overloaded") == "true" {
		f.addCode([]byte("overloaded"))
	}
}

func newEvidence(a *Answer, f *facts) *evidence {
	now := clock(a.Header, a.Now)
	e := &evidence{
		f: f, now: now, status: a.Status, finish: strings.ToLower(f.finish), provider: words(nil, []byte(a.Provider)),
		wait:   agree(headerWait(a.Header, now), agree(fieldWait(f, now), textWait(f.text, now))),
		told:   textCounts(f.text),
		limits: headerLimits(a.Header, f.pairs, now),
	}
	if f.status > 0 && a.Status < 300 {
		e.status = f.status
	}
	quoted := textCodes(f.text)
	e.codes = make([]string, 0, len(f.codes)+len(quoted))
	all := make([]byte, 0, len(f.text)+len(f.text)/8+64)
	for _, code := range f.codes {
		e.codes = append(e.codes, strings.ToLower(code))
		all = words(all, []byte(code))
		all = append(all, "| "...) // no phrase reaches from one into the next
	}
	for _, code := range quoted {
		e.codes = append(e.codes, string(code))
	}
	e.words = newWordText(words(all, f.text))
	return e
}

// textCodes finds codes that stand in a message in brackets: "(1008)", "[1113]".
func textCodes(text []byte) (codes [][]byte) {
	for i := 0; i < len(text) && len(codes) < 4; i++ {
		if text[i] != '(' && text[i] != '[' {
			continue
		}
		n := digitsEnd(text[i+1:])
		end := i + 1 + n
		if n >= 3 && n <= 7 && end < len(text) && (text[end] == ')' || text[end] == ']') {
			codes = append(codes, text[i+1:end])
		}
	}
	return codes
}

// decide finds the first rule that holds. Without one the status decides, and
// before the rules for everybody the numbers do.
func (c *Classifier) decide(e *evidence) (Verdict, *rule) {
	for i := range c.tables {
		t := &c.tables[i]
		if !t.covers(e) {
			continue
		}
		if len(t.providers) == 0 && e.tooLarge() {
			return law(model.ClassInvalid, "larger-than-limit"), nil
		}
		for j := range t.rules {
			if code, ok := t.rules[j].matches(e); ok {
				v := law(t.rules[j].class, "")
				v.Rule, v.Code = t.rules[j].name, cleanCode(code)
				return v, &t.rules[j]
			}
		}
	}
	if quoted := textStatus(e.f.text); quoted > 0 && (e.status < 300 || e.status == 500 || e.status == 502) {
		return byStatus(quoted), nil // a relay tells what its upstream said
	}
	return byStatus(e.status), nil
}

// textStatus finds the HTTP status of another answer that a message tells of:
// "status code 429", "503 status code", "Error code: 429"; 0 when none does.
func textStatus(text []byte) int {
	for i := 0; i < len(text); i++ {
		if !isDigit(rune(text[i])) {
			continue
		}
		n := digitsEnd(text[i:])
		status, err := strconv.Atoi(string(text[i : i+min(n, 4)]))
		if n == 3 && err == nil && isStatus(status) &&
			(endsWith(text[:i], "status code", "status", "error code", "http", "http error") || hasPrefixFold(text[i+n:], " status code")) {
			return status
		}
		i += n
	}
	return 0
}

// byStatus judges by the HTTP status alone.
func byStatus(status int) Verdict {
	class := model.ClassOverloaded
	switch {
	case status == 401, status == 403, status == 407, status == 511:
		class = model.ClassAuth
	case status == 402:
		class = model.ClassQuotaExhausted
	case status == 408, status == 499, status == 460:
		class = model.ClassTransport
	case status == 429, status == 430:
		class = model.ClassRateLimited
	case status == 424, status == 425, status == 498, status == 423:
		class = model.ClassOverloaded
	case status == 501, status == 505, status >= 300 && status < 500:
		class = model.ClassInvalid
	}
	v := law(class, "status-"+strconv.Itoa(status))
	if status < 300 {
		v.Rule = "law/error-in-success" + lawVersion
	}
	if status < 400 && status >= 300 || status == 404 || status == 410 {
		v.Scope = ScopeChannel // a wrong address is wrong for all
	}
	return v
}

// mainCode picks the code that says most: words before numbers, and neither an
// HTTP status nor prose.
func mainCode(codes []string) string {
	number := ""
	for _, code := range codes {
		clean := cleanCode(code)
		if clean == "" || clean == "error" {
			continue
		}
		n, err := strconv.Atoi(clean)
		switch {
		case err != nil:
			return clean
		case n < 100 || n > 599:
			return clean
		case number == "":
			number = clean
		}
	}
	return number
}

// cleanCode returns code if it is one: short, of letters, digits and a few
// marks. Anything else could carry what must not leave the process.
func cleanCode(code string) string {
	if len(code) > 64 || strings.HasPrefix(code, "sk-") {
		return ""
	}
	for _, c := range []byte(code) {
		if !isLetter(rune(c)) && !isDigit(rune(c)) && strings.IndexByte("_-.:/#", c) < 0 {
			return ""
		}
	}
	return code
}

// measureLimit says which limit was met, and its numbers.
func (c *Classifier) measureLimit(v *Verdict, r *rule, e *evidence) {
	if r != nil {
		v.Dimension = r.dimension
	}
	switch v.Class {
	case model.ClassRateLimited, model.ClassQuotaExhausted:
	case model.ClassInvalid:
		if v.Dimension == model.DimNone && !e.tooLarge() {
			return
		}
	case model.ClassOK, model.ClassOverloaded, model.ClassAuth, model.ClassTransport, model.ClassCanceled:
		v.Dimension = model.DimNone
		return
	}
	if v.Dimension == model.DimNone {
		v.Dimension = c.measured(v.Class, e)
	}
	used, spent := exhausted(e.limits, v.Dimension)
	if v.Dimension == model.DimNone && spent && v.Class == model.ClassRateLimited {
		v.Dimension = used.Dimension
	}
	if v.Dimension == model.DimNone && r != nil {
		v.Dimension = r.guess
	}
	v.Limit, v.Remaining = e.numbers(v.Dimension)
}

// measured asks the tables what the words say about a limit.
func (c *Classifier) measured(class model.Class, e *evidence) model.Dimension {
	for i := range c.tables {
		t := &c.tables[i]
		if !t.covers(e) {
			continue
		}
		for j := range t.measures {
			if t.measures[j].matches(class, e) {
				return t.measures[j].dimension
			}
		}
	}
	return model.DimNone
}

func (m *measure) matches(class model.Class, e *evidence) bool {
	if len(m.classes) > 0 && !slices.Contains(m.classes, class) {
		return false
	}
	r := rule{codes: m.codes}
	_, byCode := r.code(e.codes)
	return (byCode || anyIn(m.words, &e.words)) && !anyIn(m.unless, &e.words)
}

// tooLarge reports whether the request asked for more than the limit ever
// gives, so that waiting is in vain.
func (e *evidence) tooLarge() bool {
	return e.told.limit > 0 && e.told.requested > e.told.limit && (e.status == 429 || e.status == 413)
}

// numbers returns limit and remaining of dimension d: the header's, if it
// tells about d, else the body's fields, else the text's.
func (e *evidence) numbers(d model.Dimension) (limit, remaining int64) {
	found, ok := exhausted(e.limits, d)
	for _, l := range e.limits {
		if (!ok || found.Dimension != d) && l.hint.Dimension == d {
			found, ok = l.hint, true
		}
	}
	limit, remaining = -1, -1
	if ok {
		limit, remaining = found.Limit, found.Remaining
	}
	limit = firstTold(limit, e.f.limit, e.told.limit)
	used := firstTold(e.told.used, e.f.used)
	remaining = firstTold(remaining, e.f.remaining, e.told.remaining)
	if remaining < 0 && used >= 0 && limit >= 0 {
		remaining = max(0, limit-used)
	}
	return limit, remaining
}

func firstTold(values ...int64) int64 {
	for _, v := range values {
		if v >= 0 {
			return v
		}
	}
	return -1
}

// waitFor picks the wait a caller of this class can use: what was said, else
// the reset of a limit that is used up.
func waitFor(v *Verdict, e *evidence, h http.Header) model.Nanos {
	switch v.Class {
	case model.ClassOverloaded:
		return e.wait
	case model.ClassTransport:
		return headerWait(h, e.now)
	case model.ClassRateLimited, model.ClassQuotaExhausted:
	case model.ClassOK, model.ClassAuth, model.ClassInvalid, model.ClassCanceled:
		return unsaid
	}
	if used, ok := exhausted(e.limits, v.Dimension); ok && e.wait < 0 {
		return used.Reset
	}
	return e.wait
}

// lead returns the first bytes of b after a byte order mark and white space.
func lead(b []byte) []byte {
	b = bytes.TrimPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("\xef\xbb\xbf"))
	return bytes.TrimLeft(b, " \t\r\n")
}
