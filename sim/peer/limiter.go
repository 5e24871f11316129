package peer

import (
	"math"

	"weir/model"
	"weir/sim/draw"
)

// Never is later than every instant.
const Never = int64(math.MaxInt64)

const (
	microsecond = int64(1e3)
	millisecond = int64(1e6)
	second      = int64(1e9)
	minute      = 60 * second
	day         = 24 * 60 * minute
)

// Verdict is a limiter's answer to a call that wants to go out.
type Verdict uint8

// The verdicts.
const (
	// Admit: send it now; Start follows.
	Admit Verdict = iota + 1
	// Wait: ask again, at the latest at the stated instant, and after every
	// Done.
	Wait
	// Shed: fail it at once.
	Shed
)

// String returns the verdict's name.
func (v Verdict) String() string {
	switch v {
	case Admit:
		return "admit"
	case Wait:
		return "wait"
	case Shed:
		return "shed"
	}
	return "unknown"
}

// Call is what a limiter may know of a call before it is sent.
type Call struct {
	Input     int64 // tokens of the prompt
	MaxOutput int64 // max_tokens, 0 for no bound
}

// Mark is what a limiter noted of a call when it was sent.
type Mark uint64

// Sample is what became of a call.
type Sample struct {
	Call Call
	Sent int64 // instant
	// Mark is what Start returned.
	Mark Mark
	// Receipt is what Again returned for the retry that this call is, 0 for a
	// first try.
	Receipt uint64

	Class      model.Class
	Status     int
	RetryAfter int64 // ns that the answer asked to wait, negative for none
	// Input and Output are the tokens used, for a call that was answered.
	Input, Output int64
}

// OK reports whether the call brought its answer.
func (s *Sample) OK() bool { return s.Class == model.ClassOK }

// Throttled reports whether the provider turned the call away for load or
// quota: every such class, except for the statuses of plain server errors.
func (s *Sample) Throttled() bool {
	switch s.Class {
	case model.ClassRateLimited, model.ClassQuotaExhausted:
		return true
	case model.ClassOverloaded:
		return s.Status != 500 && s.Status != 502 && s.Status != 504
	case model.ClassOK, model.ClassAuth, model.ClassInvalid, model.ClassTransport, model.ClassCanceled:
	}
	return false
}

// Dropped reports whether the call was turned away or ran out of time.
func (s *Sample) Dropped() bool { return s.Throttled() || s.Class == model.ClassTransport }

// Limiter decides for one process and channel when a call may go out. For
// every call it hears Ask until it admits or sheds; then, if admitted, Start
// at the same instant and exactly one Done.
type Limiter interface {
	// Ask returns the verdict, and for Wait the instant to ask again at the
	// latest, Never if only a Done can help.
	Ask(now int64, c Call) (v Verdict, retryAt int64)
	Start(now int64, c Call) Mark
	Done(now int64, s *Sample)
}

// Retrier decides what a peer does by itself after a failed try, before the
// application hears of it.
type Retrier interface {
	// Again returns how long to wait before the next try, and a receipt that
	// comes back in that try's sample; ok is false to give up. tries counts
	// the tries of this request at this group of channels so far, from 1.
	Again(now int64, tries int, g Group, s *Sample) (wait int64, receipt uint64, ok bool)
}

// Group is the state of the set of channels a try was sent into.
type Group struct {
	All     int // channels
	Healthy int // of them, those that would not shed
}

// Dice draws the random numbers of one limiter.
type Dice struct {
	Seed   draw.Seed
	Entity uint64
	n      uint64
}

// Below returns a uniform number in [0, n), or 0 when n < 1.
func (d *Dice) Below(n int64) int64 {
	d.n++
	return d.Seed.Below(n, draw.Policy, d.Entity, d.n)
}

// Open admits everything at once.
type Open struct{}

// Ask admits.
func (Open) Ask(int64, Call) (Verdict, int64) { return Admit, 0 }

// Start notes nothing.
func (Open) Start(int64, Call) Mark { return 0 }

// Done learns nothing.
func (Open) Done(int64, *Sample) {}

// slots is a limit on calls in flight.
type slots struct {
	limit, inFlight int64
}

// ask admits below the limit.
func (s *slots) ask() (Verdict, int64) {
	if s.inFlight < s.limit {
		return Admit, 0
	}
	return Wait, Never
}
