package peer

// Gradient2 is Netflix's Gradient2Limit behind a blocking limiter, one per
// process.
//
// Per sample, with rtt the time the call took: long is an exponential mean of
// rtt over 600 samples, the plain mean of the first 10; where long is more
// than twice rtt it shrinks by a tenth. Unless fewer than half of the limit L
// were in flight, L moves a fifth of the way to g*L + 4 with
// g = long/rtt within [0.5, 1], and stays within [20, 200]; it starts at 20.
// Refusals count as samples like any other, and quick ones lower the time: a
// drop is not looked at.
//
// Source: Netflix/concurrency-limits, Gradient2Limit.java (commit 14ddfa2)
// and ExpAvgMeasurement.java (commit 11c7060). The published window of one
// second is optional there; here it takes every sample, as the class alone
// does.
type Gradient2 struct {
	inFlight int64
	limit    int64 // micro-slots
	long     int64 // ns
	sum      int64
	count    int64
}

const (
	micro           = 1_000_000
	gradientMin     = 20 * micro
	gradientMax     = 200 * micro
	gradientQueue   = 4 * micro
	gradientWindow  = 600
	gradientWarmUp  = 10
	gradientLongest = day // bounds a sample
)

// NewGradient2 returns the limiter with its defaults.
func NewGradient2() *Gradient2 { return &Gradient2{limit: gradientMin} }

// Ask waits for a free slot.
func (l *Gradient2) Ask(int64, Call) (Verdict, int64) {
	if l.inFlight < l.limit/micro {
		return Admit, 0
	}
	return Wait, Never
}

// Start takes a slot and marks the call with how many are in flight.
func (l *Gradient2) Start(int64, Call) Mark {
	l.inFlight++
	return Mark(l.inFlight)
}

// Done frees the slot and moves the limit.
func (l *Gradient2) Done(now int64, s *Sample) {
	l.inFlight--
	if !s.OK() && !s.Dropped() {
		return // ignored: the caller could measure nothing
	}
	rtt := min(max(now-s.Sent, 1), gradientLongest)
	l.measure(rtt)
	long := l.long
	if long > 2*rtt {
		l.long = long - long/10
	}
	if int64(s.Mark)*2*micro < l.limit {
		return
	}
	g := int64(micro)
	if long < rtt {
		g = max(micro/2, long*1000/max(rtt/1000, 1))
	}
	goal := l.limit*g/micro + gradientQueue
	l.limit = max(gradientMin, min(gradientMax, (4*l.limit+goal)/5))
}

// measure takes one time into the long mean.
func (l *Gradient2) measure(rtt int64) {
	if l.count < gradientWarmUp {
		l.count++
		l.sum += rtt
		l.long = l.sum / l.count
		return
	}
	l.long += (rtt - l.long) * 2 / (gradientWindow + 1)
}
