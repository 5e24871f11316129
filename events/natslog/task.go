package natslog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/events"
)

// TaskLanes is the largest number of queues that tasks stand in, see
// Tasks.Lanes.
const TaskLanes = 16

// The bounds of a lane's consumer.
const (
	// taskAckWait is how long a delivered record is another's to have after
	// the last word of whoever works on it.
	taskAckWait = 10 * time.Second
	// taskPending bounds the records of a lane that are delivered and not
	// done with, those put off included.
	taskPending = 20_000
)

// TaskLimits bound what is kept of tasks.
type TaskLimits struct {
	// Tenants have a room of their own each: streams and subjects that a
	// credential may be bound to. All others have one together.
	Tenants []string
	// Bytes is what all rooms take, each the same. Half of it is for what was
	// asked, where a full store refuses more, and half for what was answered,
	// where the oldest goes.
	Bytes int64
	// Age is how long an answer is kept; what was asked is kept twice as long
	// at most.
	Age time.Duration
	// Replicas is how many servers keep it; 0 is 1.
	Replicas int
}

// OpenTasks makes the streams and consumers of a fleet's tasks, or sets the
// bounds of those that are there. Only a controller does. The room of a tenant
// that is no longer named stays, and empties by its age.
func OpenTasks(ctx context.Context, nc *nats.Conn, fleet string, l TaskLimits) error {
	if err := events.CheckFleet(fleet); err != nil {
		return fmt.Errorf("open tasks: %w", err)
	}
	js, err := open(nc)
	if err != nil {
		return fmt.Errorf("open tasks: %w", err)
	}
	for _, tenant := range append([]string{""}, l.Tenants...) {
		if err := roomOf(fleet, tenant).make(ctx, js, l); err != nil {
			return fmt.Errorf("open tasks: %w", err)
		}
	}
	return nil
}

// room is where tasks stand, of one tenant or of all that have none of their
// own. Nothing of one can be read or written by the rights to another: streams
// differ, since some requests name what they want in their text, which no right
// can look into.
type room struct {
	tenant        string
	stream, reply string // streams: what was asked, what was answered
	prefix        string // of its subjects
	lanes         int
}

// roomOf returns a tenant's room; the empty tenant's is that of all others.
func roomOf(fleet, tenant string) room {
	r := room{stream: "WEIR_" + fleet + "_TASK", reply: "WEIR_" + fleet + "_DONE", prefix: "weir." + fleet + ".task.", lanes: TaskLanes}
	if tenant == "" {
		return r
	}
	sum := sha256.Sum256([]byte(tenant)) // a name may have bytes that no subject takes
	token := hex.EncodeToString(sum[:16])
	return room{tenant: tenant, stream: r.stream + "_" + token, reply: r.reply + "_" + token, prefix: "weir." + fleet + ".tasks." + token + ".", lanes: 1}
}

// make makes the streams and the consumers.
func (r room) make(ctx context.Context, js jetstream.JetStream, l TaskLimits) error {
	about := "tasks"
	if r.tenant != "" {
		about = "tasks of " + r.tenant
	}
	asked := jetstream.StreamConfig{
		Name: r.stream, Subjects: []string{r.subject("todo.>"), r.subject("job.>")}, Description: about,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1,
		MaxBytes: l.Bytes / int64(2+2*len(l.Tenants)), MaxAge: 2 * l.Age, MaxMsgSize: events.MaxEntry + headroom,
		AllowDirect: true, Storage: jetstream.FileStorage, Replicas: max(l.Replicas, 1),
	}
	answered := asked
	answered.Name, answered.Subjects = r.reply, []string{r.subject("state.>"), r.subject("part.>")}
	answered.Discard, answered.MaxAge = jetstream.DiscardOld, l.Age
	for _, c := range []jetstream.StreamConfig{asked, answered} {
		if _, err := js.CreateOrUpdateStream(ctx, c); err != nil {
			return fmt.Errorf("stream %s of %d bytes: %w", c.Name, c.MaxBytes, errorOf(err))
		}
	}
	for lane := range r.lanes {
		_, err := js.CreateOrUpdateConsumer(ctx, asked.Name, jetstream.ConsumerConfig{
			Durable: laneName(lane), FilterSubject: r.subject(fmt.Sprintf("todo.%d.>", lane)),
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: taskAckWait, MaxDeliver: -1, MaxAckPending: taskPending, MaxWaiting: 10_000,
		})
		if err != nil {
			return fmt.Errorf("lane %d of %s: %w", lane, r.stream, errorOf(err))
		}
	}
	return nil
}

// TaskRights lists the subjects an agent may use beside those of Rights where
// it works on tasks: on any of a tenant that has a room of its own, or of all
// that have none, for the empty tenant. Which client may see which task the
// agents decide.
func TaskRights(fleet, agent, tenant string) (publish, subscribe []string) {
	r := roomOf(fleet, tenant)
	publish = []string{
		r.subject("todo.>"), r.subject("job.>"), r.subject("state.>"), r.subject("part.>"), r.subject("note"), r.subject("ask.*"),
		"$JS.ACK." + r.stream + ".>",
		"$JS.API.STREAM.INFO." + r.stream,
		"$JS.API.CONSUMER.INFO." + r.stream + ".*",
		"$JS.API.CONSUMER.MSG.NEXT." + r.stream + ".*",
	}
	for _, stream := range []string{r.stream, r.reply} {
		publish = append(publish, "$JS.API.DIRECT.GET."+stream, directGet(stream, r.subject(">")), deleteMessage(stream))
	}
	return publish, []string{r.subject("note"), r.subject("ask." + agent)}
}

func (r room) subject(rest string) string { return r.prefix + rest }

func laneName(lane int) string { return "lane-" + strconv.Itoa(lane) }

func deleteMessage(stream string) string { return "$JS.API.STREAM.MSG.DELETE." + stream }

// Tasks is an agent's way to the tasks of a room: records by key, queues, and
// words to the other agents. What the records mean is the agents' matter. A
// key's first token is todo or job for what was asked, state or part for what
// was answered; its tokens have only bytes of [A-Za-z0-9_-].
type Tasks struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	room  room
	agent string

	mu         sync.Mutex
	lanes      [TaskLanes]jetstream.Consumer
	reconnects uint64
	steady     time.Time // the connection has stood since
	// told is what the server's clock said, asked when.
	told, asked time.Time
}

// NewTasks returns an agent's way to the tasks of a tenant that has a room of
// its own, or for the empty tenant of all that have none.
func NewTasks(nc *nats.Conn, fleet, agent, tenant string) (*Tasks, error) {
	if err := errors.Join(events.CheckFleet(fleet), events.CheckAgent(agent)); err != nil {
		return nil, fmt.Errorf("open tasks: %w", err)
	}
	js, err := open(nc)
	if err != nil {
		return nil, fmt.Errorf("open tasks: %w", err)
	}
	return &Tasks{nc: nc, js: js, room: roomOf(fleet, tenant), agent: agent, steady: time.Now()}, nil
}

// Agent returns whose it is.
func (t *Tasks) Agent() string { return t.agent }

// Tenant returns whose tasks they are, empty for all who have no room.
func (t *Tasks) Tenant() string { return t.room.tenant }

// Lanes returns the number of queues that the room's tasks stand in. Whoever
// puts one there spreads owners over them, so that one's thousands do not stand
// before another's few; a tenant alone has one.
func (t *Tasks) Lanes() int { return t.room.lanes }

// clockFor is how long a word about the server's clock holds: quartz clocks
// are some milliseconds apart by then.
const clockFor = time.Minute

// Now returns the time by the clock of the server that keeps the tasks, as far
// as SetClock has asked for it. It is the same for all agents, whose own clocks
// may be hours apart.
func (t *Tasks) Now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked.IsZero() {
		return time.Now()
	}
	return t.told.Add(time.Since(t.asked))
}

// SetClock asks for the server's time, unless that was done lately. An error
// says that it was never told; then Now is this process's own clock.
func (t *Tasks) SetClock(ctx context.Context) error {
	t.mu.Lock()
	asked := t.asked
	t.mu.Unlock()
	if !asked.IsZero() && time.Since(asked) < clockFor {
		return nil
	}
	now, err := t.clock(ctx)
	if err != nil {
		if !asked.IsZero() {
			return nil // it goes on by what was told
		}
		return fmt.Errorf("ask for the time: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told, t.asked = now, time.Now()
	return nil
}

func (t *Tasks) clock(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	m, err := t.nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+t.room.stream, nil)
	if err != nil {
		return time.Time{}, err
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		Time  time.Time           `json:"ts"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		return time.Time{}, err
	case answer.Error != nil:
		return time.Time{}, answer.Error
	case answer.Time.IsZero():
		return time.Time{}, errors.New("the server does not tell the time")
	}
	return answer.Time, nil
}

// Record is what is kept under a key.
type Record struct {
	Key  string
	Data []byte
	// Seq is its place in the stream: another for each write.
	Seq uint64
	// Time is when it was written.
	Time time.Time
}

func (t *Tasks) stream(key string) string {
	if strings.HasPrefix(key, "todo.") || strings.HasPrefix(key, "job.") {
		return t.room.stream
	}
	return t.room.reply
}

// Get returns a record, or events.ErrNotFound.
func (t *Tasks) Get(ctx context.Context, key string) (Record, error) {
	m, err := last(ctx, t.nc, t.stream(key), t.room.subject(key))
	if err != nil {
		return Record{}, fmt.Errorf("get record: %w", err)
	}
	return t.record(m)
}

func (t *Tasks) record(m *nats.Msg) (r Record, err error) {
	r.Key, r.Data = strings.TrimPrefix(m.Header.Get(jetstream.SubjectHeader), t.room.prefix), m.Data
	if r.Seq, err = strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64); err == nil {
		r.Time, err = time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer))
	}
	if err != nil {
		return r, fmt.Errorf("read record: %w", err)
	}
	return r, nil
}

// List returns the records one token below a key, at most a thousand.
func (t *Tasks) List(ctx context.Context, key string) ([]Record, error) {
	ctx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	ask, err := json.Marshal(map[string]any{"multi_last": []string{t.room.subject(key + ".*")}})
	if err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	inbox := t.nc.NewInbox()
	answers := make(chan *nats.Msg, 1100) // the server sends no more at once
	sub, err := t.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // it ends with the connection too
	if err := t.nc.PublishRequest("$JS.API.DIRECT.GET."+t.stream(key), inbox, ask); err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	var list []Record
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("list records: %w", ctx.Err())
		case m := <-answers:
			switch status := m.Header.Get("Status"); status {
			case "":
				r, err := t.record(m)
				if err != nil {
					return nil, err
				}
				list = append(list, r)
			case "204", "404":
				return list, nil
			default:
				return nil, fmt.Errorf("list records: status %s %s", status, m.Header.Get("Description"))
			}
		}
	}
}

// Swap writes a record if the one of its key is that with the given sequence,
// 0 for none, and returns the new sequence; else events.ErrConflict. What
// stands there already to the byte counts as written: so a write whose outcome
// was unclear may be repeated.
func (t *Tasks) Swap(ctx context.Context, key string, data []byte, last uint64) (uint64, error) {
	ack, err := t.js.PublishMsg(ctx, message(t.room.subject(key), data), jetstream.WithExpectLastSequencePerSubject(last))
	if err == nil {
		return ack.Sequence, nil
	}
	if err = errorOf(err); errors.Is(err, events.ErrConflict) {
		if r, e := t.Get(ctx, key); e == nil && bytes.Equal(r.Data, data) {
			return r.Seq, nil
		}
	}
	return 0, fmt.Errorf("write record: %w", err)
}

// Set writes a record whatever is there.
func (t *Tasks) Set(ctx context.Context, key string, data []byte) error {
	if _, err := t.js.PublishMsg(ctx, message(t.room.subject(key), data)); err != nil {
		return fmt.Errorf("write record: %w", errorOf(err))
	}
	return nil
}

// Drop removes the record with a key and a sequence; one that is gone is no
// error.
func (t *Tasks) Drop(ctx context.Context, key string, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	ask, err := json.Marshal(map[string]any{"seq": seq, "no_erase": true})
	if err != nil {
		return fmt.Errorf("drop record: %w", err)
	}
	m, err := t.nc.RequestWithContext(ctx, deleteMessage(t.stream(key)), ask)
	if err != nil {
		return fmt.Errorf("drop record: %w", err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("drop record: %w", err)
	}
	if answer.Error != nil && !strings.Contains(answer.Error.Description, "no message found") && answer.Error.Code != 404 {
		return fmt.Errorf("drop record: %w", answer.Error)
	}
	return nil
}

// Names returns the keys below a key that a queue holds, without what is kept
// under them; at most some ten thousand.
func (t *Tasks) Names(ctx context.Context, key string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	ask, err := json.Marshal(map[string]any{"subjects_filter": t.room.subject(key + ".>")})
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	m, err := t.nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+t.stream(key), ask)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	if answer.Error != nil {
		return nil, fmt.Errorf("list keys: %w", answer.Error)
	}
	keys := make([]string, 0, len(answer.State.Subjects))
	for subject := range answer.State.Subjects {
		keys = append(keys, strings.TrimPrefix(subject, t.room.prefix))
	}
	return keys, nil
}
