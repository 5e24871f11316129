package probe

import (
	"fmt"
	"time"

	"weir/model"
)

// callAtOnce is a call that takes long enough to be in flight beside others.
var callAtOnce = Ask{Input: 20, Output: 48}

// slow is how many times as long as alone calls may take at most, in percent:
// beyond it more calls at once only wait inside the provider.
const slow = 180

// crowd looks for how many calls the provider takes at once: 1, 2, 4 and so
// on, each level with all of its calls in flight together, until one is
// refused or answers take much longer.
//
// A refusal alone may be noise, so its level is tried a second time. One for a
// rate, or that names no limit, may mean either: then half as many are sent at
// once, directly after. A used-up rate refuses those too, a limit of calls at
// once does not.
type crowd struct {
	level    int64
	calls    []*call // of this level
	due      time.Duration
	again    bool // a refused level is tried a second time
	checking bool // the level tells a rate from a limit of calls at once
	met      int64
	pass     int64
	done     bool
	result   *Finding
	note     string
	past     []Step
}

func (s *crowd) next(p *Plan, now time.Duration) Move {
	for !s.done {
		refused := s.count(func(c *call) bool { return c.over && c.result.Class.Refused() }) > 0
		if int64(len(s.calls)) < s.level && !refused {
			if now < s.due {
				return Move{Wake: s.due}
			}
			return Move{Send: true, Ask: callAtOnce}
		}
		if p.live > 0 {
			return Move{Wake: never}
		}
		s.judge(p)
	}
	return Move{Done: true}
}

func (s *crowd) sent(p *Plan, c *call) {
	s.calls = append(s.calls, c)
	s.due = c.sent + p.base/time.Duration(2*s.level)
}

func (s *crowd) ended(*Plan, time.Duration, *call) {}

func (s *crowd) count(is func(c *call) bool) (n int) {
	for _, c := range s.calls {
		if is(c) {
			n++
		}
	}
	return n
}

// judge looks at a level whose calls have all ended and sets the next one.
func (s *crowd) judge(p *Plan) {
	st := step("concurrency", s.level, s.calls)
	s.past = append(s.past, st)
	met, rate := int64(-1), 0
	for _, c := range s.calls {
		if !c.result.Class.Refused() {
			continue
		}
		if c.result.Class == model.ClassRateLimited && c.result.Dimension != model.DimConcurrency {
			rate++
		}
		if beside := s.beside(c); met < 0 || beside < met {
			met = beside
		}
	}
	s.calls = nil
	switch {
	case st.Failed > 1 && st.Failed*5 > st.Sent:
		s.end(fmt.Sprintf("%d of %d calls failed at %d at once", st.Failed, st.Sent, s.level))
	case s.checking && st.Refused > 0, rate > 0 && met < 1:
		s.end(fmt.Sprintf("a limit per minute refused first, at %d calls at once", s.level))
		p.sleep = restAfter
	case s.checking:
		s.close(p, s.met)
	case rate > 0:
		s.met, s.checking, s.level = met, true, max(1, met/2)
	case st.Refused == 1 && !s.again && s.level > 1:
		s.again = true
	case st.Refused > 0:
		s.close(p, met)
	default:
		s.passed(p, &st)
	}
}

// beside counts the calls that were surely in flight when c was sent: those
// that were not over and were not refused.
func (s *crowd) beside(c *call) (n int64) {
	for _, o := range s.calls {
		if o != c && o.ok() && o.sent <= c.sent && o.ended >= c.sent {
			n++
		}
	}
	return n
}

// passed takes a level that was let through whole.
func (s *crowd) passed(p *Plan, st *Step) {
	if s.level <= 2 {
		p.base = max(st.P50, time.Millisecond)
	}
	if s.level > 2 && st.P90 > p.base*slow/100 {
		f := found("concurrency", "latency", s.pass, s.level, fmt.Sprintf("nothing was refused, but at %d at once answers take %.1f times as long as alone", s.level, float64(st.P90)/float64(p.base)))
		s.result, s.done = &f, true
		return
	}
	s.pass, s.again = s.level, false
	p.crowd = max(1, s.pass)
	if s.level >= p.bounds.InFlight {
		s.end(fmt.Sprintf("no refusal up to %d calls at once, the bound", s.level))
		return
	}
	s.level = min(2*s.level, p.bounds.InFlight)
}

// close takes a limit that let met calls through and no more.
func (s *crowd) close(p *Plan, met int64) {
	if met < 1 {
		s.end("even a call alone is refused")
		return
	}
	f := found("concurrency", "refusal", met, met+1, fmt.Sprintf("with %d calls in flight the next was refused", met))
	s.result, s.done = &f, true
	p.crowd = met
	p.sleep = 2 * time.Second
}

func (s *crowd) end(note string) { s.note, s.done = note, true }

func (s *crowd) finding(*Plan) Finding {
	if s.result != nil {
		return *s.result
	}
	return open("concurrency", s.pass, s.note)
}

func (s *crowd) steps() []Step { return s.past }
