package model

import (
	"cmp"
	"slices"
)

// lease is one agent's part of a channel's window.
//
// Its claim is what the controller must assume the agent uses: the largest
// grant since and including the last it acknowledged, or what it last
// reported in flight, whichever is more. A grant may be raised only while the
// claims of all agents together stay within the limit; a smaller grant frees
// its slots only once it is acknowledged. So messages may be lost, late or
// repeated, and the sum of what agents use never exceeds the limit.
//
// An agent acknowledges with one number: the newest revision it obeys, of a
// grant or of a cut. A cut reaches agents by a broadcast, so one may have
// applied it to an older grant than the newest. Hence the mark of a cut claims
// the most that it leaves of any grant that may be in force; where that is
// more than the newest grant, the next pass grants anew, to be sure.
type lease struct {
	agent string
	// slots is the newest grant, safe what of it may go on without us, offset
	// its rank offset, rev its revision.
	slots, safe, offset int64
	rev                 uint64
	// marks are what may be in force at the agent: the grants since and
	// including the last acknowledged one, oldest first, at most maxMarks.
	// Invariant: the newest has revision rev and no fewer slots.
	marks []leaseMark
	// What the agent last reported.
	inflight, held, accepted, queued, urgent int64
	waiting                                  Tokens
	wouldRefuse                              uint64
	// turn numbers who got or lost a slot last; since is when.
	turn  uint64
	since Nanos
	// away is set while the agent's lease has ended and it was not heard
	// since; until is when every call it can have in flight must have ended.
	away  bool
	until Nanos
	// returned is set from when the agent is heard again, after until, to its
	// first acknowledgement: what it reports meanwhile is what it could not
	// send before, and tells of calls that have long ended.
	returned bool
}

// leaseMark is a grant that may be in force at the agent.
type leaseMark struct {
	rev                 uint64
	slots, safe, offset int64 // offset is unknownOffset where several are possible
}

// unknownOffset is the offset of a mark that stands for several grants.
const unknownOffset = -1

// maxMarks bounds the unacknowledged grants of one lease. When it is full the
// two oldest become one that claims the larger of both.
const maxMarks = 8

// grant makes a new grant.
func (l *lease) grant(slots, safe, offset int64, rev uint64) {
	l.slots, l.safe, l.offset, l.rev = slots, safe, offset, rev
	l.mark(leaseMark{rev, slots, safe, offset})
}

func (l *lease) mark(m leaseMark) {
	n := len(l.marks)
	if n > 0 && l.marks[n-1].rev == m.rev {
		// Two grants of one record leave in one message: the last counts.
		l.marks[n-1] = m
		return
	}
	if n == maxMarks {
		l.marks[1] = l.marks[0].or(l.marks[1])
		l.marks = append(l.marks[:0], l.marks[1:]...)
	}
	l.marks = append(l.marks, m)
}

// or returns the mark that claims no less than either, at the newer's revision.
func (m leaseMark) or(newer leaseMark) leaseMark {
	if m.slots != newer.slots || m.offset != newer.offset {
		newer.offset = unknownOffset
	}
	newer.slots, newer.safe = max(m.slots, newer.slots), max(m.safe, newer.safe)
	return newer
}

// after returns what the cuts that are newer leave of a mark, at the newest
// cut's revision, as Gate does it.
func (m leaseMark) after(cuts []Cut) leaseMark {
	for _, cut := range cuts {
		if cut.Revision <= m.rev {
			continue
		}
		before := m.slots
		if m.offset == unknownOffset {
			m.slots = (mulDiv(m.slots, cut.Num, 1) + cut.Den - 1) / cut.Den
		} else {
			m.slots, m.offset = cut.Apply(m.slots, m.offset)
			m.safe = mulDiv(m.safe, m.slots, max(before, 1))
		}
		m.safe = min(m.safe, m.slots)
		m.rev = cut.Revision
	}
	return m
}

// cut scales the lease by the newest of cuts, which are a channel's last.
func (l *lease) cut(cuts []Cut) {
	newest := leaseMark{l.rev, l.slots, l.safe, l.offset}.after(cuts)
	l.slots, l.safe, l.offset, l.rev = newest.slots, newest.safe, newest.offset, newest.rev
	for i := range l.marks {
		newest = l.marks[i].after(cuts).or(newest)
	}
	l.mark(newest)
}

// unsure reports whether what the agent obeys may be more than the newest
// grant even once it acknowledges it.
func (l *lease) unsure() bool {
	n := len(l.marks)
	return n > 0 && (l.marks[n-1].slots > l.slots || l.marks[n-1].safe > l.safe)
}

// acknowledge takes the revision that the agent obeys.
func (l *lease) acknowledge(rev uint64) {
	if len(l.marks) > 0 && l.marks[0].rev <= rev {
		l.returned = false
	}
	keep := 0
	for i := range l.marks {
		if l.marks[i].rev <= rev {
			keep = i
		}
	}
	if keep > 0 {
		l.marks = append(l.marks[:0], l.marks[keep:]...)
	}
}

// claim returns the slots the agent must be assumed to use at now.
func (l *lease) claim(now Nanos) int64 {
	switch {
	case l.away && now >= l.until:
		return l.slots
	case l.returned:
		return l.granted()
	}
	return max(l.granted(), l.inflight+l.held)
}

// granted returns the most slots that a grant in force can allow.
func (l *lease) granted() int64 {
	var c int64
	for i := range l.marks {
		c = max(c, l.marks[i].slots)
	}
	return c
}

// demand returns what the agent could use now.
func (l *lease) demand() int64 {
	if l.away {
		return 0
	}
	return l.inflight + l.held + l.queued
}

// safeOf returns what an agent with slots may go on using when its lease ran out.
func safeOf(slots int64, p *Params, on OnLoss) int64 {
	switch on {
	case OnLossZero:
		return 0
	case OnLossLast:
		return slots
	case OnLossSafe:
	}
	return scale(slots, p.SafeShare)
}

// leave ends the lease: the agent goes on without us at the safe share of
// whatever grant it obeys, and calls it started before may run until callsEnd.
func (l *lease) leave(rev uint64, callsEnd Nanos) {
	var safe int64
	for i := range l.marks {
		safe = max(safe, l.marks[i].safe)
	}
	l.grant(safe, safe, l.offset, rev)
	l.away, l.until = true, callsEnd
	l.queued, l.urgent, l.waiting = 0, 0, 0
}

// back begins anew at the safe share: the agent was heard again.
func (l *lease) back(now Nanos) {
	if l.returned = now >= l.until; l.returned {
		l.marks = append(l.marks[:0], l.marks[len(l.marks)-1])
	}
	l.away, l.until = false, 0
}

// searchLease finds agent in leases, which are sorted by agent.
func searchLease(leases []lease, agent string) (int, bool) {
	lo, hi := 0, len(leases)
	for lo < hi {
		mid := (lo + hi) / 2
		if leases[mid].agent < agent {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(leases) && leases[lo].agent == agent
}

// share is the result of a max–min division: everyone gets min(demand, base),
// and extra of those who want more get one on top.
type share struct{ base, extra int64 }

// maxMin divides limit among demands so that the smallest parts are as large
// as they can be: base is the largest b with Σ min(demand, b) ≤ limit.
func maxMin(leases []lease, limit int64) share {
	var top, total int64
	for i := range leases {
		d := leases[i].demand()
		top = max(top, d)
		total += d
	}
	if total <= limit {
		return share{base: top}
	}
	lo, hi := int64(0), top // Σ min(d, lo) ≤ limit < Σ min(d, hi)
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if sumMin(leases, mid) <= limit {
			lo = mid
		} else {
			hi = mid
		}
	}
	return share{base: lo, extra: limit - sumMin(leases, lo)}
}

func sumMin(leases []lease, b int64) int64 {
	var sum int64
	for i := range leases {
		sum += min(leases[i].demand(), b)
	}
	return sum
}

// rotateBelow is the base share under which the slots left over rotate. Above
// it one slot more or less is under an eighth of a share, and rotating would
// cost messages for nothing.
const rotateBelow = 8

// pass divides the window among the agents anew and grants what changed. It
// calls tell for the agents to tell.
//
// Raises take free room first; only when that is not enough are those who
// hold more than their share asked to give back. Slots beyond all demand are
// spread evenly, so that a new call need not ask, and are moved only when
// somebody lacks them or the difference is large.
func (c *channel) pass(p *Params, now Nanos, limit int64, rev uint64, frozen bool, tell func(agent string)) {
	c.passAt = now
	c.wants, c.urgent = false, false
	if len(c.leases) == 0 {
		return
	}
	targets := c.targets(p, now, limit)
	var claims, lack int64
	for i := range c.leases {
		l := &c.leases[i]
		claims += l.claim(now)
		if t := targets[i]; t > l.slots && l.demand() > l.slots {
			lack += t - l.slots
		}
	}
	room := limit - claims
	c.shrink(targets, lack > room)
	c.raise(now, targets, room, lack > room, frozen)
	changed := false
	for i := range c.leases {
		l := &c.leases[i]
		if targets[i] != l.slots {
			c.turn++
			l.turn, l.since = c.turn, now
		}
		changed = changed || !c.stands(l, targets[i])
	}
	if changed {
		c.regrant(p, targets, rev, tell)
	}
}

// shrink makes slots, which are targets, what those get whose lease becomes
// smaller: all of them when somebody lacks slots, else only those that have
// far too many.
func (c *channel) shrink(slots []int64, lacking bool) {
	for i := range c.leases {
		l := &c.leases[i]
		if t := slots[i]; l.away || t < l.slots && !lacking && l.slots <= t+max(2, t/2) {
			slots[i] = l.slots
		}
	}
}

// raise makes slots what those get whose lease becomes larger, while there is
// room beyond what is claimed. Where there is not enough, who was served least
// recently goes first. While frozen nothing is raised.
func (c *channel) raise(now Nanos, slots []int64, room int64, lacking, frozen bool) {
	c.order = c.order[:0]
	for i := range c.leases {
		if slots[i] > c.leases[i].slots {
			c.order = append(c.order, i)
		}
	}
	if lacking {
		sortBy(c.order, func(a, b int) bool {
			if c.leases[a].turn != c.leases[b].turn {
				return c.leases[a].turn < c.leases[b].turn
			}
			return a < b
		})
	}
	for _, i := range c.order {
		l := &c.leases[i]
		t := slots[i]
		slots[i] = l.slots
		if frozen || l.demand() <= l.slots && t < l.slots+max(1, l.slots/4) {
			continue // the latter is spare that is not worth a message
		}
		claim := l.claim(now)
		slots[i] = min(t, max(claim, l.slots)+max(room, 0))
		room -= max(slots[i]-claim, 0)
	}
}

// regrant grants the slots that changed, each at a rank offset of its own.
//
// Leases that stay keep their offset, since agents know it; those that change
// take the gaps between them. So the ranges [offset, offset+slots) never
// overlap, and a cut leaves no more than its share of their extent.
func (c *channel) regrant(p *Params, slots []int64, rev uint64, tell func(agent string)) {
	c.order = c.order[:0]
	for i := range c.leases {
		if l := &c.leases[i]; l.slots > 0 && c.stands(l, slots[i]) {
			c.order = append(c.order, i)
		}
	}
	slices.SortFunc(c.order, func(a, b int) int {
		return cmp.Compare(c.leases[a].offset, c.leases[b].offset)
	})
	var at int64 // where the next gap begins
	next := 0    // of the leases that stay
	for i := range c.leases {
		l := &c.leases[i]
		if c.stands(l, slots[i]) {
			continue
		}
		for ; next < len(c.order) && c.leases[c.order[next]].offset < at+slots[i]; next++ {
			kept := &c.leases[c.order[next]]
			at = max(at, kept.offset+kept.slots)
		}
		l.grant(slots[i], safeOf(slots[i], p, c.onLoss()), at, rev)
		at += slots[i]
		tell(l.agent)
	}
}

// stands reports whether the newest grant of l need not be made anew for it to
// have slots: it has, the agent can obey nothing larger by it, and no cut was
// missed while it was away.
func (c *channel) stands(l *lease, slots int64) bool {
	if l.away {
		return true
	}
	return slots == l.slots && !l.unsure() && (slots == 0 || l.rev >= c.cutRevision())
}

// targets returns every lease's fair part of limit.
func (c *channel) targets(p *Params, now Nanos, limit int64) []int64 {
	if cap(c.scratch) < len(c.leases) {
		c.scratch = make([]int64, len(c.leases))
	}
	t := c.scratch[:len(c.leases)]
	var away, present int64
	for i := range c.leases {
		if l := &c.leases[i]; l.away {
			away += l.claim(now)
		} else {
			present++
		}
	}
	limit = max(limit-away, 0)
	s := maxMin(c.leases, limit)
	var sum int64
	for i := range c.leases {
		t[i] = min(c.leases[i].demand(), s.base)
		sum += t[i]
	}
	switch {
	case s.extra > 0:
		c.rotate(p, now, s, t)
	case present > 0 && limit > sum:
		spare, rest := (limit-sum)/present, (limit-sum)%present
		for i := range c.leases {
			if l := &c.leases[i]; !l.away {
				t[i] += spare
				if rest > 0 {
					t[i]++
					rest--
				}
			}
		}
	}
	return t
}

// rotate gives one slot on top to s.extra of those who want more than the
// base, in this order:
//
//	holds one, and its turn is not over
//	waits, without one: who got or lost a slot least recently first
//	holds one, and its turn is over: the newest first
//	lost one, and its call has not ended: it is still using it
//
// It only chooses. The order does not change until there is room for those who
// wait, so that nobody is passed over while calls end out of step with turns.
func (c *channel) rotate(p *Params, now Nanos, s share, t []int64) {
	c.ranks = c.ranks[:0]
	for i := range c.leases {
		l := &c.leases[i]
		if l.demand() <= s.base {
			continue
		}
		r := slotRank{class: 1, turn: l.turn, lease: i}
		switch over := s.base < rotateBelow && now >= l.since+p.RotateEvery; {
		case l.slots > s.base && !over:
			r.class = 0
		case l.slots > s.base:
			r.class, r.turn = 2, ^l.turn
		case l.claim(now) > s.base:
			r.class = 3
		}
		c.ranks = append(c.ranks, r)
	}
	slices.SortFunc(c.ranks, slotRank.compare)
	for _, r := range c.ranks[:min(s.extra, int64(len(c.ranks)))] {
		t[r.lease]++
	}
}

// slotRank is a lease's place in the line for a slot on top: by class, then
// turn, then its place among the leases.
type slotRank struct {
	class int
	turn  uint64
	lease int
}

func (a slotRank) compare(b slotRank) int {
	return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.turn, b.turn), cmp.Compare(a.lease, b.lease))
}
