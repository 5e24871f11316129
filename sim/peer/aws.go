package peer

// AWS is the adaptive retry mode of the AWS SDKs, one per process: a token
// bucket on attempts whose rate follows CUBIC, and a quota on retries.
//
// Rate: the measured rate is an exponential mean (weight 0.8) of the attempts
// that ended per half second. A throttled attempt sets r = min(measured, fill)
// (measured alone before the first), lastMax = r, rate = 0.7 r, and turns the
// bucket on for good. Any other end sets rate = 0.4 (t-K)^3 + lastMax with t
// the seconds since the last throttle and K = cbrt(0.75 lastMax). Then
// new = min(rate, 2 measured), fill = max(new, 0.5/s), and the bucket holds
// max(new, 1) tokens.
//
// Retries: 3 attempts in all. A retry costs 14 of 500 tokens, 5 after a
// throttle, which come back if it succeeds; every success adds 1. It waits
// rand * min(x * 2^i, 20 s), x being 1 s after a throttle and 50 ms else.
//
// Source: aws-sdk-go-v2 v1.48.0, aws/retry/adaptive_ratelimit.go,
// adaptive.go, standard.go, jitter_backoff.go. That SDK obeys only its own
// kind of Retry-After, which no model provider sends.
//
// Rates are in millionths of a call per second.
type AWS struct {
	dice Dice

	on       bool
	fill     int64
	capacity int64 // millionths of a token
	tokens   int64
	refillAt int64 // instant the bucket was last filled, -1 for never

	measured   int64
	ended      int64 // attempts since bin
	bin        int64 // half seconds
	lastMax    int64
	throttleAt int64

	quota int64
}

const (
	awsMinFill      = micro / 2
	awsHalf         = second / 2
	awsAttempts     = 3
	awsQuota        = 500
	awsRetryCost    = 14
	awsThrottleCost = 5
	awsBase         = 50 * millisecond
	awsThrottleBase = second
	awsMaxBackoff   = 20 * second
	awsFarMS        = 600_000 // bounds |t-K| in the cube
	awsFastest      = 10_000 * micro
)

// NewAWS returns the mode with its defaults, as of an instant.
func NewAWS(now int64, d Dice) *AWS {
	return &AWS{dice: d, bin: now / second * 2, throttleAt: now, refillAt: -1, quota: awsQuota}
}

// Ask waits for a token.
func (l *AWS) Ask(now int64, _ Call) (Verdict, int64) {
	if !l.on {
		return Admit, 0
	}
	l.refill(now)
	if l.tokens >= micro {
		return Admit, 0
	}
	return Wait, now + (micro-l.tokens)*second/l.fill + microsecond
}

// Start takes a token.
func (l *AWS) Start(int64, Call) Mark {
	if l.on {
		l.tokens -= micro
	}
	return 0
}

// Done moves the rate and pays back what a retry cost.
func (l *AWS) Done(now int64, s *Sample) {
	l.measure(now)
	var rate int64
	if s.Throttled() {
		l.lastMax = l.measured
		if l.on {
			l.lastMax = min(l.lastMax, l.fill)
		}
		l.throttleAt = now
		l.on = true
		rate = l.lastMax * 7 / 10
	} else {
		rate = l.cubic(now)
	}
	l.setRate(now, min(rate, 2*l.measured))
	if s.OK() {
		l.quota = min(awsQuota, l.quota+1+int64(s.Receipt))
	}
}

// Again returns the wait before the next try, if the quota pays for it.
func (l *AWS) Again(_ int64, tries int, _ Group, s *Sample) (wait int64, receipt uint64, ok bool) {
	if tries >= awsAttempts || !retryable(s) {
		return 0, 0, false
	}
	cost, base := int64(awsRetryCost), awsBase
	if s.Throttled() {
		cost, base = awsThrottleCost, awsThrottleBase
	}
	if l.quota < cost {
		return 0, 0, false
	}
	l.quota -= cost
	return l.dice.Below(min(base<<(tries-1), awsMaxBackoff)), uint64(cost), true
}

// measure counts an attempt that ended; a new half second closes the last.
func (l *AWS) measure(now int64) {
	l.ended++
	bin := now / awsHalf
	if bin <= l.bin {
		return
	}
	current := l.ended * 2 * micro / (bin - l.bin)
	l.measured = (4*current + l.measured) / 5
	l.ended, l.bin = 0, bin
}

// cubic is the rate on the curve at an instant.
func (l *AWS) cubic(now int64) int64 {
	// In milliseconds K^3 = 0.75 lastMax * 10^9, which is 750 lastMax here.
	k := cubeRoot(750 * l.lastMax)
	d := max(-awsFarMS, min((now-l.throttleAt)/millisecond-k, awsFarMS))
	return min(d*d*d/2500+l.lastMax, awsFastest)
}

// setRate fills the bucket at the old rate, then changes it.
func (l *AWS) setRate(now, rate int64) {
	l.refill(now)
	l.fill = max(rate, awsMinFill)
	l.capacity = max(rate, micro)
	l.tokens = min(l.tokens, l.capacity)
}

// refill counts whole microseconds; the rest is for the next time.
func (l *AWS) refill(now int64) {
	if l.refillAt < 0 {
		l.refillAt = now
	}
	l.refillAt = max(l.refillAt, now-minute)
	passed := (now - l.refillAt) / microsecond
	l.tokens = min(l.tokens+passed*l.fill/micro, l.capacity)
	l.refillAt += passed * microsecond
}

// cubeRoot is the integer cube root of x >= 0, rounded down.
func cubeRoot(x int64) int64 {
	r := int64(0)
	for bit := int64(1) << 20; bit > 0; bit >>= 1 {
		if n := r + bit; n <= x/n/n {
			r = n
		}
	}
	return r
}
