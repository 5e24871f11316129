package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"weir/events"
	"weir/model"
)

// LogOptions sizes a log.
type LogOptions struct {
	// MaxBytes is how much the log may take on disk; appends are refused
	// beyond it. 0 leaves it to the server, or as it is in a log that exists.
	MaxBytes int64
	// Replicas is how many servers keep the log; 0 is 1.
	Replicas int
}

// Log is a fleet's log in a stream. Its methods may be called from every
// goroutine.
type Log struct {
	js     jetstream.JetStream
	fleet  string
	config jetstream.StreamConfig
	stream jetstream.Stream // by name, so it outlives the stream's being made anew
}

// headroom is what a message may have in headers beside an entry.
const headroom = 1 << 10

// OpenLog opens a fleet's log, and makes it when there is none. A stream of
// that name whose settings would drop messages is refused.
func OpenLog(ctx context.Context, nc *nats.Conn, fleet string, o LogOptions) (*Log, error) {
	if err := events.CheckFleet(fleet); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	js, err := open(nc)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{js: js, fleet: fleet, config: logConfig(fleet, o)}
	if err := l.ensure(ctx, o); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return l, nil
}

func logConfig(fleet string, o LogOptions) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:        logStream(fleet),
		Subjects:    []string{events.LogSubjects(fleet)},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew,
		DenyDelete:  true,
		AllowDirect: true,
		Storage:     jetstream.FileStorage,
		MaxMsgSize:  events.MaxEntry + headroom,
		MaxBytes:    -1,
		Replicas:    max(o.Replicas, 1),
		Duplicates:  2 * time.Minute,
	}
	if o.MaxBytes > 0 {
		c.MaxBytes = o.MaxBytes
	}
	return c
}

// ensure makes the stream or takes the one that is there, whose settings an
// operator may have changed: only what the log depends on is set again.
func (l *Log) ensure(ctx context.Context, o LogOptions) error {
	var err error
	l.stream, err = l.js.Stream(ctx, l.config.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		l.stream, err = l.js.CreateStream(ctx, l.config)
		return err
	}
	if err != nil {
		return err
	}
	have := l.stream.CachedInfo().Config
	if err := refuse(&have); err != nil {
		return err
	}
	want := have
	want.Subjects, want.Discard, want.AllowDirect = l.config.Subjects, l.config.Discard, true
	want.MaxMsgSize = l.config.MaxMsgSize
	if o.MaxBytes > 0 {
		want.MaxBytes = o.MaxBytes
	}
	if o.Replicas > 0 {
		want.Replicas = o.Replicas
	}
	l.config = want
	if sameSettings(&have, &want) {
		return nil
	}
	_, err = l.js.UpdateStream(ctx, want)
	return err
}

func sameSettings(a, b *jetstream.StreamConfig) bool {
	return slices.Equal(a.Subjects, b.Subjects) && a.Discard == b.Discard && a.AllowDirect == b.AllowDirect &&
		a.MaxMsgSize == b.MaxMsgSize && a.MaxBytes == b.MaxBytes && a.Replicas == b.Replicas
}

// refuse says what in a stream's settings loses messages behind the log's back.
func refuse(c *jetstream.StreamConfig) error {
	for what, bad := range map[string]bool{
		"a retention that drops what was read": c.Retention != jetstream.LimitsPolicy,
		"a limit of messages":                  c.MaxMsgs > 0,
		"a limit of messages per subject":      c.MaxMsgsPerSubject > 0,
		"a limit of age":                       c.MaxAge > 0,
		"purges denied":                        c.DenyPurge,
	} {
		if bad {
			return fmt.Errorf("stream %s has %s", c.Name, what)
		}
	}
	return nil
}

// appendTries is how often an append whose outcome is unclear is sent; its id
// makes the server store it once.
const appendTries = 3

// Append implements events.Log.
func (l *Log) Append(ctx context.Context, data []byte) (uint64, error) {
	if len(data) > events.MaxEntry {
		return 0, fmt.Errorf("append %d bytes: %w", len(data), events.ErrTooLarge)
	}
	id := nuid.Next()
	var err error
	for range appendTries {
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("append: %w", err)
		}
		var ack *jetstream.PubAck
		ack, err = l.js.PublishMsg(ctx, message(events.ControlSubject(l.fleet), data), jetstream.WithMsgID(id))
		if err == nil {
			return ack.Sequence, nil
		}
		if api := (*jetstream.APIError)(nil); errors.As(err, &api) {
			break // refused: the outcome is clear
		}
	}
	return 0, fmt.Errorf("append: %w", errorOf(err))
}

// Load implements events.Loader. The stream gives the entry the time at which
// it is loaded.
func (l *Log) Load(ctx context.Context, e events.Entry) error {
	err := ctx.Err()
	if err == nil && e.Seq == 0 {
		err = events.ErrConflict
	}
	if err == nil {
		_, err = l.js.PublishMsg(ctx, message(e.Subject, e.Data), jetstream.WithExpectLastSequence(e.Seq-1),
			jetstream.WithExpectStream(l.config.Name))
	}
	if err != nil {
		return fmt.Errorf("load entry %d: %w", e.Seq, errorOf(err))
	}
	return nil
}

func message(subject string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: data, Header: make(nats.Header)}
}

// At implements events.Log.
func (l *Log) At(ctx context.Context, seq uint64) (events.Entry, error) {
	e, err := l.at(ctx, seq)
	if err != nil {
		return events.Entry{}, fmt.Errorf("read entry %d: %w", seq, errorOf(err))
	}
	return e, nil
}

func (l *Log) at(ctx context.Context, seq uint64) (events.Entry, error) {
	if err := ctx.Err(); err != nil {
		return events.Entry{}, err
	}
	if seq == 0 {
		return events.Entry{}, events.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	// The stream's leader is asked: a direct get may be answered by a server
	// that lags behind, for which an entry is missing that is there.
	m, err := l.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+l.config.Name, fmt.Appendf(nil, `{"seq":%d}`, seq))
	if err != nil {
		return events.Entry{}, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return events.Entry{}, err
	}
	switch e := answer.Message; {
	case answer.Error != nil:
		return events.Entry{}, answer.Error
	case e == nil:
		return events.Entry{}, jetstream.ErrInvalidJetStreamResponse
	default:
		return events.Entry{Seq: e.Seq, Time: model.Nanos(e.Time.UnixNano()), Subject: e.Subject, Data: e.Data}, nil
	}
}

// Info implements events.Log.
func (l *Log) Info(ctx context.Context) (events.Info, error) {
	info, err := l.info(ctx)
	if err != nil {
		return events.Info{}, fmt.Errorf("ask for the log's extent: %w", errorOf(err))
	}
	return info, nil
}

func (l *Log) info(ctx context.Context) (events.Info, error) {
	if err := ctx.Err(); err != nil {
		return events.Info{}, err
	}
	i, err := l.stream.Info(ctx)
	if err != nil {
		return events.Info{}, err
	}
	info := events.Info{
		First:   i.State.FirstSeq,
		Last:    i.State.LastSeq,
		Missing: uint64(i.State.NumDeleted),
		Created: model.Nanos(i.Created.UnixNano()),
	}
	if i.State.Msgs == 0 {
		info.First = info.Last + 1
	}
	return info, nil
}

// Reanchor implements events.Log. Readers that are open go on behind what they
// delivered last, so after going back they have to be opened anew. Going back
// makes the stream anew, since a stream cannot, and so changes Info.Created.
func (l *Log) Reanchor(ctx context.Context, next uint64) error {
	if next == 0 {
		return fmt.Errorf("anchor log at 0: %w", events.ErrNotFound)
	}
	if err := l.reanchor(ctx, next); err != nil {
		return fmt.Errorf("anchor log at %d: %w", next, errorOf(err))
	}
	return nil
}

func (l *Log) reanchor(ctx context.Context, next uint64) error {
	info, err := l.info(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
	case err != nil:
		return err
	case next > info.Last:
		return l.stream.Purge(ctx, jetstream.WithPurgeSequence(next))
	default:
		if err := l.js.DeleteStream(ctx, l.config.Name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
	}
	c := l.config
	c.FirstSeq = next
	_, err = l.js.CreateStream(ctx, c)
	return err
}

// Trim implements events.Log.
func (l *Log) Trim(ctx context.Context, before uint64) error {
	info, err := l.info(ctx)
	if err == nil {
		before = min(before, info.Last+1)
		if before <= info.First {
			return nil
		}
		err = l.stream.Purge(ctx, jetstream.WithPurgeSequence(before))
	}
	if err != nil {
		return fmt.Errorf("trim log to %d: %w", before, errorOf(err))
	}
	return nil
}

// NewWriter returns an agent's way into the log over a connection.
func NewWriter(nc *nats.Conn, fleet, agent string) (events.Writer, error) {
	for _, err := range []error{events.CheckFleet(fleet), events.CheckAgent(agent)} {
		if err != nil {
			return nil, fmt.Errorf("open writer: %w", err)
		}
	}
	js, err := open(nc)
	if err != nil {
		return nil, fmt.Errorf("open writer: %w", err)
	}
	return events.NewWriter(&tail{nc: nc, js: js, stream: logStream(fleet), subject: events.LogSubject(fleet, agent)}), nil
}

// LastBoot returns the boot number of the process that wrote last under an
// agent's id, 0 when the log holds nothing of it.
func LastBoot(ctx context.Context, nc *nats.Conn, fleet, agent string) (uint64, error) {
	e, err := (&tail{nc: nc, stream: logStream(fleet), subject: events.LogSubject(fleet, agent)}).Last(ctx)
	if errors.Is(err, events.ErrNotFound) {
		return 0, nil
	}
	var fact model.Fact
	if err == nil {
		fact, err = events.Decode(e.Data)
	}
	if err != nil {
		return 0, fmt.Errorf("read the last report of %s: %w", agent, err)
	}
	switch r := fact.(type) {
	case *model.Attempts:
		return r.Boot, nil
	case *model.Summary:
		return r.Boot, nil
	}
	return 0, nil
}

// tail is the end of one agent's subject.
type tail struct {
	nc              *nats.Conn
	js              jetstream.JetStream
	stream, subject string
}

// Append implements events.Tail.
func (t *tail) Append(ctx context.Context, data []byte, last uint64) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	ack, err := t.js.PublishMsg(ctx, message(t.subject, data), jetstream.WithExpectLastSequencePerSubject(last))
	if err != nil {
		return 0, errorOf(err)
	}
	return ack.Sequence, nil
}

// Last implements events.Tail.
func (t *tail) Last(ctx context.Context) (events.Entry, error) {
	m, err := last(ctx, t.nc, t.stream, t.subject)
	if err != nil {
		return events.Entry{}, err
	}
	seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return events.Entry{}, fmt.Errorf("read sequence of the last entry: %w", err)
	}
	return events.Entry{Seq: seq, Subject: t.subject, Data: m.Data}, nil
}

// last gets the last message of a subject with the one right an agent has for
// it.
func last(ctx context.Context, nc *nats.Conn, stream, subject string) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, directGet(stream, subject), nil)
	if err != nil {
		return nil, errorOf(err)
	}
	if m.Header.Get(jetstream.SequenceHeader) != "" {
		return m, nil
	}
	switch status := m.Header.Get("Status"); status {
	case "404":
		return nil, events.ErrNotFound
	default:
		return nil, fmt.Errorf("get last of %s: status %s %s", subject, status, m.Header.Get("Description"))
	}
}
