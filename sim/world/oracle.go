package world

import (
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/provider"
)

// oracle is perfect knowledge of the providers: one queue for the whole fleet,
// and a call is sent exactly when its provider's true state has room for it,
// so that none is ever refused. It knows limits, windows, bans, how calls slow
// each other down, and what the script changes while a call runs. Like every
// policy it does not know how long an answer will be; it goes by the mean of
// the workload. Otherwise it would serve the short calls and leave the long,
// and what it serves were no measure of how well a limit is met.
//
// It is greedy: who fits now starts now, even past one that waits for more
// room, as a client that asks again and again comes to. So under a limit of
// tokens it favours small calls; see Figures.TokenRatio. Two things no rule of the moment decides best: how much of the cap to
// leave free, since calls slow each other down, and how much time beyond the
// mean a call must have left to be preferred. So a run's oracle is the best of
// several, see Run.
type oracle struct {
	w     *world
	plan  plan
	lines []line // by workload
	pump  bool   // a look is scheduled
}

// plan is what an oracle decides once for the whole run.
type plan struct {
	// share is how much of the cap is used, in percent; 0 is as much as gets
	// the most done at each moment.
	share int64
	// reserve is the time that must be left, in mean service times.
	reserve int64
	// brief: workloads with short answers go first, not the earliest deadline.
	brief bool
}

// plans lists what is tried: the first as it is, then each group in turn on
// top of the best so far.
func plans(inc *incident.Incident) (first plan, groups [][]func(*plan)) {
	first = plan{share: 0, reserve: 3}
	share := func(n int64) func(*plan) { return func(p *plan) { p.share = n } }
	reserve := func(n int64) func(*plan) { return func(p *plan) { p.reserve = n } }
	if slows(inc) {
		groups = append(groups, []func(*plan){share(50), share(60), share(70), share(80), share(90), share(100)})
	}
	if hurries(inc) {
		groups = append(groups, []func(*plan){reserve(1), reserve(10)})
	}
	if len(inc.Workloads) > 1 {
		groups = append(groups, []func(*plan){func(p *plan) { p.brief = true }})
	}
	return first, groups
}

// slows reports whether a provider ever slows down with its load.
func slows(inc *incident.Incident) bool {
	for i := range inc.Providers {
		p := &inc.Providers[i]
		slow := p.Law.Concurrency >= 0 && p.Law.Slowdown.Factor > incident.PPM
		for k := range p.Changes {
			slow = slow || p.Changes[k].To.Concurrency >= 0 && p.Changes[k].To.Slowdown.Factor > incident.PPM
		}
		if slow {
			return true
		}
	}
	return false
}

// hurries reports whether any request is of use for a time only.
func hurries(inc *incident.Incident) bool {
	for i := range inc.Workloads {
		if l := &inc.Workloads[i]; l.Deadline > 0 || l.Client.Timeout > 0 {
			return true
		}
	}
	return false
}

// bestOracle lives an incident through under several plans; the run that
// completes most counts.
func bestOracle(c Config) (*Result, error) {
	best, groups := plans(c.Incident)
	c.plan = best
	most, err := live(c)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		from := best
		for _, change := range group {
			if most.Completed >= most.Requests {
				return most, nil // all there is
			}
			c.plan = from
			change(&c.plan)
			r, err := live(c)
			if err != nil {
				return nil, err
			}
			if r.Completed > most.Completed {
				best, most = c.plan, r
			}
		}
	}
	return most, nil
}

// line is a workload's requests that wait, and where they may go.
type line struct {
	waiting
	channels []string
	services []int32
	// output and input are the sums over the n requests seen.
	input, output, n int64
}

// oracleLook is how often an oracle that waits looks again.
const oracleLook = int64(20 * time.Millisecond)

func newOracle(w *world) *oracle {
	o := &oracle{w: w, plan: w.cfg.plan}
	for i := range w.inc.Workloads {
		var l line
		for k := range w.inc.Routes {
			if w.inc.Routes[k].Name != w.inc.Workloads[i].Route {
				continue
			}
			for _, t := range w.inc.Routes[k].Tiers {
				for _, ch := range t.Channels {
					l.channels = append(l.channels, ch.Channel)
					l.services = append(l.services, w.service(ch.Channel))
				}
			}
		}
		o.lines = append(o.lines, l)
	}
	return o
}

// oracleDoor is an agent's way to the oracle.
type oracleDoor struct{ o *oracle }

func (d *oracleDoor) ask(i uint32) {
	r := d.o.w.requests.at(i)
	l := &d.o.lines[r.Workload]
	l.input, l.output, l.n = l.input+r.Input, l.output+r.Output, l.n+1
	r.until = r.Deadline
	if t := d.o.w.inc.Workloads[r.Workload].Client.Timeout; t > 0 {
		r.until = soonest(r.until, d.o.w.now+int64(t))
	}
	d.o.push(i)
	d.o.dispatch()
}

// soonest is the earlier of two instants of which 0 is never.
func soonest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
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

func (o *oracle) push(i uint32) {
	r := o.w.requests.at(i)
	o.lines[r.Workload].add(spot{until: orNever(r.until), id: r.ID, i: i})
}

func orNever(at int64) int64 {
	if at == 0 {
		return never
	}
	return at
}

// remove takes a request out of its line, if it is there.
func (o *oracle) remove(i uint32) {
	r := o.w.requests.at(i)
	o.lines[r.Workload].remove(spot{until: orNever(r.until), id: r.ID, i: i})
}

// dispatch sends what has room.
func (o *oracle) dispatch() {
	for o.start() {
	}
	for k := range o.lines {
		if o.lines[k].length() > 0 && !o.pump {
			o.pump = true
			o.w.at(o.w.now+oracleLook, onOracle, 0, 0)
		}
	}
}

// start sends one request, if one has room.
func (o *oracle) start() bool {
	var best spot
	var to string
	var least int64
	for k := range o.lines {
		s, channel, takes := o.pick(k)
		if channel == "" {
			continue
		}
		if to == "" || o.plan.brief && takes < least || (!o.plan.brief || takes == least) && s.before(best) {
			best, to, least = s, channel, takes
		}
	}
	if to == "" {
		return false
	}
	o.remove(best.i)
	o.w.send(best.i, to, 0)
	return true
}

// pick returns who of a line would start now, and where: the first that has
// time enough, else the last that has any; and how long it would take.
func (o *oracle) pick(k int) (s spot, channel string, takes int64) {
	l := &o.lines[k]
	if l.length() == 0 {
		return spot{}, "", 0
	}
	mean := provider.Call{Input: l.input / l.n, Output: l.output / l.n}
	for c, name := range l.channels {
		truth := o.w.providers[l.services[c]].truth
		if truth.Free(o.plan.share) <= 0 || truth.Wait(o.w.now, provider.Call{Output: 1}) > 0 {
			continue
		}
		takes = truth.Ends(o.w.now, mean) - o.w.now
		easy := l.from(o.w.now + takes*o.plan.reserve)
		for at := easy; at < l.length(); at++ {
			if s = l.at(at); o.fits(truth, s) {
				return s, name, takes
			}
		}
		for at := easy - 1; at >= 0 && l.at(at).until >= o.w.now+takes; at-- {
			if s = l.at(at); o.fits(truth, s) {
				return s, name, takes
			}
		}
	}
	return spot{}, "", 0
}

// fits reports whether the limits over time let a request through now.
func (o *oracle) fits(truth *provider.Truth, s spot) bool {
	r := o.w.requests.at(s.i)
	return truth.Wait(o.w.now, provider.Call{
		Request: r.ID, Try: r.sent + 1, Input: r.Input, Output: r.Output, MaxTokens: r.MaxTokens,
	}) == 0
}
