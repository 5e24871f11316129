package world

import (
	"slices"
	"testing"
	"time"

	"weir/sim/incident"
)

// TestFirstTokensAreSeenOfStreamsOnly holds that an agent learns of a call on
// its way only when the answer is streamed: the window then opens sooner.
// Nobody else looks at first tokens.
func TestFirstTokensAreSeenOfStreamsOnly(t *testing.T) {
	inc := builtin(t, "row-steady-8")
	inc.Duration = 10 * time.Second
	streamed := *inc
	streamed.Workloads = slices.Clone(inc.Workloads)
	for i := range streamed.Workloads {
		streamed.Workloads[i].Client.Stream = true
	}
	sent := func(inc *incident.Incident, policy string) int64 {
		n := int64(0)
		for _, s := range run(t, Config{Incident: inc, Seed: 1, Policy: policy}).Seconds[:4] {
			n += s.Sent
		}
		return n
	}
	if whole, stream := sent(inc, PolicyWeir), sent(&streamed, PolicyWeir); stream < whole*3/2 {
		t.Errorf("%d calls sent in the first seconds, %d with streams: want half as many more", whole, stream)
	}
	if whole, stream := sent(inc, PolicyNone), sent(&streamed, PolicyNone); whole != stream {
		t.Errorf("without Weir %d calls sent, %d with streams", whole, stream)
	}
}
