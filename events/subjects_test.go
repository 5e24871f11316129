package events_test

import (
	"strings"
	"testing"

	"weir/events"
)

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "A-Z_09", strings.Repeat("x", 64)} {
		if events.CheckFleet(name) != nil || events.CheckAgent(name) != nil {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{"", strings.Repeat("x", 65), "a.b", "a b", "*", ">", "ä", "a\n", "a/b", "@", "[", "`", "{"} {
		if events.CheckFleet(name) == nil || events.CheckAgent(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
	if events.CheckAgent("control") == nil || events.CheckFleet("control") != nil {
		t.Error("control is a fleet's name and no agent's")
	}
}

func TestSubjects(t *testing.T) {
	for got, want := range map[string]string{
		events.LogSubject("f", "a1"):                            "weir.f.log.a1",
		events.ControlSubject("f"):                              "weir.f.log.control",
		events.LogSubjects("f"):                                 "weir.f.log.*",
		events.LimitsSubject("f"):                               "weir.f.out.limits",
		events.ChangesSubject("f"):                              "weir.f.out.changes",
		events.ConfigSubject("f"):                               "weir.f.out.config",
		events.TermSubject("f"):                                 "weir.f.out.term",
		events.LeaseSubject("f", "a1"):                          "weir.f.out.lease.a1",
		events.OutSubjects("f"):                                 "weir.f.out.>",
		events.LiveSubject("f", events.LeaseSubject("f", "a1")): "weir.f.live.lease.a1",
		events.LiveSubject("f", events.LimitsSubject("f")):      "weir.f.live.limits",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestParseLogSubject(t *testing.T) {
	for subject, want := range map[string][2]string{
		"weir.f.log.a1":             {"f", "a1"},
		"weir.f.log.control":        {"f", ""},
		"weir.log.log.log":          {"log", "log"},
		events.LogSubject("x", "y"): {"x", "y"},
	} {
		fleet, agent, ok := events.ParseLogSubject(subject)
		if !ok || fleet != want[0] || agent != want[1] {
			t.Errorf("%s: %q %q %v", subject, fleet, agent, ok)
		}
	}
	for _, subject := range []string{"", "weir", "weir.f.log.", "weir..log.a", "weir.f.log.a.b", "weir.f.out.limits", "weir.f.g.log.a", "weir.f.log.*", "x.weir.f.log.a"} {
		if fleet, agent, ok := events.ParseLogSubject(subject); ok {
			t.Errorf("%q is %q %q", subject, fleet, agent)
		}
	}
}
