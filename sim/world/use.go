package world

import (
	"weir/model"
	"weir/sim/incident"
)

// leaseUse watches what is leased against what may be.
type leaseUse struct {
	claimed   map[string]int64 // by channel, after the last record
	over      map[string]int64 // since when more is in flight than the limit, 0 for not
	overshoot int64
	drain     int64
	sum, n    int64
}

// record looks at every channel after a record was folded.
func (u *leaseUse) record(f *model.Fleet, w *world) {
	if u.claimed == nil {
		u.claimed, u.over = map[string]int64{}, map[string]int64{}
	}
	for i := range w.inc.Channels {
		name := w.inc.Channels[i].Name
		claimed, _, _, limit := f.Claims(name)
		if claimed > u.claimed[name] {
			u.overshoot = max(u.overshoot, claimed*1_000_000/max(limit, 1))
		}
		u.claimed[name] = claimed
		switch since := u.over[name]; {
		case claimed <= limit:
			delete(u.over, name)
		case since == 0:
			u.over[name] = max(w.now, 1)
		default:
			u.drain = max(u.drain, w.now-since)
		}
	}
}

// second adds one sample of the utilisation.
func (u *leaseUse) second(f *model.Fleet, inc *incident.Incident) {
	for i := range inc.Channels {
		_, leased, demand, limit := f.Claims(inc.Channels[i].Name)
		if could := min(limit, demand); could > 0 {
			u.sum += min(leased, could) * 1_000_000 / could
			u.n++
		}
	}
}

// join adds what another saw.
func (u *leaseUse) join(o *leaseUse) {
	u.overshoot, u.drain = max(u.overshoot, o.overshoot), max(u.drain, o.drain)
	u.sum, u.n = u.sum+o.sum, u.n+o.n
}

func (u *leaseUse) mean() int64 {
	if u.n == 0 {
		return 1_000_000
	}
	return u.sum / u.n
}
