package classify

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/model"
)

// maxHints is how many limits one answer may tell.
const maxHints = 8

// limit is one limit as header fields tell it. Fields of the same name but for
// limit, remaining and reset belong together.
type limit struct {
	name string
	hint model.LimitHint
}

// limits collects what header fields tell.
type limits struct {
	list []limit
	now  time.Time
}

// headerLimits reads every rate-limit field of h and of the fields quoted in
// the body. The order is by dimension, then name.
func headerLimits(h http.Header, quoted []pair, now time.Time) []limit {
	var c limits
	c.now = now
	for name, values := range h {
		if len(values) > 0 && (strings.Contains(name, "atelimit") || strings.Contains(name, "ateLimit") || strings.Contains(name, "ATELIMIT")) {
			c.field(strings.ToLower(name), values[0])
		}
	}
	for _, p := range quoted {
		if strings.Contains(p.key, "ratelimit") {
			c.field(p.key, p.value)
		}
	}
	slices.SortFunc(c.list, func(a, b limit) int {
		return cmp.Or(cmp.Compare(a.hint.Dimension, b.hint.Dimension), strings.Compare(a.name, b.name))
	})
	return c.list[:min(len(c.list), maxHints)]
}

// field reads one field whose lower-case name contains "ratelimit".
func (c *limits) field(name, value string) {
	_, rest, _ := strings.Cut(name, "ratelimit")
	if strings.HasPrefix(rest, "ed") || len(value) > 256 {
		return // "ratelimited"
	}
	var what string
	var parts [8]string
	key := parts[:0]
	for part := range strings.SplitSeq(strings.Trim(rest, "-_"), "-") {
		switch part {
		case "limit", "remaining", "reset", "policy", "used":
			what = part
		case "":
		default:
			if len(key) < len(parts) {
				key = append(key, part)
			}
		}
	}
	if what == "" {
		if len(key) == 0 {
			c.structured(value)
		}
		return
	}
	switch what {
	case "policy":
		c.structured(value)
	case "limit":
		if n, ok := leadCount(value); ok {
			c.at(key).Limit = n
		}
	case "remaining":
		if n, ok := leadCount(value); ok {
			c.at(key).Remaining = n
		}
	case "reset":
		if n := parseReset(value, model.Second, c.now); n >= 0 {
			c.at(key).Reset = n
		}
	}
}

// leadCount reads the number a field starts with: "100", "100, 100;w=60".
func leadCount(value string) (int64, bool) {
	b := []byte(strings.TrimSpace(value))
	return parseCount(b[:digitsEnd(b)])
}

// at returns the hint of the limit called by the words of key.
func (c *limits) at(key []string) *model.LimitHint {
	name := strings.Join(key, "-")
	for i := range c.list {
		if c.list[i].name == name {
			return &c.list[i].hint
		}
	}
	if len(c.list) >= 2*maxHints { // hostile: go on in the last one
		return &c.list[len(c.list)-1].hint
	}
	c.list = append(c.list, limit{name, model.LimitHint{Dimension: keyDimension(key), Limit: -1, Remaining: -1, Reset: unsaid}})
	return &c.list[len(c.list)-1].hint
}

// keyDimension says what a limit counts by the words of its name; a limit
// without a subject counts requests.
func keyDimension(key []string) model.Dimension {
	d := model.DimRequests
	for _, word := range key {
		switch word {
		case "day", "daily", "month", "hour", "week", "1d", "1h":
			return model.DimDay
		case "tokens", "token", "input", "output", "prompt", "generated":
			d = model.DimTokens
		case "concurrent", "concurrency":
			d = model.DimConcurrency
		case "credits", "cost", "usd":
			d = model.DimCredits
		}
	}
	return d
}

// structured reads the parameters of a RateLimit or RateLimit-Policy field, in
// the form of any draft: `"api";r=0;t=55`, "limit=100, remaining=0, reset=37".
func (c *limits) structured(value string) {
	for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ';' || r == ',' || r == ' ' }) {
		key, number, ok := strings.Cut(part, "=")
		n, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil || n < 0 {
			continue
		}
		switch key {
		case "r", "remaining":
			c.at(nil).Remaining = n
		case "q", "limit":
			c.at(nil).Limit = n
		case "t", "reset":
			c.at(nil).Reset = believed(scale(float64(n), model.Second))
		}
	}
}

// exhausted returns the limit that is used up: of dimension d if that is known
// and told, else the one that takes longest to come back.
func exhausted(list []limit, d model.Dimension) (found model.LimitHint, ok bool) {
	for _, l := range list {
		if l.hint.Remaining != 0 {
			continue
		}
		better := !ok || l.hint.Reset > found.Reset
		if ok && d != model.DimNone && (l.hint.Dimension == d) != (found.Dimension == d) {
			better = l.hint.Dimension == d
		}
		if better {
			found, ok = l.hint, true
		}
	}
	return found, ok
}

// counts is what a text says about a limit; negative numbers were not said.
type counts struct{ limit, used, requested, remaining int64 }

// textCounts reads the numbers of a limit from the words around them: "Limit
// 30000, Used 28039", "60 queries per minute", "最多请求60次", "(1500/1500 used)".
func textCounts(text []byte) counts {
	c := counts{-1, -1, -1, -1}
	for i, seen := 0, 0; i < len(text) && seen < maxNumbers; i++ {
		if !isDigit(rune(text[i])) {
			continue
		}
		seen++
		if i > 0 && (isLetter(rune(text[i-1])) || text[i-1] == '-' || text[i-1] == '.' || text[i-1] == '_') {
			i += digitsEnd(text[i:])
			continue // part of a name
		}
		n := digitsEnd(text[i:])
		x, ok := parseCount(text[i : i+n])
		if ok {
			c.number(x, text[max(0, i-60):i], text[i+n:min(len(text), i+n+40)])
		}
		i += n
	}
	return c
}

// digitsEnd returns the length of a number with its commas.
func digitsEnd(b []byte) int {
	n := 0
	for n < len(b) && (isDigit(rune(b[n])) || b[n] == ',' && n+3 < len(b) && isDigit(rune(b[n+1])) && isDigit(rune(b[n+2])) && isDigit(rune(b[n+3]))) {
		n++
	}
	return n
}

// number places x by the words before and after it; the first of a kind counts.
func (c *counts) number(x int64, before, after []byte) {
	after = []byte(strings.TrimLeft(string(after), " "))
	set := func(to *int64) {
		if *to < 0 {
			*to = x
		}
	}
	switch {
	case len(after) > 1 && after[0] == '/' && isDigit(rune(after[1])) && strings.Contains(string(after), "used"):
		set(&c.used)
		if n, ok := parseCount(after[1 : 1+digitsEnd(after[1:])]); ok && c.limit < 0 {
			c.limit = n
		}
	case endsWith(before, "requested", "request of"):
		set(&c.requested)
	case endsWith(before, "used", "current", "current usage", "已使用"):
		set(&c.used)
	case endsWith(before, "remaining", "剩余"):
		set(&c.remaining)
	case endsWith(before, "limit", "limit of", "limit is", "limited to", "max rpm", "max tpm", "max rpd", "max tpd", "max concurrency", "max organization concurrency", "per minute", "per_minute", "per second", "per_second", "parallel requests", "parallel_requests", "concurrent requests", "maximum of", "up to", "quota of", "allowed", "最多", "最多请求", "最多调用", "上限为", "上限", "限制为", "不超过", "限额为", "限额", "exceeded"):
		if _, n := leadUnit(after); n == 0 || after[0] == 'm' && n == 1 {
			set(&c.limit)
		}
	case endsWith(before, "is", "为", "是") && saysMost(before), saysMost(before) && startsCount(after):
		set(&c.limit)
	case isRate(after), strings.HasPrefix(string(after), "次") && endsWith(before, "每秒", "每分钟", "每小时", "每天", "每日"):
		set(&c.limit)
	}
}

// saysMost reports whether the words before a number make it the most there may be.
func saysMost(before []byte) bool {
	lower := bytes.ToLower(before)
	for _, word := range [...]string{"maximum", "limit", "at most", "最多", "最大", "上限"} {
		if bytes.Contains(lower, []byte(word)) {
			return true
		}
	}
	return false
}

// startsCount reports whether what follows a number counts calls in Chinese.
func startsCount(after []byte) bool {
	for _, word := range [...]string{"个", "路", "条", "個", "條"} {
		if bytes.HasPrefix(after, []byte(word)) {
			return true
		}
	}
	return false
}

// isRate reports whether what follows a number makes it so many per time.
func isRate(after []byte) bool {
	s := strings.ToLower(string(after))
	for _, start := range [...]string{"requests", "request", "queries", "calls", "api calls", "input tokens", "output tokens", "tokens", "req"} {
		if rest, ok := strings.CutPrefix(s, start); ok {
			s = strings.TrimLeft(rest, " ")
			break
		}
	}
	for _, unit := range [...]string{"rpm", "rps", "rpd", "tpm", "tps", "tpd", "qps", "qpm"} {
		if rest, ok := strings.CutPrefix(s, unit); ok {
			return rest == "" || !isLetter(rune(rest[0]))
		}
	}
	return strings.HasPrefix(s, "per ") || strings.HasPrefix(s, "/") && isUnit([]byte(s[1:])) || strings.HasPrefix(s, "every ")
}
