package peer

// Throttle is the adaptive throttling of Google's SRE book, one per process
// and backend.
//
// It counts, over the last two minutes, the requests that the application
// made and the accepts of the backend, and fails a request at once with
// probability max(0, (requests - K*accepts) / (requests + 1)). With K = 2 it
// sends about two requests for every one that is accepted. Requests failed
// here count as requests.
//
// Source: Site Reliability Engineering, chapter 21 "Handling Overload",
// section "Client-Side Throttling". The book does not say how the two minutes
// are kept; here they are 120 buckets of a second.
type Throttle struct {
	dice     Dice
	at       int64 // second of the newest bucket
	buckets  [throttleSeconds]throttleCount
	requests int64
	accepts  int64
}

type throttleCount struct{ requests, accepts int64 }

const (
	throttleK       = 2
	throttleSeconds = 120
)

// NewThrottle returns the throttle with K = 2 and two minutes.
func NewThrottle(d Dice) *Throttle { return &Throttle{dice: d} }

// Ask counts the request and sheds it with the probability of the moment.
func (l *Throttle) Ask(now int64, _ Call) (Verdict, int64) {
	l.turn(now)
	excess := l.requests - throttleK*l.accepts
	shed := excess > 0 && l.dice.Below(l.requests+1) < excess
	l.requests++
	l.bucket().requests++
	if shed {
		return Shed, 0
	}
	return Admit, 0
}

// Start notes nothing: Ask has counted the call.
func (l *Throttle) Start(int64, Call) Mark { return 0 }

// Done counts an accept. A call that was neither turned away nor ran out of
// time was accepted, whatever the answer said.
func (l *Throttle) Done(now int64, s *Sample) {
	l.turn(now)
	if !s.Dropped() {
		l.accepts++
		l.bucket().accepts++
	}
}

func (l *Throttle) bucket() *throttleCount { return &l.buckets[l.at%throttleSeconds] }

// turn forgets what is older than two minutes.
func (l *Throttle) turn(now int64) {
	sec := now / second
	if sec-l.at >= throttleSeconds {
		*l = Throttle{dice: l.dice, at: sec}
		return
	}
	for l.at < sec {
		l.at++
		b := l.bucket()
		l.requests -= b.requests
		l.accepts -= b.accepts
		*b = throttleCount{}
	}
}
