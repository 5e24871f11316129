package peer

// NeMo is the throttle of NVIDIA's NeMo Data Designer, one per process and
// model.
//
// The limit starts at the most parallel requests that the user allows. The
// first of a series of rate limits keeps 3/4 of it (rounded down, at least 1)
// and remembers the limit it had as the ceiling, or the lower of that and the
// ceiling so far; further ones of the series change nothing. Each one stops
// new calls for the time the answer asks, or 2 s. Any other end of a call
// ends the series. Every 25 successes in a row add 1, up to the ceiling plus
// a tenth of it (at least 1), or to the start without one.
//
// Source: NVIDIA-NeMo/DataDesigner, throttle_manager.py (commit 25d53b6) with
// the defaults of ThrottleConfig: reduce_factor 0.75, additive_increase 1,
// success_window 25, cooldown_seconds 2, ceiling_overshoot 0.10. Later
// versions of that project keep the constants and dropped the ceiling. A
// timeout is not a rate limit there. The default of max_parallel_requests is
// 4; its documentation advises to set the most one is comfortable with.
type NeMo struct {
	slots
	most         int64
	ceiling      int64 // 0 before the first rate limit
	series       int64 // rate limits in a row
	streak       int64 // successes in a row
	blockedUntil int64
}

const (
	nemoWindow   = 25
	nemoCooldown = 2 * second
)

// NewNeMo returns the throttle for at most that many parallel requests, at
// least 1.
func NewNeMo(most int64) *NeMo {
	most = max(most, 1)
	return &NeMo{slots: slots{limit: most}, most: most}
}

// Ask waits for the end of a cooldown and for a free slot.
func (l *NeMo) Ask(now int64, _ Call) (Verdict, int64) {
	if now < l.blockedUntil {
		return Wait, l.blockedUntil
	}
	return l.ask()
}

// Start takes a slot.
func (l *NeMo) Start(int64, Call) Mark {
	l.inFlight++
	return 0
}

// Done frees the slot and moves the limit.
func (l *NeMo) Done(now int64, s *Sample) {
	l.inFlight--
	switch {
	case s.OK():
		l.success()
	case s.Throttled():
		l.refused(now, s)
	default:
		l.series = 0
	}
}

func (l *NeMo) success() {
	l.series = 0
	if l.streak++; l.streak < nemoWindow {
		return
	}
	l.streak = 0
	most := l.most
	if l.ceiling > 0 {
		most = min(most, l.ceiling+max(1, l.ceiling/10))
	}
	if l.limit < most {
		l.limit++
	}
}

func (l *NeMo) refused(now int64, s *Sample) {
	cooldown := nemoCooldown
	if s.RetryAfter > 0 {
		cooldown = s.RetryAfter
	}
	l.blockedUntil = now + cooldown
	l.streak = 0
	if l.series++; l.series > 1 {
		return
	}
	before := l.limit
	l.limit = max(1, l.limit*3/4)
	if l.limit < before && (l.ceiling == 0 || before < l.ceiling) {
		l.ceiling = before
	}
}
