package load

import (
	"container/heap"
	"time"

	"weir/sim/incident"
	"weir/sim/workload"
)

// request is one thing wanted, on its way.
type request struct {
	workload.Request
	tries int64
}

// wanted and deadline are since the start; deadline 0 is never.
func (r *request) wanted() time.Duration   { return time.Duration(r.At) }
func (r *request) deadline() time.Duration { return time.Duration(r.Deadline) }

func (r *request) late(now time.Duration) bool { return r.Deadline > 0 && now >= r.deadline() }

// pool is the application of one workload beside one agent: calls out, and
// requests that wait for a place.
type pool struct {
	workload *incident.Workload
	caller   *caller
	limit    int64
	out      int64
	backlog  fifo
}

// room reports whether another call may go out.
func (p *pool) room() bool { return p.out < p.limit }

// fifo is a queue in one slice whose dead head is cut off now and then.
type fifo struct {
	items []*request
	head  int
}

func (f *fifo) push(r *request) { f.items = append(f.items, r) }

// pop returns the oldest, or nil.
func (f *fifo) pop() *request {
	if f.head == len(f.items) {
		return nil
	}
	r := f.items[f.head]
	f.items[f.head] = nil
	if f.head++; f.head > 256 && f.head*2 > len(f.items) {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	return r
}

// later is requests that wait for an instant, earliest first.
type later []timed

type timed struct {
	at time.Duration
	r  *request
}

// Len implements heap.Interface.
func (l later) Len() int { return len(l) }

// Less implements heap.Interface.
func (l later) Less(i, j int) bool {
	return l[i].at < l[j].at || l[i].at == l[j].at && l[i].r.ID < l[j].r.ID
}

// Swap implements heap.Interface.
func (l later) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push implements heap.Interface.
func (l *later) Push(x any) { *l = append(*l, x.(timed)) }

// Pop implements heap.Interface.
func (l *later) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	(*l)[last] = timed{}
	*l = (*l)[:last]
	return x
}

func (l *later) put(at time.Duration, r *request) { heap.Push(l, timed{at, r}) }

// due returns the earliest at or before now, or nil.
func (l *later) due(now time.Duration) *request {
	if len(*l) == 0 || (*l)[0].at > now {
		return nil
	}
	return heap.Pop(l).(timed).r
}
