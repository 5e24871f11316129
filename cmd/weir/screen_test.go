package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"weir/model"
)

// TestStatusFitsTheScreen prints the state of channels with long, wide and
// Chinese names on screens of several widths, and to a file.
func TestStatusFitsTheScreen(t *testing.T) {
	reason := "latency.cut: calls take 131 % of their baseline with 88 in flight"
	s := fleetStatus{Controller: []byte(`{"fleet":"夜间","term":3,"leads":true,"version":"v","params":"defaults"}`)}
	for _, name := range []string{"main", "主频道"} {
		s.Channels = append(s.Channels, model.FleetChannel{Name: name, Mode: "enforce", Breaker: "closed", Window: 12_500, InFlight: 9, Weight: model.One, Attempts: map[string]uint64{"ok": 1234, "overloaded": 7}, Reason: reason})
		s.Agents = append(s.Agents, model.FleetAgent{Agent: name + "-1", State: "here", Mode: "enforce", Version: "v"})
	}
	for _, width := range []int{0, 200, 140, 80, 60, 20} {
		var out bytes.Buffer
		if err := s.print(&out, width); err != nil {
			t.Fatal(err)
		}
		words := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range []string{"主频道", "enforce", "12.5", "1234 ok, 7 overloaded", "calls take 131 % of their baseline with 88 in flight"} {
			if !strings.Contains(words, want) && width != 20 {
				t.Errorf("at %d it lacks %q:\n%s", width, want, out.String())
			}
		}
		for line := range strings.Lines(out.String()) {
			if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("at %d: %q is %d wide", width, line, n)
			}
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("at %d it has colours", width)
		}
	}
	var out bytes.Buffer
	if err := s.print(&out, 0); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	column := func(line string) int { return ansi.StringWidth(line[:strings.Index(line, "enforce")]) }
	if a, b := column(lines[3]), column(lines[4]); a != b {
		t.Errorf("columns begin at %d and %d:\n%s", a, b, out.String())
	}
}

func TestWrapped(t *testing.T) {
	text := "short\na line of some words that is long\n"
	if got := wrapped(text, 2, 0); got != text {
		t.Errorf("without a bound: %q", got)
	}
	if got, want := wrapped(text, 2, 20), "short\na line of some\n  words that is long\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
