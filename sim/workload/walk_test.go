package workload

import (
	"maps"
	"testing"
	"time"

	"weir/sim/incident"
)

// levels plays a walk in which every call takes a second, and returns how many
// users each agent has at the end of each second.
func levels(t *testing.T, inc *incident.Incident, seed uint64) (by []map[int]int) {
	t.Helper()
	g, err := New(inc, seed, nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[uint64]bool{}
	for now := sec; now <= int64(inc.Duration); now += sec {
		var asked []Request
		count := map[int]int{}
		for r, ok := g.Next(now); ok; r, ok = g.Next(now) {
			if ids[r.ID] {
				t.Fatalf("request %x twice", r.ID)
			}
			ids[r.ID] = true
			count[r.Agent]++
			asked = append(asked, r)
		}
		for _, r := range asked {
			g.Answered(now, r, true)
		}
		by = append(by, count)
	}
	return by
}

const walking = `arrivals: {kind: closed, users: 60, walk: {swing: 0.1, every: 10s, jumps: [{at: 20s, agent: 2, by: 100}]}}` + fixed

// TestWalkMovesEachAgentByItself: all begin alike, move apart by no more than
// the swing a step, and jump where the file says.
func TestWalkMovesEachAgentByItself(t *testing.T) {
	by := levels(t, world(t, walking), 1)
	for agent := range 4 {
		if got := by[4][agent]; got != 15 {
			t.Errorf("agent %d starts with %d users, want 15", agent, got)
		}
		for s := 1; s < len(by); s++ {
			before, after := by[s-1][agent], by[s][agent]
			if s == 19 && agent == 2 { // a step and the jump
				before += 100
			}
			if most := before/10 + 1; after > before+most || after < before-most {
				t.Errorf("agent %d goes from %d to %d users at second %d", agent, before, after, s+1)
			}
		}
	}
	if maps.Equal(by[8], by[58]) {
		t.Errorf("nobody moved: %v", by[58])
	}
}

// TestWalkKeepsItsMean: over many worlds the walk goes as much up as down.
func TestWalkKeepsItsMean(t *testing.T) {
	inc := world(t, `arrivals: {kind: closed, users: 400, walk: {swing: 0.1, every: 10s}}`+fixed)
	inc.Duration = time.Minute
	sum := 0
	const seeds = 40
	for seed := range uint64(seeds) {
		for _, n := range levels(t, inc, seed)[59] {
			sum += n
		}
	}
	if mean := sum / seeds; mean < 385 || mean > 415 {
		t.Errorf("mean users after a minute: %d, want about 400", mean)
	}
}
