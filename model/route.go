package model

import "math/bits"

// gateRoute is a route made ready for choosing.
//
// A request may use the tiers that fit its capability, in order. The first is
// open to it at once, each further one after another DegradeCore or
// DegradeOther of waiting, or as long before its deadline as it needs there;
// negative means never. A tier that is sure to be
// closed for longer than that wait (breaker, quota, credential, hold), or
// beyond the request's deadline, is passed over at once: waiting for it could
// change nothing. So "never" also holds when a quota is used up, and a breaker
// open for five seconds does not send work away that may wait for thirty. What
// a breaker has kept shut for some time is expected to be shut for as long again.
type gateRoute struct {
	name  string
	tiers []gateTier
	// core and other are the waits per tier.
	core, other Nanos

	waiting  [NumPriorities]int
	degraded []uint64 // attempts admitted, by tier
	drain    routeDrain
}

// gateTier is one tier made ready.
type gateTier struct {
	capability, rule string
	choices          []gateChoice
}

// gateChoice is a channel's part in a tier.
type gateChoice struct {
	channel *gateChannel
	weight  int64
}

// routeMaxTiers bounds the tiers of a route: they are a set of bits.
const routeMaxTiers = 32

// compile takes a route's configuration; channels are looked up by find.
func (t *gateRoute) compile(c *RouteConfig, find func(string) *gateChannel) {
	t.core, t.other = c.DegradeCore, c.DegradeOther
	t.tiers = t.tiers[:0]
	for i := range c.Tiers[:min(len(c.Tiers), routeMaxTiers)] {
		tier := gateTier{capability: c.Tiers[i].Capability, rule: c.Tiers[i].Rule}
		for _, w := range c.Tiers[i].Channels {
			if ch := find(w.Channel); ch != nil && ch.cfg != nil {
				tier.choices = append(tier.choices, gateChoice{ch, max(int64(w.Weight), 1)})
			}
		}
		t.tiers = append(t.tiers, tier)
	}
	for len(t.degraded) < len(t.tiers) {
		t.degraded = append(t.degraded, 0)
	}
}

// backlog counts the requests that wait for the route.
func (t *gateRoute) backlog() int {
	n := 0
	for _, w := range t.waiting {
		n += w
	}
	return n
}

// fits returns the set of tiers that a request with that need may use.
func (t *gateRoute) fits(capability string) uint32 {
	var set uint32
	for i := range t.tiers {
		tier := &t.tiers[i]
		if len(tier.choices) == 0 && tier.rule == "" {
			continue
		}
		if tier.capability == "" || capability == "" || tier.capability == capability {
			set |= 1 << i
		}
	}
	return set
}

// patience returns how long a request waits per tier, negative for ever.
func (t *gateRoute) patience(core bool) Nanos {
	if core {
		return t.core
	}
	return t.other
}

// opens returns when the tier after level is open to r, gateNever if there is
// none or it never is: once r has waited as configured, and before it has too
// little time left for that tier.
func (r *gateRequest) opens(now Nanos, level uint8) Nanos {
	wait := r.route.patience(r.core)
	if wait < 0 || int(level)+1 >= bits.OnesCount32(r.tiers) {
		return gateNever
	}
	at := gateLater(r.arrived, Nanos(mulDiv(int64(wait), int64(level)+1, 1)))
	if at == gateNever {
		return gateNever
	}
	return min(at, r.deadline-tierTimes*r.needs(now, level+1))
}

// tierTimes is how many times what nearly all calls take on a tier must be left
// when it opens: once for the call, once to wait for a slot.
const tierTimes = 2

// needs returns the time within which nearly all calls like r end on its tier
// number level, 0 when unknown.
func (r *gateRequest) needs(now Nanos, level uint8) (most Nanos) {
	i := nextTier(r.tiers, 0)
	for ; level > 0; level-- {
		i = nextTier(r.tiers, i+1)
	}
	for _, choice := range r.route.tiers[i].choices {
		_, m := choice.channel.pace.expect(now, r.tokens)
		most = max(most, m)
	}
	return most
}

// nextTier returns the first tier of set at or after i, or -1.
func nextTier(set uint32, i int) int {
	rest := set >> i
	if i >= routeMaxTiers || rest == 0 {
		return -1
	}
	return i + bits.TrailingZeros32(rest)
}

// fixed returns the tier whose fixed answer r may get, or -1.
func (r *gateRequest) fixed() int {
	if r.route.patience(r.core) < 0 {
		return -1
	}
	for i := nextTier(r.tiers, 0); i >= 0; i = nextTier(r.tiers, i+1) {
		if t := &r.route.tiers[i]; len(t.choices) == 0 && t.rule != "" {
			return i
		}
	}
	return -1
}

// routeDrain measures how fast a route's queue moves while something waits in
// it: admissions per second over the last routeDrainCells seconds of backlog, by
// size as in gatePace, since small requests pass large ones.
// Measured outside a backlog it would tell the demand, not the pace.
type routeDrain struct {
	from   Nanos // begin of the backlog
	second int64 // newest cell
	cells  [routeDrainCells]drainCell
	// sum is the sum of the cells, waiting is what waits, by size; all is the
	// sum of sum.
	sum, waiting drainCell
	all          int64
}

// drainCell counts requests by size.
type drainCell [gatePaces]uint32

// upTo counts the requests up to that size.
func (c *drainCell) upTo(size int) int64 {
	var n int64
	for _, k := range c[:size+1] {
		n += int64(k)
	}
	return n
}

const (
	routeDrainCells = 16
	// routeDrainLeast is the admissions below which nothing is estimated.
	routeDrainLeast = 4
)

// begin starts a backlog.
func (d *routeDrain) begin(now Nanos) {
	*d = routeDrain{from: now, second: int64(now / Second), waiting: d.waiting}
}

// roll moves to now's second.
func (d *routeDrain) roll(now Nanos) {
	sec := int64(now / Second)
	if sec-d.second >= routeDrainCells {
		clear(d.cells[:])
		d.sum, d.all, d.second = drainCell{}, 0, sec
	}
	for d.second < sec {
		d.second++
		c := &d.cells[d.second%routeDrainCells]
		for i, n := range c {
			d.sum[i] -= n
			d.all -= int64(n)
		}
		*c = drainCell{}
	}
}

// add counts one admission.
func (d *routeDrain) add(now Nanos, tokens Tokens) {
	d.roll(now)
	size := sizeOf(tokens)
	d.cells[d.second%routeDrainCells][size]++
	d.sum[size]++
	d.all++
}

// pace returns the time per admission, 0 when too little is known.
func (d *routeDrain) pace(now Nanos) Nanos {
	d.roll(now)
	span := d.span(now)
	if d.all < routeDrainLeast || span < Second {
		return 0
	}
	return span / Nanos(d.all)
}

// wait estimates how long a request of that many tokens at that position will
// wait, 0 when too little is known: as long as those in front of it take, or
// those that are no larger where they go faster.
func (d *routeDrain) wait(now Nanos, tokens Tokens, position int) Nanos {
	pace, size := d.pace(now), sizeOf(tokens)
	if pace == 0 {
		return 0
	}
	ahead, admitted := d.waiting.upTo(size), d.sum.upTo(size)
	return min(pace*Nanos(position), d.span(now)*Nanos(ahead)/Nanos(max(admitted, 1)))
}

// span is the time that the cells cover.
func (d *routeDrain) span(now Nanos) Nanos {
	return min(now-d.from, now-Nanos(d.second-routeDrainCells+1)*Second)
}
