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
	heap    []int32 // running jobs by (mark, seq)
	seq     uint64
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
	e.pace.turn(now, slowdown(e.law, e.running+e.held+e.law.Background))
}

// room reports whether another call may start.
func (e *engine) room() bool { return e.running+e.held < slots(e.law) }

// due returns the instant of the next mark, or Never.
func (e *engine) due() int64 {
	if len(e.heap) == 0 {
		return Never
	}
	return e.pace.when(e.jobs[e.heap[0]].mark)
}

// generate moves a job from its first token to its end.
func (e *engine) generate(slot int32) {
	j := &e.jobs[slot]
	j.stage = 1
	j.mark += j.total - j.first
	e.down(j.pos)
}

// less orders jobs by their mark, then by their start.
func (e *engine) less(a, b int32) bool {
	x, y := &e.jobs[a], &e.jobs[b]
	return x.mark < y.mark || x.mark == y.mark && x.seq < y.seq
}

func (e *engine) push(slot int32) {
	e.heap = append(e.heap, slot)
	e.up(int32(len(e.heap) - 1))
}

// drop removes the entry at a place of the heap.
func (e *engine) drop(pos int32) {
	last := int32(len(e.heap) - 1)
	moved := e.heap[last]
	e.heap = e.heap[:last]
	if pos == last {
		return
	}
	e.place(pos, moved)
	e.down(pos)
	e.up(e.jobs[moved].pos)
}

func (e *engine) place(pos, slot int32) {
	e.heap[pos] = slot
	e.jobs[slot].pos = pos
}

func (e *engine) up(pos int32) {
	slot := e.heap[pos]
	for pos > 0 {
		parent := (pos - 1) / 2
		if !e.less(slot, e.heap[parent]) {
			break
		}
		e.place(pos, e.heap[parent])
		pos = parent
	}
	e.place(pos, slot)
}

func (e *engine) down(pos int32) {
	slot := e.heap[pos]
	for {
		child := 2*pos + 1
		if int(child) >= len(e.heap) {
			break
		}
		if int(child+1) < len(e.heap) && e.less(e.heap[child+1], e.heap[child]) {
			child++
		}
		if !e.less(e.heap[child], slot) {
			break
		}
		e.place(pos, e.heap[child])
		pos = child
	}
	e.place(pos, slot)
}

// nextEnd returns when the first of the running calls ends at the present
// pace. It looks at all of them.
func (e *engine) nextEnd() int64 {
	first := Never
	for _, slot := range e.heap {
		j := &e.jobs[slot]
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
