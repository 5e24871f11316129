package natslog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"weir/events"
)

const (
	// refreshEvery is how often an agent gets the latest of everything though
	// nothing seems amiss, give or take a quarter: a message that was lost
	// between server and agent leaves no trace.
	refreshEvery = 4 * time.Minute
	// retryAfter is how soon that is tried again when it failed.
	retryAfter = time.Second
	// waiting is how many messages may wait for a listener's handler; beyond,
	// they are dropped and the latest is got again.
	waiting = 256
)

// Inbox is how an agent hears over a connection.
type Inbox struct {
	nc    *nats.Conn
	fleet string
	o     Options
}

// NewInbox returns the ear of agents of a fleet. Of the options only OnFault
// is used.
func NewInbox(nc *nats.Conn, fleet string, o Options) (*Inbox, error) {
	if err := events.CheckFleet(fleet); err != nil {
		return nil, fmt.Errorf("open inbox: %w", err)
	}
	return &Inbox{nc: nc, fleet: fleet, o: o}, nil
}

// Connected implements events.Inbox.
func (i *Inbox) Connected() bool { return i.nc.IsConnected() }

// Listen implements events.Inbox. It calls the handler from the caller's
// goroutine.
func (i *Inbox) Listen(ctx context.Context, agent string, h events.Handler) error {
	if err := events.CheckAgent(agent); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	l := &listener{Inbox: i, handler: h, outputs: outputs(i.fleet, agent), heard: make(chan *nats.Msg, waiting)}
	defer l.leave()
	if err := l.join(); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	connected := i.nc.StatusChanged(nats.CONNECTED)
	defer i.nc.RemoveStatusListener(connected)
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("listen: %w", ctx.Err())
		case m := <-l.heard:
			l.deliver(m)
			if l.dropped() {
				again.Reset(0)
			}
		case _, open := <-connected:
			if !open {
				connected = nil
			}
			again.Reset(0)
		case <-again.C:
			again.Reset(l.refresh(ctx))
		}
	}
}

// listener is one call of Listen.
type listener struct {
	*Inbox
	handler events.Handler
	outputs []string
	subs    []*nats.Subscription
	heard   chan *nats.Msg
	lost    int // messages dropped so far
}

// join subscribes to the outputs as they are repeated after storing. One
// channel takes them all, so that they are handled one at a time.
func (l *listener) join() error {
	for _, out := range l.outputs {
		s, err := l.nc.ChanSubscribe(events.LiveSubject(l.fleet, out), l.heard)
		if err != nil {
			return err
		}
		l.subs = append(l.subs, s)
	}
	return nil
}

func (l *listener) leave() {
	for _, s := range l.subs {
		if err := s.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			l.o.fault(FaultServer, err)
		}
	}
}

// dropped reports whether messages were dropped since it was asked last.
func (l *listener) dropped() bool {
	n := 0
	for _, s := range l.subs {
		if d, err := s.Dropped(); err == nil {
			n += d
		}
	}
	more := n > l.lost
	l.lost = n
	return more
}

func (l *listener) deliver(m *nats.Msg) {
	if err := events.Deliver(m.Data, l.handler); err != nil {
		l.o.fault(FaultOutput, err)
	}
}

// refresh gets the latest of everything and returns when to do so again. The
// subscriptions are at the server before it asks, so that nothing falls
// between.
func (l *listener) refresh(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	err := l.nc.FlushWithContext(ctx)
	for _, out := range l.outputs {
		if err != nil {
			break
		}
		var m *nats.Msg
		m, err = last(ctx, l.nc, outStream(l.fleet), out)
		switch {
		case err == nil:
			l.deliver(m)
		case errors.Is(err, events.ErrNotFound):
			err = nil
		}
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			l.o.fault(FaultRefresh, err)
		}
		return retryAfter
	}
	return refreshEvery*3/4 + rand.N(refreshEvery/2)
}
