package natslog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Delivery is a record of a queue that is this agent's to work on, until it is
// done with or nothing is heard of it for a while.
type Delivery struct {
	Record
	// Times is how often it was delivered, this delivery included.
	Times uint64

	msg jetstream.Msg
}

// fetchBeat is how often the server says that it is there while it has nothing.
const fetchBeat = 2 * time.Second

// Next waits for a record of a lane, and returns nil when there was none in
// that time, at least four seconds.
func (t *Tasks) Next(ctx context.Context, lane int, wait time.Duration) (*Delivery, error) {
	consumer, err := t.lane(ctx, lane)
	if err != nil {
		return nil, fmt.Errorf("take from lane %d: %w", lane, errorOf(err))
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	batch, err := consumer.Fetch(1, jetstream.FetchContext(ctx), jetstream.FetchHeartbeat(min(fetchBeat, wait/3)))
	if err != nil {
		return nil, fmt.Errorf("take from lane %d: %w", lane, errorOf(err))
	}
	if m, ok := <-batch.Messages(); ok {
		meta, err := m.Metadata()
		if err != nil {
			return nil, fmt.Errorf("take from lane %d: %w", lane, err)
		}
		return &Delivery{
			Record: Record{Key: m.Subject()[len(t.room.prefix):], Data: m.Data(), Seq: meta.Sequence.Stream, Time: meta.Timestamp},
			Times:  meta.NumDelivered, msg: m,
		}, nil
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) {
		return nil, fmt.Errorf("take from lane %d: %w", lane, errorOf(err))
	}
	return nil, nil
}

// lane returns a lane's consumer, which the controller has made.
func (t *Tasks) lane(ctx context.Context, lane int) (jetstream.Consumer, error) {
	t.mu.Lock()
	c := t.lanes[lane]
	t.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := t.js.Consumer(ctx, t.room.stream, laneName(lane))
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.lanes[lane] = c
	t.mu.Unlock()
	return c, nil
}

// Line is how a lane stands.
type Line struct {
	// Given is the sequence of the last record that somebody was given;
	// Behind counts those after it.
	Given, Behind uint64
}

// Line returns how a lane stands.
func (t *Tasks) Line(ctx context.Context, lane int) (Line, error) {
	c, err := t.lane(ctx, lane)
	if err != nil {
		return Line{}, fmt.Errorf("look at lane %d: %w", lane, errorOf(err))
	}
	ctx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	info, err := c.Info(ctx)
	if err != nil {
		return Line{}, fmt.Errorf("look at lane %d: %w", lane, errorOf(err))
	}
	return Line{Given: info.Delivered.Stream, Behind: info.NumPending}, nil
}

// Done ends it: nobody is given it again.
func (d *Delivery) Done() error { return d.msg.Ack() }

// Later gives it back, for somebody to be given after that time.
func (d *Delivery) Later(after time.Duration) error { return d.msg.NakWithDelay(after) }

// Working says that it is being worked on. It is said every third of ten
// seconds, or somebody else is given the record too.
func (d *Delivery) Working() error { return d.msg.InProgress() }

// Beat is how often Working is said.
const Beat = taskAckWait / 4

// Tell says a word to all agents that hear of the room. A word may be lost.
func (t *Tasks) Tell(word string) error {
	return t.nc.Publish(t.room.subject("note"), []byte(word))
}

// Hear calls f, one call at a time, for every word told, until stop is called.
func (t *Tasks) Hear(f func(word string)) (stop func(), err error) {
	return t.subscribe("note", func(m *nats.Msg) { f(string(m.Data)) })
}

// Answer answers what other agents ask this one, until stop is called.
func (t *Tasks) Answer(f func(question string) string) (stop func(), err error) {
	return t.subscribe("ask."+t.agent, func(m *nats.Msg) {
		_ = m.Respond([]byte(f(string(m.Data)))) // who asked asks again
	})
}

func (t *Tasks) subscribe(what string, f nats.MsgHandler) (stop func(), err error) {
	sub, err := t.nc.Subscribe(t.room.subject(what), f)
	if err != nil {
		return nil, fmt.Errorf("hear of tasks: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // it ends with the connection too
}

// ErrSilent says that no process of that name hears.
var ErrSilent = errors.New("natslog: nobody answers")

// askWithin bounds the wait for an agent's answer.
const askWithin = 2 * time.Second

// Ask asks an agent. ErrSilent says that the server knows of nobody who would
// hear; any other error says nothing about the agent.
func (t *Tasks) Ask(ctx context.Context, agent, question string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	m, err := t.nc.RequestWithContext(ctx, t.room.subject("ask."+agent), []byte(question))
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return "", ErrSilent
	case err != nil:
		return "", fmt.Errorf("ask %s: %w", agent, err)
	}
	return string(m.Data), nil
}

// Steady returns since when the connection has stood, as far as was noticed:
// it never stood longer than it says.
func (t *Tasks) Steady(now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.nc.Stats().Reconnects; n != t.reconnects || !t.nc.IsConnected() {
		t.reconnects, t.steady = n, now
	}
	return t.steady
}
