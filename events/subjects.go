package events

import (
	"fmt"
	"strings"
)

// MaxName is the largest length of a fleet's or an agent's name, in bytes.
const MaxName = 64

// control is the last token of the control subject and so no agent's name.
const control = "control"

// CheckFleet returns an error that says why name cannot be a fleet's name: it
// is part of every subject, so 1 to MaxName bytes of [A-Za-z0-9_-].
func CheckFleet(name string) error { return checkName("fleet", name) }

// CheckAgent returns an error that says why name cannot be an agent's name:
// as CheckFleet, and "control" is taken by the controller.
func CheckAgent(name string) error {
	if name == control {
		return fmt.Errorf("check agent name %q: it is the controller's subject", name)
	}
	return checkName("agent", name)
}

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("check %s name: it is empty", what)
	case len(name) > MaxName:
		return fmt.Errorf("check %s name: %d bytes, at most %d", what, len(name), MaxName)
	case !plain(name):
		return fmt.Errorf("check %s name %q: only A-Z a-z 0-9 _ - are allowed", what, name)
	}
	return nil
}

// plain reports whether s has only bytes of [A-Za-z0-9_-].
func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// LogSubject is where an agent's reports go.
func LogSubject(fleet, agent string) string { return "weir." + fleet + ".log." + agent }

// ControlSubject is where the controller's own facts go.
func ControlSubject(fleet string) string { return LogSubject(fleet, control) }

// LogSubjects matches every subject of a fleet's log.
func LogSubjects(fleet string) string { return "weir." + fleet + ".log.*" }

// LimitsSubject holds the last full set of limits.
func LimitsSubject(fleet string) string { return "weir." + fleet + ".out.limits" }

// ChangesSubject holds every limit that changed since the last full set.
func ChangesSubject(fleet string) string { return "weir." + fleet + ".out.changes" }

// ConfigSubject holds the fleet's configuration.
func ConfigSubject(fleet string) string { return "weir." + fleet + ".out.config" }

// TermSubject holds the leader's announcement.
func TermSubject(fleet string) string { return "weir." + fleet + ".out.term" }

// LeaseSubject holds one agent's lease.
func LeaseSubject(fleet, agent string) string { return "weir." + fleet + ".out.lease." + agent }

// OutSubjects matches every subject of a fleet's outputs.
func OutSubjects(fleet string) string { return "weir." + fleet + ".out.>" }

// LiveSubject is where an output is repeated once it is stored: an output
// that was refused is never seen there.
func LiveSubject(fleet, out string) string {
	return "weir." + fleet + ".live." + strings.TrimPrefix(out, "weir."+fleet+".out.")
}

// ParseLogSubject takes a subject of a log apart; agent is "" for the control
// subject. ok is false for every other subject.
func ParseLogSubject(subject string) (fleet, agent string, ok bool) {
	rest, ok := strings.CutPrefix(subject, "weir.")
	if !ok {
		return "", "", false
	}
	fleet, agent, ok = strings.Cut(rest, ".log.")
	if !ok || CheckFleet(fleet) != nil {
		return "", "", false
	}
	if agent == control {
		return fleet, "", true
	}
	return fleet, agent, CheckAgent(agent) == nil
}
