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
	f.step(r)
	f.counters.Records++
	f.dirty.mark("head")
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

// step moves log time to the record.
func (f *Fleet) step(r Record) {
	if !f.started {
		f.started, f.now, f.last = true, r.Time, r.Time
	}
	span := max(r.Time-f.last, 0)
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
	f.last, f.seq = r.Time, r.Seq
}

// source checks who speaks and which report it is, and returns the agent's
// entry, or nil if the report must be ignored. A newer boot starts anew.
func (f *Fleet) source(s *Source, attempts uint64, fx *Effects) *member {
	m := f.member(s.Agent)
	switch {
	case m == nil:
		if len(f.members) >= MaxAgents {
			f.counters.TooManyAgents++
			return nil
		}
		m = f.addMember(s.Agent)
		m.boot = s.Boot
		f.decide(fx, Decision{Agent: s.Agent, Rule: RuleMember, Reason: "joined"})
	case s.Boot < m.boot:
		f.counters.DuplicateAgents++
		if m.repeated == 0 || f.now-m.told >= f.par().LeaseDuration {
			f.decide(fx, Decision{Agent: s.Agent, Rule: RuleMember, Reason: fmt.Sprintf("an older process (boot %d) speaks under the same id; its reports are ignored", s.Boot)})
		}
		m.repeated++
		return nil
	case s.Boot > m.boot:
		f.reboot(m, s.Boot, fx)
	}
	end := s.Seq + max(s.Span, 1)
	if end <= m.next {
		f.counters.Repeated++
		m.repeated++
		return nil
	}
	if s.Base > m.base {
		lost := s.Base - m.base
		m.lost += lost
		f.counters.Lost += lost
		f.decide(fx, Decision{Agent: s.Agent, Rule: RuleMember, Reason: fmt.Sprintf("%d attempts never came: report %d follows %d", lost, s.Seq, m.next-1)})
	}
	if s.Seq < m.next {
		// A summary that covers a report which did come: what it counts
		// cannot be told apart, so its attempts are not counted twice.
		f.counters.Repeated++
		m.next, m.base = end, max(m.base, s.Base+attempts)
		return nil
	}
	m.next, m.base, m.folded = end, s.Base+attempts, s.Seq
	m.heard, m.left = f.now, false
	m.away, m.ended = false, false
	f.dirty.mark("agent/" + m.agent)
	return m
}

// reboot starts an agent's entry anew: the old process is gone, and so are
// its claims.
func (f *Fleet) reboot(m *member, boot uint64, fx *Effects) {
	*m = member{agent: m.agent, boot: boot, next: 1, lost: m.lost}
	for _, c := range f.channels {
		c.advance(f.now)
		c.drop(m.agent)
		f.want(c)
	}
	for _, p := range f.pools {
		p.advance(f.now)
		p.renew(m.agent)
		f.wantPool(p)
	}
	f.decide(fx, Decision{Agent: m.agent, Rule: RuleMember, Reason: "started anew; what its old process held is free"})
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
		c.report(f.par(), f.now, m.agent, r)
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
	for i := range a.Pools {
		f.poolReport(m.agent, &a.Pools[i])
	}
	for _, c := range f.batch {
		if c != nil {
			c.observe(f.par())
			f.judgeLatency(c, fx)
		}
	}
	if a.Leaving {
		f.leave(m, fx)
		return
	}
	if m.told == 0 || f.now-m.told >= f.par().LeaseDuration/4 {
		f.tell(m, fx)
	}
}

func (f *Fleet) poolReport(agent string, r *PoolReport) {
	if p := f.pool(r.Pool); p != nil {
		p.report(agent, r, f.now)
		f.wantPool(p)
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
		f.dirty.mark("channel/" + c.name)
	}
	for i := range s.Pools {
		f.poolReport(m.agent, &s.Pools[i])
	}
}

// leave ends an agent's leases: it said that it goes.
func (f *Fleet) leave(m *member, fx *Effects) {
	m.left = true
	for _, c := range f.channels {
		c.drop(m.agent)
		f.want(c)
	}
	for _, p := range f.pools {
		p.advance(f.now)
		if i, ok := searchGrant(p.grants, m.agent); ok {
			g := &p.grants[i]
			dr, dt := g.debited()
			p.requests.Level += max(dr-g.usedRequests, 0)
			p.tokens.Level += max(dt-g.usedTokens, 0)
			p.drop(m.agent)
		}
		f.wantPool(p)
	}
	f.decide(fx, Decision{Agent: m.agent, Rule: RuleMember, Reason: "left; its leases are free"})
}

// tell asks for an agent's lease to be sent. It quotes the newest report
// folded, so the lease ends LeaseDuration after that.
func (f *Fleet) tell(m *member, fx *Effects) {
	if m.away || m.left {
		return
	}
	fx.lease(m.agent)
	m.told, m.until = f.now, m.heard+f.par().LeaseDuration
	f.setAlarm(m.until)
	f.dirty.mark("agent/" + m.agent)
}

func (f *Fleet) setAlarm(at Nanos) { f.alarm = min(f.alarm, at) }

// want puts a touched channel in line for a lease pass.
func (f *Fleet) want(c *channel) {
	f.dirty.mark("channel/" + c.name)
	if !c.queuedForPass {
		c.queuedForPass = true
		f.pending = append(f.pending, c)
	}
}

func (f *Fleet) wantPool(p *pool) {
	f.dirty.mark("pool/" + p.name)
	p.wants = true
	if !p.queuedForPass {
		p.queuedForPass = true
		f.waiting = append(f.waiting, p)
	}
}
