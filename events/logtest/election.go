package logtest

import (
	"errors"
	"testing"
	"time"

	"weir/events"
)

// testElection: one is elected; when it resigns another is, at once.
func testElection(t *testing.T, b *Bus) {
	first, second := b.Election("first"), b.Election("second")
	held, err := first.Campaign(t.Context())
	must(t, err)
	if held < time.Second {
		t.Errorf("elected for %s, too short to renew", held)
	}
	for range 3 {
		_, err = second.Campaign(t.Context())
		wantError(t, "campaign against a leader", err, events.ErrConflict)
		_, err = first.Campaign(t.Context())
		must(t, err)
	}
	must(t, second.Resign(t.Context()))
	_, err = second.Campaign(t.Context())
	wantError(t, "campaign after the resignation of one that was not elected", err, events.ErrConflict)
	must(t, first.Resign(t.Context()))
	_, err = second.Campaign(t.Context())
	must(t, err)
	_, err = first.Campaign(t.Context())
	wantError(t, "campaign of the one that resigned", err, events.ErrConflict)
	must(t, second.Resign(t.Context()))
}

// testElectionEnds: one that does not renew is followed by another, not before
// its time is up and soon after.
func testElectionEnds(t *testing.T, b *Bus) {
	first, second := b.Election("first"), b.Election("second")
	start := time.Now()
	held, err := first.Campaign(t.Context())
	must(t, err)
	for {
		_, err := second.Campaign(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, events.ErrConflict) || time.Since(start) > patience {
			t.Fatalf("campaign against a silent leader: %v after %s", err, time.Since(start))
		}
		time.Sleep(20 * time.Millisecond)
	}
	if after := time.Since(start); after < held {
		t.Errorf("another is elected after %s, the first was for %s", after, held)
	}
	_, err = first.Campaign(t.Context())
	wantError(t, "renewal of an election that ended", err, events.ErrConflict)
}

// testElectionAgain: a candidate that resigned may be elected again.
func testElectionAgain(t *testing.T, b *Bus) {
	e := b.Election("only")
	for range 3 {
		_, err := e.Campaign(t.Context())
		must(t, err)
		must(t, e.Resign(t.Context()))
	}
}
