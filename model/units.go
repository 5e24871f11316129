package model

import (
	"math/bits"
	"time"
)

// Nanos is an instant (nanoseconds of log time) or a duration in nanoseconds.
// Log time starts at an arbitrary origin and never goes back.
type Nanos int64

// The usual durations as Nanos.
const (
	Millisecond = Nanos(time.Millisecond)
	Second      = Nanos(time.Second)
	Minute      = Nanos(time.Minute)
	Hour        = Nanos(time.Hour)
)

// Duration converts a span of Nanos for use with package time.
func (n Nanos) Duration() time.Duration { return time.Duration(n) }

// String formats n as a duration, as package time does.
func (n Nanos) String() string { return time.Duration(n).String() }

// Tokens counts model tokens. It is signed so that corrections can be expressed.
type Tokens int64

// Milli counts thousandths of a slot or of a request.
type Milli int64

// PPM is a share in parts per million: 1,000,000 is the whole.
type PPM int64

// One is the whole as PPM.
const One PPM = 1_000_000

// Priority orders requests that wait. Higher goes first.
type Priority uint8

// The priorities. Their numbers are part of the wire format and never change.
const (
	PriorityBatch       Priority = 0
	PriorityNormal      Priority = 1
	PriorityInteractive Priority = 2
)

// NumPriorities is the length of an array indexed by Priority.
const NumPriorities = int(PriorityInteractive) + 1

// String returns the priority's name as it stands in configuration and metrics.
func (p Priority) String() string {
	switch p {
	case PriorityBatch:
		return "batch"
	case PriorityNormal:
		return "normal"
	case PriorityInteractive:
		return "interactive"
	}
	return "unknown"
}

// ParsePriority is the inverse of Priority.String; "" is PriorityNormal. ok is
// false for other names.
func ParsePriority(name string) (p Priority, ok bool) {
	switch name {
	case "batch":
		return PriorityBatch, true
	case "", "normal":
		return PriorityNormal, true
	case "interactive":
		return PriorityInteractive, true
	}
	return 0, false
}

// Mode says whether decisions bind.
type Mode uint8

// The modes. Their numbers are part of the wire format and never change.
const (
	ModeEnforce Mode = 0 // decisions bind
	ModeObserve Mode = 1 // everything is computed and shown, nothing is blocked
)

// String returns the mode's name as it stands in configuration and metrics.
func (m Mode) String() string {
	switch m {
	case ModeEnforce:
		return "enforce"
	case ModeObserve:
		return "observe"
	}
	return "unknown"
}

// mulDiv returns x*y/z for non-negative operands, saturating instead of
// overflowing; z must be positive.
func mulDiv(x, y, z int64) int64 {
	if x <= 0 || y <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	if hi == 0 { // as nearly always: then a constant z costs no division
		return int64(min(lo/uint64(z), uint64(maxInt64)))
	}
	return quo(hi, lo, uint64(z))
}

const maxInt64 = int64(^uint64(0) >> 1)

// scale returns n × share, rounded down.
func scale(n int64, share PPM) int64 { return mulDiv(n, int64(share), int64(One)) }

// quo returns the quotient of a product that has two words, saturating.
func quo(hi, lo, z uint64) int64 {
	if hi >= z {
		return maxInt64
	}
	q, _ := bits.Div64(hi, lo, z)
	return int64(min(q, uint64(maxInt64)))
}
