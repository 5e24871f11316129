package model

// gateQueue holds the requests that wait, in lanes. All requests of a lane may
// use the same channels at the same time, so when the first of a lane cannot
// start none of it can. Within a lane the order is priority (raised one class
// per queueAging of waiting), then deadline, then arrival.
//
// A lane is a treap: insert, remove, first, last and position cost O(log n),
// and the order never depends on the order of insertion.
type gateQueue struct {
	lanes map[queueKey]*queueLane
	// list is the lanes that hold something, in the order they became so.
	list []*queueLane
	free []*queueLane
	n    int
	// lately is the lane that was pushed to last, nil for none.
	lately *queueLane
}

// queueAging is the wait that raises a request by one priority class, so that
// batch work does not starve beside a steady stream of interactive work.
const queueAging = 30 * Second

// queueKey is what the requests of a lane have in common.
type queueKey struct {
	route    *gateRoute
	owner    *gateTenant
	priority Priority
	core     bool
	// tiers is the set of tiers that fit the request, level how many of them
	// beyond the first are open to it.
	tiers uint32
	level uint8
	// avoid is the channel that just failed it, nil for none.
	avoid *gateChannel
	// late is the set of tiers that the request has too little time for.
	late uint32
}

// queueLane is one lane.
type queueLane struct {
	key  queueKey
	root *gateRequest
	// head is served next.
	head *gateRequest
	at   int // place in gateQueue.list
	// urgent and tokens are sums over the lane.
	urgent int
	tokens Tokens
	// block is why the first could not start when it was last tried.
	block gateBlock
	// next is the one to be tried next in a pump: the first, or who passes it.
	next *gateRequest
	// tried is set when the first was tried in vain in this pump.
	tried bool
	// swept is the closing time for which deadlines were last looked at.
	swept Nanos
}

// queueNode is a request's place in a lane.
type queueNode struct {
	lane        *queueLane
	left, right *gateRequest
	size        int32
	least       Tokens // of the subtree
	heat        uint64 // heap order of the treap
}

func newGateQueue() gateQueue { return gateQueue{lanes: map[queueKey]*queueLane{}} }

// push adds r to its lane.
func (q *gateQueue) push(r *gateRequest) {
	key := queueKey{route: r.route, owner: r.owner, priority: r.priority, core: r.core, tiers: r.tiers, level: r.level, avoid: r.avoid, late: r.late}
	l := q.lately
	if l == nil || l.key != key {
		if l = q.lanes[key]; l == nil {
			l = q.newLane(key)
		}
		q.lately = l
	}
	r.node = queueNode{lane: l, size: 1, least: r.tokens, heat: queueHeat(r.number)}
	queueAdd(&l.root, r)
	if l.head == nil || queueLess(r, l.head) {
		l.head = r
	}
	l.tokens += r.tokens
	if r.priority == PriorityInteractive {
		l.urgent++
	}
	r.route.waiting[r.priority]++
	r.route.drain.waiting[sizeOf(r.tokens)]++
	r.owner.wait(1)
	q.n++
}

// remove takes r out of its lane.
func (q *gateQueue) remove(r *gateRequest) {
	l := r.node.lane
	l.root = queueCut(l.root, r)
	if l.head == r {
		l.head = leftmost(l.root)
	}
	r.node = queueNode{}
	l.tokens -= r.tokens
	if r.priority == PriorityInteractive {
		l.urgent--
	}
	r.route.waiting[r.priority]--
	r.route.drain.waiting[sizeOf(r.tokens)]--
	r.owner.wait(-1)
	q.n--
	if l.root == nil {
		q.dropLane(l)
	}
}

func (q *gateQueue) newLane(key queueKey) *queueLane {
	var l *queueLane
	if n := len(q.free); n > 0 {
		l, q.free = q.free[n-1], q.free[:n-1]
	} else {
		l = &queueLane{}
	}
	*l = queueLane{key: key, at: len(q.list)}
	q.list = append(q.list, l)
	q.lanes[key] = l
	return l
}

func (q *gateQueue) dropLane(l *queueLane) {
	delete(q.lanes, l.key)
	if q.lately == l {
		q.lately = nil
	}
	last := q.list[len(q.list)-1]
	q.list[l.at], last.at = last, l.at
	q.list = q.list[:len(q.list)-1]
	l.key = queueKey{}
	q.free = append(q.free, l)
}

// position returns r's place among all that wait for its route, from 1. Of
// another tenant's requests of the same priority no more go before it than their
// share brings while its own tenant's do.
func (q *gateQueue) position(r *gateRequest) int {
	own, n := 1, 0
	for _, l := range q.list {
		if l.key.route == r.route && l.key.owner == r.owner {
			own += l.before(r)
		}
	}
	for _, l := range q.list {
		t := l.key.owner
		if l.key.route != r.route || t == r.owner {
			continue
		}
		before := l.before(r)
		if t != nil && r.owner != nil && l.first().priority <= r.priority {
			before = int(min(int64(before), max(mulDiv(int64(own), t.share, r.owner.share), 1)))
		}
		n += before
	}
	return own + n
}

// last returns the request that is served last of all, nil when none waits.
func (q *gateQueue) last() *gateRequest {
	var worst *gateRequest
	for _, l := range q.list {
		if r := l.last(); worst == nil || queueLess(worst, r) {
			worst = r
		}
	}
	return worst
}

// outlasted reports whether beside r somebody waits who may use the same tier,
// is of its priority or above, and need not end before that instant. level is the
// tier's place among those that fit r.
func (q *gateQueue) outlasted(r *gateRequest, level uint8, until Nanos) bool {
	for _, l := range q.list {
		k := &l.key
		if k.route == r.route && k.tiers == r.tiers && k.level >= level && k.priority >= r.priority {
			if last := l.last(); last != r && last.deadline >= until {
				return true
			}
		}
	}
	return false
}

func (l *queueLane) len() int { return int(queueSize(l.root)) }

// first returns the request that is served next; the lane must hold one.
func (l *queueLane) first() *gateRequest { return l.head }

// leftmost returns the first of a treap, nil of an empty one.
func leftmost(t *gateRequest) *gateRequest {
	for t != nil && t.node.left != nil {
		t = t.node.left
	}
	return t
}

func (l *queueLane) last() *gateRequest {
	r := l.root
	for r.node.right != nil {
		r = r.node.right
	}
	return r
}

// upTo returns the first request of at most so many tokens, nil if there is none.
func (l *queueLane) upTo(most Tokens) *gateRequest {
	t := l.root
	if t == nil || t.node.least > most {
		return nil
	}
	for {
		switch n := &t.node; {
		case n.left != nil && n.left.node.least <= most:
			t = n.left
		case t.tokens <= most:
			return t
		default:
			t = n.right
		}
	}
}

// before counts the requests that are served before r, which need not be in
// the lane.
func (l *queueLane) before(r *gateRequest) int {
	n := int32(0)
	for t := l.root; t != nil; {
		if queueLess(t, r) {
			n += queueSize(t.node.left) + 1
			t = t.node.right
		} else {
			t = t.node.left
		}
	}
	return int(n)
}

// due appends the requests whose deadline is not after until, in order.
func (l *queueLane) due(until Nanos, out []*gateRequest) []*gateRequest {
	return queueDue(l.root, until, out)
}

func queueDue(t *gateRequest, until Nanos, out []*gateRequest) []*gateRequest {
	if t == nil {
		return out
	}
	out = queueDue(t.node.left, until, out)
	if t.deadline <= until {
		out = append(out, t)
	}
	return queueDue(t.node.right, until, out)
}

// queueLess is the order of service. It is total: numbers are unique.
func queueLess(a, b *gateRequest) bool {
	switch {
	case a.rank != b.rank:
		return a.rank > b.rank
	case a.deadline != b.deadline:
		return a.deadline < b.deadline
	}
	return a.number < b.number
}

func queueSize(t *gateRequest) int32 {
	if t == nil {
		return 0
	}
	return t.node.size
}

func queueFix(t *gateRequest) *gateRequest {
	n := &t.node
	n.size, n.least = queueSize(n.left)+queueSize(n.right)+1, t.tokens
	if n.left != nil {
		n.least = min(n.least, n.left.node.least)
	}
	if n.right != nil {
		n.least = min(n.least, n.right.node.least)
	}
	return t
}

// queueAdd puts r into the treap at: above the first on its way down that is less
// hot, which it divides.
func queueAdd(at **gateRequest, r *gateRequest) {
	for *at != nil && (*at).node.heat >= r.node.heat {
		n := &(*at).node
		n.size++
		n.least = min(n.least, r.tokens)
		if queueLess(*at, r) {
			at = &n.right
		} else {
			at = &n.left
		}
	}
	if *at != nil {
		r.node.left, r.node.right = queueSplit(*at, r)
		queueFix(r)
	}
	*at = r
}

// queueSplit divides t into what is served before r and the rest.
func queueSplit(t, r *gateRequest) (before, after *gateRequest) {
	if t == nil {
		return nil, nil
	}
	if queueLess(t, r) {
		t.node.right, after = queueSplit(t.node.right, r)
		return queueFix(t), after
	}
	before, t.node.left = queueSplit(t.node.left, r)
	return before, queueFix(t)
}

// queueMerge joins two treaps, all of a before all of b.
func queueMerge(a, b *gateRequest) *gateRequest {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.node.heat >= b.node.heat:
		a.node.right = queueMerge(a.node.right, b)
		return queueFix(a)
	}
	b.node.left = queueMerge(a, b.node.left)
	return queueFix(b)
}

// queueCut returns t without r, which must be in it.
func queueCut(t, r *gateRequest) *gateRequest {
	switch {
	case t == nil:
		panic("model: BUG: request is not in its lane")
	case t == r:
		return queueMerge(t.node.left, t.node.right)
	case queueLess(r, t):
		t.node.left = queueCut(t.node.left, r)
	default:
		t.node.right = queueCut(t.node.right, r)
	}
	return queueFix(t)
}

// queueHeat spreads arrival numbers evenly (the finalizer of SplitMix64), so
// that the treap is balanced whatever the order of arrival.
func queueHeat(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
