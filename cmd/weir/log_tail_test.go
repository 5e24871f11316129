package main

import (
	"bytes"
	"strings"
	"testing"

	"weir/model"
)

// TestTailChoice holds which records each choice shows.
func TestTailChoice(t *testing.T) {
	report := func(agent, channel string, class model.Class) *model.Attempts {
		return &model.Attempts{
			Source: model.Source{Agent: agent}, Channels: []model.ChannelReport{{Channel: "idle"}, {Channel: channel}},
			Attempts: []model.Attempt{{Channel: 1, Class: model.ClassOK}, {Channel: 1, Class: class}, {Channel: 9, Class: model.ClassAuth}},
		}
	}
	facts := []model.Fact{
		0: report("a", "main", model.ClassOverloaded),
		1: report("b", "spare", model.ClassRateLimited),
		2: &model.Attempts{Source: model.Source{Agent: "a"}, Channels: []model.ChannelReport{{Channel: "main"}}},
		3: &model.Summary{Source: model.Source{Agent: "b"}, Counts: []model.SummaryCount{{Channel: "main", Class: model.ClassOverloaded, Attempts: 3}}},
		4: &model.Command{Channel: "main"},
		5: &model.Command{Agent: "b"},
		6: &model.Config{},
		7: nil,
	}
	for _, c := range []struct {
		filter tailFilter
		want   string
	}{
		{tailFilter{}, "0 1 2 3 4 5 6 7"},
		{tailFilter{Kind: []string{"command", "config"}}, "4 5 6"},
		{tailFilter{Agent: "b"}, "1 3 5"},
		{tailFilter{Channel: "main"}, "0 3 4"},
		{tailFilter{Channel: "idle"}, ""},
		{tailFilter{Class: []string{"overloaded", "rate_limited"}}, "0 1 3"},
		{tailFilter{Class: []string{"auth"}}, ""}, // of a channel that the report does not name
		{tailFilter{Class: []string{"overloaded"}, Channel: "spare"}, ""},
		{tailFilter{Class: []string{"overloaded"}, Agent: "a", Kind: []string{"attempts"}}, "0"},
	} {
		choice, err := c.filter.choice()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, f := range facts {
			if choice.has(f) {
				got = append(got, string(rune('0'+i)))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v shows %v, want %s", c.filter, got, c.want)
		}
	}
}

// TestTailKeepsTheNewest holds that the newest of a choice are shown at the end
// of the log, and then each at once.
func TestTailKeepsTheNewest(t *testing.T) {
	var out bytes.Buffer
	choice, err := (&tailFilter{Kind: []string{"lead"}}).choice()
	if err != nil {
		t.Fatal(err)
	}
	shown := tail{out: &out, choice: choice, held: true, most: 2}
	for seq := uint64(1); seq <= 12; seq++ {
		fact := model.Fact(&model.Lead{Term: seq, Controller: "c"})
		if seq%2 == 0 {
			fact = &model.Tick{}
		}
		if err := shown.add(model.Record{Seq: seq, Fact: fact}, seq >= 10); err != nil {
			t.Fatal(err)
		}
		if seq < 10 && out.Len() > 0 {
			t.Fatalf("at record %d: %s", seq, out.String())
		}
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		n, _, _ := strings.Cut(line, " ")
		got = append(got, n)
	}
	if strings.Join(got, " ") != "7 9 11" {
		t.Errorf("shown are %v, want 7 9 11", got)
	}
}
