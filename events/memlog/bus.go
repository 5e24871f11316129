// Package memlog is a fleet's bus in memory: log, writers, outbox and inboxes
// of events with the same contract as NATS and none of its processes. It
// serves tests and demonstrations; what it holds is gone with the process.
//
// A Bus starts no goroutine and reads the time only with package time, so it
// works inside testing/synctest bubbles. It is bounded: a log that reached
// Options.MaxBytes refuses appends, and a listener that does not keep up loses
// messages and gets the latest again, as on NATS. Faults makes it lose, delay
// and refuse on purpose.
package memlog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"weir/events"
	"weir/model"
)

// ErrUnreachable is what a call gets whose caller is cut off, or whose message
// or answer was lost.
var ErrUnreachable = errors.New("memlog: bus unreachable")

// Controller is the controller's name in Faults.
const Controller = "control"

// Options sizes a bus. The zero value is the default.
type Options struct {
	// MaxBytes bounds the log's data; 0 is 256 MiB.
	MaxBytes int64
	// Refresh is how often a listener gets the latest again; 0 is 2 minutes.
	Refresh time.Duration
}

// Faults is what goes wrong on a bus. With the zero value nothing does. The
// functions are called with the bus locked: they decide, and call nothing back.
type Faults struct {
	// Cut names who cannot reach the bus: agents, or Controller.
	Cut []string
	// Delay is the time a call takes to the bus, and a message from it.
	Delay time.Duration
	// LoseWrite says whether a report is lost on its way, LoseAck whether it
	// is stored and its acknowledgement lost, LoseTell whether a message to
	// an agent is lost. Nil loses none.
	LoseWrite, LoseAck, LoseTell func(agent string) bool
	// Full makes the log refuse every append.
	Full bool
}

// Bus is one fleet's bus. Its methods may be called from every goroutine.
type Bus struct {
	fleet   string
	options Options

	mu        sync.Mutex
	faults    Faults
	log       store
	out       told
	elected   held
	listeners map[*listener]struct{}
	changed   chan struct{} // closed and made anew when log or faults change
}

// New returns an empty bus of a fleet.
func New(fleet string, o Options) *Bus {
	if o.MaxBytes == 0 {
		o.MaxBytes = 256 << 20
	}
	if o.Refresh == 0 {
		o.Refresh = 2 * time.Minute
	}
	return &Bus{
		fleet:     fleet,
		options:   o,
		log:       newStore(o.MaxBytes),
		out:       told{leases: make(map[string]lease)},
		listeners: make(map[*listener]struct{}),
		changed:   make(chan struct{}),
	}
}

// SetFaults puts other faults in force. Whoever was cut off and is not any
// more gets the latest of everything, as after a reconnect.
func (b *Bus) SetFaults(f Faults) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.listeners {
		if slices.Contains(b.faults.Cut, l.who) && !slices.Contains(f.Cut, l.who) {
			l.stale = true
		}
	}
	b.faults = f
	b.wake()
}

// wake lets everybody who waits look again. The caller holds mu.
func (b *Bus) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// reach waits out the delay and fails for who is cut off.
func (b *Bus) reach(ctx context.Context, who string) error {
	b.mu.Lock()
	delay := b.faults.Delay
	b.mu.Unlock()
	if err := sleep(ctx, delay); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut(who) {
		return ErrUnreachable
	}
	return ctx.Err()
}

func (b *Bus) cut(who string) bool { return slices.Contains(b.faults.Cut, who) }

// sleep waits d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func unixNow() model.Nanos { return model.Nanos(time.Now().UnixNano()) }

// Interface checks.
var (
	_ events.Log    = (*Log)(nil)
	_ events.Loader = (*Log)(nil)
	_ events.Outbox = (*Outbox)(nil)
	_ events.Inbox  = (*Inbox)(nil)

	_ events.Election = (*Election)(nil)
)
