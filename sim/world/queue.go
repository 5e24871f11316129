package world

// event is something due at an instant. Its meaning is the world's.
type event struct {
	at   int64  // ns since the start
	seq  uint64 // ties go in the order they were made
	kind kind
	a, b uint64
}

// queue is a binary heap of events by (at, seq). A typed heap of values is
// twice as fast as container/heap at the sizes a run has.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) push(at int64, k kind, a, b uint64) {
	q.seq++
	q.heap = append(q.heap, event{at: at, seq: q.seq, kind: k, a: a, b: b})
	i := len(q.heap) - 1
	e := q.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !before(&e, &q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = e
}

// pop takes the earliest event; the queue must not be empty.
func (q *queue) pop() event {
	top := q.heap[0]
	last := len(q.heap) - 1
	e := q.heap[last]
	q.heap = q.heap[:last]
	if last == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && before(&q.heap[child+1], &q.heap[child]) {
			child++
		}
		if !before(&q.heap[child], &e) {
			break
		}
		q.heap[i] = q.heap[child]
		i = child
	}
	q.heap[i] = e
	return top
}

func before(a, b *event) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return a.seq < b.seq
}
