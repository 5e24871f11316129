package provider

import "weir/sim/incident"

// Free returns how many more calls may start so that no more are in flight,
// beside other tenants, than a share of the cap in percent; with share 0 no
// more than get the most done, see BestInFlight. Without a cap it is Never.
func (t *Truth) Free(share int64) int64 {
	p := t.p
	if p.law.Concurrency < 0 {
		return Never
	}
	most := slots(&p.law)
	switch {
	case share <= 0:
		most = bestInFlight(&p.law)
	case share < 100:
		most = max(0, p.law.Concurrency*share/100-p.law.Background)
	}
	return most - p.engine.running - p.engine.held - p.queue.length
}

// Ends returns when a call of that size would end that starts now, if as many
// calls run all the while as then do and the law moves by its script. Luck
// plays no part: the random factor of its work is taken for 1.
func (t *Truth) Ends(now int64, c Call) int64 {
	p := t.p
	c.normalise()
	law := &p.law
	left := nominal(&law.Service, &c)
	taken := p.engine.running + p.engine.held + 1
	turn := p.turnAt
	for at := now; ; {
		factor := slowdown(law, taken+law.Background)
		end := at + scaleUp(left, factor, incident.PPM)
		if end <= turn || turn <= at {
			return end
		}
		left -= incident.Scale(turn-at, incident.PPM, factor)
		later := p.schedule.at(turn)
		at, law, turn = turn, &later, p.schedule.next(turn)
	}
}

// nominal is the work of a call before luck.
func nominal(s *incident.Service, c *Call) int64 {
	work := int64(s.Base)
	if s.PrefillPerS > 0 {
		work += incident.Scale(c.Input, int64(1e9), s.PrefillPerS)
	}
	if s.OutputPerS > 0 {
		work += incident.Scale(c.Output, int64(1e9), s.OutputPerS)
	}
	return work
}
