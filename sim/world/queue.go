package world

import "math/bits"

// event is something due at an instant. Its meaning is the world's.
type event struct {
	at   int64 // ns since the start
	a, b uint64
	kind kind
}

const (
	// digitBits is how many bits of an instant tell one bucket of a level from
	// another, levels how many levels that makes.
	digitBits = 4
	levels    = 64 / digitBits
)

// queue is a radix heap of events: the earliest first, those of one instant in
// the order they were made. An event lies at the level of the highest digit in
// which its instant differs from that of the event taken last, in the bucket of
// its own digit there; time does not go back, so it only ever moves to lower
// levels, at most once for each. Nothing is compared but what lies in the first
// bucket, and nothing far away is touched: a hundred thousand deadlines to come
// cost the present nothing.
type queue struct {
	due     []event // at last
	taken   int     // of due
	buckets [levels][1 << digitBits][]event
	filled  [levels]uint16 // bit k says whether bucket k holds events
	some    uint16         // bit k says whether level k does
	last    int64          // instant of the event taken last
}

func (q *queue) empty() bool { return q.some == 0 && q.taken == len(q.due) }

// push adds an event that is not before the one taken last.
func (q *queue) push(at int64, k kind, a, b uint64) {
	q.put(&event{at: at, kind: k, a: a, b: b})
}

func (q *queue) put(e *event) {
	differs := uint64(e.at ^ q.last)
	if differs == 0 {
		q.due = append(q.due, *e)
		return
	}
	level := (bits.Len64(differs) - 1) / digitBits
	digit := uint64(e.at) >> (level * digitBits) % (1 << digitBits)
	b := &q.buckets[level][digit]
	*b = append(*b, *e)
	q.filled[level] |= 1 << digit
	q.some |= 1 << level
}

// pop takes the earliest event; the queue must not be empty.
func (q *queue) pop() event {
	if q.taken == len(q.due) {
		q.due, q.taken = q.due[:0], 0
		if e, only := q.spread(); only {
			return e
		}
	}
	q.taken++
	return q.due[q.taken-1]
}

// spread makes the earliest instant the last one and moves the events of its
// bucket to where they belong now: lower levels, which are all empty, in the
// order they have. One that is alone is returned instead.
func (q *queue) spread() (e event, only bool) {
	level := bits.TrailingZeros16(q.some)
	digit := bits.TrailingZeros16(q.filled[level])
	from := q.buckets[level][digit]
	q.buckets[level][digit] = from[:0]
	if q.filled[level] &^= 1 << digit; q.filled[level] == 0 {
		q.some &^= 1 << level
	}
	first := from[0].at
	if len(from) == 1 {
		q.last = first
		return from[0], true
	}
	for i := 1; i < len(from); i++ {
		first = min(first, from[i].at)
	}
	q.last = first
	for i := range from {
		q.put(&from[i])
	}
	return e, false
}
