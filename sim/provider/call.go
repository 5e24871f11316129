package provider

import (
	"time"

	"weir/model"
	"weir/sim/incident"
)

// Never is later than every instant.
const Never = int64(1<<63 - 1)

// Call is one attempt of a client.
type Call struct {
	// ID is the caller's and comes back in events.
	ID uint64
	// Request is what the client wanted; its tries share the number. Draws are
	// keyed by Request and Try.
	Request uint64
	// Try counts the tries of the request at this provider from 1.
	Try uint32
	// Input and Output are tokens; MaxTokens bounds the output when above 0.
	// Negative numbers count as 0, absurd ones as 100 million.
	Input, Output, MaxTokens int64
	// Whole: nobody looks at the first token, so no event tells of it.
	Whole bool
}

const mostTokens = 100_000_000

func (c *Call) normalise() {
	c.Input = max(0, min(c.Input, mostTokens))
	c.Output = max(0, min(c.Output, mostTokens))
	c.MaxTokens = max(0, min(c.MaxTokens, mostTokens))
	if c.MaxTokens > 0 {
		c.Output = min(c.Output, c.MaxTokens)
	}
}

// Ticket names an accepted call until it ends; 0 names none.
type Ticket uint64

// Answer is what becomes of an offered call at once.
type Answer struct {
	// Ticket is set when the call was accepted; events follow.
	Ticket Ticket
	// Refusal is meaningful when Ticket is 0.
	Refusal Refusal
	// Headers are the rate-limit headers of an accepted call.
	Headers Headers
}

// Accepted reports whether the call was taken.
func (a Answer) Accepted() bool { return a.Ticket != 0 }

// Refusal is a "no" as its receiver sees it.
type Refusal struct {
	Status int
	Code   string
	Shape  incident.Shape
	// Class and Dimension are what the answer says to a reader who knows the
	// shape. They may differ from the truth: a hidden quota can call itself
	// overload.
	Class     model.Class
	Dimension model.Dimension
	// Delay is how long the answer takes to arrive.
	Delay time.Duration
	// RetryAfter is the wait it states, or negative for none.
	RetryAfter time.Duration
	Headers    Headers
}

// Headers are the rate-limit headers of an answer.
type Headers struct {
	// Sent: the provider sends such headers at all.
	Sent             bool
	Requests, Tokens Figure
}

// Figure is one limit as headers show it.
type Figure struct {
	// Limit is per minute, or negative when there is no such limit to show.
	Limit, Remaining int64
	// Reset is the time until the limit is whole again.
	Reset time.Duration
}

// EventKind says what happened to an accepted call.
type EventKind uint8

// What can happen to an accepted call: a first token and an end, or a failure.
const (
	First  EventKind = iota + 1 // the first output token
	Done                        // the whole answer
	Failed                      // a failure that means nothing; see Status
)

// String returns the kind's name.
func (k EventKind) String() string {
	switch k {
	case First:
		return "first"
	case Done:
		return "done"
	case Failed:
		return "failed"
	}
	return "unknown"
}

// Event is something that happened to an accepted call.
type Event struct {
	At     int64 // ns since the start of the incident
	ID     uint64
	Ticket Ticket
	Kind   EventKind
	Status int // HTTP status, for Failed
	// Input and Output are the tokens used, for Done.
	Input, Output int64
}
