package provider

import "weir/sim/incident"

// engine runs calls: slots, the virtual clock of work, and what ends next.
type engine struct {
	law     *incident.Law
	pace    pace
	running int64
	held    int64 // slots taken by saying no
	jobs    []job
	free    []int32
	heap    []next // running jobs
	seq     uint64
	// dueAt is what due returns until the heap or the pace changes, 0 for not
	// known.
	dueAt int64
}

// next is the next thing that happens to a running job: ordered by its mark,
// then by the job's start. The keys lie in the heap itself, since a job is
// large.
type next struct {
	mark int64
	seq  uint64
	slot int32
}

func (a *next) before(b *next) bool {
	return a.mark < b.mark || a.mark == b.mark && a.seq < b.seq
}

// job is a call that was accepted.
type job struct {
	call Call
	gen  uint32 // distinguishes the calls that used this place

	state jobState
	// left says that the client gave up; the work goes on.
	left bool
	// fails: the call ends as a failure once `first` is done.
	fails bool
	// first is the work until the first token, total until the end.
	first, total int64

	mark  int64  // virtual time of the next thing that happens to it
	stage uint8  // 0: first token is next, 1: the end is next
	seq   uint64 // order of starts; ties end in this order
	pos   int32  // place in the heap

	prev, next int32 // neighbours in the queue, -1 for none
}

type jobState uint8

const (
	jobFree jobState = iota
	jobQueued
	jobRunning
)

func newEngine(law *incident.Law) engine {
	return engine{law: law, pace: pace{factor: slowdown(law, law.Background)}}
}

// add makes room for a call and returns its place.
func (e *engine) add(c Call) int32 {
	if len(e.free) == 0 {
		e.jobs = append(e.jobs, job{})
		e.free = append(e.free, int32(len(e.jobs)-1))
	}
	slot := e.free[len(e.free)-1]
	e.free = e.free[:len(e.free)-1]
	e.jobs[slot] = job{call: c, gen: max(1, e.jobs[slot].gen+1)}
	return slot
}

// remove gives a place back.
func (e *engine) remove(slot int32) {
	e.jobs[slot].state = jobFree
	e.free = append(e.free, slot)
}

// start lets a call run from now on; its first and total work are set.
func (e *engine) start(now int64, slot int32) {
	e.seq++
	j := &e.jobs[slot]
	j.state, j.stage, j.seq = jobRunning, 0, e.seq
	j.mark = e.pace.read(now) + j.first
	e.running++
	e.push(slot)
	e.turn(now)
}

// stop takes a running call off its slot.
func (e *engine) stop(now int64, slot int32) {
	e.drop(e.jobs[slot].pos)
	e.running--
	e.turn(now)
}

// turn sets the pace for the load of the moment.
func (e *engine) turn(now int64) {
	if e.pace.turn(now, slowdown(e.law, e.running+e.held+e.law.Background)) {
		e.dueAt = 0
	}
}

// room reports whether another call may start.
func (e *engine) room() bool { return e.running+e.held < slots(e.law) }

// due returns the instant of the next mark, or Never.
func (e *engine) due() int64 {
	if len(e.heap) == 0 {
		return Never
	}
	if e.dueAt == 0 {
		e.dueAt = e.pace.when(e.heap[0].mark)
	}
	return e.dueAt
}

// generate moves a job from its first token to its end.
func (e *engine) generate(slot int32) {
	j := &e.jobs[slot]
	j.stage = 1
	j.mark += j.total - j.first
	e.down(j.pos, next{j.mark, j.seq, slot})
}

func (e *engine) push(slot int32) {
	j := &e.jobs[slot]
	e.heap = append(e.heap, next{})
	e.up(int32(len(e.heap)-1), next{j.mark, j.seq, slot})
}

// drop removes the entry at a place of the heap.
func (e *engine) drop(pos int32) {
	last := int32(len(e.heap) - 1)
	moved := e.heap[last]
	e.heap = e.heap[:last]
	e.dueAt = 0
	switch {
	case pos == last:
	case pos > 0 && moved.before(&e.heap[(pos-1)/2]):
		e.up(pos, moved)
	default:
		e.down(pos, moved)
	}
}

func (e *engine) place(pos int32, n next) {
	e.heap[pos] = n
	e.jobs[n.slot].pos = pos
}

// up and down put n where it belongs, given that place pos is to be filled.
func (e *engine) up(pos int32, n next) {
	e.dueAt = 0
	for pos > 0 {
		parent := (pos - 1) / 2
		if !n.before(&e.heap[parent]) {
			break
		}
		e.place(pos, e.heap[parent])
		pos = parent
	}
	e.place(pos, n)
}

func (e *engine) down(pos int32, n next) {
	e.dueAt = 0
	for {
		child := 2*pos + 1
		if int(child) >= len(e.heap) {
			break
		}
		if int(child+1) < len(e.heap) && e.heap[child+1].before(&e.heap[child]) {
			child++
		}
		if !e.heap[child].before(&n) {
			break
		}
		e.place(pos, e.heap[child])
		pos = child
	}
	e.place(pos, n)
}

// nextEnd returns when the first of the running calls ends at the present
// pace. It looks at all of them.
func (e *engine) nextEnd() int64 {
	first := Never
	for i := range e.heap {
		j := &e.jobs[e.heap[i].slot]
		end := j.mark
		if j.stage == 0 && !j.fails {
			end += j.total - j.first
		}
		first = min(first, end)
	}
	if first == Never {
		return Never
	}
	return e.pace.when(first)
}

// progress returns the work done for a running call, in ns.
func (e *engine) progress(now int64, slot int32) int64 {
	j := &e.jobs[slot]
	began := j.mark - j.first
	if j.stage == 1 {
		began = j.mark - j.total
	}
	return e.pace.read(now) - began
}
