package memlog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"weir/events"
	"weir/model"
)

// told is the latest of everything the controller said, encoded as it travels.
// The bus locks it.
type told struct {
	term                          uint64
	controller                    string
	notice, limits, changes, conf []byte
	leases                        map[string]lease
}

// lease is one agent's lease and when it may be forgotten.
type lease struct {
	data []byte
	ends time.Time
}

// keepLease is how long a lease is kept after its end, for an agent that
// joins late: longer than that nobody would use it.
const keepLease = 10 * time.Minute

// manyLeases is from how many leases on ended ones are swept.
const manyLeases = 1024

// message is one output on its way to listeners; agent is "" for all.
type message struct {
	agent string
	data  []byte
	due   time.Time
}

// Outbox is how the controller tells a bus's agents. Several may exist, as
// when an old leader does not know that it is one no more.
type Outbox struct {
	bus   *Bus
	mu    sync.Mutex
	term  uint64 // announced by this one
	board events.Board
}

// Outbox returns a new way to tell the fleet.
func (b *Bus) Outbox() *Outbox { return &Outbox{bus: b} }

// PutTerm implements events.Outbox.
func (o *Outbox) PutTerm(ctx context.Context, t *model.TermNotice) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.put(ctx, t.Term, func(out *told) (message, error) {
		if t.Term == out.term && out.notice != nil && t.Controller != out.controller {
			return message{}, fmt.Errorf("held by %s: %w", out.controller, events.ErrConflict)
		}
		out.term, out.controller = t.Term, t.Controller
		out.notice = events.EncodeTerm(nil, t)
		return message{data: out.notice}, nil
	})
	if err != nil {
		return fmt.Errorf("announce term %d: %w", t.Term, err)
	}
	o.term = t.Term
	return nil
}

// tell sends an output of the term this outbox announced.
func (o *Outbox) tell(ctx context.Context, term uint64, send func(*told) message) error {
	if term != o.term {
		return fmt.Errorf("term %d, announced %d: %w", term, o.term, events.ErrConflict)
	}
	return o.put(ctx, term, func(out *told) (message, error) { return send(out), nil })
}

// put stores one output and sends it to those who listen, unless a later term
// was announced.
func (o *Outbox) put(ctx context.Context, term uint64, send func(*told) (message, error)) error {
	b := o.bus
	if err := b.reach(ctx, Controller); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if term < b.out.term {
		return fmt.Errorf("term %d is in force: %w", b.out.term, events.ErrConflict)
	}
	m, err := send(&b.out)
	if err != nil {
		return err
	}
	b.tell(m)
	return nil
}

// PutLimits implements events.Outbox.
func (o *Outbox) PutLimits(ctx context.Context, l *model.LimitSet, full bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	set, full := o.board.Post(l, full, time.Now())
	data := events.EncodeLimits(nil, set)
	if len(data) > events.MaxEntry {
		return fmt.Errorf("tell limits of %d channels: %w", len(set.Channels), events.ErrTooLarge)
	}
	err := o.tell(ctx, l.Term, func(out *told) message {
		if full {
			out.limits = data
		} else {
			out.changes = data
		}
		return message{data: data}
	})
	if err != nil {
		return fmt.Errorf("tell limits: %w", err)
	}
	o.board.Settled(full)
	return nil
}

// PutLease implements events.Outbox.
func (o *Outbox) PutLease(ctx context.Context, l *model.Lease) error {
	if err := events.CheckAgent(l.Agent); err != nil {
		return fmt.Errorf("tell lease: %w", err)
	}
	data := events.EncodeLease(nil, l)
	if len(data) > events.MaxEntry {
		return fmt.Errorf("tell lease of %s: %w", l.Agent, events.ErrTooLarge)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.tell(ctx, l.Term, func(out *told) message {
		now := time.Now()
		if len(out.leases) >= manyLeases {
			for agent, l := range out.leases {
				if l.ends.Before(now) {
					delete(out.leases, agent)
				}
			}
		}
		out.leases[l.Agent] = lease{data: data, ends: now.Add(l.Duration.Duration() + keepLease)}
		return message{agent: l.Agent, data: data}
	})
	if err != nil {
		return fmt.Errorf("tell lease of %s: %w", l.Agent, err)
	}
	return nil
}

// PutConfig implements events.Outbox.
func (o *Outbox) PutConfig(ctx context.Context, seq uint64, c *model.Config) error {
	data := events.EncodeConfig(nil, seq, c)
	if len(data) > events.MaxEntry {
		return fmt.Errorf("tell configuration: %w", events.ErrTooLarge)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.tell(ctx, o.term, func(out *told) message {
		out.conf = data
		return message{data: data}
	})
	if err != nil {
		return fmt.Errorf("tell configuration: %w", err)
	}
	return nil
}
