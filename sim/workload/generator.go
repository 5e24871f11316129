package workload

import (
	"fmt"
	"math"
	"slices"
	"time"

	"weir/sim/draw"
	"weir/sim/incident"
)

// Never is later than every instant.
const Never = int64(math.MaxInt64)

// Request is one thing an application wants.
type Request struct {
	At int64 // ns since the start of the incident
	// ID is unique in the incident and the same under every policy.
	ID       uint64
	Workload int // index into Incident.Workloads
	Agent    int // index of the agent beside the application
	// User is the user who waits for the answer, for closed arrivals. Step is
	// the place of the call in the user's task, from 0; Restarts is how often
	// the task began again.
	User           int
	Step, Restarts int64

	Input, Output int64 // tokens; Output is what the model would write
	MaxTokens     int64 // what the call asks for; 0 for no bound
	Deadline      int64 // instant after which the answer is of no use; 0 for never
}

// Generator produces the requests of all workloads of an incident. It is for
// one goroutine.
type Generator struct {
	incident *incident.Incident
	seed     draw.Seed
	agents   int
	traces   map[string]Trace
	spreads  []sizes
	heap     []stream // by (at, workload, key)
	walks    []*walk  // by workload, nil for one without
	hosts    [][]int  // by workload, nil for all agents
	tasks    Tasks
	// begun is how many batches of a workload an agent that left had begun, so
	// that one that comes back goes on counting.
	begun map[[2]int]int64
}

// sizes are a workload's laws of size, ready to draw from.
type sizes struct {
	input, output draw.Spread
	maxTokens     int64
}

// New starts the workloads of an incident at instant 0 with its first number
// of agents. traces holds what Arrivals.File names; a missing one is an error.
func New(inc *incident.Incident, seed uint64, traces map[string]Trace) (*Generator, error) {
	g := &Generator{
		incident: inc, seed: draw.Seed(seed), traces: traces, begun: map[[2]int]int64{},
		walks: make([]*walk, len(inc.Workloads)),
	}
	for i := range inc.Workloads {
		w := &inc.Workloads[i]
		if w.Arrivals.Kind == incident.ArriveTrace && len(traces[w.Arrivals.File]) == 0 {
			return nil, fmt.Errorf("start workload %s: no trace %q", w.Name, w.Arrivals.File)
		}
		g.hosts = append(g.hosts, hosts(inc, w))
		g.spreads = append(g.spreads, sizes{draw.SpreadOf(w.InputTokens.CV), draw.SpreadOf(w.OutputTokens.CV), maxTokens(w)})
		g.fleetStreams(i)
	}
	g.SetAgents(0, inc.Fleet.Agents)
	return g, nil
}

// SetAgents changes the number of agents from now on: the applications beside
// agents n and up stop, those beside new ones begin. n is at least 1.
func (g *Generator) SetAgents(now int64, n int) {
	before := g.agents
	g.agents = n
	if n < before {
		kept := g.heap[:0]
		for _, s := range g.heap {
			if s.agent < n {
				kept = append(kept, s)
			} else {
				g.begun[[2]int{s.workload, s.agent}] = s.first + s.tick + 1
			}
		}
		g.heap = kept
		for i := len(g.heap)/2 - 1; i >= 0; i-- {
			g.down(i)
		}
	}
	for agent := before; agent < n; agent++ {
		for i := range g.incident.Workloads {
			if g.incident.Workloads[i].Arrivals.Kind == incident.ArriveBatch && g.beside(i, agent) {
				g.push(g.batchStream(i, agent, now))
			}
		}
	}
}

// NextAt returns the instant of the next request, or Never.
func (g *Generator) NextAt() int64 {
	if len(g.heap) == 0 {
		return Never
	}
	return g.heap[0].at
}

// Next returns the next request at or before until; ok is false when there is
// none.
func (g *Generator) Next(until int64) (r Request, ok bool) {
	for len(g.heap) > 0 && g.heap[0].at <= until {
		s := &g.heap[0]
		if s.walks {
			g.walk()
			continue
		}
		r, ok = g.request(s)
		if s.advance(g); s.at == Never {
			g.pop()
		} else {
			g.down(0)
		}
		if ok {
			return r, true
		}
	}
	return Request{}, false
}

// request makes the request a stream stands at. ok is false for one that is
// not wanted: a trace's scale or a pause leaves it out, or its user is gone.
func (g *Generator) request(s *stream) (r Request, ok bool) {
	w := &g.incident.Workloads[s.workload]
	if s.thinned(g) || g.paused(s) || g.gone(s) {
		return r, false
	}
	r = Request{At: s.at, ID: s.id(), Workload: s.workload, Agent: s.agent}
	switch w.Arrivals.Kind {
	case incident.ArriveBatch:
	case incident.ArriveClosed:
		r.User, r.Step, r.Restarts = int(s.key), s.step, s.restarts
		if g.walks[s.workload] == nil {
			r.Agent = g.choose(s.workload, int64(r.User))
		}
	case incident.ArrivePoisson, incident.ArriveTrace:
		r.Agent = g.choose(s.workload, g.seed.Below(g.choices(s.workload), draw.AgentChoice, g.entity(s), s.n))
	}
	var row Row
	if w.Arrivals.Kind == incident.ArriveTrace {
		row = g.traces[w.Arrivals.File][s.row]
	}
	z := &g.spreads[s.workload]
	r.Input = g.size(&w.InputTokens, z.input, draw.InputSize, r.ID, row.Input)
	r.Output = g.size(&w.OutputTokens, z.output, draw.OutputSize, r.ID, row.Output)
	r.MaxTokens = z.maxTokens
	if w.Deadline > 0 {
		r.Deadline = r.At + int64(w.Deadline)
	}
	return r, true
}

// choose is the k-th of the agents beside which a workload runs, round and
// round. It may have left.
func (g *Generator) choose(workload int, k int64) int {
	if h := g.hosts[workload]; h != nil {
		return h[k%int64(len(h))]
	}
	return int(k % int64(g.agents))
}

// choices is how many agents there are to choose from.
func (g *Generator) choices(workload int) int64 {
	if h := g.hosts[workload]; h != nil {
		return int64(len(h))
	}
	return int64(g.agents)
}

// beside reports whether a workload runs beside an agent.
func (g *Generator) beside(workload, agent int) bool {
	return g.hosts[workload] == nil || slices.Contains(g.hosts[workload], agent)
}

// hosts are the agents of a workload as far as the fleet is ever so large; nil
// for all.
func hosts(inc *incident.Incident, w *incident.Workload) []int {
	var out []int
	for _, agent := range w.Agents {
		if agent %= inc.Fleet.MaxAgents(); !slices.Contains(out, agent) {
			out = append(out, agent)
		}
	}
	return out
}

// paused reports whether a pause leaves a request out. Closed users wait
// instead; see ask.
func (g *Generator) paused(s *stream) bool {
	if g.incident.Workloads[s.workload].Arrivals.Kind == incident.ArriveClosed {
		return false
	}
	share := g.incident.Fleet.Share(time.Duration(s.at))
	return share < incident.PPM && g.seed.Below(incident.PPM, draw.Trickle, g.entity(s), s.n) >= share
}

// size draws a number of tokens.
func (g *Generator) size(s *incident.Size, spread draw.Spread, p draw.Purpose, id uint64, recorded int64) int64 {
	switch s.Kind {
	case incident.SizeFixed:
		return s.Value
	case incident.SizeUniform:
		return s.Min + g.seed.Below(s.Max-s.Min+1, p, id, 0)
	case incident.SizeChoice:
		total := int64(0)
		for _, w := range s.Weights {
			total += w
		}
		at := g.seed.Below(total, p, id, 0)
		for i, w := range s.Weights {
			if at -= w; at < 0 {
				return s.Values[i]
			}
		}
	case incident.SizeLognormal:
		return g.seed.Lognormal(s.Mean, spread, p, id, 0)
	case incident.SizeTrace:
		return recorded
	}
	return 0
}

// maxTokens is what a workload's calls ask for.
func maxTokens(w *incident.Workload) int64 {
	if w.MaxTokens > 0 {
		return w.MaxTokens
	}
	s := &w.OutputTokens
	switch s.Kind {
	case incident.SizeFixed:
		return s.Value
	case incident.SizeUniform:
		return s.Max
	case incident.SizeChoice:
		most := int64(0)
		for _, v := range s.Values {
			most = max(most, v)
		}
		return most
	case incident.SizeLognormal, incident.SizeTrace:
	}
	return 0
}
