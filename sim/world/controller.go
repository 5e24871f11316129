package world

import (
	"fmt"
	"strconv"
	"strings"

	"weir/model"
)

// controller is a log and the leader that folds it: one for the fleet, or where
// processes know nothing of each other one in each.
type controller struct {
	w     *world
	place uint64 // in world.controllers
	of    *agent // whose own it is; nil for the fleet's
	fleet *model.Fleet
	fx    model.Effects
	seq   uint64
	down  bool
	// late are records that came while the controller was down.
	late   []model.Record
	tickAt int64
	beat   model.Tick // the newest
	// flushAt is when effects that may wait are sent, never for none.
	flushAt  int64
	lastTime model.Nanos
	use      leaseUse
}

// fold is the controller that folds an agent's reports.
func (w *world) fold(agent int) *controller {
	if own := w.agents[agent].own; own != nil {
		return own
	}
	return w.controllers[0]
}

// fleet is the state to look at, of many the first; nil without Weir.
func (w *world) fleet() *model.Fleet {
	if len(w.controllers) == 0 {
		return nil
	}
	return w.controllers[0].fleet
}

// broadcastEvery is the least time between two broadcasts that may wait.
const broadcastEvery = int64(20e6)

func newController(w *world, of *agent) *controller {
	c := &controller{w: w, of: of, place: uint64(len(w.controllers)), fleet: model.NewFleet(), tickAt: never, flushAt: never}
	w.controllers = append(w.controllers, c)
	c.fleet.Ablate(w.policy.without)
	if w.cfg.Params != nil {
		c.append(&model.ParamSet{Name: "run", Params: *w.cfg.Params})
	}
	c.append(w.config)
	c.append(&model.Lead{Term: 1, Controller: "sim", Version: "sim", Laws: model.LawVersion})
	return c
}

// append puts a fact into the log and folds it, unless the controller is down.
func (c *controller) append(f model.Fact) {
	c.seq++
	r := model.Record{Seq: c.seq, Time: c.w.nanos(), Fact: f}
	if c.w.cfg.Records != nil {
		c.w.cfg.Records(r)
	}
	if c.down {
		c.late = append(c.late, r)
		return
	}
	c.fold(r)
}

func (c *controller) fold(r model.Record) {
	c.lastTime = r.Time
	c.fleet.Apply(r, &c.fx)
	c.use.record(c.fleet, c.w)
	c.w.book.decisions(c.fx.Decisions)
	c.fx.Decisions = c.fx.Decisions[:0]
	if a, ok := r.Fact.(*model.Attempts); ok && cap(c.w.bus.spare) < 4096 {
		c.w.bus.spare = append(c.w.bus.spare, a)
	}
	switch {
	case c.fx.Empty():
	case c.fx.Now:
		c.flush()
	case c.flushAt == never:
		c.flushAt = c.w.now + broadcastEvery
		c.w.at(c.flushAt, onFlush, c.place, 0)
	}
	c.wake()
}

// wake sees to it that the controller is looked at when the next tick is due.
// That moves later with most records: the event stays where it is then, and
// moves once it comes too early.
func (c *controller) wake() {
	if at := max(c.w.virtual(c.fleet.NextWake()), c.w.now); at < c.tickAt {
		c.tickAt = at
		c.w.at(at, onTick, c.place, 0)
	}
}

func (c *controller) tick(at int64) {
	if at != c.tickAt {
		return
	}
	c.tickAt = never
	if c.down {
		return
	}
	if c.w.virtual(c.fleet.NextWake()) > c.w.now {
		c.wake()
		return
	}
	c.w.happened(onTick, c.place, 0)
	c.beat = model.Tick{Term: c.fleet.Term(), Elapsed: c.w.nanos() - c.lastTime}
	c.append(&c.beat)
}

// flush sends what the fold asked for.
func (c *controller) flush() {
	c.flushAt = never
	if c.down || c.fx.Empty() {
		c.fx.Reset()
		return
	}
	if len(c.fx.Limits) > 0 {
		c.broadcast(c.fx.Limits)
	}
	for _, name := range c.fx.Leases {
		c.lease(name)
	}
	if c.w.policy.even && len(c.fx.Limits) > 0 {
		for _, a := range c.w.agents {
			c.lease(a.name)
		}
	}
	c.fx.Reset()
}

// broadcast sends the limits of the named channels and days, or of all for nil.
func (c *controller) broadcast(names []string) {
	l := c.w.bus.limitSet()
	c.fleet.FillLimits(l, names)
	c.w.bus.broadcast(l, c.of)
}

// lease sends an agent its lease, if it has one.
func (c *controller) lease(name string) {
	l := c.w.bus.lease()
	if !c.fleet.FillLease(l, name) {
		c.w.bus.keep(&message{lease: l})
		return
	}
	if c.w.policy.even {
		c.even(l)
	}
	c.w.bus.unicast(l, agentIndex(name))
}

// even makes every grant of slots an equal part of the limit, whatever the
// agent needs, and at least one.
func (c *controller) even(l *model.Lease) {
	up := int64(0)
	for _, a := range c.w.agents {
		if a.up {
			up++
		}
	}
	for i := range l.Channels {
		g := &l.Channels[i]
		_, _, _, limit := c.fleet.Claims(g.Channel)
		g.Slots = max(1, (limit+up-1)/max(up, 1))
		g.Safe, g.Offset = g.Slots, int64(agentIndex(l.Agent))*g.Slots
	}
}

func agentName(i int) string { return fmt.Sprintf("agent-%04d", i) }

func agentIndex(name string) int {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "agent-"))
	if err != nil {
		panic("world: BUG: agent " + name)
	}
	return i
}

// setDown stops the controller, or starts a new one that folds what came.
func (c *controller) setDown(down bool) {
	c.down = down
	if down {
		return
	}
	late := c.late
	c.late = nil
	for _, r := range late {
		c.fold(r)
	}
	c.append(&model.Lead{Term: c.fleet.Term() + 1, Controller: "sim", Version: "sim", Laws: model.LawVersion})
	c.broadcast(nil)
}
