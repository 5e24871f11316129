package model

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestFirstRanks holds that the first of a line are those of the sorted line.
func TestFirstRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := make([]slotRank, rapid.IntRange(1, 200).Draw(t, "line"))
		most := rapid.Uint64Range(0, 300).Draw(t, "turns")
		for i := range line {
			line[i] = slotRank{class: rapid.IntRange(0, 3).Draw(t, "class"), turn: rapid.Uint64Range(0, most).Draw(t, "turn"), lease: i}
		}
		want := slices.SortedFunc(slices.Values(line), slotRank.compare)
		n := rapid.IntRange(1, len(line)).Draw(t, "n")
		got := firstRanks(line, n)
		slices.SortFunc(got, slotRank.compare)
		if !slices.Equal(got, want[:n]) {
			t.Fatalf("first %d of %v: %v", n, want, got)
		}
	})
}
