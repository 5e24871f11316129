package agent

import (
	"fmt"
	"time"

	"weir/model"
)

// RefusedError says that a request was not admitted.
type RefusedError struct {
	// Class is the kind of trouble, Channel where it is, empty for none.
	Class   model.Class
	Channel string
	// Wait is after which time another try makes sense; 0 when unknown.
	Wait time.Duration
	// Position is the place in the queue it had or would have had, from 1.
	Position int
	// Reason says why in words.
	Reason string
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("agent: request refused (%s): %s", e.Class, e.Reason)
}

// FailedError says that the last attempt of a request failed.
type FailedError struct {
	// Outcome is the last attempt's.
	Outcome model.Outcome
	// Channel is where it was made.
	Channel string
	// Wait is after which time another try makes sense; 0 when unknown.
	Wait time.Duration
	// Reason says why it was not tried again.
	Reason string
}

// Error implements error.
func (e *FailedError) Error() string {
	return fmt.Sprintf("agent: attempt on channel %s failed (%s): %s", e.Channel, e.Outcome.Class, e.Reason)
}

// RuledError says that a route's fixed answer takes the place of a call.
type RuledError struct {
	// Answer is the fixed answer, Tier the route's tier that has it.
	Answer string
	Tier   int
	// Class is the kind of trouble, Reason says in words why no call was made.
	Class  model.Class
	Reason string
}

// Error implements error.
func (e *RuledError) Error() string {
	return fmt.Sprintf("agent: fixed answer of tier %d: %s", e.Tier, e.Reason)
}

func refused(r *model.Reply) error {
	if r.Kind == model.ReplyRule {
		return &RuledError{Answer: r.Answer, Tier: int(r.Tier), Class: r.Class, Reason: r.Reason}
	}
	return &RefusedError{
		Class: r.Class, Channel: r.Channel, Wait: r.Wait.Duration(), Position: r.Position, Reason: r.Reason,
	}
}
