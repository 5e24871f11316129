package provider

import (
	"weir/sim/incident"
)

// Books count what a provider did since instant 0. Each offered call is in
// exactly one of Refused, Served, Failed (by noise), Abandoned, Running and
// Waiting; of the abandoned, WastedCalls ran to their end for nobody.
type Books struct {
	Offered  int64 `json:"offered"`
	Requests int64 `json:"requests"` // first tries
	Accepted int64 `json:"accepted"`

	Served       int64 `json:"served"`
	ServedInput  int64 `json:"served_input_tokens"`
	ServedOutput int64 `json:"served_output_tokens"`
	Failed       int64 `json:"failed"`
	Abandoned    int64 `json:"abandoned"`

	Refused Refused `json:"refused"`

	// WastedTokens are the tokens of work that reached nobody.
	WastedCalls  int64 `json:"wasted_calls"`
	WastedTokens int64 `json:"wasted_tokens"`

	// Running and Waiting are clients' calls at present; Ghosts are the
	// abandoned ones that still run or wait.
	Running int64 `json:"running"`
	Waiting int64 `json:"waiting"`
	Ghosts  int64 `json:"ghosts"`
	// Refusing are the slots that refusals on their way hold at present.
	Refusing int64 `json:"refusing"`

	// MaxRunning and MaxInFlight (with the queue) are the most at one time.
	// MaxOvershoot is the most in flight over the true cap, in ppm.
	MaxRunning   int64 `json:"max_running"`
	MaxInFlight  int64 `json:"max_in_flight"`
	MaxOvershoot int64 `json:"max_overshoot_ppm"`

	// CouldHaveServed is what an omniscient scheduler has served of the same
	// demand; see ideal. 0 without Config.Ideal.
	CouldHaveServed  int64 `json:"could_have_served"`
	CouldHaveExpired int64 `json:"could_have_expired"` // past their deadline before their turn
	CouldHaveWaiting int64 `json:"could_have_waiting"` // demand it still holds
}

// Refused counts refused calls by their true reason.
type Refused struct {
	Concurrency int64 `json:"concurrency"`
	Requests    int64 `json:"requests"`
	Tokens      int64 `json:"tokens"`
	Day         int64 `json:"day"`
	Ban         int64 `json:"ban"`
	TooLarge    int64 `json:"too_large"`
}

// Total is all refused calls.
func (r Refused) Total() int64 {
	return r.Concurrency + r.Requests + r.Tokens + r.Day + r.Ban + r.TooLarge
}

func (r *Refused) count(reason incident.Reason) {
	switch reason {
	case incident.ReasonConcurrency:
		r.Concurrency++
	case incident.ReasonRequests:
		r.Requests++
	case incident.ReasonTokens:
		r.Tokens++
	case incident.ReasonDay:
		r.Day++
	case incident.ReasonBan:
		r.Ban++
	case incident.ReasonTooLarge:
		r.TooLarge++
	}
}

// Wasted is every attempt that brought its client nothing.
func (b *Books) Wasted() int64 { return b.Refused.Total() + b.Failed + b.Abandoned }

// peak records a new height of load.
func (b *Books) peak(running, waiting, limit int64) {
	b.MaxRunning = max(b.MaxRunning, running)
	b.MaxInFlight = max(b.MaxInFlight, running+waiting)
	if limit > 0 {
		b.MaxOvershoot = max(b.MaxOvershoot, (running+waiting)*incident.PPM/limit)
	}
}

// end books a call that ran to its end.
func (b *Books) end(j *job, kind EventKind) {
	switch {
	case j.left:
		b.WastedCalls++
		b.waste(j, j.total)
	case kind == Failed:
		b.Failed++
	default:
		b.Served++
		b.ServedInput += j.call.Input
		b.ServedOutput += j.call.Output
	}
}

// waste books the tokens of work done for nobody.
func (b *Books) waste(j *job, done int64) {
	tokens := j.call.Input + j.call.Output
	if done < j.total {
		tokens = incident.Scale(tokens, max(0, done), j.total)
	}
	b.WastedTokens += tokens
}

// Truth is what no client can know. Keep it out of reach of whatever is being
// judged by it.
type Truth struct{ p *Provider }

// Books returns the books as of the latest instant the provider has seen.
func (t *Truth) Books() Books {
	b := t.p.books
	for i := range t.p.engine.jobs {
		switch j := &t.p.engine.jobs[i]; {
		case j.state != jobFree && j.left:
			b.Ghosts++
		case j.state == jobRunning:
			b.Running++
		case j.state == jobQueued:
			b.Waiting++
		}
	}
	b.Refusing = t.p.engine.held
	if d := t.p.ideal; d != nil {
		b.CouldHaveServed, b.CouldHaveExpired = d.served, d.expired
		b.CouldHaveWaiting = int64(d.backlog.length())
	}
	return b
}

// Law returns the law of the latest instant the provider has seen.
func (t *Truth) Law() incident.Law { return t.p.law }

// Shape returns the shape of refusals and headers at that instant.
func (t *Truth) Shape() incident.Shape { return t.p.law.Refusal.Shape }

// LawAt returns the law at any instant, past or to come.
func (t *Truth) LawAt(now int64) incident.Law { return t.p.schedule.at(now) }

// InFlight returns how many calls run and how many wait at present, abandoned
// ones included.
func (t *Truth) InFlight() (running, waiting int64) { return t.p.engine.running, t.p.queue.length }

// BestInFlight returns how many calls should run at present to get the most
// done, or Never without a cap.
func (t *Truth) BestInFlight() int64 { return bestInFlight(&t.p.law) }

// Slowdown returns by how much the present load stretches work, in ppm.
func (t *Truth) Slowdown() int64 { return t.p.engine.pace.factor }

// Wait returns how long until the limits per minute and per day would let a
// call through, 0 for now, Never for not at all.
func (t *Truth) Wait(now int64, c Call) int64 {
	now = t.p.reach(now)
	c.normalise()
	wait, _ := t.p.limits.wait(now, t.p.limits.cost(&c))
	return max(wait, t.p.ban.blocked(now))
}

// Work returns a call's nominal service time on an idle provider.
func (t *Truth) Work(c Call) int64 {
	c.normalise()
	_, total := t.p.work(&c)
	return total
}

// Demand tells the ideal scheduler what clients want, whether or not they get
// to offer it. From the first use on, offered calls no longer count as demand.
// Without Config.Ideal it does nothing.
func (t *Truth) Demand(now int64, d Demand) {
	if t.p.ideal == nil {
		return
	}
	now = t.p.reach(now)
	t.p.ideal.told = true
	t.p.ideal.want(now, d)
}
