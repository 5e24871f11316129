package main

import (
	"strings"
	"testing"
	"time"
)

// TestProgressLines holds that a quick command says nothing, and a long one a
// line now and then, where there is no terminal.
func TestProgressLines(t *testing.T) {
	var out strings.Builder
	at := time.Unix(0, 0)
	b := bar{lines: newLines(&out, "runs", func() time.Time { return at })}
	for n := range int64(40) {
		b.set(n, 100*(n/20))
		at = at.Add(time.Second)
	}
	b.close()
	if want := "runs: 10\nruns: 20 of 100\nruns: 30 of 100\n"; out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
