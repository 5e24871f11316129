package model

// poolHold is the time in which nothing starts after a rate refusal, and how
// the pool comes back from it.
//
// A first refusal holds for what the provider named, else for HoldDefault. If
// nothing succeeded between a hold and the next refusal, the hold did not do:
// refusals are charged to the quota, the wait was named too short, or the
// account is banned. Then each hold is twice as long as the one before, and
// ends with a single call for the whole fleet.
type poolHold struct {
	until Nanos
	// series counts the holds since the last success.
	series int64
	// trial is set while a single call is to show whether the hold is over;
	// tried is when it was granted, 0 before, mark what agents had used then.
	trial bool
	tried Nanos
	mark  int64
	// proven is set once the provider let a call through after the hold.
	proven bool
	// took is how long the newest refusal took.
	took Nanos
}

// holdTrial is the least time after which a call counts as taken when no
// refusal came: refusals come fast. holdSeen is what a report takes besides.
const (
	holdTrial = 500 * Millisecond
	holdSeen  = 100 * Millisecond
)

// patience is after which time a call that was not refused was taken.
func (h *poolHold) patience() Nanos { return max(holdTrial, 2*h.took+holdSeen) }

// refused begins a hold after a refusal of a call sent at sent, that took so
// long, for wait if the provider named one. started is how many calls were
// started and not refused since the last one. It returns how long it holds.
func (h *poolHold) refused(p *Params, now, sent, took, wait Nanos, started int64) Nanos {
	if h.until == 0 || h.proven || started > 0 && sent >= h.until+took+holdSeen {
		h.series = 0
	} else {
		h.series++
	}
	own := min(p.HoldDefault<<min(h.series, 20), p.HoldMax)
	switch {
	case wait <= 0 || wait > p.HoldTrust:
		wait = own
	case h.series > 0:
		wait = max(wait, own)
	}
	h.until = max(h.until, sent+took+wait)
	h.took = min(took, Minute)
	h.trial, h.tried, h.proven = h.series > 0, 0, false
	return h.until - now
}

// succeeded takes a success of a call sent at sent.
func (h *poolHold) succeeded(sent Nanos) bool {
	if h.proven || sent < h.until {
		return false
	}
	h.prove()
	return true
}

// held returns how much of the span up to now nothing was let go by the pace.
func (h *poolHold) held(now, span Nanos) Nanos {
	if h.trial {
		return span
	}
	return min(max(h.until-(now-span), 0), span)
}

func (h *poolHold) prove() { h.proven, h.trial, h.tried = true, false, 0 }

// trying reports whether only a single call may start. used is what agents have
// used by now: the call that was granted was sent if that grew.
func (h *poolHold) trying(now Nanos, used int64) bool {
	if h.trial && h.tried > 0 && now >= h.tried+h.patience() {
		if used > h.mark {
			h.prove()
		} else {
			h.tried = 0
		}
	}
	return h.trial
}

func (c *coder) poolHold(h *poolHold) {
	num(c, &h.until)
	num(c, &h.series)
	num(c, &h.tried)
	num(c, &h.mark)
	num(c, &h.took)
	c.flag(&h.trial)
	c.flag(&h.proven)
}
