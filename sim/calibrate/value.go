package calibrate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"weir/model"
)

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
