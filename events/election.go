package events

import (
	"context"
	"time"
)

// Election decides which of several controllers leads a fleet: one candidate
// holds it at a time, for a duration, and has to renew it. It only says who
// may ask for a term; what fences a leader that is one no more is the term
// itself (Outbox, model.Lead), so a candidate whose clock stands still harms
// nobody. Calls come one at a time.
type Election interface {
	// Campaign elects this candidate or renews its election. It is the leader
	// for the time returned, counted from before the call; ErrConflict says
	// that another is. After any other error the outcome is open, and what
	// was held before goes on to its end.
	Campaign(ctx context.Context) (time.Duration, error)
	// Resign gives the election back at once, if this candidate holds it.
	Resign(ctx context.Context) error
}
