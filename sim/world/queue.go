package world

import "math/bits"

// event is something due at an instant. Its meaning is the world's.
type event struct {
	at   int64 // ns since the start
	a, b uint64
	kind kind
}

// queue is a radix heap of events: the earliest first, those of one instant in
// the order they were made. An event lies in the bucket of the highest bit in
// which its instant differs from that of the event taken last; time does not
// go back, so it only ever moves to lower buckets, at most once for each bit.
// Nothing is compared, and nothing far away is touched: a hundred thousand
// deadlines to come cost the present nothing.
type queue struct {
	buckets [64][]event // bucket 0 is due at last
	filled  uint64      // bit k says whether bucket k holds events
	taken   int         // of bucket 0
	last    int64       // instant of the event taken last
}

func (q *queue) empty() bool { return q.filled == 0 }

// push adds an event that is not before the one taken last.
func (q *queue) push(at int64, k kind, a, b uint64) {
	q.put(&event{at: at, kind: k, a: a, b: b})
}

func (q *queue) put(e *event) {
	k := bits.Len64(uint64(e.at ^ q.last))
	q.buckets[k] = append(q.buckets[k], *e)
	q.filled |= 1 << k
}

// pop takes the earliest event; the queue must not be empty.
func (q *queue) pop() event {
	if q.filled&1 == 0 {
		if k := bits.TrailingZeros64(q.filled); len(q.buckets[k]) == 1 {
			e := q.buckets[k][0]
			q.buckets[k] = q.buckets[k][:0]
			q.filled &^= 1 << k
			q.last = e.at
			return e
		}
		q.spread()
	}
	due := q.buckets[0]
	e := due[q.taken]
	if q.taken++; q.taken == len(due) {
		q.buckets[0], q.taken = due[:0], 0
		q.filled &^= 1
	}
	return e
}

// spread makes the earliest instant the last one and moves the events of its
// bucket to where they belong now: lower buckets, which are all empty, in the
// order they have.
func (q *queue) spread() {
	k := bits.TrailingZeros64(q.filled)
	from := q.buckets[k]
	first := from[0].at
	for i := 1; i < len(from); i++ {
		first = min(first, from[i].at)
	}
	q.last = first
	q.buckets[k] = from[:0]
	q.filled &^= 1 << k
	for i := range from {
		q.put(&from[i])
	}
}
