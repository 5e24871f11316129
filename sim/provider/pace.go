package provider

import "weir/sim/incident"

// slowdown returns how much longer work takes with that many slots of the cap
// taken, in ppm. Without a cap there is no load to speak of.
func slowdown(law *incident.Law, taken int64) int64 {
	s := law.Slowdown
	if law.Concurrency < 0 || s.Factor <= incident.PPM || s.From >= incident.PPM {
		return incident.PPM
	}
	u := int64(incident.PPM)
	if taken < law.Concurrency {
		u = taken * incident.PPM / law.Concurrency
	}
	if u <= s.From {
		return incident.PPM
	}
	x := (u - s.From) * incident.PPM / (incident.PPM - s.From)
	return incident.PPM + incident.Scale(s.Factor-incident.PPM, x*x, incident.PPM*incident.PPM)
}

// slots returns how many calls may run under a law beside other tenants.
func slots(law *incident.Law) int64 {
	if law.Concurrency < 0 {
		return Never
	}
	return max(0, law.Concurrency-law.Background)
}

// bestInFlight returns the number of running calls that gets the most work
// done a second: the n up to the cap with the largest n/slowdown(n). The ratio
// rises to one peak and falls, so that bisection on its slope finds it.
func bestInFlight(law *incident.Law) int64 {
	most := slots(law)
	if most == Never {
		return Never
	}
	low, high := int64(0), most // the slope is upwards below low, not upwards at high
	for low < high {
		n := (low + high) / 2
		if (n+1)*slowdown(law, n+law.Background) > n*slowdown(law, n+1+law.Background) {
			low = n + 1
		} else {
			high = n
		}
	}
	return low
}

// pace is the virtual clock of work: it runs at 1/factor.
//
// Invariant: at `at` it shows `shown`. Both move only when the factor does, so
// that reading the clock never changes what it will show.
type pace struct {
	at, shown int64 // ns of time, ns of work
	factor    int64 // ppm, at least PPM
}

// read returns the work done at now.
func (p *pace) read(now int64) int64 {
	return p.shown + incident.Scale(now-p.at, incident.PPM, p.factor)
}

// when returns the first instant at which the clock shows at least v.
func (p *pace) when(v int64) int64 {
	return p.at + scaleUp(max(0, v-p.shown), p.factor, incident.PPM)
}

// turn changes the factor from now on and reports whether it did.
func (p *pace) turn(now, factor int64) bool {
	if factor == p.factor {
		return false
	}
	p.shown, p.at, p.factor = p.read(now), now, factor
	return true
}
