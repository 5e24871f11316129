package memlog

import (
	"context"
	"fmt"
	"time"

	"weir/events"
)

// held is who is elected and until when.
type held struct {
	by    *Election
	until time.Time
}

// Election is one controller's part in the election of a leader.
type Election struct {
	bus *Bus
	who string
	ttl time.Duration
}

// Election returns a new candidate, named who in Faults, that is elected for
// ttl at a time.
func (b *Bus) Election(who string, ttl time.Duration) *Election {
	return &Election{bus: b, who: who, ttl: ttl}
}

// Campaign implements events.Election.
func (e *Election) Campaign(ctx context.Context) (time.Duration, error) {
	if err := e.bus.reach(ctx, e.who); err != nil {
		return 0, fmt.Errorf("campaign: %w", err)
	}
	e.bus.mu.Lock()
	defer e.bus.mu.Unlock()
	now := time.Now()
	if h := e.bus.elected; h.by != nil && h.by != e && now.Before(h.until) {
		return 0, fmt.Errorf("campaign: %w", events.ErrConflict)
	}
	e.bus.elected = held{e, now.Add(e.ttl)}
	return e.ttl, nil
}

// Resign implements events.Election.
func (e *Election) Resign(ctx context.Context) error {
	if err := e.bus.reach(ctx, e.who); err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	e.bus.mu.Lock()
	defer e.bus.mu.Unlock()
	if e.bus.elected.by == e {
		e.bus.elected = held{}
	}
	return nil
}
