package workload

import (
	"time"

	"weir/sim/draw"
	"weir/sim/incident"
)

// soonest is how long a user waits at least after a call that failed for good:
// someone who is turned away at once does not ask for ever in one instant.
const soonest = int64(time.Millisecond)

// Answered tells that a request is over, well or not, so that a closed user
// goes on with the task, begins it again, or thinks and asks for the next. Other
// requests need no telling.
func (g *Generator) Answered(now int64, r Request, ok bool) {
	w := &g.incident.Workloads[r.Workload]
	a := &w.Arrivals
	if a.Kind != incident.ArriveClosed {
		return
	}
	s := stream{workload: r.Workload, agent: anyAgent, key: uint64(r.User), n: r.ID&streamMask + 1}
	if g.walks[r.Workload] != nil {
		s.agent = r.Agent
	}
	switch {
	case ok && r.Step+1 < a.Steps:
		s.step, s.restarts = r.Step+1, r.Restarts
		g.ask(now, s)
	case ok:
		g.tasks.Done++
		g.think(now, s)
	case a.Steps > 1 && r.Restarts < a.Restarts:
		g.tasks.Again++
		s.restarts = r.Restarts + 1
		g.ask(now+soonest, s)
	default:
		g.tasks.Lost++
		g.think(now+soonest, s)
	}
}

// Tasks count what became of closed users' tasks: done, begun again, and given
// up. A call by itself is a task of one.
type Tasks struct{ Done, Again, Lost int64 }

// Tasks returns the counts since instant 0.
func (g *Generator) Tasks() Tasks { return g.tasks }

// think lets a user ask after a while.
func (g *Generator) think(now int64, s stream) {
	mean := int64(g.incident.Workloads[s.workload].Arrivals.Think)
	g.ask(now+g.seed.Exp(mean, draw.ThinkTime, g.entity(&s), s.n), s)
}

// ask lets a user ask at an instant, or when a pause lets this one through:
// some users come back early in the trickle, some late.
func (g *Generator) ask(at int64, s stream) {
	rank := g.seed.Below(incident.PPM, draw.Trickle, g.entity(&s), 0)
	s.at = int64(g.incident.Fleet.Opening(time.Duration(at), rank))
	g.pushBefore(s, &g.incident.Workloads[s.workload])
}
