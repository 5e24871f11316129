package natslog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"weir/events"
)

const (
	// electionTTL is for how long a leader is elected. The server counts in
	// whole seconds; with three renewals in it one may be lost.
	electionTTL = 2 * time.Second
	// electionCall bounds one call: later an answer is of no use.
	electionCall = time.Second
	leaderKey    = "leader"
)

// Election is one candidate: a key of a bucket that holds its name and is
// forgotten by the server unless it is renewed. Each write names the revision
// it follows, so two candidates never both succeed.
type Election struct {
	js     jetstream.JetStream
	bucket jetstream.KeyValue
	key    string // the subject
	name   string
	held   uint64 // the revision this candidate wrote; 0 for none
}

// OpenElection returns a candidate, named for people, and makes the fleet's
// bucket when there is none. Replicas is how many servers keep it;
// 0 is 1.
func OpenElection(ctx context.Context, nc *nats.Conn, fleet, name string, replicas int) (*Election, error) {
	if err := events.CheckFleet(fleet); err != nil {
		return nil, fmt.Errorf("open election: %w", err)
	}
	js, err := open(nc)
	if err != nil {
		return nil, fmt.Errorf("open election: %w", err)
	}
	bucket := "WEIR_" + fleet + "_LEADER"
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: bucket, History: 1, LimitMarkerTTL: time.Minute, Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
	})
	if err != nil {
		return nil, fmt.Errorf("open election: %w", errorOf(err))
	}
	return &Election{js: js, bucket: kv, key: "$KV." + bucket + "." + leaderKey, name: name + "." + nuid.Next()}, nil
}

// Campaign implements events.Election.
func (e *Election) Campaign(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, electionCall)
	defer cancel()
	if err := e.campaign(ctx); err != nil {
		return 0, fmt.Errorf("campaign as %s: %w", e.name, err)
	}
	return electionTTL, nil
}

func (e *Election) campaign(ctx context.Context) error {
	if e.held == 0 {
		return e.take(ctx)
	}
	err := e.renew(ctx)
	if errors.Is(err, events.ErrConflict) {
		return e.take(ctx) // it ended, or a renewal before was stored without an answer
	}
	return err
}

// take is elected if nobody is, and finds out if it is already.
func (e *Election) take(ctx context.Context) error {
	e.held = 0
	rev, err := e.bucket.Create(ctx, leaderKey, []byte(e.name), jetstream.KeyTTL(electionTTL))
	if err == nil {
		e.held = rev
		return nil
	}
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return errorOf(err)
	}
	entry, err := e.bucket.Get(ctx, leaderKey)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound): // it ended just now
		return fmt.Errorf("%w: %w", events.ErrConflict, err)
	case err != nil:
		return errorOf(err)
	case string(entry.Value()) != e.name:
		return fmt.Errorf("%s leads: %w", entry.Value(), events.ErrConflict)
	}
	e.held = entry.Revision()
	return e.renew(ctx)
}

// renew writes the key again: kv.Update would store it for ever.
func (e *Election) renew(ctx context.Context) error {
	ack, err := e.js.PublishMsg(ctx, message(e.key, []byte(e.name)),
		jetstream.WithExpectLastSequencePerSubject(e.held), jetstream.WithMsgTTL(electionTTL))
	if err != nil {
		return errorOf(err)
	}
	e.held = ack.Sequence
	return nil
}

// Resign implements events.Election.
func (e *Election) Resign(ctx context.Context) error {
	if e.held == 0 {
		return nil
	}
	err := e.bucket.Delete(ctx, leaderKey, jetstream.LastRevision(e.held))
	e.held = 0
	if err = errorOf(err); err != nil && !errors.Is(err, events.ErrConflict) {
		return fmt.Errorf("resign: %w", err)
	}
	return nil
}
