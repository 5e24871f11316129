package peer

// AIMD is Netflix's AIMDLimit behind a blocking limiter, one per process.
//
// Per sample, with L the limit and n the calls in flight when this one was
// sent, itself included: dropped or slower than 5 s,
// L = max(1, min(L-1, int(0.9 L))); else, if 2n >= L, L = L+1. It starts at
// 10 and has no ceiling. Every drop of a burst cuts once more. A failure that
// is neither a refusal nor a timeout is ignored.
//
// Source: Netflix/concurrency-limits, AIMDLimit.java and AbstractLimiter.java
// (commit 00f751f). Its limiters reject or block; blocking is what that
// library's executors do to a batch client.
type AIMD struct {
	slots
}

const (
	aimdInitial = 10
	aimdTimeout = 5 * second
)

// NewAIMD returns the limiter with its defaults.
func NewAIMD() *AIMD { return &AIMD{slots{limit: aimdInitial}} }

// Ask waits for a free slot.
func (l *AIMD) Ask(int64, Call) (Verdict, int64) { return l.ask() }

// Start takes a slot and marks the call with how many are in flight.
func (l *AIMD) Start(int64, Call) Mark {
	l.inFlight++
	return Mark(l.inFlight)
}

// Done frees the slot and moves the limit.
func (l *AIMD) Done(now int64, s *Sample) {
	l.inFlight--
	switch {
	case s.Dropped() || s.OK() && now-s.Sent > aimdTimeout:
		l.limit = max(1, min(l.limit-1, l.limit*9/10))
	case s.OK() && 2*int64(s.Mark) >= l.limit:
		l.limit++
	}
}
