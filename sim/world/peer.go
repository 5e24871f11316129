package world

import (
	"strconv"

	"weir/model"
	"weir/sim/draw"
	"weir/sim/incident"
	"weir/sim/peer"
)

// peerDoor is a peer in one process: a limiter for each channel with a queue
// in front, first come first served, and the peer's own retries.
type peerDoor struct {
	a      *agent
	spread bool
	lanes  []lane                 // by channel
	routes [][]peerTier           // by workload
	tries  map[uint32]*try        // by request
	inbox  []place                // tries that look for a lane
	alarms alarms                 // tries that wait for their next go
	dice   peer.Dice              // to choose among channels
	shares map[string]*peer.Share // of the told limits of groups
	number uint64                 // of tries
	wakeAt int64
	busy   bool
}

// peerTier is a tier's channels.
type peerTier struct {
	lanes   []int
	weights []int64
}

// lane is a channel as the process sees it.
type lane struct {
	limiter peer.Limiter
	retrier peer.Retrier // nil for none
	queue   []place
	head    int
	live    int   // of the queue, those still wanted
	wakeAt  int64 // when to ask the limiter again
}

// place is a try in a queue. It is stale when the request's try is another.
type place struct {
	i      uint32
	number uint64
}

// try is one try of the application and where it stands.
type try struct {
	number  uint64
	state   tryState
	tier    int
	lane    int
	tries   int // at this tier
	receipt uint64
	mark    peer.Mark
}

type tryState uint8

const (
	tryEntering tryState = iota
	tryQueued
	trySent
	tryAsleep
)

// laneLimit bounds a lane's queue; more fail at once.
const laneLimit = 10_000

func newPeerDoor(a *agent, p *policy) *peerDoor {
	w := a.w
	d := &peerDoor{a: a, spread: p.spread, tries: map[uint32]*try{}, shares: map[string]*peer.Share{}, wakeAt: never}
	d.routes = make([][]peerTier, len(w.inc.Workloads))
	for i := range w.inc.Workloads {
		d.routes[i] = d.route(w.inc.Workloads[i].Route)
	}
	for i := range w.inc.Groups {
		g := &w.inc.Groups[i]
		d.shares[g.Name] = peer.NewShare(g.Limits, int64(w.inc.Fleet.Agents))
	}
	d.dice = (&site{d: d}).dice("choice")
	for i := range w.inc.Channels {
		l, r := p.peer(&site{d: d, channel: i})
		d.lanes = append(d.lanes, lane{limiter: l, retrier: r, wakeAt: never})
	}
	return d
}

// route lists a route's tiers that have channels.
func (d *peerDoor) route(name string) []peerTier {
	w := d.a.w
	var tiers []peerTier
	for i := range w.inc.Routes {
		if w.inc.Routes[i].Name != name {
			continue
		}
		for _, t := range w.inc.Routes[i].Tiers {
			var tier peerTier
			for _, c := range t.Channels {
				tier.lanes = append(tier.lanes, w.channelIndex(c.Channel))
				tier.weights = append(tier.weights, c.Weight)
			}
			if len(tier.lanes) > 0 {
				tiers = append(tiers, tier)
			}
		}
	}
	return tiers
}

func (w *world) channelIndex(name string) int {
	for i := range w.inc.Channels {
		if w.inc.Channels[i].Name == name {
			return i
		}
	}
	panic("world: BUG: no channel " + name)
}

func (d *peerDoor) ask(i uint32) {
	d.number++
	d.tries[i] = &try{number: d.number}
	d.enter(i)
	d.pump()
}

func (d *peerDoor) leave(i uint32) {
	t := d.tries[i]
	if t == nil {
		return
	}
	delete(d.tries, i)
	switch t.state {
	case tryQueued:
		d.lanes[t.lane].live--
	case trySent:
		if k, ok := d.a.w.abandon(i); ok {
			d.done(i, k, t, model.Outcome{Class: model.ClassTransport, RetryAfter: -1})
		}
	case tryEntering, tryAsleep:
	}
	d.pump()
}

func (d *peerDoor) accepted(uint32) {}

func (d *peerDoor) settled(i, k uint32, o model.Outcome) {
	t := d.tries[i]
	s := d.done(i, k, t, o)
	switch {
	case s.OK():
		delete(d.tries, i)
		d.a.w.succeed(i)
	case d.again(i, t, &s):
	default:
		delete(d.tries, i)
		d.a.w.fail(i)
	}
	d.pump()
}

// done tells the limiter how a call ended.
func (d *peerDoor) done(i, k uint32, t *try, o model.Outcome) peer.Sample {
	w := d.a.w
	s := peer.Sample{
		Call: d.call(i), Sent: w.attempts.at(k).sent, Mark: t.mark, Receipt: t.receipt,
		Class: o.Class, Status: int(o.Status), RetryAfter: int64(o.RetryAfter),
		Input: int64(o.In), Output: int64(o.Out),
	}
	d.lanes[t.lane].limiter.Done(w.now, &s)
	return s
}

func (d *peerDoor) call(i uint32) peer.Call {
	r := d.a.w.requests.at(i)
	return peer.Call{Input: r.Input, MaxOutput: r.MaxTokens}
}

// again lets the peer try again by itself, at this tier or the next.
func (d *peerDoor) again(i uint32, t *try, s *peer.Sample) bool {
	w := d.a.w
	l := &d.lanes[t.lane]
	if l.retrier == nil {
		return false
	}
	tiers := d.routes[w.requests.at(i).Workload]
	wait, receipt, ok := l.retrier.Again(w.now, t.tries, d.group(&tiers[t.tier]), s)
	if !ok {
		if !d.spread || t.tier+1 >= len(tiers) {
			return false
		}
		t.tier++
		t.tries, wait, receipt = 0, 0, 0
	}
	t.receipt = receipt
	w.book.retries++
	if wait > 0 {
		t.state = tryAsleep
		d.alarms.push(alarm{at: w.now + wait, place: place{i, t.number}})
		return true
	}
	d.enter(i)
	return true
}

// group is how a tier stands. A peer that knows one channel only does not look.
func (d *peerDoor) group(t *peerTier) peer.Group {
	if !d.spread {
		return peer.Group{All: 1, Healthy: 1}
	}
	g := peer.Group{All: len(t.lanes)}
	for _, l := range t.lanes {
		if v, _ := d.lanes[l].limiter.Ask(d.a.w.now, peer.Call{}); v != peer.Shed {
			g.Healthy++
		}
	}
	return g
}

func (d *peerDoor) enter(i uint32) {
	t := d.tries[i]
	t.state = tryEntering
	d.inbox = append(d.inbox, place{i, t.number})
}

// find returns the try at a place if it is still in that state.
func (d *peerDoor) find(p place, state tryState) *try {
	if t := d.tries[p.i]; t != nil && t.number == p.number && t.state == state {
		return t
	}
	return nil
}

// pump moves tries on until none can. What happens meanwhile in the world may
// bring new ones; the loop that runs already takes them.
func (d *peerDoor) pump() {
	if d.busy {
		return
	}
	d.busy = true
	for d.step() {
	}
	d.busy = false
	d.schedule()
}

// step moves one try on.
func (d *peerDoor) step() bool {
	for len(d.inbox) > 0 {
		p := d.inbox[0]
		d.inbox = d.inbox[:copy(d.inbox, d.inbox[1:])]
		if t := d.find(p, tryEntering); t != nil {
			d.join(p, t)
			return true
		}
	}
	for l := range d.lanes {
		if d.serve(l) {
			return true
		}
	}
	return false
}

// join puts a try into a lane's queue, or fails it.
func (d *peerDoor) join(p place, t *try) {
	k, ok := d.choose(p.i, t)
	if !ok || d.lanes[k].live >= laneLimit {
		d.shed(p.i)
		return
	}
	t.state, t.lane = tryQueued, k
	l := &d.lanes[k]
	if len(l.queue) >= 2*laneLimit {
		l.tidy(d)
	}
	l.queue = append(l.queue, p)
	l.live++
}

// choose picks a lane: the route's first channel; or by weight one of the
// tier that does not shed, else of the next tier.
func (d *peerDoor) choose(i uint32, t *try) (l int, ok bool) {
	tiers := d.routes[d.a.w.requests.at(i).Workload]
	if !d.spread {
		return tiers[0].lanes[0], true
	}
	for ; t.tier < len(tiers); t.tier++ {
		tier := &tiers[t.tier]
		var open []int
		var total int64
		for k, l := range tier.lanes {
			if v, _ := d.lanes[l].limiter.Ask(d.a.w.now, peer.Call{}); v != peer.Shed {
				open = append(open, k)
				total += tier.weights[k]
			}
		}
		at := d.dice.Below(total)
		for _, k := range open {
			if at -= tier.weights[k]; at < 0 {
				return tier.lanes[k], true
			}
		}
		t.tries = 0
	}
	return 0, false
}

// serve asks a lane's limiter about the first in its queue.
func (d *peerDoor) serve(k int) bool {
	l := &d.lanes[k]
	l.wakeAt = never
	for ; l.head < len(l.queue); l.head++ {
		p := l.queue[l.head]
		t := d.find(p, tryQueued)
		if t == nil || t.lane != k {
			continue // it left, or came back another way
		}
		c := d.call(p.i)
		v, at := l.limiter.Ask(d.a.w.now, c)
		switch v {
		case peer.Wait:
			l.wakeAt = at
			return false
		case peer.Shed:
			l.pop()
			d.turned(p.i)
		case peer.Admit:
			l.pop()
			t.state = trySent
			t.tries++
			t.mark = l.limiter.Start(d.a.w.now, c)
			d.a.w.send(p.i, d.a.w.inc.Channels[k].Name, 0)
		}
		return true
	}
	l.queue, l.head = l.queue[:0], 0
	return false
}

// turned is a try that its lane shed while it queued: a peer that spreads
// looks for another place.
func (d *peerDoor) turned(i uint32) {
	if d.spread {
		d.enter(i)
		return
	}
	d.shed(i)
}

func (d *peerDoor) shed(i uint32) {
	delete(d.tries, i)
	d.a.w.book.turnedAway++
	d.a.w.fail(i)
}

func (l *lane) pop() {
	l.head++
	l.live--
	if l.head*2 > len(l.queue) {
		l.queue = l.queue[:copy(l.queue, l.queue[l.head:])]
		l.head = 0
	}
}

// tidy drops places whose tries left.
func (l *lane) tidy(d *peerDoor) {
	kept := l.queue[:0]
	for _, p := range l.queue[l.head:] {
		if d.find(p, tryQueued) != nil {
			kept = append(kept, p)
		}
	}
	l.queue, l.head = kept, 0
}

func (d *peerDoor) schedule() {
	at := d.alarms.next()
	for i := range d.lanes {
		at = min(at, d.lanes[i].wakeAt)
	}
	if at < d.wakeAt {
		d.wakeAt = at
		d.a.w.at(at, onGate, uint64(d.a.index), 0)
	}
}

func (d *peerDoor) wake(at int64) {
	if at != d.wakeAt {
		return // an earlier one was scheduled since
	}
	d.wakeAt = never
	d.a.w.happened(onGate, uint64(d.a.index), 0)
	for d.alarms.next() <= d.a.w.now {
		p := d.alarms.pop().place
		if d.find(p, tryAsleep) != nil {
			d.enter(p.i)
		}
	}
	d.pump()
}

// site is where a peer's limiter stands: a process and a channel.
type site struct {
	d       *peerDoor
	channel int
}

// dice are keyed by process, channel and use.
func (s *site) dice(use string) peer.Dice {
	w := s.d.a.w
	key := s.d.a.name + "/" + strconv.FormatUint(s.d.a.boot, 10) + "/" + w.inc.Channels[s.channel].Name + "/" + use
	return peer.Dice{Seed: w.seed, Entity: draw.Name(key)}
}

// split is the process's share of what is told of the channel and its groups.
func (s *site) split() peer.Limiter {
	inc := s.d.a.w.inc
	ch := &inc.Channels[s.channel]
	shares := []*peer.Share{peer.NewShare(ch.Limits, int64(inc.Fleet.Agents))}
	for _, g := range ch.Groups {
		if share := s.d.shares[g]; share != nil {
			shares = append(shares, share)
		}
	}
	return peer.NewSplit(ch.Charge == incident.ChargeMaxTokens, shares...)
}

// single reports whether no tier offers another channel beside this one.
func (s *site) single() bool {
	for _, tiers := range s.d.routes {
		for _, t := range tiers {
			for _, l := range t.lanes {
				if l == s.channel && len(t.lanes) > 1 {
					return false
				}
			}
		}
	}
	return true
}

// parallelMost is the parallel requests of a client without a pool.
const parallelMost = 256

// parallel is the most requests the process's applications have at a time.
func (s *site) parallel() int64 {
	w := s.d.a.w
	total := int64(0)
	for i, tiers := range s.d.routes {
		if len(tiers) == 0 || tiers[0].lanes[0] != s.channel {
			continue
		}
		pool := w.inc.Workloads[i].Client.Pool
		if pool < 0 {
			return parallelMost
		}
		total += pool
	}
	return total
}
