package memlog

import (
	"context"
	"fmt"
	"time"

	"weir/events"
)

// maxQueue is how many messages wait for one listener. One that falls behind
// further loses them and gets the latest again.
const maxQueue = 1024

// listener is one agent that hears. The bus locks it.
type listener struct {
	who   string // whose connection it uses
	agent string
	queue []message
	stale bool // messages were lost or the bus is back: get the latest again
}

// tell queues a message for everybody it is for. The caller holds mu.
func (b *Bus) tell(m message) {
	m.due = time.Now().Add(b.faults.Delay)
	for l := range b.listeners {
		if m.agent != "" && m.agent != l.agent || b.cut(l.who) {
			continue
		}
		if b.faults.LoseTell != nil && b.faults.LoseTell(l.agent) {
			continue
		}
		if len(l.queue) == maxQueue {
			l.queue, l.stale = nil, true
			continue
		}
		l.queue = append(l.queue, m)
	}
	b.wake()
}

// latest lists what a listener that joins now has to know. The caller holds mu.
func (b *Bus) latest(agent string) []message {
	var all []message
	add := func(data []byte) {
		if data != nil {
			all = append(all, message{data: data})
		}
	}
	add(b.out.notice)
	add(b.out.conf)
	add(b.out.limits)
	add(b.out.changes)
	if l, ok := b.out.leases[agent]; ok && time.Now().Before(l.ends) {
		add(l.data)
	}
	return all
}

// Inbox is how one agent hears.
type Inbox struct {
	bus *Bus
	who string
}

// Inbox returns the ear of whoever is named; Faults knows it by that name.
func (b *Bus) Inbox(who string) *Inbox { return &Inbox{bus: b, who: who} }

// Connected implements events.Inbox.
func (i *Inbox) Connected() bool {
	i.bus.mu.Lock()
	defer i.bus.mu.Unlock()
	return !i.bus.cut(i.who)
}

// Listen implements events.Inbox. It calls the handler from the caller's
// goroutine.
func (i *Inbox) Listen(ctx context.Context, agent string, h events.Handler) error {
	if err := events.CheckAgent(agent); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	b := i.bus
	l := &listener{who: i.who, agent: agent, stale: true}
	b.mu.Lock()
	b.listeners[l] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, l)
	}()
	refresh := time.NewTicker(b.options.Refresh)
	defer refresh.Stop()
	for {
		m, ok, changed := b.next(l)
		if ok {
			if err := sleep(ctx, time.Until(m.due)); err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			if err := events.Deliver(m.data, h); err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("listen: %w", ctx.Err())
		case <-refresh.C:
			b.mu.Lock()
			l.stale = true
			b.mu.Unlock()
		case <-changed:
		}
	}
}

// next takes the next message for a listener, or says what to wait for. A
// listener that is stale gets the latest of everything first.
func (b *Bus) next(l *listener) (m message, ok bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.stale && !b.cut(l.who) {
		l.queue, l.stale = b.latest(l.agent), false
		due := time.Now().Add(b.faults.Delay)
		for i := range l.queue {
			l.queue[i].due = due
		}
	}
	if len(l.queue) == 0 {
		return message{}, false, b.changed
	}
	m, l.queue = l.queue[0], l.queue[1:]
	return m, true, nil
}
