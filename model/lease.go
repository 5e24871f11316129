package model

// lease is one agent's part of a channel's window.
//
// Its claim is what the controller must assume the agent uses: the largest
// grant since and including the last it acknowledged, or what it last
// reported in flight, whichever is more. A grant may be raised only while the
// claims of all agents together stay within the limit; a smaller grant frees
// its slots only once it is acknowledged. So messages may be lost, late or
// repeated, and the sum of what agents use never exceeds the limit.
type lease struct {
	agent string
	// slots is the newest grant, offset its rank offset, rev its revision,
	// epoch the channel's epoch when it was made.
	slots, offset int64
	rev, epoch    uint64
	// marks are the grants since and including the last acknowledged one,
	// oldest first, at most maxMarks.
	marks []leaseMark
	// What the agent last reported.
	inflight, held, accepted, queued, urgent int64
	waiting                                  Tokens
	wouldRefuse                              uint64
	// turn numbers who got a slot last when slots are fewer than agents;
	// since is when.
	turn  uint64
	since Nanos
	// away is set while the agent's lease has ended and it was not heard
	// since; until is when what it last had in flight must have ended.
	away  bool
	until Nanos
}

// leaseMark is a grant that may be in force at the agent.
type leaseMark struct {
	rev   uint64
	slots int64
}

// maxMarks bounds the unacknowledged grants of one lease. When it is full the
// two oldest become one that claims the larger of both.
const maxMarks = 8

// grant makes a new grant.
func (l *lease) grant(slots, offset int64, rev, epoch uint64) {
	l.slots, l.offset, l.rev, l.epoch = slots, offset, rev, epoch
	if n := len(l.marks); n > 0 && l.marks[n-1].rev == rev {
		// Two grants of one record leave in one message: the last counts.
		l.marks[n-1].slots = slots
		return
	}
	if len(l.marks) == maxMarks {
		l.marks[1].slots = max(l.marks[0].slots, l.marks[1].slots)
		l.marks = append(l.marks[:0], l.marks[1:]...)
	}
	l.marks = append(l.marks, leaseMark{rev, slots})
}

// acknowledge takes the revision that the agent obeys.
func (l *lease) acknowledge(rev uint64) {
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
	var c int64
	for i := range l.marks {
		c = max(c, l.marks[i].slots)
	}
	if l.away && now >= l.until {
		return c
	}
	return max(c, l.inflight+l.held)
}

// demand returns what the agent could use now.
func (l *lease) demand() int64 {
	if l.away {
		return 0
	}
	return l.inflight + l.held + l.queued
}

// safe returns what the agent may go on using when its lease ran out.
func (l *lease) safe(p *Params, on OnLoss) int64 {
	switch on {
	case OnLossZero:
		return 0
	case OnLossLast:
		return l.slots
	case OnLossSafe:
	}
	return scale(l.slots, p.SafeShare)
}

// leave ends the lease at its safe share: the agent went on without us.
func (l *lease) leave(p *Params, on OnLoss, rev uint64, callsEnd Nanos) {
	safe := l.safe(p, on)
	l.slots, l.rev = safe, rev
	l.marks = append(l.marks[:0], leaseMark{rev, safe})
	l.away, l.until = true, callsEnd
	l.queued, l.urgent, l.waiting = 0, 0, 0
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
// returns the agents to tell.
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
	shrink := lack > room
	var offset int64
	for i := range c.leases {
		l := &c.leases[i]
		slots := l.slots
		t := targets[i]
		switch {
		case l.away:
		case t < slots && (shrink || slots > t+max(2, t/2)):
			slots = t
		case t > slots && !frozen && (l.demand() > slots || t >= slots+max(1, slots/4)):
			claim := l.claim(now)
			slots = min(t, max(claim, slots)+max(room, 0))
			room -= max(slots-claim, 0)
		}
		if slots != l.slots {
			l.grant(slots, offset, rev, c.window.Epoch)
			tell(l.agent)
		}
		offset += l.slots
	}
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
// base: first to those whose turn is not over, then to those who waited longest.
func (c *channel) rotate(p *Params, now Nanos, s share, t []int64) {
	var want []int
	for i := range c.leases {
		if c.leases[i].demand() > s.base {
			want = append(want, i)
		}
	}
	keeps := func(i int) bool {
		l := &c.leases[i]
		return l.slots > s.base && (s.base >= rotateBelow || now < l.since+p.RotateEvery)
	}
	sortBy(want, func(a, b int) bool {
		ka, kb := keeps(a), keeps(b)
		switch {
		case ka != kb:
			return ka
		case c.leases[a].turn != c.leases[b].turn:
			return c.leases[a].turn < c.leases[b].turn
		}
		return a < b
	})
	for k, i := range want {
		if int64(k) >= s.extra {
			break
		}
		t[i]++
		if l := &c.leases[i]; l.slots <= s.base || now >= l.since+p.RotateEvery {
			c.turn++
			l.turn, l.since = c.turn, now
		}
	}
}
