package peer

import (
	"slices"
	"testing"

	"weir/model"
)

func TestWindowStepByStep(t *testing.T) {
	for _, c := range []struct {
		name                  string
		l                     *Window
		start                 int
		successes             int // in all
		grown                 int64
		refusals              []int64 // the window after each
		afterTimeout, noisily int64
	}{
		// 10+30 = 40; 28, 19.6, 13.3, 9.1, 6.3, 4.2, 2.8, 1.4, then the floor.
		{"plain", NewPlain(), 10, 30, 40, []int64{28, 19, 13, 9, 6, 4, 2, 1, 1}, 1, 1},
		// 5+40 stops at 30; 15, 7.5, then the floor.
		{"remedy", NewRemedy(), 5, 40, 30, []int64{15, 7, 5, 5}, 5, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &line{t: t, l: c.l}
			if n := len(s.fill()); n != c.start {
				t.Fatalf("%d admitted at first, want %d", n, c.start)
			}
			s.ask(Wait, Never)
			c.l.inFlight = 0
			for range c.successes {
				s.ok(s.send())
			}
			if c.l.limit != c.grown {
				t.Fatalf("window %d after %d successes, want %d", c.l.limit, c.successes, c.grown)
			}
			var got []int64
			for range c.refusals {
				s.refused(s.send())
				got = append(got, c.l.limit)
			}
			if !slices.Equal(got, c.refusals) {
				t.Errorf("windows after refusals %v, want %v", got, c.refusals)
			}
			s.end(s.send(), model.ClassTransport, 0)
			if c.l.limit != c.afterTimeout {
				t.Errorf("window %d after a timeout, want %d", c.l.limit, c.afterTimeout)
			}
			s.noise(s.send())
			if c.l.limit != c.noisily {
				t.Errorf("window %d after a random 500, want %d", c.l.limit, c.noisily)
			}
		})
	}
}
