package calibrate

import (
	"fmt"
	"slices"
	"time"

	"weir/model"
)

// Provider is what a log says of one channel's provider.
type Provider struct {
	Channel string `json:"channel"`
	Calls   int    `json:"calls"`
	// Concurrency is how many calls it has in hand at most, running or queued,
	// beside those of others; a stretch of time each.
	Concurrency []Span `json:"concurrency"`
	// Capacity is nil where refusals bound the concurrency, and where times do
	// not tell of any.
	Capacity *Capacity `json:"capacity,omitempty"`
	Requests Rate      `json:"requests_per_minute"`
	Tokens   Rate      `json:"tokens_per_minute"`
	Latency  Latency   `json:"latency"`
	// Busy are refusals for want of room, Limited those for a rate.
	Busy    Refusal `json:"busy"`
	Limited Refusal `json:"limited"`
	// NoiseRate is the share of accepted calls that failed with a server error
	// that names no cause; NoiseStatus is its status.
	NoiseRate   float64 `json:"noise_rate"`
	NoiseStatus int     `json:"noise_status"`
	// Notes say what the log cannot tell.
	Notes []string `json:"notes"`
}

// cause is what a refusal is for.
type cause uint8

const (
	causeNone cause = iota
	causeRoom
	causeRequests
	causeTokens
	causeUnnamed
	causeOther
)

// causeOf is what a call was refused for, by its own word.
func causeOf(c *call) cause {
	switch model.Class(c.class) {
	case model.ClassOverloaded:
		if c.vague() {
			return causeNone
		}
		return causeRoom
	case model.ClassRateLimited:
		switch model.Dimension(c.dim) {
		case model.DimConcurrency:
			return causeRoom
		case model.DimRequests:
			return causeRequests
		case model.DimTokens:
			return causeTokens
		case model.DimDay, model.DimCredits:
			return causeOther
		case model.DimNone:
		}
		return causeUnnamed
	case model.ClassQuotaExhausted, model.ClassAuth:
		return causeOther
	case model.ClassOK, model.ClassInvalid, model.ClassTransport, model.ClassCanceled:
	}
	return causeNone
}

// provider estimates one channel. begin and end bound the whole log.
func (l *Log) provider(channel int, begin, end model.Nanos) Provider {
	calls := l.of(channel)
	p := Provider{Channel: l.channels.list[channel], Calls: len(calls), Notes: []string{}}
	load := loads(calls)
	meant, known := l.meaning(calls, load, &p)
	is := func(want cause) func(*call) bool { return func(c *call) bool { return meant(c) == want } }
	p.Concurrency = spans(inFlight(calls, load, is(causeRoom)), begin, end)
	for as, of := range map[cause]*Rate{causeRequests: &p.Requests, causeTokens: &p.Tokens} {
		if r, ok := known[as]; ok {
			*of = r
		} else {
			*of, _ = rate(calls, as == causeTokens, is(as))
		}
	}
	if slices.ContainsFunc(p.Concurrency, func(s Span) bool { return s.Open }) {
		p.Capacity = capacity(calls, begin, end)
	}
	p.Latency = latency(calls, p.relative(calls, load, begin))
	if p.Latency.slow(p.cap()); p.Capacity != nil {
		p.Capacity.meet(p.Concurrency)
		p.Capacity.law(&p.Latency)
	}
	p.Busy = l.refusalOf(calls, is(causeRoom))
	p.Limited = l.refusalOf(calls, func(c *call) bool { m := meant(c); return m == causeRequests || m == causeTokens })
	p.noise(calls)
	p.notes(calls)
	return p
}

// meaning attributes refusals that name no limit to the one whose use tells
// them from accepted calls best. What was fitted for that is returned where it
// rests on all the refusals there are.
func (l *Log) meaning(calls []call, load []load, p *Provider) (func(*call) cause, map[cause]Rate) {
	counts := map[cause]int{}
	for i := range calls {
		counts[causeOf(&calls[i])]++
	}
	unnamed, known := counts[causeUnnamed], map[cause]Rate{}
	if unnamed == 0 {
		return causeOf, known
	}
	is := func(c *call) bool { return causeOf(c) == causeUnnamed }
	var room []sight
	for _, s := range inFlight(calls, load, is) {
		room = append(room, s.sight)
	}
	best, as := causeRoom, "in flight"
	_, most := threshold(room, 1, 1)
	var fitted Rate
	for of, name := range map[cause]string{causeRequests: "requests a minute", causeTokens: "tokens a minute"} {
		if r, ok := rate(calls, of == causeTokens, is); ok && (r.loglik > most || r.loglik == most && of < best) {
			most, best, as, fitted = r.loglik, of, name, r
		}
	}
	if best != causeRoom && counts[best] == 0 {
		known[best] = fitted
	}
	p.Notes = append(p.Notes, fmt.Sprintf("%d refusals name no limit; what is %s tells them from accepted calls best", unnamed, as))
	return func(c *call) cause {
		if m := causeOf(c); m != causeUnnamed {
			return m
		}
		return best
	}, known
}

// relative is the load of each call as it would be at the largest cap, or at the
// first capacity: half of a cap is half of it whichever stood at that time.
func (p *Provider) relative(calls []call, load []load, begin model.Nanos) []float64 {
	out := make([]float64, len(load))
	most, at := p.cap(), 0
	for i := range load {
		if out[i] = load[i].mean(); p.Capacity != nil {
			out[i] *= p.Capacity.Bends[0].Best / p.Capacity.at(calls[i].sent-begin)
			continue
		}
		for at+1 < len(p.Concurrency) && calls[i].sent-begin >= p.Concurrency[at+1].From {
			at++
		}
		if most > 0 && len(p.Concurrency) > 0 {
			out[i] *= most / float64(max(p.slots(&p.Concurrency[at]), 1))
		}
	}
	return out
}

// cap is the largest concurrency that was bounded from above, 0 for none.
func (p *Provider) cap() float64 {
	most := 0.0
	for _, s := range p.Concurrency {
		if !s.Open {
			most = max(most, s.Best)
		}
	}
	return most
}

func (p *Provider) noise(calls []call) {
	var vague, took int
	for i := range calls {
		c := &calls[i]
		if c.vague() {
			vague++
			p.NoiseStatus = int(c.status)
		} else if c.accepted() {
			took++
		}
	}
	p.NoiseRate = float64(vague) / float64(max(vague+took, 1))
}

// notes says what the log cannot tell.
func (p *Provider) notes(calls []call) {
	say := func(format string, args ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, args...)) }
	for _, s := range p.Concurrency {
		if s.Open {
			say("concurrency from %s to %s is seen only from below: %.0f or more", s.From.Duration().Round(time.Second), s.To.Duration().Round(time.Second), s.Low)
		}
	}
	for _, r := range []*Rate{&p.Requests, &p.Tokens} {
		switch {
		case r.Accepted+r.Refused == 0:
		case r.Refused == 0:
			say("no refusal for %s a minute: the limit is %.0f or more in any minute, or there is none", r.Unit, r.Low)
		case len(r.Also) > 0:
			say("%s a minute: a window of kind %s explains the log nearly as well as %s", r.Unit, r.Also, r.Window)
		}
	}
	if p.cap() > 0 {
		say("slots, a queue before them and other tenants' part are not told apart: only how many calls fit in all")
	}
	if c := p.Capacity; c != nil {
		say("by what calls took, %.0f in flight get the most answers a second at first and %.0f at the end; how many more are let through is known from below only", c.Bends[0].Best, c.Bends[len(c.Bends)-1].Best)
	}
	if n := len(p.Latency.Load); n > 0 && p.cap() == 0 && p.Capacity == nil && p.Latency.Load[n-1].Ratio > 1.15 {
		say("calls took %.2f times as long with %.0f in flight, but no cap is known, so the world has no slowdown", p.Latency.Load[n-1].Ratio, p.Latency.Load[n-1].InFlight)
	}
	var other, broken int
	for i := range calls {
		if causeOf(&calls[i]) == causeOther {
			other++
		}
		if model.Class(calls[i].class) == model.ClassTransport {
			broken++
		}
	}
	if other > 0 {
		say("%d refusals for a quota, credits or a credential are left out: when those end is not in a log", other)
	}
	if broken > 0 {
		say("%d calls broke or timed out; how connections fail is not modelled", broken)
	}
}
