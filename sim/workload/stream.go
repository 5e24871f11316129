package workload

import (
	"time"

	"weir/sim/draw"
	"weir/sim/incident"
)

// anyAgent marks a stream that belongs to the fleet.
const anyAgent = -1

// A request's number is its workload, its stream and its place in the stream.
const (
	streamBits   = 28 // 268 million requests a stream
	streamMask   = 1<<streamBits - 1
	keyBits      = 26
	workloadBits = 10
)

// stream is one source of requests and where it stands.
type stream struct {
	at       int64
	workload int
	agent    int    // anyAgent for the fleet's
	key      uint64 // agent, user or copy of a trace
	n        uint64 // place in the stream

	// batch: batch k since the agent came begins at base + k*every and is
	// numbered first + k.
	base, first int64
	tick        int64
	group, call int64

	// closed: where the user's task stands. walks marks the stream that changes
	// how many users an agent has.
	step, restarts int64
	walks          bool

	// trace: row is where the copy stands, rows how many are left, shift what
	// its clock is behind the trace's.
	row, rows int
	shift     int64
}

// id numbers the request the stream stands at. A batch's requests are numbered
// by batch and place in it, whatever order groups come in.
func (s *stream) id() uint64 {
	return uint64(s.workload)<<(streamBits+keyBits) | s.key<<streamBits | s.n&streamMask
}

// entity keys the draws of a stream.
func (g *Generator) entity(s *stream) uint64 {
	return draw.Name(g.incident.Workloads[s.workload].Name) ^ s.key
}

// fleetStreams starts the streams of a workload that belong to no agent.
func (g *Generator) fleetStreams(workload int) {
	w := &g.incident.Workloads[workload]
	start := int64(w.Start)
	switch w.Arrivals.Kind {
	case incident.ArrivePoisson:
		s := stream{workload: workload, agent: anyAgent, at: start}
		s.at += s.gap(g)
		g.pushBefore(s, w)
	case incident.ArriveClosed:
		if w.Arrivals.Walk != nil {
			g.startWalk(workload)
			return
		}
		for u := range w.Arrivals.Users {
			g.think(start, stream{workload: workload, agent: anyAgent, key: uint64(u)})
		}
	case incident.ArriveTrace:
		copies := (w.Arrivals.Scale + incident.PPM - 1) / incident.PPM
		for c := range copies {
			g.pushBefore(g.traceStream(workload, c, start), w)
		}
	case incident.ArriveBatch:
	}
}

func (g *Generator) pushBefore(s stream, w *incident.Workload) {
	if s.at < int64(w.Stop) {
		g.push(s)
	}
}

// batchStream starts an agent's batches. Agents are not in step: each has a
// phase of its own.
func (g *Generator) batchStream(workload, agent int, now int64) stream {
	w := &g.incident.Workloads[workload]
	s := stream{workload: workload, agent: agent, key: uint64(agent)}
	s.base = max(now, int64(w.Start)) + g.seed.Below(int64(w.Arrivals.Every), draw.BatchPhase, g.entity(&s), 0)
	s.at = s.base
	s.first = g.begun[[2]int{workload, agent}]
	s.n = uint64(s.first * w.Arrivals.Size)
	if s.base >= int64(w.Stop) {
		s.at = Never
	}
	return s
}

// gap is the time to the next poisson arrival.
func (s *stream) gap(g *Generator) int64 {
	mean := int64(time.Second) * incident.PPM / g.incident.Workloads[s.workload].Arrivals.Rate
	return g.seed.Exp(mean, draw.ArrivalGap, g.entity(s), s.n)
}

// advance moves to the next request, or to Never.
func (s *stream) advance(g *Generator) {
	w := &g.incident.Workloads[s.workload]
	switch w.Arrivals.Kind {
	case incident.ArrivePoisson:
		s.n++
		s.at += s.gap(g)
	case incident.ArriveClosed:
		s.at = Never // until Answered
	case incident.ArriveBatch:
		s.advanceBatch(w)
	case incident.ArriveTrace:
		s.advanceTrace(g.traces[w.Arrivals.File])
	}
	if s.at >= int64(w.Stop) && w.Arrivals.Kind != incident.ArriveBatch {
		s.at = Never
	}
}

// advanceBatch goes to the next call. At each tick the batch that begins has
// its first group, the one before it its second, and so on. Batches that began
// before the stop run to their end.
func (s *stream) advanceBatch(w *incident.Workload) {
	a := &w.Arrivals
	groups := (a.Size + a.Parallel - 1) / a.Parallel
	s.call++
	for !s.due(w) {
		s.call = 0
		if s.group++; s.group < min(groups, s.tick+1) {
			continue
		}
		s.group = 0
		s.tick++
		s.at += int64(a.Every)
		if oldest := s.at - (groups-1)*int64(a.Every); oldest >= int64(w.Stop) {
			s.at = Never
			return
		}
	}
	s.n = uint64((s.first+s.tick-s.group)*a.Size + s.group*a.Parallel + s.call)
}

// due reports whether there is a call where the stream stands.
func (s *stream) due(w *incident.Workload) bool {
	a := &w.Arrivals
	begins := s.base + (s.tick-s.group)*int64(a.Every)
	return begins < int64(w.Stop) && s.call < min(a.Parallel, a.Size-s.group*a.Parallel)
}
