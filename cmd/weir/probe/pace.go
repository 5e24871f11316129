package probe

import (
	"fmt"
	"time"

	"weir/model"
)

// The course of a pace.
const (
	rampFor   = 10 * time.Second // time of a rising step
	pressFor  = 60 * time.Second // least time of pressing: what limits a minute count over
	pressMost = 135 * time.Second
	// restAfter lets a limit a minute become whole again before the next is
	// looked for.
	restAfter = 65 * time.Second
	waitFirst = 2 * time.Second // after a refusal without a hint; doubles while nothing passes
	waitMost  = 16 * time.Second
	heldMost  = 5                // steps at the highest rate that the bounds allow
	hintMost  = 65 * time.Second // longer hints than a limit a minute can mean
)

// The rates at which pacing starts, and the sizes of its calls.
const (
	firstRequests = 30    // a minute
	firstTokens   = 8_000 // a minute
	least         = 400   // tokens of a call that is to weigh something
	largest       = 16_000
)

// small is a call that weighs as little as can be.
var small = Ask{Input: 12, Output: 1}

// pace looks for a limit per minute. First the rate doubles every ten seconds
// until a refusal. What passed until then may be a bucket that was full, so
// the limit is pressed for a minute: evenly at half the refused rate, a fifth
// slower after each refusal that follows a success, a quarter faster after ten
// seconds without one.
//
// Low is the most that was let through in the sixty seconds after a refusal:
// an empty bucket then gives what it is refilled with, a used-up window of a
// minute becomes whole exactly once, and a sliding one lets through its limit
// in any minute. So it is never above the limit, whatever kind it is.
type pace struct {
	dim   model.Dimension
	name  string
	rate  int64 // units a minute
	calls []*call
	size  int64 // tokens of the latest call
	due   time.Duration
	until time.Duration // end of this step
	begun bool
	held  int // steps at the same rate since it could not rise

	pressing  bool
	met       int64           // rate of the step that was refused
	pressed   time.Duration   // since when
	refusals  []time.Duration // when refused calls were sent
	wait      time.Duration   // after the next refusal
	hold      time.Duration   // nothing is sent before
	since     time.Duration   // when the last hold began
	passed    bool            // something passed since the last refusal
	again     bool            // refused again near the minute's end or later
	elsewhere int             // refusals that are another limit's, in a row

	done bool
	note string
	past []Step
}

func newPace(d model.Dimension) *pace {
	s := &pace{dim: d, name: d.String(), rate: firstRequests, wait: waitFirst}
	if d == model.DimTokens {
		s.rate = firstTokens
	}
	return s
}

func (s *pace) next(p *Plan, now time.Duration) Move {
	if !s.begun && !s.begin(p, now) {
		return Move{Done: true}
	}
	if now >= s.until {
		s.turn(p, now)
	}
	switch {
	case s.done:
		return Move{Done: true}
	case now < s.hold:
		return Move{Wake: s.hold}
	case p.live >= s.room(p):
		return Move{Wake: s.until}
	case now < s.due:
		return Move{Wake: min(s.due, s.until)}
	}
	return Move{Send: true, Ask: s.ask(p)}
}

// begin looks whether there is something to look for.
func (s *pace) begin(p *Plan, now time.Duration) bool {
	s.begun = true
	if _, ok := p.told[s.dim]; ok {
		s.done = true
		return false
	}
	s.until = now + rampFor
	return true
}

// room is how many calls may be in flight: three quarters of what passes.
func (s *pace) room(p *Plan) int64 { return max(1, p.crowd*keep/100) }

// ask sizes a call. One of a pace of tokens is so large that no limit of
// requests comes near, as far as one is known.
func (s *pace) ask(p *Plan) Ask {
	if s.dim == model.DimRequests {
		return small
	}
	perMinute := int64(firstRequests)
	for _, o := range p.stages {
		if r, ok := o.(*pace); ok && r.dim == model.DimRequests && r != s {
			perMinute = max(r.finding(p).Low/2, 10)
		}
	}
	if told, ok := p.told[model.DimRequests]; ok {
		perMinute = max(told/2, 1)
	}
	return Ask{Input: min(max(s.rate/perMinute, least), largest), Output: 1}
}

func (s *pace) sent(_ *Plan, c *call) {
	s.calls, s.size = append(s.calls, c), c.ask.tokens()
	units := int64(1)
	if s.dim == model.DimTokens {
		units = s.size
	}
	gap := time.Duration(float64(time.Minute) * float64(units) / float64(s.rate))
	s.due = max(s.due, c.sent-gap) + gap
}

// turn ends a step and sets the next rate.
func (s *pace) turn(p *Plan, now time.Duration) {
	units := int64(0)
	for _, c := range s.calls {
		if s.dim == model.DimTokens {
			units += c.ask.tokens()
		} else {
			units++
		}
	}
	want := s.rate * int64(rampFor) / int64(time.Minute)
	s.close()
	switch {
	case s.pressing:
		s.turnPressed(now)
	case units < want*3/4:
		s.end(fmt.Sprintf("%d calls at once, of which %d are known to pass, do not bring more than %d a minute", s.room(p), p.crowd, units*6))
	case s.cost(p, now, 2*s.rate) <= s.left(p):
		s.rate, s.held = 2*s.rate, 0
	case s.held < heldMost && s.cost(p, now, s.rate) <= s.left(p):
		s.held++ // what was saved up may come to an end
	default:
		s.end(fmt.Sprintf("no refusal up to %d a minute; the bounds leave no more to try", s.rate))
	}
	s.until = now + rampFor
}

// cost is what a step at a rate takes, with pressing if it is refused: that
// lets through at most what passed in the minute before.
func (s *pace) cost(p *Plan, now time.Duration, rate int64) int64 {
	step := rate * int64(rampFor) / int64(time.Minute)
	return step + min(rate/2, step+p.accepted(s.dim, now-time.Minute, now))
}

// left is what the bounds leave, in units; a tenth of the calls is kept for
// the limit that is looked for next.
func (s *pace) left(p *Plan) int64 {
	if s.dim == model.DimTokens {
		return p.bounds.Tokens - p.spent.Tokens
	}
	return p.bounds.Requests*9/10 - p.spent.Requests
}

// turnPressed ends the pressing, or speeds up after ten quiet seconds.
func (s *pace) turnPressed(now time.Duration) {
	long := now - s.pressed
	switch {
	case long >= pressFor && s.again, long >= pressMost:
		s.done = true
	case now-s.since >= rampFor && s.passed:
		s.rate += s.rate / 4
	}
}

// close makes a step of the calls since the last one that are over.
func (s *pace) close() {
	var over, live []*call
	for _, c := range s.calls {
		if c.over {
			over = append(over, c)
		} else {
			live = append(live, c)
		}
	}
	if len(over) > 0 {
		s.past = append(s.past, step(s.name, s.rate, over))
	}
	s.calls = live
}

func (s *pace) ended(p *Plan, now time.Duration, c *call) {
	r := &c.result
	if c.ok() {
		s.passed = s.passed || c.sent >= s.hold
		s.elsewhere = 0
	}
	if !r.Class.Refused() && r.Class != model.ClassTransport {
		return
	}
	ours := r.Class == model.ClassRateLimited && (r.Dimension == model.DimNone || r.Dimension == s.dim)
	if !ours {
		s.other(now, c)
		return
	}
	s.refusals = append(s.refusals, c.sent)
	if c.sent < s.hold || s.done {
		return // of the same burst as one that was heard
	}
	s.refused(p, now, c)
}

// refused slows down after the first refusal of a burst.
func (s *pace) refused(p *Plan, now time.Duration, c *call) {
	switch {
	case !s.pressing:
		s.close()
		s.met, s.rate = s.rate, max(s.rate/2, 1)
		s.pressing, s.pressed = true, c.sent
		s.until = now + rampFor
	case s.passed:
		s.again = s.again || c.sent >= s.pressed+pressFor*5/6
		s.rate = max(s.rate*4/5, 1)
		s.wait = waitFirst
	default:
		s.wait = min(2*s.wait, waitMost)
	}
	wait := s.wait
	if r := c.result.RetryAfter; r >= 0 {
		wait = min(max(r, waitFirst/4), hintMost)
	}
	s.hold, s.since, s.passed = now+wait, now, false
	p.sleep = restAfter
}

// other hears a refusal that is not this limit's, or a failure.
func (s *pace) other(now time.Duration, c *call) {
	if s.elsewhere++; s.elsewhere < 3 {
		wait := max(c.result.RetryAfter, waitFirst)
		s.hold = max(s.hold, now+min(wait, hintMost))
		return
	}
	what := c.result.Class.String()
	if c.result.Dimension != model.DimNone {
		what += ", " + c.result.Dimension.String()
	}
	s.end(fmt.Sprintf("something else came first: %s at %d a minute", what, s.rate))
}

func (s *pace) end(note string) { s.note, s.done = note, true }

// low is the most that was let through in a minute after a refusal. A call of
// many tokens may be let through for the last few, so one is left out.
func (s *pace) low(p *Plan) (best int64) {
	for _, at := range s.refusals {
		best = max(best, p.accepted(s.dim, at, at+time.Minute))
	}
	if s.dim == model.DimTokens {
		best -= s.size
	}
	return max(best, 0)
}

// most is what was let through in the best minute without a refusal in it.
func (s *pace) most(p *Plan) (best int64) {
	for _, c := range p.calls {
		best = max(best, p.accepted(s.dim, c.sent-time.Minute, c.sent))
	}
	return best
}

func (s *pace) finding(p *Plan) Finding {
	if told, ok := p.told[s.dim]; ok {
		return found(s.name, "header", told, told, "told by the headers of answers")
	}
	if !s.pressing {
		f := open(s.name, s.most(p), s.note)
		if p.long {
			f.Note += "; a header tells a limit that counts over more than minutes"
		}
		return f
	}
	low, high := s.low(p), max(s.met, p.accepted(s.dim, s.pressed-time.Minute, s.pressed))
	if s.done && s.again && low > 0 {
		return found(s.name, "refusal", low, max(high, low), fmt.Sprintf("refused %d times; in the best minute after a refusal this much was let through", len(s.refusals)))
	}
	low = max(low, p.accepted(s.dim, s.pressed-time.Minute, s.pressed)/2)
	note := "refused, but not pressed for a whole minute: taken as half of what passed in the minute before the refusal"
	if s.note != "" {
		note += "; " + s.note
	}
	return found(s.name, "refusal", low, max(high, low), note)
}

func (s *pace) steps() []Step {
	s.close()
	return s.past
}
