package calibrate

import (
	"math"

	"weir/model"
	"weir/sim/incident"
)

// Rate is what a log says of a limit a minute.
type Rate struct {
	// Unit is requests or tokens.
	Unit string `json:"unit"`
	// Window is how it is counted, by the likelihood.
	Window incident.WindowKind `json:"window"`
	// Estimate is the limit a minute.
	Estimate
	// Burst is the depth of a bucket; of the other windows it is the limit.
	Burst Estimate `json:"burst"`
	// Charged is set when refused calls count too.
	Charged bool `json:"charged"`
	// Also lists windows that explain the log nearly as well.
	Also []incident.WindowKind `json:"also,omitempty"`
	// loglik is the largest log-likelihood.
	loglik float64
}

const minute = model.Minute

// uses are the calls a rate limit may have refused, and those it let through.
type uses struct {
	at      []model.Nanos
	cost    []float64
	refused []bool
	scale   float64 // a typical cost
	step    float64
}

// usesOf lists them. Costs are 1, or tokens, where an answer that never came
// counts as the mean of those that did.
func usesOf(calls []call, tokens bool, refusal func(*call) bool) uses {
	u := uses{scale: 1, step: 1}
	var sum, outputs, n float64
	for i := range calls {
		if c := &calls[i]; c.accepted() && c.input+c.output > 0 {
			sum += float64(c.input + c.output)
			outputs += float64(c.output)
			n++
		}
	}
	mean := sum / max(n, 1)
	if tokens {
		u.scale = max(mean/4, 1)
	}
	for i := range calls {
		c := &calls[i]
		no := refusal(c)
		if !no && !c.accepted() {
			continue
		}
		cost := 1.0
		if tokens {
			cost = float64(c.input + c.output)
			if c.output == 0 {
				cost += outputs / max(n, 1)
			}
		}
		u.at = append(u.at, c.sent)
		u.cost = append(u.cost, cost)
		u.refused = append(u.refused, no)
	}
	return u
}

// warmUp is how long a limit's state at the beginning of a log is unknown.
const warmUp = minute

// sights turn a law of counting into what was seen of its limit: use returns
// what is used with a call, and counts it if it takes part.
func (u *uses) sights(charged bool, use func(at model.Nanos, cost float64, takes bool) float64) []sight {
	all := make([]sight, 0, len(u.at))
	skip := u.at[0]
	if u.at[len(u.at)-1]-u.at[0] > 5*warmUp {
		skip += warmUp
	}
	for i := range u.at {
		x := use(u.at[i], u.cost[i], charged || !u.refused[i])
		if u.at[i] >= skip {
			all = append(all, sight{x, u.refused[i]})
		}
	}
	return all
}

// sliding counts the last minute.
func (u *uses) sliding(charged bool) []sight {
	type entry struct {
		at   model.Nanos
		cost float64
	}
	var ring []entry
	head, sum := 0, 0.0
	return u.sights(charged, func(at model.Nanos, cost float64, takes bool) float64 {
		for head < len(ring) && ring[head].at <= at-minute {
			sum -= ring[head].cost
			head++
		}
		if head > 4096 && head > len(ring)/2 {
			ring = append(ring[:0], ring[head:]...)
			head = 0
		}
		x := sum + cost
		if takes {
			ring = append(ring, entry{at, cost})
			sum += cost
		}
		return x
	})
}

// fixed counts from zero at each full minute after phase.
func (u *uses) fixed(phase model.Nanos, charged bool) []sight {
	window, sum := model.Nanos(-1), 0.0
	return u.sights(charged, func(at model.Nanos, cost float64, takes bool) float64 {
		if w := (at - phase) / minute; w != window {
			window, sum = w, 0
		}
		x := sum + cost
		if takes {
			sum += cost
		}
		return x
	})
}

// bucket counts what a bucket that refills with so much a minute lacks.
func (u *uses) bucket(perMinute float64, charged bool) []sight {
	last, fill := u.at[0], 0.0
	return u.sights(charged, func(at model.Nanos, cost float64, takes bool) float64 {
		fill = max(0, fill-perMinute*float64(at-last)/float64(minute))
		last = at
		x := fill + cost
		if takes {
			fill = x
		}
		return x
	})
}

// rate fits every way of counting and takes the likeliest. ok is false when
// there is nothing to fit.
func rate(calls []call, tokens bool, refusal func(*call) bool) (r Rate, ok bool) {
	u := usesOf(calls, tokens, refusal)
	r.Unit = "requests"
	if tokens {
		r.Unit = "tokens"
	}
	if len(u.at) == 0 {
		return r, false
	}
	refused := 0
	for _, no := range u.refused {
		if no {
			refused++
		}
	}
	if refused == 0 {
		r.Estimate, _ = threshold(u.sliding(false), u.step, u.scale)
		r.Window, r.Burst = incident.SlidingWindow, r.Estimate
		return r, true
	}
	all := []Rate{u.fitSliding(false), u.fitFixed()}
	if split(u.sliding(true)) > split(u.sliding(false)) {
		all = append(all, u.fitSliding(true))
	}
	center, like := u.lookBucket(false)
	all = append(all, u.fitBucket(center, false))
	if charged, more := u.lookBucket(true); more > like {
		all = append(all, u.fitBucket(charged, true))
	}
	best := 0
	for i := range all {
		if all[i].loglik > all[best].loglik+1e-6 {
			best = i
		}
	}
	for i := range all {
		if i != best && all[i].Charged == all[best].Charged && all[i].loglik > all[best].loglik-3 {
			all[best].Also = append(all[best].Also, all[i].Window)
		}
	}
	all[best].Unit = r.Unit
	return all[best], true
}

func (u *uses) fitSliding(charged bool) Rate {
	r := Rate{Window: incident.SlidingWindow, Charged: charged}
	r.Estimate, r.loglik = threshold(u.sliding(charged), u.step, u.scale)
	r.Burst = r.Estimate
	return r
}

// fitFixed chooses the instant at which the minutes begin. Whether refused
// calls count makes no difference there.
func (u *uses) fitFixed() Rate {
	best, phase := math.Inf(-1), model.Nanos(0)
	for k := range model.Nanos(60) {
		at := k*model.Second + model.Second/2
		if ll := split(u.fixed(at, false)); ll > best {
			best, phase = ll, at
		}
	}
	r := Rate{Window: incident.FixedWindow, loglik: math.Inf(-1)}
	var fits []Rate
	for _, step := range []model.Nanos{model.Second / 8, model.Second / 64, model.Second / 512} {
		center := phase
		for k := model.Nanos(-8); k <= 8; k++ {
			f := Rate{Window: incident.FixedWindow}
			f.Estimate, f.loglik = threshold(u.fixed(center+k*step, false), u.step, u.scale)
			fits = append(fits, f)
			if f.loglik > r.loglik {
				r, phase = f, center+k*step
			}
		}
	}
	for _, f := range fits {
		if f.loglik > r.loglik-2*ninety { // the phase is a number that was fitted too
			r.Low, r.High, r.Open = min(r.Low, f.Low), max(r.High, f.High), r.Open || f.Open
		}
	}
	r.Burst = r.Estimate
	r.loglik -= 2 // it chose its phase
	return r
}

// refill is one tried refill of a bucket.
type refill struct {
	perMinute, loglik float64
	burst             Estimate
}

// lookBucket looks for the refill in steps of a fiftieth about the mean use and
// greater ones beyond; the likelihood has a sharp peak. The beginning of a long
// log is enough for that.
func (u *uses) lookBucket(charged bool) (center, most float64) {
	const enough = 100_000
	if n := len(u.at); n > enough {
		head := uses{u.at[:enough], u.cost[:enough], u.refused[:enough], u.scale, u.step}
		return head.lookBucket(charged)
	}
	span := max(float64(u.at[len(u.at)-1]-u.at[0])/float64(minute), 1)
	taken := 0.0
	for i := range u.cost {
		if charged || !u.refused[i] {
			taken += u.cost[i]
		}
	}
	mean := taken / span
	center = mean
	most = math.Inf(-1)
	peak := 0.0 // no refill is faster than all that was ever wanted in a minute
	for _, s := range u.sliding(true) {
		peak = max(peak, s.x)
	}
	for f, step := 0.4, 1.02; mean*f < 1.2*peak; f *= step {
		if f > 3 {
			step = 1.12
		}
		if ll := split(u.bucket(mean*f, charged)); ll > most {
			center, most = mean*f, ll
		}
	}
	return center, most
}

// fitBucket looks closer and closer around a refill.
func (u *uses) fitBucket(center float64, charged bool) Rate {
	var tried []refill
	best := refill{loglik: math.Inf(-1)}
	for _, width := range []float64{0.06, 0.012} {
		from := center
		for k := -6; k <= 6; k++ {
			r := refill{perMinute: from * (1 + width*float64(k)/6)}
			r.burst, r.loglik = threshold(u.bucket(r.perMinute, charged), 0, u.scale)
			tried = append(tried, r)
			if r.loglik > best.loglik {
				best, center = r, r.perMinute
			}
		}
	}
	return bucketOf(tried, best, charged)
}

// bucketOf profiles the refill: all that are nearly as likely as the best are
// the interval. Its ends lie between the last point inside and the first
// outside.
func bucketOf(tried []refill, best refill, charged bool) Rate {
	r := Rate{Window: incident.TokenBucket, Charged: charged, Burst: best.burst, loglik: best.loglik - 1}
	r.Estimate = Estimate{Best: best.perMinute, Low: best.perMinute, High: best.perMinute, Accepted: best.burst.Accepted, Refused: best.burst.Refused}
	below, above := 0.0, math.Inf(1)
	for _, p := range tried {
		switch {
		case p.loglik >= best.loglik-ninety:
			r.Low, r.High = min(r.Low, p.perMinute), max(r.High, p.perMinute)
			r.Burst.Low, r.Burst.High = min(r.Burst.Low, p.burst.Low), max(r.Burst.High, p.burst.High)
		case p.perMinute < best.perMinute:
			below = max(below, p.perMinute)
		default:
			above = min(above, p.perMinute)
		}
	}
	r.Low = max(min(r.Low, (r.Low+below)/2), 0)
	if math.IsInf(above, 1) {
		r.Open, r.High = true, 0
	} else {
		r.High = max(r.High, (r.High+above)/2)
	}
	return r
}
