package provider

// queue is first come, first served, over the engine's places, so that a call
// that gives up leaves from the middle at once.
type queue struct {
	head, tail int32
	length     int64
}

func newQueue() queue { return queue{head: -1, tail: -1} }

func (q *queue) push(jobs []job, slot int32) {
	j := &jobs[slot]
	j.state, j.prev, j.next = jobQueued, q.tail, -1
	if q.tail >= 0 {
		jobs[q.tail].next = slot
	} else {
		q.head = slot
	}
	q.tail = slot
	q.length++
}

func (q *queue) remove(jobs []job, slot int32) {
	j := &jobs[slot]
	if j.prev >= 0 {
		jobs[j.prev].next = j.next
	} else {
		q.head = j.next
	}
	if j.next >= 0 {
		jobs[j.next].prev = j.prev
	} else {
		q.tail = j.prev
	}
	q.length--
}
