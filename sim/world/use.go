package world

import (
	"weir/model"
	"weir/sim/incident"
)

// leaseUse watches what is leased against what may be.
type leaseUse struct {
	channels  []channelUse // as in the incident
	overshoot int64
	drain     int64
	sum, n    int64
}

// channelUse is what one channel had after the last record.
type channelUse struct {
	claimed int64
	over    int64 // since when more is claimed than the limit, 0 for not
}

// record looks at every channel after a record was folded.
func (u *leaseUse) record(f *model.Fleet, w *world) {
	if u.channels == nil {
		u.channels = make([]channelUse, len(w.inc.Channels))
	}
	for i := range w.inc.Channels {
		c := &u.channels[i]
		claimed, _, _, limit := f.Claims(w.inc.Channels[i].Name)
		if claimed > c.claimed {
			u.overshoot = max(u.overshoot, claimed*1_000_000/max(limit, 1))
		}
		c.claimed = claimed
		switch {
		case claimed <= limit:
			c.over = 0
		case c.over == 0:
			c.over = max(w.now, 1)
		default:
			u.drain = max(u.drain, w.now-c.over)
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
