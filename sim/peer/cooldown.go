package peer

import "weir/model"

// Cooldown is what LiteLLM's router does with one deployment, here a channel,
// and with a failed call; one per process.
//
// A failure puts the deployment aside for the time the answer asks, or 5 s,
// if it is a 429 and the model group, here the tier, has other deployments;
// or if of at least 1000 calls of the minute all failed; or if of at least 5
// more than half failed and the group has others; or if no retry helps (401,
// 404). A single deployment is thus practically never put aside. The minute
// begins with the first success or failure counted.
//
// A failed call is tried up to 2 times more in its group, at once if the
// group has a healthy deployment and more than one in all, else after what
// the answer asks (at most 60 s) or 0.5 s, plus up to 0.75 s. With no
// healthy deployment left the call goes on to the next group, or fails.
//
// Source: BerriAI/litellm, router_utils/cooldown_handlers.py (as of
// 2026), track_deployment_metrics.py (commit 44d27d8), retry_utils.py
// (commit 203db9e), utils.py; the defaults DEFAULT_COOLDOWN_TIME_SECONDS 5,
// DEFAULT_FAILURE_THRESHOLD_PERCENT 0.5,
// DEFAULT_FAILURE_THRESHOLD_MINIMUM_REQUESTS 5,
// SINGLE_DEPLOYMENT_TRAFFIC_FAILURE_THRESHOLD 1000, num_retries 2. Setting
// allowed_fails to anything but its default of 3 selects an older rule, which
// is not this one.
type Cooldown struct {
	dice                Dice
	single              bool
	until               int64 // put aside
	successes, failures tally
}

// tally counts within a minute of its first count.
type tally struct{ n, until int64 }

func (c *tally) read(now int64) int64 {
	if now >= c.until {
		return 0
	}
	return c.n
}

func (c *tally) add(now int64) {
	if now >= c.until {
		c.n, c.until = 0, now+minute
	}
	c.n++
}

const (
	cooldownTime     = 5 * second
	cooldownLeast    = 5
	cooldownAllFail  = 1000
	cooldownRetries  = 2
	cooldownFirst    = second / 2
	cooldownJitter   = 750 * millisecond
	cooldownLongest  = 60 * second // wait an answer may ask for
	statusTooMany    = 429
	statusTimeout    = 408
	statusConflict   = 409
	statusBadRequest = 400
	statusDenied     = 401
	statusServer     = 500
)

// NewCooldown returns the router's view of one deployment; single when its
// model group has no other.
func NewCooldown(single bool, d Dice) *Cooldown { return &Cooldown{dice: d, single: single} }

// Ask sheds while the deployment is put aside.
func (l *Cooldown) Ask(now int64, _ Call) (Verdict, int64) {
	if now < l.until {
		return Shed, 0
	}
	return Admit, 0
}

// Start notes nothing.
func (l *Cooldown) Start(int64, Call) Mark { return 0 }

// Done counts, and puts the deployment aside when the rule says so.
func (l *Cooldown) Done(now int64, s *Sample) {
	if s.OK() {
		l.successes.add(now)
		return
	}
	l.failures.add(now)
	if l.cools(now, status(s)) {
		wait := cooldownTime
		if s.RetryAfter >= 0 {
			wait = s.RetryAfter
		}
		l.until = now + wait
	}
}

func (l *Cooldown) cools(now int64, status int) bool {
	if status == statusBadRequest {
		return false
	}
	fails := l.failures.read(now)
	all := fails + l.successes.read(now)
	switch {
	case status == statusTooMany && !l.single:
		return true
	case fails == all && all >= cooldownAllFail:
		return true
	case fails*2 > all && all >= cooldownLeast && !l.single:
		return true
	}
	return status != statusTooMany && status != statusTimeout && status != statusConflict && status < statusServer
}

// status is the HTTP status that the router takes an answer for.
func status(s *Sample) int {
	switch s.Class {
	case model.ClassRateLimited, model.ClassQuotaExhausted:
		return statusTooMany
	case model.ClassOverloaded:
		if s.Status >= statusServer {
			return s.Status
		}
		return statusTooMany
	case model.ClassTransport, model.ClassCanceled:
		return statusTimeout
	case model.ClassAuth:
		return statusDenied
	case model.ClassInvalid:
		return statusBadRequest
	case model.ClassOK:
	}
	return s.Status
}

// Again returns the wait before the next try in the same group.
func (l *Cooldown) Again(_ int64, tries int, g Group, s *Sample) (wait int64, receipt uint64, ok bool) {
	switch {
	case tries > cooldownRetries || g.Healthy == 0 || s.Class == model.ClassInvalid:
		return 0, 0, false
	case s.Class == model.ClassAuth && g.All <= 1:
		return 0, 0, false
	case g.All > 1:
		return 0, 0, true
	}
	jitter := l.dice.Below(cooldownJitter)
	if s.RetryAfter > 0 && s.RetryAfter <= cooldownLongest {
		return s.RetryAfter + jitter, 0, true
	}
	return cooldownFirst + jitter, 0, true
}
