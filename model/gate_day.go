package model

// gateQuota is a day as the controller told it.
type gateQuota struct {
	Quota
	term, seq uint64
	until     Nanos // when it ends
}

// gateMaxQuotas bounds the days remembered from messages.
const gateMaxQuotas = 1 << 17

// quota takes what a broadcast says of a day.
func (g *Gate) quota(now Nanos, set *LimitSet, q *Quota) {
	t := g.quotas[q.Name]
	switch {
	case t == nil && len(g.quotas) >= gateMaxQuotas:
		g.number.ignored++
		return
	case t == nil:
		t = &gateQuota{}
		g.quotas[q.Name], g.spender = t, ""
	case set.Term < t.term || set.Term == t.term && set.Seq < t.seq:
		g.number.stale++
		return
	}
	*t = gateQuota{Quota: *q, term: set.Term, seq: set.Seq, until: gateLater(now, q.Reset)}
}

// tenantQuota returns the day of a tenant as it is at now, nil where nothing is
// known or the day is over.
func (g *Gate) tenantQuota(now Nanos, tenant string) *gateQuota {
	if tenant == "" || len(g.quotas) == 0 {
		return nil
	}
	if tenant != g.spender {
		g.spender, g.spends = tenant, g.quotas[DayOfTenant(tenant)]
	}
	if q := g.spends; q != nil && now < q.until {
		return q
	}
	return nil
}

// ceiling returns the day of r's tenant if that is used up: then nothing starts
// for it, on whatever channel, where decisions bind.
func (g *Gate) ceiling(now Nanos, r *gateRequest) *gateQuota {
	q := g.tenantQuota(now, r.tenant)
	if q == nil || q.Stage != StageSpent || g.cfg.Mode == ModeObserve || g.config.Mode == ModeObserve {
		return nil
	}
	return q
}

// forbid ends r because its tenant's day is used up. A route's fixed answer
// would not be true for it.
func (g *Gate) forbid(now Nanos, r *gateRequest, q *gateQuota) {
	rep := g.reply(r, ReplyRefused)
	rep.Class, rep.Reason = ClassQuotaExhausted, q.Reason
	rep.Wait = max(q.until-now, 0)
	g.unqueue(now, r, false)
	g.number.refused++
	r.state = gateAnswered
}

// Warning says in words that a tenant used more of its day than the limit that
// warns, "" where it did not.
func (g *Gate) Warning(now Nanos, tenant string) string {
	now = g.tick(now)
	if q := g.tenantQuota(now, tenant); q != nil && q.Stage != StageFree {
		return q.Reason
	}
	return ""
}

// QuotaView is how one day stands at the gate.
type QuotaView struct {
	// Name is as in Quota.
	Name  string
	Stage Stage
	// Reset is how long the day lasts, 0 when it is not known: nothing was used
	// yet, or no controller was heard.
	Reset Nanos
	// Used, Soft and Hard are as in Quota.
	Used, Soft, Hard [NumDaily]int64
	Reason           string
}

// Left returns what is left of the hard limit of n, negative where there is none.
func (q *QuotaView) Left(n Daily) int64 {
	if q.Hard[n] == 0 {
		return -1
	}
	return max(q.Hard[n]-q.Used[n], 0)
}

// viewQuotas appends the days of what is configured that is limited or used.
func (g *Gate) viewQuotas(now Nanos, out []QuotaView) []QuotaView {
	for l := range g.config.days() {
		v := QuotaView{Name: l.name, Soft: l.soft, Hard: l.hard}
		q := g.quotas[l.name]
		switch {
		case q != nil && now < q.until:
			v = QuotaView{l.name, q.Stage, q.until - now, q.Used, q.Soft, q.Hard, q.Reason}
		case l.soft == [NumDaily]int64{} && l.hard == [NumDaily]int64{}:
			continue
		}
		out = append(out, v)
	}
	return out
}

// forgetQuotas drops what is no longer configured.
func (g *Gate) forgetQuotas() {
	known := map[string]bool{}
	for l := range g.config.days() {
		known[l.name] = true
	}
	for name := range g.quotas {
		if !known[name] {
			delete(g.quotas, name)
			g.spender = ""
		}
	}
}
