package model

import "fmt"

// breaker stops a channel that does not work at all.
//
//	closed ──▶ open       at once for quota and auth; BreakerConsecutive
//	                      failures in a row at the window's floor; or a
//	                      failure ratio over a sliding window of send times
//	open ──▶ half-open    at Until, an absolute instant that only moves later
//	half-open ──▶ closed  a probe succeeded; the window ramps up from its floor
//	half-open ──▶ open    a probe failed or overran; the wait doubles up to a cap
//
// A probe is a lease: one attempt, one agent, one deadline. Every outcome
// settles it; a neutral one frees it for the next.
type breaker struct {
	State BreakerState
	// Until is when an open breaker may be probed.
	Until Nanos
	// Wait is how long it was opened last; it doubles.
	Wait Nanos
	// Consecutive counts failures in a row at the floor.
	Consecutive int64
	// Forced is set when an operator opened it: only an operator closes it.
	Forced bool
	// Seconds is the sliding window: outcomes by second of sending.
	Seconds [breakerSeconds]breakerSecond
	Probe   probe
}

// breakerSeconds is the length of the ring: BreakerWindow's largest value and
// as much again for calls that end late.
const breakerSeconds = 60

// breakerSecond counts what was sent within one second of log time.
type breakerSecond struct {
	Second   int64
	OK, Fail uint32
	// Vague counts server errors that may be noise; see breaker.noise.
	Vague uint32
}

// probe is the lease of one attempt through a half-open breaker.
type probe struct {
	// ID is the sequence of the record that leased it, 0 for none.
	ID       uint64
	Agent    string
	Deadline Nanos
}

// outcome counts an attempt by its time of sending.
func (b *breaker) outcome(sent Nanos, ok bool) {
	switch s := b.second(sent); {
	case s == nil:
	case ok:
		s.OK++
	default:
		s.Fail++
	}
}

// second returns the ring's entry for an instant, nil for one that is older
// than the ring remembers.
func (b *breaker) second(at Nanos) *breakerSecond {
	sec := int64(at / Second)
	s := &b.Seconds[((sec%breakerSeconds)+breakerSeconds)%breakerSeconds]
	if s.Second > sec {
		return nil
	}
	if s.Second != sec {
		*s = breakerSecond{Second: sec}
	}
	return s
}

// noiseShare is the share of server errors that mean nothing: providers show
// some tenths of a percent on good days.
const noiseShare PPM = 10_000

// noise counts a server error that names no cause and reports whether it may
// be noise: fewer than noiseShare of what was sent in the window of send times
// surely failed so, by the lower bound errors − 3√errors, since each error is a
// look at it.
func (b *breaker) noise(p *Params, now, sent Nanos) bool {
	if s := b.second(sent); s != nil {
		s.Vague++
	}
	var vague, total int64
	from := int64((now - 2*p.BreakerWindow) / Second)
	for i := range b.Seconds {
		if s := &b.Seconds[i]; s.Second > from {
			vague += int64(s.Vague)
			total += int64(s.Vague) + int64(s.OK)
		}
	}
	sure := vague - int64(isqrt(uint64(9*vague)))
	return sure <= 0 || sure*int64(One) < int64(noiseShare)*total
}

// ratio returns failures and outcomes sent within the window before now.
func (b *breaker) ratio(p *Params, now Nanos) (fail, total int64) {
	from := int64((now - p.BreakerWindow) / Second)
	for i := range b.Seconds {
		if s := &b.Seconds[i]; s.Second > from {
			fail += int64(s.Fail)
			total += int64(s.Fail) + int64(s.OK)
		}
	}
	return fail, total
}

// tripped reports whether the counts ask for opening, and why.
//
// The ratio is judged by its lower bound, failures − √failures over the
// total, so that a handful of failures in a small sample do not open it.
func (b *breaker) tripped(p *Params, now Nanos) (string, bool) {
	if b.Consecutive >= p.BreakerConsecutive {
		return fmt.Sprintf("%d failures in a row at the window's floor", b.Consecutive), true
	}
	fail, total := b.ratio(p, now)
	if total < p.BreakerVolume {
		return "", false
	}
	sure := fail - int64(isqrt(uint64(fail)))
	if sure*int64(One) < int64(p.BreakerRatio)*total {
		return "", false
	}
	return fmt.Sprintf("%d of %d sent in the last %s failed", fail, total, said(p.BreakerWindow)), true
}

// open opens until now+wait; wait 0 means the law's own. A deadline never
// moves earlier.
func (b *breaker) open(p *Params, now, wait Nanos) {
	if wait == 0 {
		if b.Wait == 0 {
			b.Wait = p.BreakerWait
		} else {
			b.Wait = min(2*b.Wait, p.BreakerWaitMax)
		}
		wait = b.Wait
	}
	b.State = BreakerOpen
	b.Until = max(b.Until, now+wait)
	b.Probe = probe{}
	b.Consecutive = 0
}

// close closes after a success and forgets the failures that opened it.
func (b *breaker) close() {
	*b = breaker{}
}

func (c *coder) breaker(b *breaker) {
	num(c, &b.State)
	num(c, &b.Until)
	num(c, &b.Wait)
	num(c, &b.Consecutive)
	c.flag(&b.Forced)
	// Most channels never fail: only seconds that hold something are kept.
	var seconds []breakerSecond
	for _, s := range b.Seconds {
		if s != (breakerSecond{}) {
			seconds = append(seconds, s)
		}
	}
	list(c, &seconds, func(c *coder, s *breakerSecond) {
		num(c, &s.Second)
		num(c, &s.OK)
		num(c, &s.Fail)
		num(c, &s.Vague)
	})
	for _, s := range seconds {
		b.Seconds[((s.Second%breakerSeconds)+breakerSeconds)%breakerSeconds] = s
	}
	num(c, &b.Probe.ID)
	c.str(&b.Probe.Agent)
	num(c, &b.Probe.Deadline)
}
