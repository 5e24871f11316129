package workload

import (
	"testing"
	"time"

	"weir/sim/incident"
)

// TestPauseStopsThenTrickles counts requests of each law before, in, and after
// a pause of ten seconds with a trickle of twenty.
func TestPauseStopsThenTrickles(t *testing.T) {
	for name, lines := range map[string]string{
		"poisson": `arrivals: {kind: poisson, rate: 100}`,
		"batch":   `arrivals: {kind: batch, size: 10, every: 400ms}`,
		"closed":  `arrivals: {kind: closed, users: 100}`,
	} {
		t.Run(name, func(t *testing.T) {
			inc := world(t, lines+fixed)
			inc.Fleet.Changes = []incident.FleetChange{{At: 20 * time.Second, For: 10 * time.Second, Over: 20 * time.Second, Kind: incident.Pause}}
			g := generator(t, inc, nil)
			var each [60]int
			for s := range int64(60) {
				var asked []Request
				for r, ok := g.Next((s+1)*sec - 1); ok; r, ok = g.Next((s+1)*sec - 1) {
					each[s]++
					asked = append(asked, r)
				}
				for _, r := range asked {
					g.Answered((s+1)*sec-1, r, true)
				}
			}
			sum := func(from, to int) (n int) {
				for _, v := range each[from:to] {
					n += v
				}
				return n / (to - from)
			}
			within := func(what string, got, least, most int) {
				if got < least || got > most {
					t.Errorf("%s: %d requests a second, want %d to %d", what, got, least, most)
				}
			}
			within("before", sum(0, 20), 90, 110)
			within("in the pause", sum(21, 30), 0, 0)
			within("early in the trickle", sum(30, 34), 5, 20)
			within("late in the trickle", sum(46, 50), 75, 100)
			within("after", sum(50, 60), 90, 110)
		})
	}
}
