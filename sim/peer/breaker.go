package peer

// Breaker is sony/gobreaker with its default settings, one per process.
//
// Closed, it counts failures in a row; more than 5 (so the sixth) open it.
// Open, it fails every call at once for 60 s. Then it is half-open and lets
// one call through: a success closes it, a failure opens it for another 60 s.
// Every error is a failure. A change of state forgets the counts, and results
// of calls sent before it are ignored.
//
// Source: sony/gobreaker v2, gobreaker.go (commit 0a18939): defaultTimeout,
// defaultReadyToTrip, MaxRequests 0 means 1.
type Breaker struct {
	state      breakerState
	generation uint64
	failures   int64 // in a row, while closed
	requests   int64 // while half-open
	openUntil  int64
}

type breakerState uint8

const (
	breakerClosed breakerState = iota
	breakerOpen
	breakerHalfOpen
)

const (
	breakerTolerates = 5
	breakerTimeout   = 60 * second
)

// NewBreaker returns a closed breaker.
func NewBreaker() *Breaker { return &Breaker{} }

// Ask sheds while open and, half-open, all but one.
func (l *Breaker) Ask(now int64, _ Call) (Verdict, int64) {
	l.turn(now)
	if l.state == breakerOpen || l.state == breakerHalfOpen && l.requests >= 1 {
		return Shed, 0
	}
	return Admit, 0
}

// Start marks the call with the state's generation.
func (l *Breaker) Start(int64, Call) Mark {
	l.requests++
	return Mark(l.generation)
}

// Done counts, and changes the state.
func (l *Breaker) Done(now int64, s *Sample) {
	l.turn(now)
	if uint64(s.Mark) != l.generation {
		return
	}
	switch {
	case s.OK() && l.state == breakerHalfOpen:
		l.change(breakerClosed, now)
	case s.OK():
		l.failures = 0
	case l.state == breakerHalfOpen:
		l.change(breakerOpen, now)
	default:
		if l.failures++; l.failures > breakerTolerates {
			l.change(breakerOpen, now)
		}
	}
}

func (l *Breaker) turn(now int64) {
	if l.state == breakerOpen && now > l.openUntil {
		l.change(breakerHalfOpen, now)
	}
}

func (l *Breaker) change(to breakerState, now int64) {
	l.state, l.failures, l.requests = to, 0, 0
	l.generation++
	if to == breakerOpen {
		l.openUntil = now + breakerTimeout
	}
}
