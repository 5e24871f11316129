package classify

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// label is what an answer of testdata/labelled is: the class that is meant and
// those that will do, and the hints; a dimension, limit or remaining that is
// not said is not compared, but a wait that is not said must not be found.
type label struct {
	ID       string
	Expected struct {
		Class            string
		Wait             *float64 `json:"retry_after_s"`
		Dimension        *string
		Limit, Remaining *int64
	}
	Accept          []string
	AcceptWait      []*float64 `json:"retry_accept"`
	AcceptDimension []string   `json:"dim_accept"`
}

// score counts what was right of how many.
type score struct{ right, of int }

func (s *score) add(right bool) bool {
	s.of++
	if right {
		s.right++
	}
	return right
}

func (s *score) percent() float64 { return 100 * float64(s.right) / float64(max(s.of, 1)) }

// TestLabelled judges answers that were written down before the rules were looked
// at: known.jsonl those of providers and gateways as they are documented and
// reported, world.jsonl those of providers, gateways and languages that have few
// rules of their own or none. Here a part may be wrong: the floors say how well
// the rules do on what they have not met.
func TestLabelled(t *testing.T) {
	for _, name := range []string{"known", "world"} {
		t.Run(name, func(t *testing.T) { scoreLabelled(t, "testdata/labelled/"+name+".jsonl") })
	}
}

func scoreLabelled(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := newClassifier(t)
	var strict, loose, hints, dimensions, limits score
	for line := range bytes.Lines(data) {
		var want label
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		a, id, err := parseLine(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		v := c.Classify(a)
		got := v.result(id)
		strict.add(got.Class == want.Expected.Class)
		accepted := got.Class == want.Expected.Class || slices.Contains(want.Accept, got.Class)
		if !loose.add(accepted) {
			t.Logf("%s: class %s by %s, want %s", want.ID, got.Class, got.Rule, want.Expected.Class)
		}
		if !hints.add(slices.ContainsFunc(append(want.AcceptWait, want.Expected.Wait), func(w *float64) bool { return near(w, got.RetryAfter) })) {
			t.Logf("%s: a wait of %s", want.ID, shown(got.RetryAfter))
		}
		if d := want.Expected.Dimension; d != nil && accepted && !dimensions.add(got.Dimension != nil && slices.Contains(append(want.AcceptDimension, *d), *got.Dimension)) {
			t.Logf("%s: dimension %s by %s, want %s", want.ID, shown(got.Dimension), got.Rule, *d)
		}
		for want, got := range map[*int64]*int64{want.Expected.Limit: got.Limit, want.Expected.Remaining: got.Remaining} {
			if want != nil && !limits.add(got != nil && *got == *want) {
				t.Logf("%s: limit or remaining %s, want %d", id, shown(got), *want)
			}
		}
	}
	for _, f := range []struct {
		name  string
		score score
		floor float64
	}{{"strict", strict, 96}, {"loose", loose, 99}, {"hints", hints, 99}, {"dimension", dimensions, 95}, {"limits", limits, 90}} {
		t.Logf("%s %.1f %% of %d", f.name, f.score.percent(), f.score.of)
		if f.score.percent() < f.floor || f.score.of < 20 {
			t.Errorf("%s: %.1f %% of %d, want at least %.0f %%", f.name, f.score.percent(), f.score.of, f.floor)
		}
	}
}

// near reports whether two waits are the same to the label's precision.
func near(want, got *float64) bool {
	if want == nil || got == nil {
		return want == got
	}
	return math.Abs(*want-*got) <= 0.05
}

func shown(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}
