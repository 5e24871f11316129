package natslog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/events"
	"weir/model"
)

const (
	// pullBytes is how much the server sends ahead. More than the server may
	// queue for a connection makes it drop the connection; an entry fits.
	pullBytes = 1 << 20
	// heartbeat is how often a server without entries says that it lives.
	heartbeat = 5 * time.Second
	// handOver is how many entries wait between the connection and Next. With
	// pullBytes it bounds what a reader holds.
	handOver = 32
)

// Read implements events.Log. The reader outlives lost connections and server
// restarts, but ends with an error when after one the entry it delivered last
// is gone or another: the caller then looks at the log before it reads on. A
// goroutine of its own feeds it; it ends soon after Close.
func (l *Log) Read(ctx context.Context, from uint64) (events.Reader, error) {
	r, err := l.read(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("read log from %d: %w", from, errorOf(err))
	}
	return r, nil
}

func (l *Log) read(ctx context.Context, from uint64) (*reader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	consumer, err := l.js.OrderedConsumer(ctx, l.config.Name, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, // else the sequence is ignored
		OptStartSeq:   max(from, 1),
	})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages(jetstream.PullMaxBytes(pullBytes), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return nil, err
	}
	r := &reader{log: l, messages: messages, next: max(from, 1), entries: make(chan events.Entry, handOver), done: make(chan struct{})}
	go r.feed()
	return r, nil
}

// reader hands entries over from the goroutine that receives them.
type reader struct {
	log      *Log
	messages jetstream.MessagesContext
	entries  chan events.Entry // closed when feed ends
	err      error             // why it ended
	once     sync.Once
	done     chan struct{} // closed by Close

	// next is the entry that comes next in a log without holes.
	next uint64
	// consumer is the one that delivered last, the entry at seq, stored at
	// that time.
	consumer string
	seq      uint64
	time     time.Time
}

// feed receives until the reader is closed or the connection is for good.
func (r *reader) feed() {
	defer close(r.entries)
	for {
		m, err := r.messages.Next()
		if err != nil {
			if errors.Is(err, jetstream.ErrMsgIteratorClosed) {
				err = fmt.Errorf("%w: %w", events.ErrClosed, err)
			}
			r.err = err
			return
		}
		meta, err := m.Metadata()
		if err != nil {
			r.err = err
			return
		}
		if err := r.continues(meta); err != nil {
			r.err = err
			return
		}
		e := events.Entry{
			Seq:     meta.Sequence.Stream,
			Time:    model.Nanos(meta.Timestamp.UnixNano()),
			Subject: m.Subject(),
			Data:    m.Data(),
		}
		select {
		case r.entries <- e:
		case <-r.done:
			return
		}
	}
}

// continues checks, whenever the consumer was made anew, that the entry
// delivered last still stands in the log. A server that lost the log's end
// and was written to again would else go on behind it with another past. And
// it checks that entries which are left out are not there: a server of a
// cluster that comes back may deliver before it has caught up.
func (r *reader) continues(meta *jetstream.MsgMetadata) error {
	if err := r.skips(meta.Sequence.Stream); err != nil {
		return err
	}
	if r.seq > 0 && meta.Consumer != r.consumer {
		ctx, cancel := context.WithTimeout(context.Background(), ackWithin)
		defer cancel()
		e, err := r.log.at(ctx, r.seq)
		if err != nil {
			return fmt.Errorf("read entry %d again: %w", r.seq, errorOf(err))
		}
		if e.Time != model.Nanos(r.time.UnixNano()) {
			return fmt.Errorf("entry %d is another one than was delivered", r.seq)
		}
	}
	r.consumer, r.seq, r.time = meta.Consumer, meta.Sequence.Stream, meta.Timestamp
	return nil
}

// skips returns an error when the log holds an entry that is left out before
// the one at seq.
func (r *reader) skips(seq uint64) error {
	left := r.next
	if r.next = seq + 1; seq <= left {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), ackWithin)
	defer cancel()
	info, err := r.log.info(ctx)
	if err == nil {
		if left = max(left, info.First); seq <= left {
			return nil // what came before is trimmed
		}
		_, err = r.log.at(ctx, left)
	}
	if err == nil {
		return fmt.Errorf("entry %d was left out before %d, and the log holds it", left, seq)
	}
	if err = errorOf(err); !errors.Is(err, events.ErrNotFound) {
		return fmt.Errorf("look for entry %d, which was left out: %w", left, err)
	}
	return nil
}

// Next implements events.Reader.
func (r *reader) Next(ctx context.Context) (events.Entry, error) {
	select {
	case <-r.done:
		return events.Entry{}, events.ErrClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return events.Entry{}, err
	}
	select {
	case e, ok := <-r.entries:
		if !ok {
			return events.Entry{}, fmt.Errorf("read next entry: %w", r.err)
		}
		return e, nil
	case <-r.done:
		return events.Entry{}, events.ErrClosed
	case <-ctx.Done():
		return events.Entry{}, ctx.Err()
	}
}

// Close implements events.Reader. Stopping waits while the consumer is being
// made anew, which without a server takes seconds, so it is not waited for.
func (r *reader) Close() error {
	r.once.Do(func() {
		close(r.done)
		go r.messages.Stop()
	})
	return nil
}
