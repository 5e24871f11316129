package task

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/agent/dialect"
	"weir/events"
)

// The bounds of a task.
const (
	// MaxItems is the most items a task has.
	MaxItems = 10_000
	// MaxRequest is the largest request of an item, in bytes: a record of the
	// streams less its head.
	MaxRequest = events.MaxEntry - 4<<10
	// MaxPost is the largest body of a POST, in bytes.
	MaxPost = 32 << 20
	// MaxAnswer is the largest answer that is kept, in bytes.
	MaxAnswer = 4 << 20
	// maxID bounds a task's id and an item's name, in bytes.
	maxID = 64

	group    = 256 // items whose states are read at once
	partSize = 512 << 10
)

// recordVersion is the generation of the records' encoding.
const recordVersion = 1

// job is a task as it is kept.
type job struct {
	V       int               `json:"v"`
	ID      string            `json:"id"`
	Owner   string            `json:"owner"` // a hash
	UID     string            `json:"uid"`
	Print   string            `json:"print"` // what was asked, to the byte
	Items   int               `json:"items"`
	Lane    int               `json:"lane"`
	Route   string            `json:"route"` // of the first item
	Named   bool              `json:"named,omitempty"`
	Single  bool              `json:"single,omitempty"` // asked as one request, not as a list
	Created int64             `json:"created"`          // Unix nanoseconds by the server's clock, as the next two
	Expires int64             `json:"expires"`
	Ended   int64             `json:"ended,omitempty"` // when it was canceled
	First   uint64            `json:"first"`           // the place of the first and last item in the stream
	Last    uint64            `json:"last"`
	Header  map[string]string `json:"header,omitempty"`
}

// item is one request of a task as it stands in the queue. Its body follows
// the head, to the byte as the client wrote it.
type item struct {
	V     int    `json:"v"`
	Key   string `json:"key"` // of the task
	UID   string `json:"uid"`
	N     int    `json:"n"`
	Round int    `json:"round"` // 0, and one more for each repeat
	Path  string `json:"path"`
	// Route and Tenant are refused and let through together.
	Route  string `json:"route"`
	Tenant string `json:"tenant,omitempty"`
	body   []byte
}

// State is what an item or a task has come to.
type State string

// The states.
const (
	Queued    State = "queued"    // nobody has begun
	Running   State = "running"   // the call is on its way
	Waiting   State = "waiting"   // it was refused, and is tried again
	Completed State = "completed" // there is an answer
	Failed    State = "failed"    // it will not be tried again unless asked for
	Canceled  State = "canceled"  // by the client
	Expired   State = "expired"   // it, or its answer, became too old, or gave way to newer ones
)

// ended reports whether nothing more comes of it by itself.
func (s State) ended() bool {
	switch s {
	case Completed, Failed, Canceled, Expired:
		return true
	case Queued, Running, Waiting:
	}
	return false
}

// status is the state of an item as it is kept.
type status struct {
	V        int    `json:"v"`
	State    State  `json:"state"`
	Round    int    `json:"round"`
	Agent    string `json:"agent,omitempty"` // who claims it, or did last
	Boot     string `json:"boot,omitempty"`
	Broken   bool   `json:"broken,omitempty"` // a call was sent and its answer is not known
	At       int64  `json:"at"`               // Unix nanoseconds by the server's clock, as Until
	Until    int64  `json:"until,omitempty"`
	Class    string `json:"class,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Tries    int    `json:"tries,omitempty"`    // calls that came to nothing and may have cost
	Waits    int    `json:"waits,omitempty"`    // times it was put off
	Repeated int    `json:"repeated,omitempty"` // calls that may have been made twice
	HTTP     int    `json:"http,omitempty"`     // the answer's status, type, id, bytes and where its pieces are
	Type     string `json:"type,omitempty"`
	Request  string `json:"request,omitempty"`
	Size     int    `json:"size,omitempty"`
	Parts    string `json:"parts,omitempty"`

	seq uint64 // where it is kept, 0 for nowhere
}

// errRecord says that a record is none, or of another version.
var errRecord = errors.New("task: record cannot be read")

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("task: BUG: encode record: %v", err)) // only strings and numbers
	}
	return data
}

func decode(data []byte, v any, version *int) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %w", errRecord, err)
	}
	if *version != recordVersion {
		return fmt.Errorf("%w: version %d", errRecord, *version)
	}
	return nil
}

func (it *item) encode() []byte { return append(append(encode(it), '\n'), it.body...) }

func decodeItem(data []byte) (*item, error) {
	head, body, ok := bytes.Cut(data, []byte("\n"))
	it := &item{}
	if err := decode(head, it, &it.V); err != nil {
		return nil, err
	}
	if !ok || it.N < 0 || it.N >= MaxItems || !plain(it.UID) || !plain(it.Key) || !callable(it.Path) {
		return nil, errRecord
	}
	it.body = body
	return it, nil
}

// callable reports whether a call can be made of a path: of one to a model, that
// a request can be made with.
func callable(path string) bool {
	kind, ok := dialect.Of(path)
	if !ok || kind.Kept() {
		return false
	}
	u, err := url.Parse(origin + path)
	return err == nil && u.Path == path
}

// origin begins the URLs of calls, which go where the gate says.
const origin = "http://weir"

// decodeJob reads the task of a room with so many lanes. Another agent wrote it,
// which may be hostile: what a call is made of must be as it is when a client
// asks.
func decodeJob(data []byte, lanes int) (*job, error) {
	j := &job{}
	if err := decode(data, j, &j.V); err != nil {
		return nil, err
	}
	if j.Items < 1 || j.Items > MaxItems || j.Lane < 0 || j.Lane >= lanes || !plain(j.UID) || !plain(j.Owner) {
		return nil, errRecord
	}
	for name, value := range j.Header {
		if !slices.Contains(keptHeaders[:], name) || len(value) > maxHeader || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return nil, errRecord
		}
	}
	return j, nil
}

// plain reports whether s can be a token of a key.
func plain(s string) bool { return events.CheckFleet(s) == nil }

// jobKey is where a task is kept.
func jobKey(owner, id string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", owner, id))
	return hex.EncodeToString(sum[:16])
}

// laneOf is the queue of an owner's tasks.
func (d *room) laneOf(owner string) int {
	sum := sha256.Sum256([]byte("lane " + owner))
	return int(sum[0]) % d.keep.Lanes()
}

func todoKey(lane int, uid string, n int) string {
	return fmt.Sprintf("todo.%d.%s.%d.%d", lane, uid, n/group, n)
}

func stateKey(uid string, n int) string { return fmt.Sprintf("state.%s.%d.%d", uid, n/group, n) }

// lastToken is the number a key ends in.
func lastToken(key string) (int, bool) {
	n, err := strconv.Atoi(key[strings.LastIndexByte(key, '.')+1:])
	return n, err == nil && n >= 0 && n < MaxItems
}

// draw returns a name nobody else has.
func draw() string { return strings.ToLower(rand.Text()) }

// instant is a time of a record.
func instant(ns int64) time.Time { return time.Unix(0, ns) }
