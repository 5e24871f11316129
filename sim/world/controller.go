package world

import (
	"fmt"
	"strconv"
	"strings"

	"weir/model"
)

// controller is the log and the leader that folds it.
type controller struct {
	w     *world
	fleet *model.Fleet
	fx    model.Effects
	seq   uint64
	down  bool
	// late are records that came while the controller was down.
	late   []model.Record
	tickAt int64
	// flushAt is when effects that may wait are sent, never for none.
	flushAt  int64
	lastTime model.Nanos
	use      leaseUse
}

// broadcastEvery is the least time between two broadcasts that may wait.
const broadcastEvery = int64(20e6)

func newController(w *world) *controller {
	c := &controller{w: w, fleet: model.NewFleet(), tickAt: never, flushAt: never}
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
		c.w.at(c.flushAt, onFlush, 0, 0)
	}
	c.wake()
}

// wake sets the next tick.
func (c *controller) wake() {
	if at := max(c.w.virtual(c.fleet.NextWake()), c.w.now); at != c.tickAt {
		c.tickAt = at
		c.w.at(at, onTick, 0, 0)
	}
}

// receive is a report that reached the log.
func (c *controller) receive(i uint32) {
	m := *c.w.bus.messages.at(i)
	if c.w.bus.cut[m.agent] {
		// Cut off: it is sent again until it gets through.
		c.w.at(c.w.now+resend, onLog, uint64(i), 0)
		return
	}
	c.w.bus.done(i)
	c.w.at(c.w.now+c.w.bus.delay(), onAck, uint64(m.agent), m.boot)
	c.append(m.fact)
}

func (c *controller) tick(at int64) {
	if at != c.tickAt || c.down {
		return
	}
	c.tickAt = never
	c.append(&model.Tick{Term: 1, Elapsed: c.w.nanos() - c.lastTime})
}

// flush sends what the fold asked for.
func (c *controller) flush() {
	c.flushAt = never
	if c.down || c.fx.Empty() {
		c.fx.Reset()
		return
	}
	if len(c.fx.Limits) > 0 {
		c.w.bus.broadcast(c.fleet.LimitSet(c.fx.Limits))
	}
	for _, name := range c.fx.Leases {
		if l := c.fleet.Lease(name); l != nil {
			c.w.bus.unicast(l, agentIndex(name))
		}
	}
	c.fx.Reset()
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
	c.w.bus.broadcast(c.fleet.LimitSet(nil))
}
