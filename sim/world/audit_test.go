package world

import (
	"strings"
	"testing"
)

// TestCheckFinds spoils the counts of a run in every way that check looks for.
func TestCheckFinds(t *testing.T) {
	for want, spoil := range map[string]func(w *world){
		"ended twice":           func(w *world) { w.audit.twice++ },
		"were wanted":           func(w *world) { w.book.seconds[3].Completed++ },
		"attempts sent":         func(w *world) { w.audit.tallies[0].sent-- },
		"attempts refused":      func(w *world) { w.audit.tallies[0].refused++ },
		"attempts given up":     func(w *world) { w.audit.tallies[0].left++ },
		"answered or in flight": func(w *world) { w.audit.tallies[0].ok++ },
		"folded":                func(w *world) { w.audit.tallies[0].ok = 0 },
	} {
		w, err := begin(Config{Incident: cascade(t), Seed: 1, Policy: PolicyWeir})
		if err != nil {
			t.Fatal(err)
		}
		w.play()
		if err := w.check(); err != nil {
			t.Fatalf("a whole run: %v", err)
		}
		spoil(w)
		if err := w.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestEndsOnceMore ends a request and an attempt a second time.
func TestEndsOnceMore(t *testing.T) {
	w, err := begin(Config{Incident: cascade(t), Seed: 1, Policy: PolicyNone})
	if err != nil {
		t.Fatal(err)
	}
	w.play()
	var i uint32
	for i = 1; !w.requests.at(i).alive; i++ {
	}
	w.finish(i, false)
	if w.audit.twice != 0 {
		t.Fatal("the first end counts as the second")
	}
	w.finish(i, false)
	if w.audit.twice != 1 {
		t.Error("the second end is not noticed")
	}
}
