package incident

import (
	"strings"
	"testing"
	"time"
)

// TestScript holds that every change of every built-in incident is said, in
// order.
func TestScript(t *testing.T) {
	for _, name := range List() {
		inc, err := Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		steps := inc.Script()
		want := len(inc.Fleet.Changes)
		for k := range inc.Providers {
			want += len(inc.Providers[k].Changes)
		}
		if len(steps) != want {
			t.Errorf("%s: %d steps, want %d", name, len(steps), want)
		}
		last := time.Duration(0)
		for _, s := range steps {
			if s.At < last || len(s.Text) < 5 || strings.HasSuffix(s.Text, ": ") {
				t.Errorf("%s: step %+v after %s", name, s, last)
			}
			last = s.At
		}
	}
}

func TestScriptSaysWhat(t *testing.T) {
	inc := &Incident{
		Providers: []Provider{{Name: "p", Law: Law{Concurrency: 240, Queue: 1}, Changes: []Change{
			{At: 3 * time.Second, Over: 1500 * time.Millisecond, To: Law{Concurrency: -1, Queue: 1}},
			{At: 5 * time.Second, To: Law{Concurrency: -1, Queue: 1}},
		}}},
		Fleet: Fleet{Changes: []FleetChange{{At: 4 * time.Second, For: time.Second, Kind: Partition, Agents: []int{1, 2}}}},
	}
	var got []string
	for _, s := range inc.Script() {
		got = append(got, s.Text)
	}
	want := "p: concurrency 240 → none, over 1.5 s|2 agents cut off, for 1.0 s|p: the law changes"
	if text := strings.Join(got, "|"); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
