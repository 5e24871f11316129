package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTaskIsCallsOneAfterTheOther: the next call is wanted when the one before
// was answered, a failed one begins the task again while restarts are left, and
// then the user thinks as after a task that was done.
func TestTaskIsCallsOneAfterTheOther(t *testing.T) {
	g := generator(t, world(t, `arrivals: {kind: closed, users: 1, think: 10s, steps: 3, restarts: 1}`+fixed), nil)
	type seen struct{ Step, Restarts int64 }
	var got []seen
	now := int64(0)
	ids := map[uint64]bool{}
	for _, ok := range []bool{true, true, true, true, false, true, false, true} {
		at := g.NextAt()
		r, found := g.Next(60 * sec)
		if !found {
			t.Fatalf("no request after %v", got)
		}
		if ids[r.ID] {
			t.Fatalf("request %x twice", r.ID)
		}
		ids[r.ID] = true
		got = append(got, seen{r.Step, r.Restarts})
		if r.Step > 0 && at != now {
			t.Errorf("call %d of the task at %d, want it at once, at %d", r.Step, at, now)
		}
		now = at + 100*ms
		g.Answered(now, r, ok)
	}
	want := []seen{{0, 0}, {1, 0}, {2, 0}, {0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 0}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	if got, want := g.Tasks(), (Tasks{Done: 1, Again: 1, Lost: 1}); got != want {
		t.Errorf("tasks: %+v, want %+v", got, want)
	}
}

// TestTurnedAwayAtOnceDoesNotLoopInOneInstant: without a time to think a user
// asks again at once after an answer, but not after a refusal.
func TestTurnedAwayAtOnceDoesNotLoopInOneInstant(t *testing.T) {
	g := generator(t, world(t, `arrivals: {kind: closed, users: 1}`+fixed), nil)
	for range 3 {
		at := g.NextAt()
		r, _ := g.Next(at)
		g.Answered(at, r, false)
		if next := g.NextAt(); next <= at {
			t.Fatalf("refused at %d, asks again at %d", at, next)
		}
	}
}

// TestApplicationsBesideSomeAgents: each law of arrivals keeps to its agents.
func TestApplicationsBesideSomeAgents(t *testing.T) {
	for name, lines := range map[string]string{
		"poisson": `arrivals: {kind: poisson, rate: 20}`,
		"closed":  `arrivals: {kind: closed, users: 20, think: 1s}`,
		"batch":   `arrivals: {kind: batch, size: 2, every: 1s}`,
		"walk":    `arrivals: {kind: closed, users: 20, think: 1s, walk: {swing: 0.1, every: 5s}}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := generator(t, world(t, "agents: [1, 3]\n"+lines+fixed), nil)
			got := map[int]int{}
			for r, ok := g.Next(30 * sec); ok; r, ok = g.Next(30 * sec) {
				got[r.Agent]++
			}
			if got[1] < 5 || got[3] < 5 || len(got) != 2 {
				t.Errorf("requests by agent: %v, want some beside 1 and 3 only", got)
			}
		})
	}
}
