package model

import "slices"

// A second refusal in a row says that the limit fell, nobody knows how far:
// until what is in flight is less, every call that starts is refused. So the
// leases are cut to nothing, and the window follows what is in flight down,
// step by step. At each step one agent gets one slot more than it uses. Is its
// call refused, the next step follows; is it taken, the window is found, and
// the leases are divided as ever. A step costs one refused call, however many
// agents there are and however many calls end meanwhile.

// trialMost is how much longer than for its result a slot on trial waits: an
// agent that has not used it by then does not.
const trialMost = 500 * Millisecond

// trialSlack is what reports are late besides the time a refusal takes.
const trialSlack = 50 * Millisecond

// tried takes the report of an agent whose lease may be the one on trial.
func (c *channel) tried(now Nanos, l *lease) {
	w := &c.window
	if !w.Drain || w.Tried == 0 || l.rev != w.Tried || l.marks[0].rev < w.Tried {
		return
	}
	switch {
	case l.inflight >= l.slots && w.TakenAt == 0:
		w.Level = Milli(c.inflight) * 1000
		w.TakenAt = now + w.patience()
	case l.inflight+l.held < l.slots && l.queued == 0:
		w.Tried = 0 // nobody asks there any more
	}
}

// passed ends the draining once the call on trial would have been refused.
func (c *channel) passed(p *Params, now Nanos) {
	if w := &c.window; w.Drain && w.Tried != 0 && w.TakenAt != 0 && now >= w.TakenAt {
		c.found(p, now, w.Level)
	}
}

// found ends the draining: so many calls are taken.
func (c *channel) found(p *Params, now Nanos, level Milli) {
	c.window.found(p, now, max(level, p.WindowFloor))
	c.wants, c.urgent = true, true
}

// single leaves of what a pass would raise one slot, for the agent that uses
// fewest of those that want one, once there is room for it and none is on
// trial.
func (c *channel) single(rows []passRow, room int64, now Nanos, rev uint64) {
	w, best := &c.window, -1
	if w.Tried != 0 && now >= w.TriedAt+w.patience()+trialMost {
		w.Tried = 0
	}
	for i := range rows {
		r := &rows[i]
		if r.target = min(r.target, r.slots); r.away || r.demand <= r.claim {
			continue
		}
		if best < 0 || r.claim < rows[best].claim || r.claim == rows[best].claim && r.turn < rows[best].turn {
			best = i
		}
	}
	if room < 1 || w.Tried != 0 || best < 0 {
		return
	}
	rows[best].target = rows[best].claim + 1
	w.Tried, w.TriedAt, w.TakenAt = rev, now, 0
	if !slices.Contains(c.moved, best) {
		c.moved = append(c.moved, best)
	}
}
