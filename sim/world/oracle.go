package world

import (
	"time"

	"weir/model"
	"weir/sim/provider"
)

// oracle is perfect knowledge: one queue for the whole fleet, earliest
// deadline first, and a call is sent exactly when its provider's true state
// has room: fewer in flight than a share of the cap, and every limit open. It
// is the only policy that sees the truth. Which share is best depends on how
// a provider slows with load, so a run's oracle is the best of OracleShares.
type oracle struct {
	w     *world
	share int64 // of the cap, in percent
	heap  []uint32
	pump  bool // a look is scheduled
}

// OracleShares are the shares of the cap, in percent, that an oracle tries.
func OracleShares() []int { return []int{50, 60, 70, 75, 80, 90, 100} }

// oracleLook is how often an oracle that waits for a limit looks again.
const oracleLook = int64(20 * time.Millisecond)

// oracleDoor is an agent's way to the oracle.
type oracleDoor struct{ o *oracle }

func (d *oracleDoor) ask(i uint32) {
	d.o.push(i)
	d.o.dispatch()
}

func (d *oracleDoor) leave(i uint32) {
	if _, ok := d.o.w.abandon(i); !ok {
		d.o.remove(i)
	}
	d.o.dispatch()
}

func (d *oracleDoor) accepted(uint32) {}

func (d *oracleDoor) settled(i, _ uint32, o model.Outcome) {
	w := d.o.w
	if o.Class == model.ClassOK {
		w.succeed(i)
	} else {
		d.o.push(i) // what noise broke is simply sent again
	}
	d.o.dispatch()
}

// dispatch sends what has room, in order.
func (o *oracle) dispatch() {
	for len(o.heap) > 0 {
		i := o.heap[0]
		r := o.w.requests.at(i)
		channel, ok := o.channel(r)
		if !ok {
			if !o.pump {
				o.pump = true
				o.w.at(o.w.now+oracleLook, onOracle, 0, 0)
			}
			return
		}
		o.remove(i)
		o.w.send(i, channel, model.Permit{})
	}
}

// channel returns the first channel of the request's route with room.
func (o *oracle) channel(r *request) (string, bool) {
	w := o.w
	name := w.inc.Workloads[r.Workload].Route
	for k := range w.inc.Routes {
		if w.inc.Routes[k].Name != name {
			continue
		}
		for _, t := range w.inc.Routes[k].Tiers {
			for _, ch := range t.Channels {
				s := &w.providers[w.service(ch.Channel)]
				running, waiting := s.truth.InFlight()
				law := s.truth.Law()
				room := law.Concurrency*o.share/100 - law.Background
				if law.Concurrency < 0 {
					room = 1 << 40
				}
				call := provider.Call{Request: r.ID, Try: r.sent + 1, Input: r.Input, Output: r.Output, MaxTokens: r.MaxTokens}
				if running+waiting < room && s.truth.Wait(w.now, call) == 0 {
					return ch.Channel, true
				}
			}
		}
	}
	return "", false
}

// before orders requests by deadline, then by arrival.
func (o *oracle) before(a, b uint32) bool {
	x, y := o.w.requests.at(a), o.w.requests.at(b)
	if x.Deadline != y.Deadline {
		return y.Deadline == 0 || x.Deadline != 0 && x.Deadline < y.Deadline
	}
	if x.At != y.At {
		return x.At < y.At
	}
	return x.ID < y.ID
}

func (o *oracle) push(i uint32) {
	o.heap = append(o.heap, i)
	o.up(len(o.heap) - 1)
}

func (o *oracle) up(k int) {
	for k > 0 && o.before(o.heap[k], o.heap[(k-1)/2]) {
		o.heap[k], o.heap[(k-1)/2] = o.heap[(k-1)/2], o.heap[k]
		k = (k - 1) / 2
	}
}

func (o *oracle) down(k int) {
	for {
		child := 2*k + 1
		if child >= len(o.heap) {
			return
		}
		if child+1 < len(o.heap) && o.before(o.heap[child+1], o.heap[child]) {
			child++
		}
		if !o.before(o.heap[child], o.heap[k]) {
			return
		}
		o.heap[child], o.heap[k] = o.heap[k], o.heap[child]
		k = child
	}
}

// remove takes a request out of the queue, if it is there.
func (o *oracle) remove(i uint32) {
	for k, v := range o.heap {
		if v != i {
			continue
		}
		last := len(o.heap) - 1
		o.heap[k] = o.heap[last]
		o.heap = o.heap[:last]
		if k < last {
			o.down(k)
			o.up(k)
		}
		return
	}
}
