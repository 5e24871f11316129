package events_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"weir/events"
	"weir/model"
)

func TestDescribe(t *testing.T) {
	all := samples()
	all["unknown"] = &model.Unknown{K: 77}
	all["unreadable"] = nil
	hash := all["params"].(*model.ParamSet).Params.Hash()
	for name, want := range map[string]string{
		"attempts":   `attempts agent-0 boot 1790000000123456789 report 4711, version 0.1.0, observe, leaving, 1 ok, 1 rate_limited (2064), 1 transport, tokens 4000 in 612 out; minimax-main 28 in flight 2 held 300 queued; spare 0 in flight`,
		"alive":      `attempts a1 boot 7 report 3`,
		"summary":    `summary agent-0 boot 9 reports 100..349; minimax-main 900 ok; minimax-main 2 canceled; spare 7 overloaded`,
		"config":     `config 2 channels, 2 groups, 1 routes, 1 tenants, observe`,
		"guarded":    `params spring ` + hash + ` by ops: "calmer cuts", on main alone, watched for 10m0s: goodput may change by -20000 ppm, waste by 10000`,
		"params":     `params spring ` + hash + ` by ops: "calmer cuts"`,
		"command":    `command set_limit minimax-main a1 -1 for 5m0s by ops: "maintenance at the provider"`,
		"lead":       `lead term 12, ctl-1, version 0.1.0, laws 3`,
		"tick":       `tick term 12, 250ms`,
		"rebase":     `rebase term 12, 5 bytes of state 0102000000000000: "log ended at 900, state is at 1000"`,
		"unknown":    `kind 77 of a newer version`,
		"unreadable": `unreadable`,
	} {
		got := events.Describe(model.Record{Seq: 5, Time: 1_500_000_000, Fact: all[name]})
		if want = "5 1970-01-01T00:00:01.500Z " + want; got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

// TestDescribeHostile renders names that would move a terminal's cursor.
func TestDescribeHostile(t *testing.T) {
	evil := "x\x1b[2J\n\u202e\xff" + strings.Repeat("long", 1000)
	a := &model.Attempts{Source: model.Source{Agent: evil}, Version: evil, Channels: make([]model.ChannelReport, 100)}
	for range 100 {
		a.Attempts = append(a.Attempts, model.Attempt{Class: model.ClassInvalid, Code: evil}, model.Attempt{Class: 99})
	}
	a.Channels[0].Channel = evil
	for _, f := range []model.Fact{
		a,
		&model.Command{Channel: evil, Agent: evil, By: evil, Why: evil},
		&model.ParamSet{Name: evil, By: evil, Why: evil},
		&model.Rebase{Reason: evil},
		&model.Summary{Counts: make([]model.SummaryCount, 100)},
		&model.Lead{Controller: evil, Version: evil},
	} {
		line := events.Describe(model.Record{Fact: f})
		if !utf8.ValidString(line) || strings.ContainsAny(line, "\x1b\n\u202e") || len(line) > 3000 {
			t.Errorf("%s: %d bytes: %s", f.Kind(), len(line), line)
		}
	}
}
