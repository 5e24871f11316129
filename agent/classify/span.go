package classify

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/model"
)

// unsaid stands for a wait that was not told.
const unsaid = model.Nanos(-1)

// maxWait is the longest wait that is believed: a plan's month and a little.
// Anything longer is a mistake, and a mistake is no hint.
const maxWait = 32 * 24 * model.Hour

// believed returns n if it can be a wait.
func believed(n model.Nanos) model.Nanos {
	if n < 0 || n > maxWait {
		return unsaid
	}
	return n
}

// spanUnits are units of time as texts write them, longer spellings first.
var spanUnits = []struct {
	name string
	unit model.Nanos
}{
	{"milliseconds", model.Millisecond},
	{"millisecond", model.Millisecond},
	{"msec", model.Millisecond},
	{"ms", model.Millisecond},
	{"毫秒", model.Millisecond},
	{"seconds", model.Second},
	{"second", model.Second},
	{"secs", model.Second},
	{"sec", model.Second},
	{"秒钟", model.Second},
	{"秒", model.Second},
	{"minutes", model.Minute},
	{"minute", model.Minute},
	{"mins", model.Minute},
	{"min", model.Minute},
	{"分钟", model.Minute},
	{"分", model.Minute},
	{"hours", model.Hour},
	{"hour", model.Hour},
	{"hrs", model.Hour},
	{"hr", model.Hour},
	{"个小时", model.Hour},
	{"小时", model.Hour},
	{"days", 24 * model.Hour},
	{"day", 24 * model.Hour},
	{"天", 24 * model.Hour},
	{"sekunden", model.Second},
	{"sekunde", model.Second},
	{"secondes", model.Second},
	{"seconde", model.Second},
	{"secondi", model.Second},
	{"segundos", model.Second},
	{"segundo", model.Second},
	{"секунды", model.Second},
	{"секунду", model.Second},
	{"секунд", model.Second},
	{"сек", model.Second},
	{"초", model.Second},
	{"minuten", model.Minute},
	{"minutos", model.Minute},
	{"minuto", model.Minute},
	{"minuti", model.Minute},
	{"минуты", model.Minute},
	{"минуту", model.Minute},
	{"минут", model.Minute},
	{"мин", model.Minute},
	{"분", model.Minute},
	{"分鐘", model.Minute},
	{"小時", model.Hour},
	{"時間", model.Hour},
	{"stunden", model.Hour},
	{"heures", model.Hour},
	{"horas", model.Hour},
	{"часов", model.Hour},
	{"часа", model.Hour},
	{"час", model.Hour},
	{"시간", model.Hour},
	{"s", model.Second},
	{"m", model.Minute},
	{"h", model.Hour},
	{"d", 24 * model.Hour},
}

// leadNumber reads a decimal number without sign or exponent and returns its
// length, 0 if there is none.
func leadNumber(b []byte) (x float64, n int) {
	dot := false
	for n < len(b) && n < 24 {
		c := b[n]
		if c == '.' && !dot && n > 0 && n+1 < len(b) && isDigit(rune(b[n+1])) {
			dot = true
		} else if !isDigit(rune(c)) {
			break
		}
		n++
	}
	if n == 0 {
		return 0, 0
	}
	x, err := strconv.ParseFloat(string(b[:n]), 64)
	if err != nil {
		return 0, 0
	}
	return x, n
}

// leadUnit reads a unit of time, after spaces, and returns how long it is.
func leadUnit(b []byte) (unit model.Nanos, n int) {
	gap := len(b) - len(bytes.TrimLeft(b, " -"))
	if gap > 1 {
		return 0, 0
	}
	b = b[gap:]
	for _, u := range spanUnits {
		if !hasPrefixFold(b, u.name) {
			continue
		}
		end := len(u.name)
		if end < len(b) && isLetter(rune(b[end])) && isLetter(rune(u.name[0])) {
			continue // "s" of "slots"
		}
		return u.unit, gap + end
	}
	return 0, 0
}

// leadSpan reads a span such as 3.89s, 120ms, 7m12s, "2 minutes and 5 seconds"
// or 03:14:07 at the start of b and returns how long it is, 0 if there is none.
func leadSpan(b []byte) (span model.Nanos, n int) {
	if span, n = leadClock(b); n > 0 {
		return span, n
	}
	for {
		x, digits := leadNumber(b[n:])
		if digits == 0 {
			return span, n
		}
		unit, length := leadUnit(b[n+digits:])
		if length == 0 {
			return span, n
		}
		span += scale(x, unit)
		n += digits + length
		rest := bytes.TrimLeft(b[n:], " ,")
		if hasPrefixFold(rest, "and ") {
			rest = rest[4:]
		}
		if _, more := leadNumber(rest); more == 0 {
			return span, n
		} else if _, length := leadUnit(rest[more:]); length == 0 {
			return span, n
		}
		n = len(b) - len(rest)
	}
}

// scale multiplies and stays far from overflow.
func scale(x float64, unit model.Nanos) model.Nanos {
	ns := x * float64(unit)
	if !(ns < float64(4*maxWait)) {
		return 4 * maxWait
	}
	return model.Nanos(ns + 0.5)
}

// leadClock reads hh:mm:ss or d.hh:mm:ss.
func leadClock(b []byte) (span model.Nanos, n int) {
	var days int
	var part [3]int
	digits := func() (int, bool) {
		start := n
		for n < len(b) && n-start < 4 && isDigit(rune(b[n])) {
			n++
		}
		x, err := strconv.Atoi(string(b[start:n]))
		return x, err == nil
	}
	first, ok := digits()
	if !ok {
		return 0, 0
	}
	if n < len(b) && b[n] == '.' {
		days = first
		n++
		if first, ok = digits(); !ok {
			return 0, 0
		}
	}
	part[0] = first
	for i := 1; i < 3; i++ {
		if n+2 >= len(b) || b[n] != ':' || !isDigit(rune(b[n+1])) || !isDigit(rune(b[n+2])) {
			return 0, 0
		}
		n++
		part[i], _ = digits()
	}
	seconds := ((days*24+part[0])*60+part[1])*60 + part[2]
	return model.Nanos(seconds) * model.Second, n
}

// parseSpan reads a whole value as a span: a number counts unit, and a unit or
// a clock may be written out, in ISO 8601 too. Words, signs and NaN are no span.
func parseSpan(s string, unit model.Nanos) model.Nanos {
	b := []byte(strings.TrimSpace(s))
	if x, n := leadNumber(b); n > 0 && n == len(b) {
		return believed(scale(x, unit))
	}
	if hasPrefixFold(b, "pt") {
		b = b[2:]
	}
	span, n := leadSpan(b)
	if n == 0 || n != len(b) {
		return unsaid
	}
	return believed(span)
}

// instantLayouts are the ways providers write an instant. All name a zone: a
// local time without one is no hint.
var instantLayouts = []string{
	time.RFC3339Nano,
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02T15:04:05.999999999Z0700",
	"2006-01-02 15:04:05.999999999 -0700 MST",
	"2006-01-02 15:04:05 -0700 MST",
	"2006-01-02 15:04:05 -0700",
	"2006-01-02 15:04:05-0700",
	"2006-01-02 15:04:05 UTC",
	"2006-01-02 15:04:05 GMT",
	"2006-01-02 15:04 UTC",
	http.TimeFormat,
	time.RFC1123Z,
	time.RFC850,
	time.ANSIC,
}

func parseInstant(s string) (time.Time, bool) {
	for _, layout := range instantLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// until returns the wait from now to t; none without a clock or when t is past.
func until(t, now time.Time) model.Nanos {
	if now.IsZero() {
		return unsaid
	}
	return believed(model.Nanos(t.Sub(now)))
}

// parseReset reads a value that may be a span, an instant, or a number that is
// one or the other by its size: below 1e8 a delta in unit, then seconds,
// milliseconds, microseconds or nanoseconds since 1970.
func parseReset(s string, unit model.Nanos, now time.Time) model.Nanos {
	s = strings.TrimSpace(s)
	x, n := leadNumber([]byte(s))
	if n == 0 || n != len(s) {
		if t, ok := parseInstant(s); ok {
			return until(t, now)
		}
		return parseSpan(s, unit)
	}
	switch {
	case x < 1e8:
		return believed(scale(x, unit))
	case x < 1e11:
		return until(time.UnixMilli(int64(x*1e3)), now)
	case x < 1e14:
		return until(time.UnixMilli(int64(x)), now)
	case x < 1e17:
		return until(time.UnixMicro(int64(x)), now)
	case x < 9e18:
		return until(time.Unix(0, int64(x)), now)
	}
	return unsaid
}
