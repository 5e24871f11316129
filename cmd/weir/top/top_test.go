package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"weir/controller"
	"weir/model"
)

// fleet is one that a test sets.
type fleet struct {
	look Look
	err  error
}

func (f *fleet) Look(context.Context) (Look, error) { return f.look, f.err }

func (f *fleet) Decisions(_ context.Context, channel string) ([]controller.Decision, error) {
	return []controller.Decision{{At: 0, Channel: "主频道", Rule: "window.cut", Reason: "because of " + channel}}, nil
}

func channel(name string, ok uint64) model.FleetChannel {
	return model.FleetChannel{
		Name: name, Breaker: "closed", Mode: "enforce", Window: 12_500, InFlight: 9, Weight: model.One, Latency: 1_200_000,
		Attempts: map[string]uint64{"ok": ok, "overloaded": ok / 10}, Reason: "a reason",
	}
}

// see lets the view look once and ask once.
func see(m *Model) {
	m.Update(m.look()())
	m.Update(m.ask()())
}

func screen(m *Model) string { return ansi.Strip(m.render()) }

func TestTop(t *testing.T) {
	f := &fleet{look: Look{At: time.Unix(100, 0), Fleet: "f", Leads: true, Term: 3, Channels: []model.FleetChannel{channel("main", 100), channel("主频道", 50)}}}
	m := New(t.Context(), f)
	see(m)
	f.look.At = time.Unix(102, 0)
	stopped := channel("主频道", 50)
	stopped.Breaker, stopped.Wait = "open", 12*model.Second
	f.look.Channels = []model.FleetChannel{channel("main", 140), stopped}
	see(m)
	got := screen(m)
	for _, want := range []string{"weir f  leads, term 3", "takes calls", "stopped for 12s", "20.0", "2.0", "1.20×", "because of"} {
		if !strings.Contains(got, want) {
			t.Errorf("the screen lacks %q:\n%s", want, got)
		}
	}
	lines := strings.Split(got, "\n")
	if a, b := lipgloss.Width(lines[4][:strings.Index(lines[4], "12.5")]), lipgloss.Width(lines[5][:strings.Index(lines[5], "12.5")]); a != b {
		t.Errorf("columns begin at %d and %d:\n%s", a, b, got)
	}

	m.Update(tea.KeyPressMsg{Code: tea.KeyDown})
	_, ask := m.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
	m.Update(ask())
	if got := screen(m); !strings.Contains(got, "decisions of 主频道") || !strings.Contains(got, "because of 主频道") {
		t.Errorf("the chosen channel's decisions:\n%s", got)
	}
	if _, end := m.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); end == nil {
		t.Error("q does not end it")
	}
	f.err = errors.New("gone")
	see(m)
	if got := screen(m); !strings.Contains(got, "no news since") || !strings.Contains(got, "main") {
		t.Errorf("after the controller went away:\n%s", got)
	}
}

// TestTopOnNarrowScreens holds that what one looks for first is whole on a
// narrow screen: the state, the window, the refusals and the chosen one's reason.
func TestTopOnNarrowScreens(t *testing.T) {
	stopped := channel("主频道-of-the-far-away-provider-in-the-north", 50)
	stopped.Breaker, stopped.Wait, stopped.Reason = "open", 12*model.Second, "opened until an operator closes it, since the provider refused the last five of eight calls"
	f := &fleet{look: Look{At: time.Unix(100, 0), Fleet: "f", Leads: true, Channels: []model.FleetChannel{stopped, channel("main", 100)}}}
	m := New(t.Context(), f)
	see(m)
	for _, size := range [][2]int{{160, 40}, {100, 30}, {80, 24}, {60, 24}} {
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		got := screen(m)
		words := strings.Join(strings.Fields(got), " ")
		for _, want := range []string{"stopped for 12s", "WINDOW", "12.5", "REFUSED/S", "since the provider refused the last five of eight calls"} {
			if !strings.Contains(words, want) {
				t.Errorf("%v: the screen lacks %q:\n%s", size, want, got)
			}
		}
		for line := range strings.SplitSeq(got, "\n") {
			if lipgloss.Width(line) > size[0] {
				t.Errorf("%v: %q is %d wide", size, line, lipgloss.Width(line))
			}
		}
	}
}

// TestTopFitsTheScreen draws many channels on screens of all sizes.
func TestTopFitsTheScreen(t *testing.T) {
	f := &fleet{look: Look{At: time.Unix(1, 0)}}
	for i := range 200 {
		f.look.Channels = append(f.look.Channels, channel(fmt.Sprintf("channel-%03d", i), 1))
	}
	m := New(t.Context(), f)
	see(m)
	for _, size := range [][2]int{{200, 60}, {80, 24}, {20, 10}, {5, 3}} {
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for range 199 {
			m.Update(tea.KeyPressMsg{Code: tea.KeyDown})
		}
		lines := strings.Split(screen(m), "\n")
		if len(lines) > size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, line := range lines {
			if lipgloss.Width(line) > size[0] {
				t.Errorf("%v: %q is %d wide", size, line, lipgloss.Width(line))
			}
		}
		if size[1] >= 20 && !strings.Contains(strings.Join(lines, "\n"), "channel-199") {
			t.Errorf("%v: the chosen row is not on the screen", size)
		}
		m.at = 0
	}
}
