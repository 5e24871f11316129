package world

import "weir/model"

// agent is one process of the fleet: the application and what stands between
// it and the providers.
type agent struct {
	w     *world
	index int
	name  string
	boot  uint64
	up    bool // not crashed, not left
	door  door
	pools []pool // by workload

	weir *weirDoor   // the door when the policy is Weir's
	own  *controller // its own fold, when the fleet has none in common
}

// pool is an application's outstanding calls of one workload at one agent,
// and those that wait for a place.
type pool struct {
	out     int
	backlog fifo
}

// door is what a policy puts between an application and the providers of one
// agent. It never sees a provider's truth.
type door interface {
	// ask takes the application's try; the world hears succeed or fail later.
	ask(request uint32)
	// leave takes back a try that the application gave up.
	leave(request uint32)
	// accepted is the first token of an attempt.
	accepted(attempt uint32)
	// settled is the end of an attempt.
	settled(request, attempt uint32, o model.Outcome)
}

func (a *agent) wakeGate(at int64) {
	if a.weir != nil {
		a.weir.wake(at)
	} else if d, ok := a.door.(*peerDoor); ok && a.up {
		d.wake(at)
	}
}

func (a *agent) wakeReport(at int64) {
	if a.weir != nil {
		a.weir.report(at)
	}
}

// acked tells when the acknowledgement of a report arrives.
func (a *agent) acked(boot uint64, at int64) {
	if a.weir != nil && a.boot == boot {
		a.weir.acked(at)
	}
}

// fifo is a queue of requests with the lives of their places, so that one that
// ended, and whose place another may have, is recognised.
type fifo struct {
	items []fifoItem
	head  int
}

type fifoItem struct {
	i, life uint32
}

func (f *fifo) push(i, life uint32) {
	if len(f.items) == cap(f.items) && f.head > len(f.items)/2 {
		f.items = f.items[:copy(f.items, f.items[f.head:])]
		f.head = 0
	}
	f.items = append(f.items, fifoItem{i, life})
}

func (f *fifo) pop() (i, life uint32, ok bool) {
	if f.head == len(f.items) {
		return 0, 0, false
	}
	it := f.items[f.head]
	f.head++
	return it.i, it.life, true
}

// directDoor is the policy none: every try goes to the route's first channel
// at once.
type directDoor struct{ a *agent }

func (d *directDoor) ask(i uint32) {
	w := d.a.w
	w.send(i, w.firstChannel(w.requests.at(i).Workload), 0)
}

func (d *directDoor) leave(i uint32)  { d.a.w.abandon(i) }
func (d *directDoor) accepted(uint32) {}

func (d *directDoor) settled(i, _ uint32, o model.Outcome) {
	if o.Class == model.ClassOK {
		d.a.w.succeed(i)
		return
	}
	d.a.w.fail(i)
}
