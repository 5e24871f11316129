package calibrate

import (
	"math"

	"weir/model"
	"weir/sim/world"
)

// Phase compares the stretches of a log that went alike: calm ones, those in
// which more was wanted than the providers took, and those after them in which
// what had waited was caught up with.
type Phase struct {
	// Name is normal, saturated or recovery.
	Name string `json:"name"`
	// Seconds is how long the log went so.
	Seconds int      `json:"seconds"`
	Figures []Figure `json:"figures"`
}

// state is how a stretch of a log went.
type state uint8

const (
	normal state = iota
	saturated
	recovery
	numStates
)

// String is the phase's name.
func (s state) String() string { return [...]string{"normal", "saturated", "recovery"}[s] }

// What tells the phases.
const (
	stretch = 10 * model.Second
	// full is from which share of refusals on, in percent, a stretch is
	// saturated; a limit that is only looked for is refused less.
	full = 5
	// leastCalls and leastStretches are what a phase must hold to be compared.
	leastCalls, leastStretches = 50, 2
)

// passage is what a stretch came to. Waiting, at its end, is how many requests
// wanted an answer and were not being worked on.
type passage struct {
	completed, attempts, refused, running, waiting float64
	state                                          state
}

// passages are the stretches of a log, in order.
func (l *Log) passages(requests []request, begin model.Nanos) []passage {
	l.sort()
	end := begin
	for i := range l.calls {
		end = max(end, l.calls[i].end())
	}
	place := func(at model.Nanos) int { return int(max(at-begin, 0) / stretch) }
	all := make([]passage, place(end)+1)
	open := func(from, to model.Nanos, of func(*passage) *float64) {
		*of(&all[place(from)])++
		*of(&all[place(to)])--
	}
	for i := range requests {
		r := &requests[i]
		if r.answered {
			all[place(r.done)].completed++
		}
		open(r.wanted, r.ended, func(p *passage) *float64 { return &p.waiting })
	}
	for i := range l.calls {
		c := &l.calls[i]
		all[place(c.sent)].attempts++
		if model.Class(c.class).Refused() {
			all[place(c.sent)].refused++
		} else {
			open(c.sent, c.end(), func(p *passage) *float64 { return &p.running })
		}
	}
	for i := 1; i < len(all); i++ {
		all[i].running += all[i-1].running
		all[i].waiting += all[i-1].waiting
	}
	for i := range all {
		all[i].waiting -= all[i].running
	}
	nameStates(all)
	return all
}

// refusing reports whether a stretch is saturated by what it was refused.
func (p *passage) refusing() bool { return p.refused > 0 && 100*p.refused >= full*p.attempts }

// behind reports whether more was wanted than was worked on.
func (p *passage) behind() bool { return p.refusing() || p.waiting > p.running/4+1 }

// nameStates says how each stretch went: while some are behind they are saturated up
// to the last that was refused or has nearly the longest queue, and recovery
// from then on.
func nameStates(all []passage) {
	for from := 0; from < len(all); from++ {
		if !all[from].behind() {
			continue
		}
		to, longest := from, 0.0
		for ; to < len(all) && all[to].behind(); to++ {
			longest = max(longest, all[to].waiting)
		}
		last := from
		for i := from; i < to; i++ {
			if all[i].refusing() || all[i].waiting > 0.8*longest {
				last = i
			}
		}
		for i := from; i < to; i++ {
			all[i].state = saturated
			if i > last {
				all[i].state = recovery
			}
		}
		from = to
	}
}

// sums adds passages up by phase; waiting counts stretches then.
func sums(all []passage) (by [numStates]passage) {
	for i := range all {
		s := &by[all[i].state]
		s.completed += all[i].completed
		s.attempts += all[i].attempts
		s.refused += all[i].refused
		s.running += all[i].running
		s.waiting++
	}
	return by
}

// simulatedPassages puts a run's seconds into the stretches of the log, which
// keep their states.
func simulatedPassages(r *world.Result, was []passage) []passage {
	all := make([]passage, len(was))
	for i := range all {
		all[i].state = was[i].state
	}
	const perStretch = int(stretch / model.Second)
	for i := range r.Seconds {
		s := &r.Seconds[i]
		p := &all[min(i/perStretch, len(all)-1)]
		p.completed += float64(s.Completed)
		p.attempts += float64(s.Sent)
		for _, n := range s.Refused {
			p.refused += float64(n)
		}
		p.running = float64(s.InFlight) // at its end, as of the log
	}
	return all
}

// phases compares what was recorded with runs, phase by phase. A run may be off
// by the tolerance and by what the runs differ among each other.
func (c *Check) phases(was []passage, runs [][]passage) {
	recorded := sums(was)
	for s := range numStates {
		a := &recorded[s]
		if a.waiting < leastStretches || a.attempts < leastCalls {
			continue
		}
		p := Phase{Name: s.String(), Seconds: int(a.waiting) * int(stretch/model.Second)}
		see := func(name string, of func(*passage) float64, tolerance float64) {
			least, most, mean := math.Inf(1), math.Inf(-1), 0.0
			for _, run := range runs {
				b := sums(run)
				v := of(&b[s])
				least, most = min(least, v), max(most, v)
				mean += v / float64(len(runs))
			}
			p.Figures = append(p.Figures, c.figure(p.Name+" ", name, of(a), mean, tolerance+most-least))
		}
		share := func(p *passage) float64 { return p.refused / max(p.attempts, 1) }
		flight := func(p *passage) float64 { return p.running / p.waiting }
		see("completed", func(p *passage) float64 { return p.completed }, 0.15*a.completed+0.02*total(&recorded)+2)
		see("refused_share", share, max(0.05, 0.5*share(a)))
		see("in_flight", flight, 0.25*flight(a)+2)
		c.Phases = append(c.Phases, p)
	}
}

func total(by *[numStates]passage) (completed float64) {
	for i := range by {
		completed += by[i].completed
	}
	return completed
}
