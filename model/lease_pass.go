package model

import (
	"cmp"
	"slices"
)

// passRow is one lease as a pass sees it. A pass looks at every lease several
// times, and a lease is large: rows are kept from pass to pass, and only those
// of leases that changed are made anew.
type passRow struct {
	demand, slots, offset, claim int64
	// target is what the lease becomes: first its fair part, then what of
	// that can be given and is worth a message.
	target int64
	turn   uint64
	away   bool
	// renew is set when the grant is made anew even if its slots stay: the
	// agent may obey something larger, or missed a cut while it was away.
	renew bool
}

// stands reports whether the newest grant need not be made anew.
func (r *passRow) stands() bool { return r.away || r.target == r.slots && !r.renew }

// row makes the row of a lease.
func (c *channel) row(i int, now Nanos) passRow {
	l := &c.leases[i]
	return passRow{
		demand: l.demand(), slots: l.slots, offset: l.offset, claim: l.claim(now), turn: l.turn, away: l.away,
		renew: l.unsure || l.slots != 0 && l.rev < c.cutRevision(),
	}
}

// touch notes that a lease changed since the last pass, touchAll that many did
// or that they moved.
func (c *channel) touch(i int) {
	if c.touched = append(c.touched, i); len(c.touched) > len(c.leases) {
		c.touchAll()
	}
}

func (c *channel) touchAll() { c.rows, c.touched = c.rows[:0], c.touched[:0] }

// passCalm is what is known of the next pass after one that changed nothing:
// that it will change nothing either before until, 0 for not known, as long as
// limit, frozen and turn are the same and the rows are alike. above is the demand
// beyond which more makes no difference.
type passCalm struct {
	until        Nanos
	limit, above int64
	frozen       bool
	turn         Nanos
}

// alike reports whether a pass would find in either row the same.
func (p *passCalm) alike(a, b *passRow) bool {
	return a.slots == b.slots && a.offset == b.offset && a.claim == b.claim && a.turn == b.turn && a.away == b.away && a.renew == b.renew &&
		(a.demand == b.demand || a.demand > p.above && b.demand > p.above)
}

// gather brings the rows up to date: of what was touched, or of all where an
// agent is away, whose claim changes with time.
func (c *channel) gather(now Nanos) []passRow {
	if len(c.rows) == len(c.leases) && c.gone == 0 {
		for _, i := range c.touched {
			r := c.row(i, now)
			if c.calm.until > 0 && !c.calm.alike(&r, &c.rows[i]) {
				c.calm.until = 0
			}
			c.rows[i] = r
		}
	} else {
		c.calm.until = 0
		c.rows = slices.Grow(c.rows[:0], len(c.leases))[:len(c.leases)]
		for i := range c.rows {
			c.rows[i] = c.row(i, now)
		}
	}
	c.touched = c.touched[:0]
	return c.rows
}

// share is the result of a max–min division: everyone gets min(demand, base),
// and extra of those who want more get one on top.
type share struct{ base, extra int64 }

// maxMin divides limit among demands so that the smallest parts are as large
// as they can be: base is the largest b with Σ min(demand, b) ≤ limit. Whoever
// wants no more than an even part gets what it wants, and the rest is divided
// among the others, until all of them want more. It overwrites demands, whose
// sum is more than limit.
func maxMin(demands []int64, limit int64) share {
	for {
		base := limit / int64(len(demands))
		left, more := limit, demands[:0]
		for _, d := range demands {
			if d <= base {
				left -= d
			} else {
				more = append(more, d)
			}
		}
		if len(more) == len(demands) {
			return share{base: base, extra: limit - base*int64(len(demands))}
		}
		limit, demands = left, more
	}
}

// rotateBelow is the base share under which the slots left over rotate. Above
// it one slot more or less is under an eighth of a share, and rotating would
// cost messages for nothing.
const rotateBelow = 8

const (
	// turnAnswers is how many times longer a turn is at least than it takes to
	// hand a slot over: meanwhile nobody uses it. turnCalls is the same of a
	// mean call: until one ends a slot is neither its holder's nor the next's.
	// turnMost bounds both.
	turnAnswers = 8
	turnCalls   = 2
	turnMost    = 16 * Second
)

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
	rows := c.gather(now)
	turn := c.turnTime(p)
	calm := now < c.calm.until && limit == c.calm.limit && frozen == c.calm.frozen && turn == c.calm.turn && !c.window.Drain
	if calm && !invariants {
		return
	}
	c.calm = passCalm{until: forever, limit: limit, above: maxInt64, frozen: frozen, turn: turn}
	room := limit
	for i := range rows {
		room -= rows[i].claim
	}
	lack := c.targets(p, now, limit, rows)
	c.shrink(rows, lack > room)
	if c.window.Drain {
		c.single(rows, room, now, rev)
		c.calm.until = 0
	} else {
		c.raise(rows, room, lack > room, frozen)
	}
	changed := false
	for _, i := range c.moved {
		r := &rows[i]
		if r.target != r.slots {
			c.turn++
			r.turn = c.turn
			c.leases[i].turn, c.leases[i].since = c.turn, now
		}
		changed = changed || !r.stands()
	}
	if !changed {
		return
	}
	if calm {
		panic("model: BUG: a pass was thought to change nothing")
	}
	c.calm.until = 0
	c.regrant(p, now, rev, tell)
}

// shrink keeps the slots of those whose lease would become smaller, unless
// somebody lacks slots or they have far too many. Who is away keeps its own.
// It lists whose grant may be made anew.
func (c *channel) shrink(rows []passRow, lacking bool) {
	c.moved = c.moved[:0]
	for i := range rows {
		r := &rows[i]
		if t := r.target; r.away || t < r.slots && !lacking && r.slots <= t+max(2, t/2) {
			r.target = r.slots
		}
		if !r.stands() {
			c.moved = append(c.moved, i)
		}
	}
}

// raise gives those whose lease becomes larger what there is room for beyond
// what is claimed. Where there is not enough, who was served least recently
// goes first. While frozen nothing is raised.
func (c *channel) raise(rows []passRow, room int64, lacking, frozen bool) {
	c.line = c.line[:0]
	for _, i := range c.moved {
		if rows[i].target > rows[i].slots {
			c.line = append(c.line, slotRank{turn: rows[i].turn, lease: i})
		}
	}
	if lacking {
		slices.SortFunc(c.line, slotRank.compare)
	}
	for _, k := range c.line {
		r := &rows[k.lease]
		t := r.target
		r.target = r.slots
		if frozen || room < 0 || r.demand <= r.slots && t < r.slots+max(1, r.slots/4) {
			continue // the latter is spare that is not worth a message
		}
		r.target = min(t, max(r.claim, r.slots)+max(room, 0))
		room -= max(r.target-r.claim, 0)
	}
}

// turnTime is how long whoever has a slot on top keeps it: in whole seconds beyond
// RotateEvery, so that it rarely changes.
func (c *channel) turnTime(p *Params) Nanos {
	least := min(max(turnAnswers*c.answer, turnCalls*c.latency.Took), turnMost)
	return max(p.RotateEvery, (least+Second-1)/Second*Second)
}

// keptRange is the range of ranks of a lease that stays.
type keptRange struct{ offset, slots int64 }

// regrant grants what changed, each at a rank offset of its own.
//
// Leases that stay keep their offset, since agents know it; those that change
// take the gaps between them. So the ranges [offset, offset+slots) never
// overlap, and a cut leaves no more than its share of their extent.
func (c *channel) regrant(p *Params, now Nanos, rev uint64, tell func(agent string)) {
	c.kept = c.kept[:0]
	for i := range c.rows {
		if r := &c.rows[i]; r.slots > 0 && r.stands() {
			c.kept = append(c.kept, keptRange{r.offset, r.slots})
		}
	}
	slices.SortFunc(c.kept, func(a, b keptRange) int { return cmp.Compare(a.offset, b.offset) })
	var at int64 // where the next gap begins
	next := 0    // of the leases that stay
	for _, i := range c.moved {
		slots := c.rows[i].target
		if c.rows[i].stands() {
			continue
		}
		for ; next < len(c.kept) && c.kept[next].offset < at+slots; next++ {
			at = max(at, c.kept[next].offset+c.kept[next].slots)
		}
		l := &c.leases[i]
		c.count(l, -1)
		l.grant(slots, safeOf(slots, at, p, c.onLoss()), at, rev)
		c.count(l, 1)
		c.rows[i] = c.row(i, now)
		at += slots
		tell(l.agent)
	}
}

// targets sets every row's target to its fair part of limit and returns what
// those lack who want more than they have.
func (c *channel) targets(p *Params, now Nanos, limit int64, rows []passRow) (lack int64) {
	var present, total int64
	c.demands = c.demands[:0]
	for i := range rows {
		r := &rows[i]
		if r.target = 0; r.away {
			limit -= r.claim
			continue
		}
		present++
		total += r.demand
		c.demands = append(c.demands, r.demand)
	}
	limit = max(limit, 0)
	switch {
	case present == 0:
	case total > limit:
		s := maxMin(c.demands, limit)
		c.calm.above = s.base
		for i := range rows {
			r := &rows[i]
			r.target = min(r.demand, s.base)
			lack += r.lacks()
		}
		if s.extra > 0 {
			lack += c.rotate(p, now, s, rows)
		}
	default:
		each, rest := (limit-total)/present, (limit-total)%present
		for i := range rows {
			r := &rows[i]
			if r.away {
				continue
			}
			if r.target = r.demand + each; rest > 0 {
				r.target++
				rest--
			}
			lack += r.lacks()
		}
	}
	return lack
}

// lacks returns what of its target an agent that wants more does not have.
func (r *passRow) lacks() int64 {
	if r.demand <= r.slots {
		return 0
	}
	return max(r.target-r.slots, 0)
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
// It returns what they lack of the slots on top.
func (c *channel) rotate(p *Params, now Nanos, s share, rows []passRow) (lack int64) {
	turn := c.turnTime(p)
	c.line = c.line[:0]
	for i := range rows {
		r := &rows[i]
		if r.demand <= s.base {
			continue
		}
		k := slotRank{class: 1, turn: r.turn, lease: i}
		switch {
		case r.slots > s.base:
			if k.class = 0; s.base >= rotateBelow {
				break
			}
			if over := c.leases[i].since + turn; now >= over {
				k.class, k.turn = 2, ^r.turn
			} else {
				c.calm.until = min(c.calm.until, over)
			}
		case r.claim > s.base:
			k.class = 3
		}
		c.line = append(c.line, k)
	}
	for _, k := range firstRanks(c.line, int(s.extra)) {
		r := &rows[k.lease]
		lack -= r.lacks()
		r.target++
		lack += r.lacks()
	}
	return lack
}

// slotRank is a lease's place in the line for a slot: by class, then turn,
// then its place among the leases, so that no two are equal.
type slotRank struct {
	class int
	turn  uint64
	lease int
}

func (a slotRank) less(b slotRank) bool {
	switch {
	case a.class != b.class:
		return a.class < b.class
	case a.turn != b.turn:
		return a.turn < b.turn
	}
	return a.lease < b.lease
}

func (a slotRank) compare(b slotRank) int {
	switch {
	case a.less(b):
		return -1
	case b.less(a):
		return 1
	}
	return 0
}

// firstRanks returns the n first of line, in any order; it moves them to the
// front. It looks at what is left of the line after a pivot took its place,
// like quicksort, but only on the side where the n-th is; in case pivots are
// bad ones again and again, it sorts.
func firstRanks(line []slotRank, n int) []slotRank {
	first := line[:n]
	for range 64 {
		if len(line) <= 12 {
			break
		}
		switch p := pivot(line); {
		case p > n:
			line = line[:p]
		case p < n-1:
			line, n = line[p+1:], n-p-1
		default:
			return first
		}
	}
	slices.SortFunc(line, slotRank.compare)
	return first
}

// pivot moves what is less than the middle one of three before it and the
// rest behind it, and returns its place.
func pivot(line []slotRank) int {
	last := len(line) - 1
	a, b, c := 0, last/2, last
	if line[b].less(line[a]) {
		a, b = b, a
	}
	if line[c].less(line[b]) {
		b = c
		if line[b].less(line[a]) {
			b = a
		}
	}
	line[b], line[last] = line[last], line[b]
	p := 0
	for i := range line[:last] {
		if line[i].less(line[last]) {
			line[i], line[p] = line[p], line[i]
			p++
		}
	}
	line[p], line[last] = line[last], line[p]
	return p
}
