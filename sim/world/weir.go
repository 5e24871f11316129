package world

import (
	"math/rand/v2"

	"weir/model"
)

// weirDoor is Weir's agent: the gate as it ships, and its link to the bus.
type weirDoor struct {
	a       *agent
	gate    *model.Gate
	replies []model.Reply
	wakeAt  int64 // earliest gate wake scheduled
	dueAt   int64 // earliest report scheduled
	// freeAt is when the next report may be sent: the acknowledgement of the
	// newest is there; never while that is not known.
	freeAt int64
	// tickets are the requests that wait, by the place of their ticket.
	tickets []weirTicket
	order   []model.Priority // of the workloads
}

// weirTicket is a request that waits; 0 is none.
type weirTicket struct {
	t model.Ticket
	i uint32
}

const never = int64(1<<63 - 1)

func newWeirDoor(a *agent) *weirDoor {
	w := a.w
	p := model.DefaultParams()
	if w.cfg.Params != nil {
		p = *w.cfg.Params
	}
	d := &weirDoor{a: a, wakeAt: never, dueAt: never}
	for i := range w.inc.Workloads {
		priority, _ := model.ParsePriority(string(w.inc.Workloads[i].Priority))
		d.order = append(d.order, priority)
	}
	d.gate = model.NewGate(model.GateConfig{
		Agent: a.name, Boot: a.boot, Version: "sim", Params: p, QueueLimit: 100_000,
		Rand: rand.New(rand.NewPCG(uint64(w.seed), uint64(a.index)<<32|a.boot)),
	})
	d.gate.SetConfig(w.nanos(), 0, w.config)
	d.settle()
	return d
}

// nanos is the agents' and the log's clock. It does not start at 0, which
// means "never" in places.
func (w *world) nanos() model.Nanos { return model.Nanos(w.now) + model.Second }

func (w *world) virtual(n model.Nanos) int64 { return int64(n - model.Second) }

func (d *weirDoor) ask(i uint32) {
	w := d.a.w
	r := w.requests.at(i)
	load := &w.inc.Workloads[r.Workload]
	ask := model.Ask{
		Request: r.ID, Route: load.Route, Tenant: load.Tenant, Priority: d.order[r.Workload],
		Tokens: model.Tokens(r.Input + expected(r.MaxTokens)),
	}
	if r.Deadline > 0 {
		ask.Deadline = model.Nanos(r.Deadline) + model.Second
	}
	if t := load.Client.Timeout; t > 0 {
		// The application gives this try up then, and its context says so.
		until := w.nanos() + model.Nanos(t)
		if ask.Deadline == 0 || until < ask.Deadline {
			ask.Deadline = until
		}
	}
	reply := d.gate.Ask(w.nanos(), ask)
	d.take(i, &reply)
	d.settle()
}

// unbounded is the output that an agent expects of a call which asks for no
// bound, as its configuration has it by default.
const unbounded = 512

// expected is the output that is reserved for a call.
func expected(maxTokens int64) int64 {
	if maxTokens > 0 {
		return maxTokens
	}
	return unbounded
}

// take does what a reply says.
func (d *weirDoor) take(i uint32, r *model.Reply) {
	w := d.a.w
	if r.Ticket != 0 && r.Kind != model.ReplyQueued {
		d.forget(r.Ticket)
	}
	q := w.requests.at(i)
	q.ticket = 0
	switch r.Kind {
	case model.ReplyAdmitted:
		w.send(i, r.Permit.Channel, r.Permit.ID)
	case model.ReplyQueued:
		q.ticket = r.Ticket
		d.keep(r.Ticket, i)
	case model.ReplyRefused, model.ReplyRule:
		w.book.turnedAway++
		w.fail(i)
	}
}

func (d *weirDoor) leave(i uint32) {
	w := d.a.w
	r := w.requests.at(i)
	if t := r.ticket; t != 0 {
		d.forget(t)
		r.ticket = 0
		d.gate.Leave(w.nanos(), t)
	}
	if k, ok := w.abandon(i); ok {
		d.gate.Done(w.nanos(), w.attempts.at(k).permit, model.Outcome{Class: model.ClassCanceled, RetryAfter: -1, Rule: "sim"})
	}
	d.settle()
}

// accepted is seen of a stream only: without one the answer comes in one piece.
func (d *weirDoor) accepted(k uint32) {
	w := d.a.w
	a := w.attempts.at(k)
	if w.inc.Workloads[w.requests.at(a.request).Workload].Client.Stream {
		d.gate.FirstToken(w.nanos(), a.permit)
	}
}

func (d *weirDoor) settled(i, k uint32, o model.Outcome) {
	w := d.a.w
	judge(&o)
	next := d.gate.Done(w.nanos(), w.attempts.at(k).permit, o)
	switch next.Kind {
	case model.NextFinished:
		w.succeed(i)
	case model.NextRetry:
		w.requests.at(i).ticket = next.Ticket
		d.keep(next.Ticket, i)
		w.book.retries++
	case model.NextGiveUp, model.NextRule:
		w.fail(i)
	}
	d.settle()
}

// keep notes who waits under a ticket.
func (d *weirDoor) keep(t model.Ticket, i uint32) {
	for t.Place() >= len(d.tickets) {
		d.tickets = append(d.tickets, weirTicket{})
	}
	d.tickets[t.Place()] = weirTicket{t, i}
}

func (d *weirDoor) forget(t model.Ticket) {
	if _, ok := d.find(t); ok {
		d.tickets[t.Place()] = weirTicket{}
	}
}

func (d *weirDoor) find(t model.Ticket) (i uint32, ok bool) {
	if p := t.Place(); t != 0 && p < len(d.tickets) && d.tickets[p].t == t {
		return d.tickets[p].i, true
	}
	return 0, false
}

// settle takes what the gate decided and sets its next wakes.
func (d *weirDoor) settle() {
	w := d.a.w
	for {
		d.replies = d.gate.Poll(w.nanos(), d.replies[:0])
		if len(d.replies) == 0 {
			break
		}
		replies := d.replies
		d.replies = nil // take may come back here
		for k := range replies {
			if i, ok := d.find(replies[k].Ticket); ok {
				d.take(i, &replies[k])
			}
		}
		d.replies = replies
	}
	d.schedule()
}

func (d *weirDoor) schedule() {
	w := d.a.w
	if at := max(w.virtual(d.gate.NextWake()), w.now); at < d.wakeAt {
		d.wakeAt = at
		w.at(at, onGate, uint64(d.a.index), 0)
	}
	if at := max(w.virtual(d.gate.ReportDue()), w.now, d.freeAt); at < d.dueAt {
		d.dueAt = at
		w.at(at, onReport, uint64(d.a.index), 0)
	}
}

func (d *weirDoor) wake(at int64) {
	if at != d.wakeAt {
		return // an earlier one was scheduled since
	}
	d.wakeAt = never
	d.a.w.happened(onGate, uint64(d.a.index), 0)
	d.settle()
}

// report sends the next report when it is due. One is on its way at a time.
func (d *weirDoor) report(at int64) {
	if at != d.dueAt {
		return
	}
	d.dueAt = never
	w := d.a.w
	if max(w.virtual(d.gate.ReportDue()), d.freeAt) > w.now {
		d.schedule()
		return
	}
	w.happened(onReport, uint64(d.a.index), 0)
	m := w.bus.report()
	d.gate.Report(w.nanos(), m)
	d.freeAt = never
	w.bus.publish(d.a, m)
}

func (d *weirDoor) acked(at int64) {
	d.freeAt = at
	d.schedule()
}
