package world

import (
	"fmt"
	"testing"
	"time"

	"weir/sim/incident"
)

// lives plays an incident with Weir again and again and reports the events a
// second.
func lives(b *testing.B, name string, agents int, length time.Duration) {
	b.Helper()
	inc, err := incident.Builtin(name)
	if err != nil {
		b.Fatal(err)
	}
	if agents > 0 {
		inc = inc.WithAgents(agents)
	}
	inc.Duration = min(inc.Duration, length)
	var events uint64
	for b.Loop() {
		r, err := Run(Config{Incident: inc, Seed: 1, Policy: PolicyWeir})
		if err != nil {
			b.Fatal(err)
		}
		events += r.Events
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
}

// BenchmarkHour is the whole 2064 incident, an hour with four agents.
func BenchmarkHour(b *testing.B) { lives(b, "2064-cascade", 0, time.Hour) }

// BenchmarkLoad is a fleet of 64 under one and a half times what the provider
// takes.
func BenchmarkLoad(b *testing.B) { lives(b, "row-steady", 64, 5*time.Minute) }

// BenchmarkAgents is the same minute with more and more agents: an event costs
// more only as caches do not hold what they know.
func BenchmarkAgents(b *testing.B) {
	for _, n := range []int{8, 64, 500, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { lives(b, "row-steady", n, time.Minute) })
	}
}
