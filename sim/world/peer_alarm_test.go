package world

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestAlarmsComeInOrder compares the heap with sorting.
func TestAlarmsComeInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h alarms
		var dumb []alarm
		number := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(dumb) > 0 && rapid.Bool().Draw(t, "pop") {
				slices.SortFunc(dumb, func(a, b alarm) int {
					return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.place.number, b.place.number))
				})
				if next, got := h.next(), h.pop(); got != dumb[0] || next != got.at {
					t.Fatalf("next at %d, got %v; want %v", next, got, dumb[0])
				}
				dumb = dumb[1:]
				continue
			}
			number++
			a := alarm{at: rapid.Int64Range(0, 9).Draw(t, "at"), place: place{1, number}}
			h.push(a)
			dumb = append(dumb, a)
		}
		if len(h) != len(dumb) || len(h) == 0 && h.next() != never {
			t.Fatalf("%d alarms left, want %d", len(h), len(dumb))
		}
	})
}
