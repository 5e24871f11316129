package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/events"
	"weir/events/journal"
	"weir/model"
)

// moment is an instant of a log as people name it. The zero value is its end.
type moment struct {
	text    string
	record  uint64        // a record's number
	instant model.Nanos   // Unix time, if clock and ago are unset
	clock   bool          // instant is the time of day
	since   bool          // span is after the first record
	ago     bool          // span is before the last record
	span    time.Duration // not negative
}

func parseMoment(text string) (moment, error) {
	m := moment{text: text}
	if text == "" {
		return m, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && n > 0 {
		m.record = n
		return m, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil && t.Year() > 1700 && t.Year() < 2260 {
		m.instant = model.Nanos(t.UnixNano())
		return m, nil
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			m.instant, m.clock = model.Nanos(t.Sub(t.Truncate(24*time.Hour))), true
			return m, nil
		}
	}
	d, err := time.ParseDuration(strings.TrimPrefix(text, "-"))
	if err != nil || d < 0 {
		return m, fmt.Errorf("%s: want a time such as 2026-11-30T21:04:10Z, 21:04:10, 5m, -5m, or a record's number", text)
	}
	m.span, m.ago = d, strings.HasPrefix(text, "-")
	m.since = !m.ago
	return m, nil
}

// resolve returns what tells whether an entry is after the moment. It reads
// the source where the moment depends on its first or last record.
func (m moment) resolve(ctx context.Context, s *records) (after func(events.Entry) bool, err error) {
	switch {
	case m.text == "":
		return func(events.Entry) bool { return false }, nil
	case m.record > 0:
		return func(e events.Entry) bool { return e.Seq > m.record }, nil
	case m.clock, m.since, m.ago:
		first, last, err := bounds(ctx, s, m.since)
		if err != nil {
			return nil, err
		}
		m.instant = m.within(first, last)
	}
	return func(e events.Entry) bool { return e.Time > m.instant }, nil
}

// within is the moment in a log between two instants.
func (m moment) within(first, last model.Nanos) model.Nanos {
	const day = 24 * model.Hour
	switch {
	case m.ago:
		return last - model.Nanos(m.span)
	case m.since:
		return first + model.Nanos(m.span)
	}
	if at := last - last%day + m.instant; at <= last {
		return at
	}
	return last - last%day + m.instant - day
}

// bounds returns the times of a source's first and last record, of the first
// alone if that is enough.
func bounds(ctx context.Context, s *records, firstOnly bool) (first, last model.Nanos, err error) {
	var n int
	_, err = s.each(ctx, func(e events.Entry) error {
		if n++; n == 1 {
			first = e.Time
		}
		last = max(last, e.Time)
		if firstOnly {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return 0, 0, asInput(err)
	}
	return first, last, nil
}

// asInput makes a damaged journal bad input.
func asInput(err error) error {
	if c := (*journal.CorruptError)(nil); errors.As(err, &c) {
		return badInput(err)
	}
	return err
}
