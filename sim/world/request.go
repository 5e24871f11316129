package world

import (
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/provider"
	"weir/sim/workload"
)

// request is what a client wants, from its arrival to its end.
type request struct {
	workload.Request
	alive   bool
	waiting bool   // in the application's backlog or before a requeue
	tries   uint32 // of the application
	sent    uint32 // attempts at providers
	attempt uint32 // in flight, 0 for none
	ticket  model.Ticket
	until   int64 // the application takes an answer until then, 0 for ever; the oracle's
}

// tokens is what a completed request used.
func (r *request) tokens() int64 {
	if r.MaxTokens > 0 {
		return r.Input + min(r.Output, r.MaxTokens)
	}
	return r.Input + r.Output
}

// attempt is one call at a provider.
type attempt struct {
	request uint32
	gen     uint32
	alive   bool
	service int32
	ticket  provider.Ticket
	permit  uint64
	sent    int64
	refusal provider.Refusal
	headers provider.Headers // of its answer
	shape   incident.Shape   // that they are written in
}

// newRequest returns the index of a fresh request. Index 0 was taken by build
// and means none.
func (w *world) newRequest() uint32 {
	i := w.requests.take()
	if int(i) == len(w.lives) {
		w.lives, w.turns = append(w.lives, 0), append(w.turns, 0)
	}
	*w.requests.at(i) = request{}
	return i
}

// finish ends a request, well or not.
func (w *world) finish(i uint32, ok bool) {
	r := w.requests.at(i)
	if !r.alive {
		w.audit.twice++
	}
	r.alive = false
	w.lives[i]++
	w.turns[i]++
	w.sources.Answered(w.now, r.Request, ok)
	w.watchSources()
	w.requests.put(i)
}

// dropAttempt gives an attempt's place to the next, with another generation.
func (w *world) dropAttempt(k uint32) {
	w.attempts.at(k).gen++
	w.attempts.put(k)
}

// arrive takes the requests that are wanted now.
func (w *world) arrive() {
	for {
		r, ok := w.sources.Next(w.now)
		if !ok {
			break
		}
		if !w.agents[r.Agent].up {
			w.sources.Answered(w.now, r, false)
			continue // nobody there to want it
		}
		i := w.newRequest()
		q := w.requests.at(i)
		q.Request, q.alive = r, true
		w.happened(onArrival, uint64(i), r.ID)
		w.book.wanted(w, r.Agent)
		w.providers[w.firstService(r.Workload)].truth.Demand(w.now, provider.Demand{
			Request: r.ID, Input: r.Input, Output: r.Output, MaxTokens: r.MaxTokens, Deadline: r.Deadline,
		})
		if r.Deadline > 0 {
			w.within(w.uses, onExpiry, r.Workload, deadline{r.Deadline, i, w.lives[i]})
		}
		w.admit(i)
	}
	w.watchSources()
}

// watchSources sets the next look at the workloads.
func (w *world) watchSources() {
	if at := max(w.sources.NextAt(), w.now); at < w.arriveAt {
		w.arriveAt = at
		w.at(at, onArrival, 0, 0)
	}
}

// admit sends a request on its way if the pool has room, else it waits.
func (w *world) admit(i uint32) {
	r := w.requests.at(i)
	a := w.agents[r.Agent]
	p := &a.pools[r.Workload]
	if !w.room(p, r.Workload) {
		r.waiting = true
		p.backlog.push(i, w.lives[i])
		return
	}
	r.waiting = false
	p.out++
	r.tries++
	w.turns[i]++
	if t := w.inc.Workloads[r.Workload].Client.Timeout; t > 0 {
		w.within(w.patience, onTimeout, r.Workload, deadline{w.now + int64(t), i, w.turns[i]})
	}
	a.door.ask(i)
}

// room reports whether a pool has a place. In a pause it has none, in the
// trickle after it a growing part.
func (w *world) room(p *pool, load int) bool {
	share := w.inc.Fleet.Share(time.Duration(w.now))
	limit := w.inc.Workloads[load].Client.Pool
	if limit < 0 {
		return share > 0
	}
	return int64(p.out) < (limit*share+incident.PPM-1)/incident.PPM
}

// purge gives up all that waits in the applications.
func (w *world) purge() {
	for i := range w.requests.used {
		if r := w.requests.at(i); r.alive && r.waiting {
			w.book.second.Failed++
			w.finish(i, false)
		}
	}
	for _, a := range w.agents {
		for load := range a.pools {
			a.pools[load].backlog = fifo{}
		}
	}
}

// trickle lets go on what a pause made wait, as far as there is room now.
func (w *world) trickle() {
	for _, a := range w.agents {
		for load := range a.pools {
			for p := &a.pools[load]; w.room(p, load) && w.next(p); {
			}
		}
	}
}

// next admits the first of a pool's backlog that is still wanted.
func (w *world) next(p *pool) bool {
	for {
		i, life, ok := p.backlog.pop()
		if !ok {
			return false
		}
		if w.lives[i] == life && w.requests.at(i).waiting {
			w.admit(i)
			return true
		}
	}
}

// release frees the request's place in the pool for the next in the backlog.
func (w *world) release(agent, load int) {
	p := &w.agents[agent].pools[load]
	p.out--
	if w.room(p, load) {
		w.next(p)
	}
}

// succeed is the answer the application wanted.
func (w *world) succeed(i uint32) {
	r := w.requests.at(i)
	agent, load := r.Agent, r.Workload
	w.book.completed(w, r)
	w.finish(i, true)
	w.release(agent, load)
}

// fail is a try of the application that brought nothing: its own habit
// decides how it goes on.
func (w *world) fail(i uint32) {
	r := w.requests.at(i)
	agent, load := r.Agent, r.Workload
	w.turns[i]++
	wait, again := workload.Again(w.inc.Workloads[load].Client.Retry, w.cfg.Seed, r.ID, int64(r.tries))
	if !again || r.Deadline > 0 && w.now+int64(wait) >= r.Deadline {
		w.book.second.Failed++
		w.finish(i, false)
	} else {
		r.waiting = true
		w.at(w.now+int64(wait), onRequeue, uint64(i), r.ID)
	}
	w.release(agent, load)
}

func (w *world) requeue(i uint32, id uint64) {
	if r := w.requests.at(i); r.alive && r.ID == id && r.waiting {
		w.happened(onRequeue, uint64(i), id)
		w.admit(i)
	}
}

// within sets a deadline of a workload's request.
func (w *world) within(all []deadlines, k kind, load int, d deadline) {
	if all[load].add(d) {
		w.at(d.at, k, uint64(load), 0)
	}
}

// timeouts ends the tries of a workload that lasted too long.
func (w *world) timeouts(load int, at int64) {
	d := &w.patience[load]
	if at != d.armed {
		return // an earlier one was set since
	}
	i, next, ok := d.next(w.now, w.turns)
	for ; ok; i, next, ok = d.next(w.now, w.turns) {
		w.timeout(i)
	}
	if next != never {
		w.at(next, onTimeout, uint64(load), 0)
	}
}

// expiries ends the requests of a workload that are of no use any more.
func (w *world) expiries(load int, at int64) {
	d := &w.uses[load]
	if at != d.armed {
		return
	}
	i, next, ok := d.next(w.now, w.lives)
	for ; ok; i, next, ok = d.next(w.now, w.lives) {
		w.expire(i)
	}
	if next != never {
		w.at(next, onExpiry, uint64(load), 0)
	}
}

// timeout is the application losing patience with one try.
func (w *world) timeout(i uint32) {
	r := w.requests.at(i)
	w.happened(onTimeout, uint64(i), r.ID)
	w.book.timeouts++
	w.agents[r.Agent].door.leave(i)
	w.fail(i)
}

// expire is the end of a request's use.
func (w *world) expire(i uint32) {
	r := w.requests.at(i)
	w.happened(onExpiry, uint64(i), r.ID)
	agent, load, waiting := r.Agent, r.Workload, r.waiting
	if !waiting {
		w.agents[r.Agent].door.leave(i)
	}
	w.book.second.Failed++
	w.book.missed++
	w.finish(i, false)
	if !waiting {
		w.release(agent, load)
	}
}

// send makes an attempt at the channel's provider.
func (w *world) send(i uint32, channel string, permit uint64) {
	r := w.requests.at(i)
	k := w.attempts.take()
	a := w.attempts.at(k) // every field is set anew but gen, and refusal where there is none
	a.request, a.alive, a.permit, a.sent, a.ticket = i, true, permit, w.now, 0
	a.service = w.service(channel)
	r.attempt = k
	r.sent++
	w.book.second.Sent++
	w.audit.tallies[a.service].sent++
	s := &w.providers[a.service]
	answer := s.Offer(w.now, provider.Call{
		ID: uint64(k)<<32 | uint64(a.gen), Request: r.ID, Try: r.sent,
		Input: r.Input, Output: r.Output, MaxTokens: r.MaxTokens,
		Whole: !w.inc.Workloads[r.Workload].Client.Stream,
	})
	a.shape = s.truth.Shape()
	if answer.Accepted() {
		a.ticket, a.headers = answer.Ticket, answer.Headers
	} else {
		a.refusal, a.headers = answer.Refusal, answer.Refusal.Headers
		w.at(w.now+int64(a.refusal.Delay), onRefusal, uint64(k), uint64(a.gen))
	}
	w.watch(int(a.service))
}

// refused is a refusal that reached its sender.
func (w *world) refused(k, gen uint32) {
	a := w.attempts.at(k)
	if !a.alive || a.gen != gen {
		return
	}
	w.happened(onRefusal, uint64(k), uint64(gen))
	w.book.second.Refused[a.refusal.Class]++
	w.audit.tallies[a.service].refused++
	o := model.Outcome{
		Class: a.refusal.Class, Dimension: a.refusal.Dimension,
		Code: a.refusal.Code, Status: uint16(a.refusal.Status),
		RetryAfter: model.Nanos(a.refusal.RetryAfter), Hints: hints(&a.headers, a.shape), Rule: "sim",
	}
	w.settle(k, o)
}

// answered is a provider's event.
func (w *world) answered(e *provider.Event) {
	k := uint32(e.ID >> 32)
	a := w.attempts.at(k)
	if !a.alive || a.gen != uint32(e.ID) {
		return
	}
	switch e.Kind {
	case provider.First:
		w.agents[w.requests.at(a.request).Agent].door.accepted(k)
	case provider.Done:
		w.audit.tallies[a.service].ok++
		w.settle(k, model.Outcome{
			Class: model.ClassOK, Status: 200, UsageKnown: true, RetryAfter: -1,
			In: model.Tokens(e.Input), Out: model.Tokens(e.Output), Hints: hints(&a.headers, a.shape), Rule: "sim",
		})
	case provider.Failed:
		w.book.second.Refused[model.ClassOverloaded]++
		w.audit.tallies[a.service].failed++
		w.settle(k, model.Outcome{Class: model.ClassOverloaded, Status: uint16(e.Status), RetryAfter: -1, Hints: hints(&a.headers, a.shape), Rule: "sim"})
	}
}

// settle ends an attempt and tells the door.
func (w *world) settle(k uint32, o model.Outcome) {
	a := w.attempts.at(k)
	i := a.request
	if !a.alive {
		w.audit.twice++
	}
	a.alive = false
	r := w.requests.at(i)
	r.attempt = 0
	w.agents[r.Agent].door.settled(i, k, o)
	w.dropAttempt(k)
}

// abandon gives up the request's attempt in flight, if there is one.
func (w *world) abandon(i uint32) (k uint32, ok bool) {
	r := w.requests.at(i)
	if k = r.attempt; k == 0 {
		return 0, false
	}
	a := w.attempts.at(k)
	switch t := &w.audit.tallies[a.service]; {
	case a.ticket == 0:
		t.away++
	case w.providers[a.service].Cancel(w.now, a.ticket):
		t.left++
		w.watch(int(a.service))
	default:
		t.crossed++
		w.watch(int(a.service))
	}
	w.book.abandoned++
	a.alive = false
	r.attempt = 0
	w.dropAttempt(k)
	return k, true
}
