package model

import "fmt"

// Apply folds one record and adds to fx what it asks of the shell. Records
// come in the order of the log, each once.
//
// Log time moves by the difference of timestamps: a clock that jumps back adds
// nothing, one that jumps forward adds at most maxStep, or for a tick what the
// leader measured. Grants, probes, cuts and effects arise only here, so that
// leader, standby and replay cannot differ; every revision is the sequence of
// the record that caused it.
func (f *Fleet) Apply(r Record, fx *Effects) {
	if invariants {
		before := f.claims()
		defer func() { f.verify(r.Fact, before) }()
	}
	f.step(r)
	if !f.daysSet {
		f.setDays()
	}
	f.counters.Records++
	f.dirty.head = true
	switch fact := r.Fact.(type) {
	case *Attempts:
		f.applyAttempts(fact, fx)
	case *Summary:
		f.applySummary(fact, fx)
	case *Config:
		f.applyConfig(fact, fx)
	case *ParamSet:
		f.applyParams(fact, fx)
	case *Command:
		f.applyCommand(fact, fx)
	case *Lead:
		f.applyLead(fact, fx)
	case *Tick:
		if fact.Term < f.term {
			f.counters.StaleTerm++
		}
	case *Rebase:
		f.applyRebase(r, fact, fx)
	case nil:
		f.counters.Unreadable++
	default:
		f.counters.Unknown++
	}
	f.settle(fx)
}

// maxGap bounds what a new term or an anchor adds to log time, and where it may
// begin: a clock that is wrong by decades must not overflow what is reckoned
// from now.
const maxGap = 20 * 365 * 24 * Hour

// step moves log time to the record.
func (f *Fleet) step(r Record) {
	if !f.started {
		f.started, f.last = true, r.Time
		f.now = min(max(r.Time, 0), 5*maxGap)
	}
	span := maxGap
	if d := r.Time - f.last; r.Time <= f.last {
		span = 0
	} else if d > 0 { // else it overflowed: longer than any bound
		span = min(span, d)
	}
	switch fact := r.Fact.(type) {
	case *Lead, *Rebase:
		// The time without a leader: nothing but the log's clock knows it.
	case *Tick:
		if fact.Term >= f.term && fact.Elapsed > 0 {
			span = min(span, fact.Elapsed)
		} else {
			span = min(span, maxStep)
		}
	default:
		span = min(span, maxStep)
	}
	f.now += span
	f.moveWall(r, span)
	f.last, f.seq = r.Time, r.Seq
}

// source checks who speaks and which report it is, and returns the agent's
// entry, or nil if the report must be ignored. A newer boot starts anew.
func (f *Fleet) source(s *Source, attempts uint64, fx *Effects) *member {
	end := s.Seq + max(s.Span, 1)
	if s.Agent == "" || len(s.Agent) > maxAgentID || s.Seq == 0 || end < s.Seq {
		f.counters.Unreadable++
		return nil
	}
	m := f.member(s.Agent)
	if m == nil {
		if m = f.join(s, fx); m == nil {
			return nil
		}
	}
	f.dirty.member(m)
	switch {
	case s.Boot > m.boot, s.Boot < m.boot && m.forgotten:
		f.reboot(m, s.Boot, fx)
	case s.Boot < m.boot:
		f.duplicate(m, s, fx)
		return nil
	}
	if end <= m.next {
		f.counters.Repeated++
		m.repeated++
		return nil
	}
	if s.Seq < m.next {
		// A summary that covers a report which did come: what it counts
		// cannot be told apart, so what did not come is lost.
		f.counters.Repeated++
		f.lose(m, s, s.Base+attempts, fx)
		m.next, m.base = end, max(m.base, s.Base+attempts)
		return nil
	}
	f.lose(m, s, s.Base, fx)
	m.next, m.base, m.folded = end, s.Base+attempts, s.Seq
	f.heard(m)
	return m
}

// join makes the entry of a new agent, or returns nil when there is no room.
func (f *Fleet) join(s *Source, fx *Effects) *member {
	if len(f.members) >= MaxAgents && !f.evict() {
		f.counters.TooManyAgents++
		return nil
	}
	m := f.addMember(s.Agent)
	m.boot, m.heard = s.Boot, f.now
	f.decide(fx, Decision{Agent: s.Agent, Rule: RuleMember, Reason: "joined"})
	return m
}

// duplicate notes that an older process speaks under the agent's id; once per
// lease, since it may speak often.
func (f *Fleet) duplicate(m *member, s *Source, fx *Effects) {
	f.counters.DuplicateAgents++
	m.repeated++
	if m.warned == 0 || f.now-m.warned >= f.par().LeaseDuration {
		m.warned = f.now
		f.decide(fx, Decision{Agent: m.agent, Rule: RuleMember, Reason: fmt.Sprintf("an older process (boot %d) speaks under the same id; its reports are ignored", s.Boot)})
	}
}

// lose counts the attempts that never came: settled counts all that the boot
// ever settled up to the report s.
func (f *Fleet) lose(m *member, s *Source, settled uint64, fx *Effects) {
	if settled <= m.base {
		return
	}
	lost := settled - m.base
	m.lost += lost
	f.counters.Lost += lost
	f.decide(fx, Decision{Agent: m.agent, Rule: RuleMember, Reason: fmt.Sprintf("%d attempts never came: report %d follows %d", lost, s.Seq, m.next-1)})
}

// heard notes that an agent spoke, and ends its absence.
func (f *Fleet) heard(m *member) {
	m.returned = m.returned || m.left || m.forgotten
	if m.away || m.left || m.forgotten {
		f.setAlarm(m.until) // it was not looked at meanwhile
	}
	if m.away {
		for _, c := range f.channels {
			if i, ok := searchLease(c.leases, m.agent); ok && c.leases[i].away {
				c.advance(f.now)
				c.count(&c.leases[i], -1)
				c.leases[i].back(f.now)
				c.count(&c.leases[i], 1)
				c.touch(i)
				c.wants, c.urgent = true, true
				f.want(c)
			}
		}
	}
	m.heard = f.now
	m.left, m.away, m.forgotten, m.ends = false, false, false, 0
	f.setAlarm(f.now + f.par().ForgetAfter)
}

// reboot starts an agent's entry anew: the old process is gone, and so are
// its claims.
func (f *Fleet) reboot(m *member, boot uint64, fx *Effects) {
	*m = member{agent: m.agent, boot: boot, next: 1, lost: m.lost}
	f.release(m.agent)
	for _, p := range f.pools {
		p.advance(f.now)
		p.renew(m.agent)
		f.wantPool(p)
	}
	f.decide(fx, Decision{Agent: m.agent, Rule: RuleMember, Reason: "started anew; what its old process held is free"})
}

// release drops an agent's leases and the probes it has.
func (f *Fleet) release(agent string) {
	for _, c := range f.channels {
		if _, ok := searchLease(c.leases, agent); ok {
			c.advance(f.now)
			c.drop(agent)
			c.observe(f.parOf(c))
			f.want(c)
		}
		if c.breaker.Probe.ID != 0 && c.breaker.Probe.Agent == agent {
			f.freeProbe(c)
		}
	}
}

func (f *Fleet) applyAttempts(a *Attempts, fx *Effects) {
	m := f.source(&a.Source, uint64(len(a.Attempts)), fx)
	if m == nil {
		return
	}
	if a.Version != "" {
		m.version = a.Version
	}
	m.mode = a.Mode
	behind := false
	f.batch = f.batch[:0]
	for i := range a.Channels {
		r := &a.Channels[i]
		c := f.channel(r.Channel)
		f.batch = append(f.batch, c)
		if c == nil {
			f.counters.UnknownChannel++
			continue
		}
		c.advance(f.now)
		behind = c.report(f.parOf(c), f.now, m, f.seq, r) || behind
		f.want(c)
	}
	for i := range a.Attempts {
		at := &a.Attempts[i]
		f.counters.Attempts++
		if int(at.Channel) >= len(f.batch) || f.batch[at.Channel] == nil {
			f.counters.UnknownChannel++
			continue
		}
		f.attempt(f.batch[at.Channel], m.agent, at, fx)
	}
	f.poolReports(m, a.Pools)
	for _, c := range f.batch {
		if c != nil {
			c.observe(f.parOf(c))
			f.judgeLatency(c, fx)
		}
	}
	if a.Leaving {
		f.leave(m, fx)
		return
	}
	f.renew(m, behind, fx)
}

// tellAgain is how long a grant or a cut may go without acknowledgement: where
// messages take a fifth of a second each way it has come by then. One that was
// lost would keep its slots from everybody until the lease is renewed.
const tellAgain = 500 * Millisecond

// renew sends a lease again once a quarter of it is gone, and where the agent is
// behind what it was last sent.
func (f *Fleet) renew(m *member, behind bool, fx *Effects) {
	if m.until < f.now+f.par().LeaseDuration*3/4 || behind && f.now >= m.told+tellAgain {
		f.tell(m, fx)
	}
}

// poolReports takes how the pools stand at an agent that was heard.
func (f *Fleet) poolReports(m *member, reports []PoolReport) {
	for i := range reports {
		if p := f.pool(reports[i].Pool); p != nil {
			p.report(m.agent, &reports[i], f.now, f.seq, m.returned)
			f.wantPool(p)
		}
	}
	for _, p := range f.pools {
		if p.back(m.agent, f.now) {
			f.wantPool(p)
		}
	}
}

// applySummary counts what an agent could not keep. It settles and never cuts.
func (f *Fleet) applySummary(s *Summary, fx *Effects) {
	var attempts uint64
	for i := range s.Counts {
		attempts += s.Counts[i].Attempts
	}
	m := f.source(&s.Source, attempts, fx)
	if m == nil {
		return
	}
	f.counters.Attempts += attempts
	for i := range s.Counts {
		n := &s.Counts[i]
		c := f.channel(n.Channel)
		if c == nil || int(n.Class) >= NumClasses {
			f.counters.UnknownChannel++
			continue
		}
		c.counts[n.Class] += n.Attempts
		c.tokensIn += uint64(max(n.In, 0))
		c.tokensOut += uint64(max(n.Out, 0))
		f.billSummary(c, n, fx)
		f.dirty.channel(c)
	}
	f.poolReports(m, s.Pools)
	f.renew(m, false, fx)
}

// leave ends an agent's leases: it said that it goes.
func (f *Fleet) leave(m *member, fx *Effects) {
	m.left = true
	f.release(m.agent)
	for _, p := range f.pools {
		p.leave(m.agent, f.now)
		f.wantPool(p)
	}
	f.decide(fx, Decision{Agent: m.agent, Rule: RuleMember, Reason: "left; its leases are free"})
}

// tell asks for an agent's lease to be sent. It quotes the newest report
// folded now, whenever the shell gets to send it, so the lease ends at the
// agent no later than here: LeaseDuration after that report.
func (f *Fleet) tell(m *member, fx *Effects) {
	if !m.here() {
		return
	}
	fx.lease(m.agent)
	m.quoted, m.lasts, m.told = m.folded, f.par().LeaseDuration, f.now
	m.until = max(m.until, m.heard+m.lasts)
	f.setAlarm(m.until)
	f.dirty.member(m)
}

// want puts a touched channel in line for a lease pass.
func (f *Fleet) want(c *channel) {
	f.dirty.channel(c)
	if !c.queuedForPass {
		c.queuedForPass = true
		f.pending = append(f.pending, c)
	}
}

func (f *Fleet) wantPool(p *pool) {
	f.dirty.pool(p)
	p.wants = true
	if !p.queuedForPass {
		p.queuedForPass = true
		f.waiting = append(f.waiting, p)
	}
}
