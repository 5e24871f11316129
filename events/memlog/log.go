package memlog

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"

	"weir/events"
	"weir/model"
)

// store is the log's data. The bus locks it.
type store struct {
	entries []events.Entry
	next    uint64            // sequence of the next entry
	tails   map[string]uint64 // last sequence of each subject that is held
	created model.Nanos
	bytes   int64
	most    int64
}

func newStore(most int64) store {
	return store{next: 1, tails: make(map[string]uint64), created: unixNow(), most: most}
}

func (s *store) first() uint64 { return s.next - uint64(len(s.entries)) }

// add stores an entry at the end.
func (s *store) add(subject string, at model.Nanos, data []byte) (uint64, error) {
	if len(data) > events.MaxEntry {
		return 0, fmt.Errorf("store %d bytes: %w", len(data), events.ErrTooLarge)
	}
	if s.bytes+int64(len(data)) > s.most {
		return 0, events.ErrFull
	}
	seq := s.next
	s.entries = append(s.entries, events.Entry{Seq: seq, Time: at, Subject: subject, Data: bytes.Clone(data)})
	s.bytes += int64(len(data))
	s.tails[subject] = seq
	s.next++
	return seq, nil
}

// from returns the first held entry at or after seq.
func (s *store) from(seq uint64) (events.Entry, bool) {
	first := s.first()
	if seq < first {
		seq = first
	}
	if seq >= s.next {
		return events.Entry{}, false
	}
	return s.entries[seq-first], true
}

// trim drops the entries before seq.
func (s *store) trim(seq uint64) {
	for len(s.entries) > 0 && s.entries[0].Seq < seq {
		e := &s.entries[0]
		s.bytes -= int64(len(e.Data))
		if s.tails[e.Subject] == e.Seq {
			delete(s.tails, e.Subject)
		}
		*e = events.Entry{}
		s.entries = s.entries[1:]
	}
}

// Log is the controller's side of a bus's log.
type Log struct{ bus *Bus }

// Log returns the fleet's log as its controller uses it.
func (b *Bus) Log() *Log { return &Log{bus: b} }

// Append implements events.Log.
func (l *Log) Append(ctx context.Context, data []byte) (uint64, error) {
	b := l.bus
	if err := b.reach(ctx, Controller); err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	seq, err := b.append(events.ControlSubject(b.fleet), data)
	if err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	return seq, nil
}

// append stores one entry and wakes readers. The caller holds mu.
func (b *Bus) append(subject string, data []byte) (uint64, error) {
	if b.faults.Full {
		return 0, events.ErrFull
	}
	seq, err := b.log.add(subject, unixNow(), data)
	if err == nil {
		b.wake()
	}
	return seq, err
}

// Load implements events.Loader: the entry keeps sequence, time and subject.
func (l *Log) Load(ctx context.Context, e events.Entry) error {
	b := l.bus
	if err := b.reach(ctx, Controller); err != nil {
		return fmt.Errorf("load entry %d: %w", e.Seq, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Seq != b.log.next {
		return fmt.Errorf("load entry %d where %d is next: %w", e.Seq, b.log.next, events.ErrConflict)
	}
	if _, err := b.log.add(e.Subject, e.Time, e.Data); err != nil {
		return fmt.Errorf("load entry %d: %w", e.Seq, err)
	}
	b.wake()
	return nil
}

// At implements events.Log.
func (l *Log) At(ctx context.Context, seq uint64) (events.Entry, error) {
	b := l.bus
	if err := b.reach(ctx, Controller); err != nil {
		return events.Entry{}, fmt.Errorf("read entry %d: %w", seq, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.log.from(seq)
	if !ok || e.Seq != seq {
		return events.Entry{}, fmt.Errorf("read entry %d: %w", seq, events.ErrNotFound)
	}
	e.Data = bytes.Clone(e.Data)
	return e, nil
}

// Info implements events.Log.
func (l *Log) Info(ctx context.Context) (events.Info, error) {
	b := l.bus
	if err := b.reach(ctx, Controller); err != nil {
		return events.Info{}, fmt.Errorf("ask for the log's extent: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return events.Info{First: b.log.first(), Last: b.log.next - 1, Created: b.log.created}, nil
}

// Reanchor implements events.Log.
func (l *Log) Reanchor(ctx context.Context, next uint64) error {
	b := l.bus
	if next == 0 {
		return fmt.Errorf("anchor log at 0: %w", events.ErrNotFound)
	}
	if err := b.reach(ctx, Controller); err != nil {
		return fmt.Errorf("anchor log at %d: %w", next, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log.trim(b.log.next)
	b.log.next = next
	b.wake()
	return nil
}

// Trim implements events.Log.
func (l *Log) Trim(ctx context.Context, before uint64) error {
	b := l.bus
	if err := b.reach(ctx, Controller); err != nil {
		return fmt.Errorf("trim log to %d: %w", before, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log.trim(min(before, b.log.next))
	return nil
}

// Read implements events.Log.
func (l *Log) Read(ctx context.Context, from uint64) (events.Reader, error) {
	if err := l.bus.reach(ctx, Controller); err != nil {
		return nil, fmt.Errorf("read log from %d: %w", from, err)
	}
	return &reader{bus: l.bus, pos: max(from, 1)}, nil
}

// reader waits for entries at or after pos.
type reader struct {
	bus    *Bus
	pos    uint64
	closed atomic.Bool
}

// Next implements events.Reader.
func (r *reader) Next(ctx context.Context) (events.Entry, error) {
	b := r.bus
	for {
		if r.closed.Load() {
			return events.Entry{}, events.ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return events.Entry{}, err
		}
		b.mu.Lock()
		e, ok := b.log.from(r.pos)
		ok = ok && !b.cut(Controller)
		changed, delay := b.changed, b.faults.Delay
		b.mu.Unlock()
		if ok {
			if err := sleep(ctx, (e.Time-unixNow()).Duration()+delay); err != nil {
				return events.Entry{}, err
			}
			r.pos = e.Seq + 1
			e.Data = bytes.Clone(e.Data)
			return e, nil
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// Close implements events.Reader.
func (r *reader) Close() error {
	r.closed.Store(true)
	r.bus.mu.Lock()
	defer r.bus.mu.Unlock()
	r.bus.wake()
	return nil
}

// Writer returns an agent's way into the log.
func (b *Bus) Writer(agent string) events.Writer {
	return events.NewWriter(&tail{bus: b, agent: agent, subject: events.LogSubject(b.fleet, agent)})
}

// tail is the end of one agent's subject.
type tail struct {
	bus            *Bus
	agent, subject string
}

// Append implements events.Tail.
func (t *tail) Append(ctx context.Context, data []byte, last uint64) (uint64, error) {
	b := t.bus
	if err := b.reach(ctx, t.agent); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.faults.LoseWrite != nil && b.faults.LoseWrite(t.agent) {
		return 0, fmt.Errorf("report lost: %w", ErrUnreachable)
	}
	if held := b.log.tails[t.subject]; held != last {
		return 0, fmt.Errorf("subject ends at %d, not %d: %w", held, last, events.ErrConflict)
	}
	seq, err := b.append(t.subject, data)
	if err != nil {
		return 0, err
	}
	if b.faults.LoseAck != nil && b.faults.LoseAck(t.agent) {
		return 0, fmt.Errorf("acknowledgement lost: %w", ErrUnreachable)
	}
	return seq, nil
}

// Last implements events.Tail.
func (t *tail) Last(ctx context.Context) (events.Entry, error) {
	b := t.bus
	if err := b.reach(ctx, t.agent); err != nil {
		return events.Entry{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	seq, ok := b.log.tails[t.subject]
	if !ok {
		return events.Entry{}, events.ErrNotFound
	}
	e, _ := b.log.from(seq)
	return e, nil
}
