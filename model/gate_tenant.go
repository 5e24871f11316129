package model

// gateTenant is what one tenant does at the gate, for dividing what there is.
//
// Among requests of the same priority, that of the tenant goes first which has the
// least for its share: calls in flight, and those started in the last seconds,
// over TenantConfig.Share. So slots and budgets are divided by the shares while
// several want more than there is, what one leaves idle is lent to the others,
// and it gets its part back as calls end. In a full queue who holds more than
// its share of the places makes room. Shares act within each agent; among
// agents the fold divides by demand. Who is not configured counts as one tenant
// with a share of 1.
type gateTenant struct {
	share            int64
	running, waiting int64
	// recent is calls started, in thousandths, half of which are forgotten in
	// each tenantHalf; at is the instant to which that was done.
	recent int64
	at     Nanos
	round  uint64 // of the search in hog
	known  bool   // of the configuration being taken
}

// tenantHalf is about the time of a call: what was started counts on while it
// runs by running, and afterwards while the next ones do.
const tenantHalf = 5 * Second

// owner returns the tenant of that name. One agent's requests name few.
func (g *Gate) owner(name string) *gateTenant {
	if g.owned != nil && name == g.owns {
		return g.owned
	}
	t := g.tenants[name]
	if t == nil {
		t = g.tenants[""]
	}
	g.owns, g.owned = name, t
	return t
}

// setTenants takes the shares of the configuration. Requests of a tenant that is
// gone keep its entry until they end.
func (g *Gate) setTenants() {
	g.owned = nil
	for _, t := range g.tenants {
		t.known = false
	}
	set := func(name string, share uint32) {
		t := g.tenants[name]
		if t == nil {
			t = &gateTenant{}
			g.tenants[name] = t
		}
		t.share, t.known = int64(max(share, 1)), true
	}
	set("", 1)
	for i := range g.config.Tenants {
		set(g.config.Tenants[i].Name, g.config.Tenants[i].Share)
	}
	for name, t := range g.tenants {
		if !t.known {
			delete(g.tenants, name)
		}
	}
}

// fade forgets what was started long ago.
func (t *gateTenant) fade(now Nanos) {
	if steps := (now - t.at) / tenantHalf; steps > 0 {
		t.recent >>= min(steps, 62)
		t.at += steps * tenantHalf
	}
}

// begin counts a call that starts, end one that ended.
func (t *gateTenant) begin(now Nanos) {
	t.fade(now)
	t.recent += 1000
	t.running++
}

func (t *gateTenant) end() { t.running-- }

// load is what the tenant has of what there is, in thousandths of a call.
func (t *gateTenant) load(now Nanos) int64 {
	t.fade(now)
	return 1000*t.running + t.recent
}

// wait counts a request that begins (1) or ceases (-1) to wait.
func (t *gateTenant) wait(n int64) {
	if t != nil {
		t.waiting += n
	}
}

// standing is the rank of a request of t's among other tenants'. What it gained
// by waiting counts only while t has nothing in flight: it must not starve, but a
// long queue, which is old, must not go before the others' new requests.
func (t *gateTenant) standing(r *gateRequest) uint8 {
	if t.running > 0 {
		return uint8(r.priority)
	}
	return r.rank
}

// earlier reports whether lane a is tried before lane b.
func (g *Gate) earlier(a, b *queueLane) bool {
	x, y := a.turn(), b.turn()
	if s, t := a.key.owner, b.key.owner; s != t && s != nil && t != nil {
		if m, n := s.standing(x), t.standing(y); m != n {
			return m > n
		}
		if m, n := mulDiv(s.load(g.now), t.share, 1), mulDiv(t.load(g.now), s.share, 1); m != n {
			return m < n
		}
	}
	return queueLess(x, y)
}

// hog returns the tenant that holds most of a full queue for its share, if that
// is more than its part of the places and r's tenant holds no more than its own.
func (g *Gate) hog(r *gateRequest) *gateTenant {
	g.hogs++
	var sum int64
	var most *gateTenant
	for _, l := range g.queue.list {
		t := l.key.owner
		if t == nil || t.round == g.hogs {
			continue
		}
		t.round = g.hogs
		sum += t.share
		if most == nil || mulDiv(t.waiting, most.share, 1) > mulDiv(most.waiting, t.share, 1) {
			most = t
		}
	}
	own, places := r.node.lane.key.owner, int64(g.cfg.QueueLimit)
	over := func(t *gateTenant) bool { return mulDiv(t.waiting, sum, 1) > mulDiv(places, t.share, 1) }
	if most == nil || own == nil || most == own || !over(most) || over(own) {
		return nil
	}
	return most
}

// lastOf returns the request of a tenant that is served last.
func (q *gateQueue) lastOf(t *gateTenant) *gateRequest {
	var worst *gateRequest
	for _, l := range q.list {
		if l.key.owner != t {
			continue
		}
		if r := l.last(); worst == nil || queueLess(worst, r) {
			worst = r
		}
	}
	return worst
}
