package model

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
	// What a pass reads of every lease comes first.

	agent string
	// away is set while the agent's lease has ended and it was not heard
	// since; until is when every call it can have in flight must have ended.
	away bool
	// returned is set from when the agent is heard again, after until, to its
	// first acknowledgement: what it reports meanwhile is what it could not
	// send before, and tells of calls that have long ended.
	returned bool
	// unsure is set while what the agent obeys may be more than the newest
	// grant even once it acknowledges it. Derived from marks.
	unsure bool
	// slots is the newest grant, rev its revision.
	slots int64
	rev   uint64
	// most is the most slots that a grant in force can allow. Derived from
	// marks.
	most int64
	// least is the slots that it surely allows. Derived from marks.
	least int64
	// inflight, held and queued are what the agent last reported.
	inflight, held, queued int64
	// turn numbers who got or lost a slot last; since is when.
	turn  uint64
	since Nanos

	until Nanos
	// safe is what of slots may go on without us, offset its rank offset.
	safe, offset int64
	// marks are what may be in force at the agent: the grants since and
	// including the last acknowledged one, oldest first, at most maxMarks.
	// Invariant: the newest has revision rev and no fewer slots.
	marks []leaseMark
	// What the agent last reported, too.
	accepted, urgent int64
	waiting          Tokens
	wouldRefuse      uint64
	// seen is when that was, 0 before the first report.
	seen Nanos
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
	switch n := len(l.marks); {
	case n > 0 && l.marks[n-1].rev == m.rev:
		// Two grants of one record leave in one message: the last counts.
		l.marks[n-1] = m
	case n == maxMarks:
		l.marks[1] = l.marks[0].or(l.marks[1])
		l.marks = append(append(l.marks[:0], l.marks[1:]...), m)
	default:
		l.marks = append(l.marks, m)
	}
	l.derive()
}

// derive sets what follows from the marks.
func (l *lease) derive() {
	l.most, l.least, l.unsure = 0, l.slots, false
	for i := range l.marks {
		l.most, l.least = max(l.most, l.marks[i].slots), min(l.least, l.marks[i].slots)
	}
	if n := len(l.marks); n > 0 {
		l.unsure = l.marks[n-1].slots > l.slots || l.marks[n-1].safe > l.safe
	}
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
		l.derive()
	}
}

// claim returns the slots the agent must be assumed to use at now.
func (l *lease) claim(now Nanos) int64 {
	switch {
	case l.away && now >= l.until:
		return l.slots
	case l.returned:
		return l.most
	}
	return max(l.most, l.inflight+l.held)
}

// demand returns what the agent could use now.
func (l *lease) demand() int64 {
	if l.away {
		return 0
	}
	return l.inflight + l.held + l.queued
}

// safeOf returns what an agent with slots from offset on may go on using when
// its lease ran out. Shares are rounded by rank, as cuts are: rounded each by
// itself, two slots would leave one, and a fleet of many small leases half.
func safeOf(slots, offset int64, p *Params, on OnLoss) int64 {
	switch on {
	case OnLossZero:
		return 0
	case OnLossLast:
		return slots
	case OnLossSafe:
	}
	return scale(offset+slots, p.SafeShare) - scale(offset, p.SafeShare)
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
		l.derive()
	}
	l.away, l.until = false, 0
}

// nearLease finds agent in leases, at near if it is there, and notes where it is:
// agents that use the same channels have their leases at the same place in each.
func nearLease(leases []lease, agent string, near *int) (int, bool) {
	if i := *near; i < len(leases) && leases[i].agent == agent {
		return i, true
	}
	i, ok := searchLease(leases, agent)
	*near = i
	return i, ok
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

func (c *coder) lease(l *lease) {
	c.str(&l.agent)
	for _, n := range []*int64{&l.slots, &l.safe, &l.offset} {
		num(c, n)
	}
	num(c, &l.rev)
	list(c, &l.marks, func(c *coder, m *leaseMark) {
		num(c, &m.rev)
		for _, n := range []*int64{&m.slots, &m.safe, &m.offset} {
			num(c, n)
		}
	})
	for _, n := range []*int64{&l.inflight, &l.held, &l.accepted, &l.queued, &l.urgent} {
		num(c, n)
	}
	num(c, &l.waiting)
	num(c, &l.wouldRefuse)
	num(c, &l.turn)
	num(c, &l.since)
	c.flag(&l.away)
	num(c, &l.until)
	c.flag(&l.returned)
	num(c, &l.seen)
}
