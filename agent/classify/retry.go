package classify

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"weir/model"
)

// clock returns the instant that times in the answer are relative to: the
// answer's own Date if it has one, since that is the provider's clock.
func clock(h http.Header, now time.Time) time.Time {
	if t, err := http.ParseTime(header(h, "Date")); err == nil {
		return t
	}
	return now
}

// header returns a field in any case its name was kept in.
func header(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// headerWait reads the explicit wait of the header: milliseconds are the more
// exact form of the same thing, but a longer Retry-After wins.
func headerWait(h http.Header, now time.Time) model.Nanos {
	exact := unsaid
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-Retry-After-Ms"} {
		exact = max(exact, longest(h[name], model.Millisecond, now))
	}
	coarse := max(longest(h["Retry-After"], model.Second, now), longest(h["X-Retry-After"], model.Second, now))
	return agree(exact, coarse)
}

// longest returns the longest usable wait among values of one field.
func longest(values []string, unit model.Nanos, now time.Time) model.Nanos {
	wait := unsaid
	for _, value := range values {
		if n := retryValue(value, unit, now); n >= 0 {
			wait = max(wait, n)
			continue
		}
		for one := range strings.SplitSeq(value, ",") { // two proxies, one line
			wait = max(wait, retryValue(one, unit, now))
		}
	}
	return wait
}

func retryValue(value string, unit model.Nanos, now time.Time) model.Nanos {
	value = strings.TrimSpace(value)
	if strings.ContainsRune(value, ':') {
		if t, ok := parseInstant(value); ok {
			return until(t, now)
		}
	}
	return parseReset(value, unit, now)
}

// agree merges two waits of which first is the more exact: the longer one
// counts, unless they differ only by rounding.
func agree(first, second model.Nanos) model.Nanos {
	if first < 0 {
		return second
	}
	if slack := max(model.Second, first/10); second > first+slack {
		return second
	}
	return first
}

// fieldWait reads the waits that the body told in fields.
func fieldWait(f *facts, now time.Time) model.Nanos {
	wait := unsaid
	for _, p := range f.waits {
		unit := model.Second
		if strings.HasSuffix(p.key, "ms") || strings.HasSuffix(p.key, "milliseconds") {
			unit = model.Millisecond
		}
		wait = agree(wait, parseReset(p.value, unit, now))
	}
	for _, p := range f.pairs {
		switch p.key {
		case "retry-after":
			wait = agree(wait, retryValue(p.value, model.Second, now))
		case "retry-after-ms":
			wait = agree(wait, parseReset(p.value, model.Millisecond, now))
		}
	}
	return wait
}

// maxNumbers is how many numbers of one text are looked at.
const maxNumbers = 64

// textWait finds a wait in words: "try again in 1m12.5s", "请 3 秒后重试",
// "resets at 2026-01-01T03:00:00Z". Windows ("60 requests per 60s") and spans
// without a reason to wait are none. The longest one counts.
func textWait(text []byte, now time.Time) model.Nanos {
	wait := unsaid
	for i, seen := 0, 0; i < len(text) && seen < maxNumbers; i++ {
		if !isDigit(rune(text[i])) {
			continue
		}
		seen++
		end := i + 1
		before := text[max(0, i-64):i]
		if at, n := textInstant(text[i:], before, now); n > 0 {
			wait, end = max(wait, at), i+n
		} else if span, n := leadSpan(text[i:]); n > 0 {
			if asksToWait(before, text[i+n:]) {
				wait = max(wait, believed(span))
			}
			end = i + n
		} else if x, n := leadNumber(text[i:]); n > 0 {
			if namesRetry(before) {
				wait = max(wait, believed(scale(x, model.Second)))
			}
			end = i + n
		}
		i = end - 1
	}
	return wait
}

// textInstant reads an instant with a zone, after a word that makes it an end.
func textInstant(text, before []byte, now time.Time) (model.Nanos, int) {
	if len(text) < 20 || text[4] != '-' || text[7] != '-' || text[13] != ':' {
		return unsaid, 0
	}
	end := 19
	for end < len(text) && end < 40 && strings.IndexByte("+-:.Z0123456789 UTCGMS", text[end]) >= 0 {
		end++
	}
	for n := end; n >= 19; n-- {
		if t, ok := parseInstant(string(bytes.TrimRight(text[:n], " .,"))); ok {
			if !endsWith(before, "at", "until", "till", "after", "on", "before", "reset", "resets", "at:", "将在", "于", "直到", "time:") {
				return unsaid, n
			}
			return until(t, now), n
		}
	}
	return unsaid, 19
}

// endsWith reports whether text ends with one of the words, in any case, before
// spaces and colons.
func endsWith(text []byte, ends ...string) bool {
	text = bytes.TrimRight(text, " :=\"'`")
	for _, word := range ends {
		n := len(text) - len(word)
		if n < 0 || !strings.EqualFold(string(text[n:]), word) {
			continue
		}
		if n == 0 || !isLetter(rune(text[n-1])) || word[0] >= 0x80 {
			return true
		}
	}
	return false
}

// asksToWait reports whether the words around a span make it a wait.
func asksToWait(before, after []byte) bool {
	after = bytes.TrimLeft(after, " ")
	for _, word := range [...]string{"后", "之后", "以后", "後", "之後", "以後", "후", "뒤", "내에 다시"} {
		if bytes.HasPrefix(after, []byte(word)) {
			return true
		}
	}
	if endsWith(before, "等待", "请等", "請等", "剩余", "还需", "需等待", "稍等", "冷却", "через", "подождите", "blocked for", "banned for", "locked for", "been timed out for") {
		return true
	}
	if hasPrefixFold(after, "before retry") || hasPrefixFold(after, "until") || hasPrefixFold(after, "remaining") || hasPrefixFold(after, "and try again") || hasPrefixFold(after, "and retry") || hasPrefixFold(after, "then retry") {
		return true
	}
	if !endsWith(before, "in", "after", "for", "wait", "about", "approximately", "around", "least", "another", "within", "~", "delay", "retry", "after about", "backoff", "dans", "en", "em", "tra", "fra", "nach", "après", "après un délai de") {
		return false
	}
	lower := bytes.ToLower(before)
	for _, word := range [...]string{"again", "retry", "wait", "reset", "replenish", "available", "back ", "cool", "unblock", "lift", "refresh", "renew", "resume", "recover", "restor", "banned", "block"} {
		if bytes.Contains(lower, []byte(word)) {
			return true
		}
	}
	// In other languages the verb may stand behind.
	lower = append(lower, bytes.ToLower(after[:min(len(after), 40)])...)
	for _, word := range [...]string{"erneut", "versuch", "warten", "réessay", "patient", "attend", "intént", "intent", "vuelv", "esper", "tente", "aguard", "riprov"} {
		if bytes.Contains(lower, []byte(word)) {
			return true
		}
	}
	return false
}

// namesRetry reports whether a bare number follows the name of a retry field,
// as in a quoted header.
func namesRetry(before []byte) bool {
	return endsWith(before, "retry-after", "retry_after", "retryafter", "retry after")
}
