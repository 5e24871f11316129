package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/events"
	"weir/model"
)

// keepLease is how long a lease is kept behind its end for an agent that joins
// late.
const keepLease = 10 * time.Minute

// Outbox is how one controller tells its fleet.
type Outbox struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	fleet string

	mu    sync.Mutex
	term  uint64 // announced by this outbox
	fence uint64 // sequence of its announcement

	limits sync.Mutex // held while limits are sent, so that they are stored in order
	board  events.Board

	// turn is held during a call where several servers keep the stream: they
	// refuse a message whose expectation names a subject that another message
	// on its way names too, and all of a term name its announcement.
	turn       sync.Mutex
	replicated bool
}

// OpenOutbox returns a way to tell a fleet, and makes its stream when there is
// none. Replicas is how many servers keep it; 0 is 1.
func OpenOutbox(ctx context.Context, nc *nats.Conn, fleet string, replicas int) (*Outbox, error) {
	if err := events.CheckFleet(fleet); err != nil {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	js, err := open(nc)
	if err != nil {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name:              outStream(fleet),
		Subjects:          []string{events.OutSubjects(fleet)},
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardOld,
		MaxMsgsPerSubject: 1,
		MaxMsgSize:        events.MaxEntry + headroom,
		AllowDirect:       true,
		AllowMsgTTL:       true,
		DenyDelete:        true,
		Storage:           jetstream.FileStorage,
		Replicas:          max(replicas, 1),
		RePublish:         &jetstream.RePublish{Source: events.OutSubjects(fleet), Destination: events.LiveSubject(fleet, ">")},
	})
	if err != nil {
		return nil, fmt.Errorf("open outbox: %w", errorOf(err))
	}
	return &Outbox{nc: nc, js: js, fleet: fleet, replicated: stream.CachedInfo().Config.Replicas > 1}, nil
}

// termTries is how often an announcement is sent when another comes between
// or its outcome is unclear.
const termTries = 3

// PutTerm implements events.Outbox.
func (o *Outbox) PutTerm(ctx context.Context, t *model.TermNotice) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	for range termTries {
		var seq uint64
		if seq, err = o.announce(ctx, t); err == nil {
			o.term, o.fence = t.Term, seq
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, errOutranked) {
			break
		}
	}
	return fmt.Errorf("announce term %d: %w", t.Term, err)
}

// errOutranked is a conflict that another try does not end.
var errOutranked = fmt.Errorf("outranked: %w", events.ErrConflict)

// announce stores the term unless a later one, or the same of another
// controller, is stored, and returns the sequence it has.
func (o *Outbox) announce(ctx context.Context, t *model.TermNotice) (uint64, error) {
	subject := events.TermSubject(o.fleet)
	held, at, err := o.announced(ctx, subject)
	if err != nil {
		return 0, err
	}
	if held != nil {
		switch {
		case held.Term > t.Term || held.Term == t.Term && held.Controller != t.Controller:
			return 0, fmt.Errorf("%w by term %d of %s", errOutranked, held.Term, held.Controller)
		case held.Term == t.Term:
			return at, nil
		}
	}
	ack, err := o.js.PublishMsg(ctx, message(subject, events.EncodeTerm(nil, t)), jetstream.WithExpectLastSequencePerSubject(at))
	if err != nil {
		return 0, errorOf(err)
	}
	return ack.Sequence, nil
}

// announced returns the term that is stored and its sequence, nil and 0 for
// none.
func (o *Outbox) announced(ctx context.Context, subject string) (*model.TermNotice, uint64, error) {
	m, err := last(ctx, o.nc, outStream(o.fleet), subject)
	if errors.Is(err, events.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	held, err := events.DecodeTerm(m.Data)
	if err != nil {
		return nil, 0, fmt.Errorf("read term in force: %w", err)
	}
	at, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("read sequence of the term in force: %w", err)
	}
	return held, at, nil
}

// put stores an output of the announced term.
func (o *Outbox) put(ctx context.Context, term uint64, subject string, data []byte, opts ...jetstream.PublishOpt) error {
	if len(data) > events.MaxEntry {
		return fmt.Errorf("output of %d bytes: %w", len(data), events.ErrTooLarge)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	o.mu.Lock()
	announced, fence := o.term, o.fence
	o.mu.Unlock()
	if term != announced || fence == 0 {
		return fmt.Errorf("term %d, announced %d: %w", term, announced, events.ErrConflict)
	}
	opts = append(opts, jetstream.WithExpectLastSequenceForSubject(fence, events.TermSubject(o.fleet)))
	if o.replicated {
		o.turn.Lock()
		defer o.turn.Unlock()
	}
	return o.send(ctx, message(subject, data), opts)
}

const (
	// sendTries is how often an output is sent when one before it, whose
	// outcome nobody waited for, may still be on its way; sendAfter the pause.
	sendTries = 5
	sendAfter = 20 * time.Millisecond
)

// errUnsettled is a refusal that does not say that the term is over.
var errUnsettled = errors.New("an output before is still on its way")

func (o *Outbox) send(ctx context.Context, m *nats.Msg, opts []jetstream.PublishOpt) error {
	for range sendTries {
		_, err := o.js.PublishMsg(ctx, m, opts...)
		var api *jetstream.APIError
		if !errors.As(err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequenceConstant {
			return errorOf(err)
		}
		if err := sleep(ctx, sendAfter); err != nil {
			return err
		}
	}
	return errUnsettled
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// PutLimits implements events.Outbox.
func (o *Outbox) PutLimits(ctx context.Context, l *model.LimitSet, full bool) error {
	o.limits.Lock()
	defer o.limits.Unlock()
	set, full := o.board.Post(l, full, time.Now())
	subject := events.ChangesSubject(o.fleet)
	if full {
		subject = events.LimitsSubject(o.fleet)
	}
	if err := o.put(ctx, l.Term, subject, events.EncodeLimits(nil, set)); err != nil {
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
	ttl := jetstream.WithMsgTTL((max(l.Duration, 0).Duration() + keepLease).Round(time.Second))
	if err := o.put(ctx, l.Term, events.LeaseSubject(o.fleet, l.Agent), events.EncodeLease(nil, l), ttl); err != nil {
		return fmt.Errorf("tell lease of %s: %w", l.Agent, err)
	}
	return nil
}

// PutConfig implements events.Outbox.
func (o *Outbox) PutConfig(ctx context.Context, seq uint64, c *model.Config) error {
	o.mu.Lock()
	term := o.term
	o.mu.Unlock()
	if err := o.put(ctx, term, events.ConfigSubject(o.fleet), events.EncodeConfig(nil, seq, c)); err != nil {
		return fmt.Errorf("tell configuration: %w", err)
	}
	return nil
}
