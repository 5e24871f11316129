package world

import (
	"testing"
	"time"

	"weir/sim/incident"
)

// TestCascade lives the compressed incident through without control and shows
// the course it took.
func TestCascade(t *testing.T) {
	inc, err := incident.Builtin("2064-cascade")
	if err != nil {
		t.Fatal(err)
	}
	inc = inc.Compress(30 * time.Second)
	for _, policy := range []string{PolicyNone, PolicyWeir} {
		r, err := Run(Config{Incident: inc, Seed: 1, Policy: policy, BooksFrom: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range r.Seconds {
			t.Logf("%3d wanted %4d done %4d could %4d sent %5d refused %5d inflight %4d cap %4d window %6d latency %7d q %d", s.At, s.Wanted, s.Completed, s.Could, s.Sent, s.Refused[3], s.InFlight, s.Capacity, s.Window, s.Latency, s.Queued)
		}
		t.Logf("%s: G %.3f W %.3f p50 %v p99 %v events %d", policy, r.GoodputRatio(), r.WasteRatio(), r.P50, r.P99, r.Events)
		for _, d := range r.Decisions {
			t.Logf("%d %s %s %d→%d %s", d.At/1e6, d.Channel, d.Rule, d.Before, d.After, d.Reason)
		}
	}
}
