package world

import "weir/sim/incident"

// deadlines are the instants at which requests of one workload end their use,
// or their application its patience. All of them lie equally far ahead, so that
// they come in the order in which they were set: a queue, of which only the
// first has an event of the world. Those whose request went on meanwhile are
// left out without a look at it.
type deadlines struct {
	items []deadline
	head  int
	armed int64 // instant of the event, never for none
}

// deadline is due for a request while its mark is what it was.
type deadline struct {
	at      int64
	i, mark uint32
}

// newDeadlines makes one for each workload.
func newDeadlines(inc *incident.Incident) []deadlines {
	all := make([]deadlines, len(inc.Workloads))
	for i := range all {
		all[i].armed = never
	}
	return all
}

// add puts in an instant and reports whether an event is wanted for it.
func (d *deadlines) add(e deadline) bool {
	if len(d.items) == cap(d.items) && d.head > len(d.items)/2 {
		d.tidy()
	}
	d.items = append(d.items, e)
	for k := len(d.items) - 1; k > d.head && d.items[k-1].at > d.items[k].at; k-- {
		d.items[k-1], d.items[k] = d.items[k], d.items[k-1]
	}
	if e.at >= d.armed {
		return false
	}
	d.armed = e.at
	return true
}

// next takes out the first that is due at now, its mark still being what it
// was. At the end it returns when the next one is, never for none; that is
// armed then.
func (d *deadlines) next(now int64, marks []uint32) (i uint32, at int64, ok bool) {
	for ; d.head < len(d.items); d.head++ {
		e := d.items[d.head]
		if marks[e.i] != e.mark {
			continue
		}
		if d.armed = e.at; e.at > now {
			return 0, e.at, false
		}
		d.head++
		return e.i, 0, true
	}
	d.items, d.head, d.armed = d.items[:0], 0, never
	return 0, never, false
}

// tidy cuts off the dead head, which is done where there is no room.
func (d *deadlines) tidy() {
	d.items = d.items[:copy(d.items, d.items[d.head:])]
	d.head = 0
}
