package workload

import (
	"weir/sim/draw"
	"weir/sim/incident"
)

// An agent's users in a walk are numbered agent<<walkBits + k with k below
// mostWalk, which is the walk itself.
const (
	walkBits = 13
	mostWalk = incident.MaxWalk
)

// walk is how many users each agent has.
type walk struct {
	law    *incident.Walk
	agents []crowd // by agent
}

// crowd is the users of one agent. Those numbered below wanted are there; the
// others go when their present call is over.
type crowd struct {
	wanted int64 // ppm of users
	jumps  []incident.Jump
	every  int64 // instant of the next step of the walk
	steps  uint64
	users  []walker
}

// walker is one user who was there at least once.
type walker struct {
	n     uint64 // place in the stream of the next request when it comes back
	there bool
}

// startWalk gives each agent its users and starts the walk.
func (g *Generator) startWalk(workload int) {
	w := &g.incident.Workloads[workload]
	x := &walk{law: w.Arrivals.Walk, agents: make([]crowd, g.incident.Fleet.MaxAgents())}
	g.walks[workload] = x
	hosts := int64(g.incident.Fleet.Agents)
	if h := g.hosts[workload]; h != nil {
		hosts = int64(len(h))
	}
	for agent := range g.incident.Fleet.Agents {
		if !g.beside(workload, agent) {
			continue
		}
		c := &x.agents[agent]
		c.wanted = w.Arrivals.Users * incident.PPM / hosts
		c.every = int64(w.Start + x.law.Every)
		for _, j := range x.law.Jumps {
			if j.Agent == agent {
				c.jumps = append(c.jumps, j)
			}
		}
		g.fill(int64(w.Start), workload, agent)
		g.pushBefore(stream{at: c.next(), workload: workload, agent: agent, key: uint64(agent)<<walkBits + mostWalk, walks: true}, w)
	}
}

// next is the instant of the crowd's next change.
func (c *crowd) next() int64 {
	if len(c.jumps) > 0 {
		return min(c.every, int64(c.jumps[0].At))
	}
	return c.every
}

// walk makes the change that the first stream in the heap stands for.
func (g *Generator) walk() {
	s := g.heap[0]
	g.pop()
	w := &g.incident.Workloads[s.workload]
	x := g.walks[s.workload]
	c := &x.agents[s.agent]
	if len(c.jumps) > 0 && int64(c.jumps[0].At) <= s.at {
		c.wanted += c.jumps[0].By * incident.PPM
		c.jumps = c.jumps[1:]
	} else {
		c.steps++
		swing := incident.Scale(c.wanted, x.law.Swing, incident.PPM)
		c.wanted += g.seed.Below(2*swing+1, draw.DemandWalk, g.entity(&s), c.steps) - swing
		c.every = s.at + int64(x.law.Every)
	}
	c.wanted = min(c.wanted, mostWalk*incident.PPM)
	g.fill(s.at, s.workload, s.agent)
	s.at = c.next()
	g.pushBefore(s, w)
}

// fill brings users that are wanted and not there.
func (g *Generator) fill(now int64, workload, agent int) {
	c := &g.walks[workload].agents[agent]
	for k := range c.size() {
		if k == len(c.users) {
			c.users = append(c.users, walker{})
		}
		if u := &c.users[k]; !u.there {
			u.there = true
			g.think(now, stream{workload: workload, agent: agent, key: uint64(agent)<<walkBits + uint64(k), n: u.n})
		}
	}
}

// size is the number of users who are wanted.
func (c *crowd) size() int { return int((c.wanted + incident.PPM/2) / incident.PPM) }

// gone reports whether the user of a stream is no longer wanted, and lets it
// go.
func (g *Generator) gone(s *stream) bool {
	x := g.walks[s.workload]
	if x == nil {
		return false
	}
	c := &x.agents[s.agent]
	k := int(s.key & mostWalk)
	if k < c.size() {
		return false
	}
	c.users[k] = walker{n: s.n + 1}
	return true
}
