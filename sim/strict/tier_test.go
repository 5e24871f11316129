package strict_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/sim/strict"
)

// tiers reads a route's tiers and checks them against channels a and b.
func tiers(text string) ([]strict.Tier, error) {
	r, body, err := strict.Document("f", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	f := r.Mapping(body, "")
	out := f.Tiers("tiers")
	f.Done()
	r.ReferTiers(f, "tiers", map[string]bool{"a": true, "b": true})
	return out, r.Err()
}

func TestTiers(t *testing.T) {
	got, err := tiers("tiers: [[a, {channel: b, weight: 0.5}], {channels: [b], capability: light}, {rule: later}]")
	want := []strict.Tier{
		{Channels: []strict.Weighted{{Channel: "a", Weight: strict.PPM}, {Channel: "b", Weight: strict.PPM / 2}}},
		{Channels: []strict.Weighted{{Channel: "b", Weight: strict.PPM}}, Capability: "light"},
		{Rule: "later"},
	}
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestTierFaults(t *testing.T) {
	for text, want := range map[string]string{
		"tiers: []": "f:1:1: tiers: must have 1 to 32 tiers, has 0",
		"{}":        "tiers: missing",
		"tiers: [" + strings.Repeat("[a],", 33) + "]": "must have 1 to 32 tiers, has 33",
		"tiers: [[]]":                            "tiers[0]: needs either channels or a rule",
		"tiers: [{channels: [a], rule: no}]":     "tiers[0]: needs either channels or a rule",
		"tiers: [[c]]":                           `there is no channel named "c"`,
		"tiers: [{channels: [{channel: c}]}]":    `there is no channel named "c"`,
		"tiers: [[{channel: a, weight: 0.001}]]": "tiers[0][0].weight: must be from 0.01 to 1000",
		"tiers: [[{channel: a, weigth: 1}]]":     "weigth",
		"tiers: [[{weight: 1}]]":                 "tiers[0][0].channel: missing",
		"tiers: [7]":                             "tiers[0]: must be a mapping of keys",
	} {
		_, err := tiers(text)
		var faults *strict.ParseError
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q", text, err, want)
		}
	}
}
