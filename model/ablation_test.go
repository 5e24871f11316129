package model

import "testing"

// TestAblate cuts a window twice by refusals of attempts admitted before the
// first cut, and looks at what is left of 100 slots with 97 others in flight.
func TestAblate(t *testing.T) {
	for a, want := range map[Ablation][2]Milli{
		AblateNothing: {97_000, 97_000}, // at most: what was measured, then stale
		AblatePin:     {70_000, 70_000},
		AblateEpochs:  {97_000, 96_999}, // again
	} {
		f := NewFleet()
		f.Ablate(a)
		var fx Effects
		f.Apply(Record{Seq: 1, Time: Second, Fact: &Config{Fleet: "f", Channels: []ChannelConfig{{Name: "c"}}}}, &fx)
		c := f.channels[0]
		c.window.Base, c.inflight = 100_000, 97
		var got [2]Milli
		for i := range got {
			f.refuseWindow(c, &Attempt{Class: ClassOverloaded}, 0, &fx)
			got[i] = c.window.Base
		}
		if got[0] > want[0] || got[1] > want[1] || a != AblateEpochs && got[0] != got[1] {
			t.Errorf("ablation %d: %d, then %d milli-slots; want at most %d, then %d", a, got[0], got[1], want[0], want[1])
		}
		if a != AblatePin && got[0] < 90_000 {
			t.Errorf("ablation %d: %d milli-slots of what was measured, 97 slots", a, got[0])
		}
	}
}
