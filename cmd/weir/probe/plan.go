package probe

import (
	"fmt"
	"math"
	"slices"
	"time"

	"weir/model"
)

// Bounds say what a probe may cost at most.
type Bounds struct {
	// Requests and Tokens count calls and tokens, at least 1; what is in
	// flight when tokens run out may exceed them by what answers are longer
	// than was asked.
	Requests, Tokens int64
	// Refusals is how many refused calls it takes, at least 1.
	Refusals int64
	// Time is how long calls are started, above 0.
	Time time.Duration
	// InFlight is the most calls at once, at least 1.
	InFlight int64
}

// Spent is what a probe has cost so far.
type Spent struct {
	Requests int64         `json:"requests"`
	Tokens   int64         `json:"tokens"`
	Refusals int64         `json:"refusals"`
	Time     time.Duration `json:"time_ns"`
}

// never is when nothing is due but the end of a call.
const never = time.Duration(math.MaxInt64)

// Move is what a plan wants next. With neither Send nor Done it waits until
// Wake, or until a call ends.
type Move struct {
	// Send tells to start a call of size Ask and to report its end as Call.
	Send bool
	Ask  Ask
	Call int
	Wake time.Duration
	Done bool
}

// stage looks for one limit.
type stage interface {
	// next says what is due; Done ends the stage once nothing is in flight.
	next(p *Plan, now time.Duration) Move
	// sent and ended hear of the stage's calls.
	sent(p *Plan, c *call)
	ended(p *Plan, now time.Duration, c *call)
	// finding is what is known, at any time; steps what was done.
	finding(p *Plan) Finding
	steps() []Step
}

// Plan is the course of a probe. It is used by one goroutine.
type Plan struct {
	bounds  Bounds
	calls   []*call
	live    int64
	spent   Spent
	stages  []stage
	current int
	// rest is until when nothing is sent, so that the next limit is tried
	// with the last one whole again.
	rest time.Duration
	// stopped is why no more is sent, empty while more is.
	stopped string
	// fault is why nothing can be found at all.
	fault string
	// told are limits that headers tell, by dimension; long tells of those
	// that count over more than minutes.
	told map[model.Dimension]int64
	long bool
	// crowd is how many calls at once are known to pass.
	crowd int64
	// base is how long a call takes that is alone.
	base time.Duration
	// sleep is how long nothing is sent after the present stage.
	sleep time.Duration
}

// Dimensions are the limits that are looked for, in this order.
func Dimensions() []string { return []string{"concurrency", "requests", "tokens"} }

// NewPlan starts a plan that looks for the named limits, see Dimensions.
func NewPlan(b Bounds, dimensions []string) *Plan {
	p := &Plan{bounds: b, told: map[model.Dimension]int64{}, crowd: 1, stages: []stage{&hello{}}}
	for _, s := range []struct {
		name string
		stage
	}{
		{"concurrency", &crowd{level: 1}},
		{"requests", newPace(model.DimRequests)},
		{"tokens", newPace(model.DimTokens)},
	} {
		if slices.Contains(dimensions, s.name) {
			p.stages = append(p.stages, s.stage)
		}
	}
	return p
}

// Next says what is due at now, which never goes back.
func (p *Plan) Next(now time.Duration) Move {
	for {
		p.bound(now)
		if p.stopped != "" || p.current == len(p.stages) {
			if p.live > 0 {
				return Move{Wake: never}
			}
			return Move{Done: true}
		}
		if now < p.rest {
			return Move{Wake: min(p.rest, p.bounds.Time)}
		}
		m := p.stages[p.current].next(p, now)
		switch {
		case m.Done && p.live > 0:
			return Move{Wake: never}
		case m.Done:
			p.current++
			p.rest, p.sleep = now+p.sleep, 0
			continue
		case m.Send && p.spent.Tokens+m.Ask.tokens() > p.bounds.Tokens:
			p.stopped = fmt.Sprintf("the bound of %d tokens is reached", p.bounds.Tokens)
			continue
		case m.Send:
			return p.send(now, m)
		}
		m.Wake = min(m.Wake, p.bounds.Time)
		return m
	}
}

// bound stops the plan at its bounds.
func (p *Plan) bound(now time.Duration) {
	p.spent.Time = now
	switch b := p.bounds; {
	case p.stopped != "" || p.current == len(p.stages):
	case p.spent.Requests >= b.Requests:
		p.stopped = fmt.Sprintf("the bound of %d requests is reached", b.Requests)
	case p.spent.Tokens >= b.Tokens:
		p.stopped = fmt.Sprintf("the bound of %d tokens is reached", b.Tokens)
	case p.spent.Refusals >= b.Refusals:
		p.stopped = fmt.Sprintf("the bound of %d refusals is reached", b.Refusals)
	case now >= b.Time:
		p.stopped = fmt.Sprintf("the bound of %s is reached", b.Time)
	}
}

func (p *Plan) send(now time.Duration, m Move) Move {
	c := &call{ask: m.Ask, sent: now, beside: p.live}
	m.Call = len(p.calls)
	p.calls = append(p.calls, c)
	p.live++
	p.spent.Requests++
	p.spent.Tokens += c.tokens()
	p.stages[p.current].sent(p, c)
	return m
}

// Ended tells how a call ended at now.
func (p *Plan) Ended(now time.Duration, id int, r Result) {
	c := p.calls[id]
	if c.over {
		panic("probe: BUG: a call ended twice")
	}
	before := c.tokens()
	c.over, c.ended, c.result = true, now, r
	p.live--
	p.spent.Tokens += c.tokens() - before
	if r.Class.Refused() {
		p.spent.Refusals++
	}
	p.hear(r.Hints)
	switch r.Class {
	case model.ClassAuth:
		p.end("the provider refuses the key", r.Code)
	case model.ClassQuotaExhausted:
		p.end("the account's quota or balance is used up", r.Code)
	case model.ClassInvalid:
		p.end("the provider calls the request invalid", r.Code)
	case model.ClassOK, model.ClassRateLimited, model.ClassOverloaded, model.ClassTransport, model.ClassCanceled:
	}
	p.stages[p.current].ended(p, now, c)
}

// end stops the plan since no call can succeed any more.
func (p *Plan) end(why, code string) {
	if code != "" {
		why += fmt.Sprintf(" (%.64q)", code)
	}
	if p.stopped == "" {
		p.stopped = why
	}
	if p.fault == "" && !p.any() {
		p.fault = why
	}
}

// any reports whether a call ever succeeded.
func (p *Plan) any() bool {
	for _, c := range p.calls {
		if c.ok() {
			return true
		}
	}
	return false
}

// hear keeps the limits that headers tell; of several of a kind the least.
func (p *Plan) hear(hints []model.LimitHint) {
	for _, h := range hints {
		if h.Limit <= 0 || h.Dimension != model.DimRequests && h.Dimension != model.DimTokens {
			continue
		}
		if period(h) > 5*time.Minute {
			p.long = true
			continue
		}
		if old, ok := p.told[h.Dimension]; !ok || h.Limit < old {
			p.told[h.Dimension] = h.Limit
		}
	}
}

// period is the time in which a limit becomes whole from nothing, as far as
// the hint tells; 0 when it does not.
func period(h model.LimitHint) time.Duration {
	used := h.Limit - h.Remaining
	if h.Reset <= 0 || h.Remaining < 0 || used <= 0 {
		return 0
	}
	return time.Duration(min(float64(h.Reset)*float64(h.Limit)/float64(used), float64(24*time.Hour)))
}

// accepted sums what was let through of calls sent after from and not after to.
func (p *Plan) accepted(d model.Dimension, from, to time.Duration) (n int64) {
	for _, c := range p.calls {
		if c.ok() && c.sent > from && c.sent <= to {
			if d == model.DimTokens {
				n += c.tokens()
			} else {
				n++
			}
		}
	}
	return n
}

// Fault says why nothing can be found; empty when something can.
func (p *Plan) Fault() string { return p.fault }

// Stopped says why the plan ended early; empty when it did not.
func (p *Plan) Stopped() string { return p.stopped }

// Spent returns what was spent.
func (p *Plan) Spent() Spent { return p.spent }

// Findings returns one for each limit looked for, in the order of Dimensions.
func (p *Plan) Findings() []Finding {
	findings := []Finding{}
	for i, s := range p.stages[1:] {
		f := s.finding(p)
		if f.High == nil && p.stopped != "" && i+1 >= p.current {
			f.Note = p.stopped
			if i+1 > p.current {
				f.Note = "not tried: " + p.stopped
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// Steps returns what was done, in order.
func (p *Plan) Steps() []Step {
	steps := []Step{}
	for _, s := range p.stages {
		steps = append(steps, s.steps()...)
	}
	return steps
}

// hello makes one call, to see that key and model are right.
type hello struct{ asked bool }

func (h *hello) next(*Plan, time.Duration) Move {
	if h.asked {
		return Move{Done: true}
	}
	return Move{Send: true, Ask: callAtOnce}
}

func (h *hello) sent(*Plan, *call) { h.asked = true }

func (h *hello) ended(p *Plan, _ time.Duration, c *call) {
	p.base = max(c.took(), time.Millisecond)
	switch r := &c.result; {
	case c.ok():
	case r.Broken != "":
		p.end("the first call got no answer: "+r.Broken, "")
	default:
		p.end("the first call was answered with "+r.Class.String(), r.Code)
	}
}

func (h *hello) finding(*Plan) Finding { return Finding{} }
func (h *hello) steps() []Step         { return nil }
