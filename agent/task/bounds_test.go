package task

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/nats-io/nats.go"

	"weir/agent"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
	"weir/model"
)

// still is a NATS server from which nothing arrives while its lock is held, and
// whose clock is years ahead.
type still struct {
	*natstest.Server
	sync.RWMutex
	nc *nats.Conn // the desk's
	// ahead is the number of years.
	ahead int
}

func (s *still) InProcessConn() (net.Conn, error) {
	c, err := s.Server.InProcessConn()
	return &stillConn{c, s}, err
}

type stillConn struct {
	net.Conn
	server *still
}

func (c *stillConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.server.RLock()
	defer c.server.RUnlock()
	if c.server.ahead > 0 {
		year := time.Now().UTC().Year()
		told, tell := fmt.Sprintf(`"ts":"%d-`, year), fmt.Sprintf(`"ts":"%d-`, year+c.server.ahead)
		copy(p, bytes.ReplaceAll(p[:n], []byte(told), []byte(tell)))
	}
	return n, err
}

// newDesk returns the only room of a desk at a NATS server of its own.
func newDesk(t *testing.T) (*room, *still) {
	t.Helper()
	server := &still{Server: natstest.Start(t, nil)}
	nc, err := natslog.Connect("", natslog.Options{Name: "a", Agent: "a", Extra: []nats.Option{nats.InProcessServer(server)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	server.nc = nc
	if err := natslog.OpenTasks(t.Context(), nc, "test", natslog.TaskLimits{Bytes: 64 << 20, Age: time.Hour}); err != nil {
		t.Fatal(err)
	}
	keep, err := natslog.NewTasks(nc, "test", "a", "")
	if err != nil {
		t.Fatal(err)
	}
	client, err := agent.New(agent.Config{Agent: "a", Fleet: &model.Config{Routes: []model.RouteConfig{{Name: "route"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Keep: []*natslog.Tasks{keep}, Client: client, Calls: client.Transport(), Age: time.Hour, Metrics: metrics.NewSet()}).rooms[""], server
}

// TestManyItemsAreNotRead posts thirty times the items a task may have, each of
// three bytes as text: those beyond take no memory.
func TestManyItemsAreNotRead(t *testing.T) {
	body := []byte(`{"items":[` + strings.Repeat("{},", 30*MaxItems) + `{}]}`)
	d := &Desk{}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, fault := d.parse(http.Header{}, body)
	runtime.ReadMemStats(&after)
	t.Logf("%d bytes of memory for a body of %d", after.TotalAlloc-before.TotalAlloc, len(body))
	if fault == nil || fault.Code != "too_many_items" {
		t.Errorf("fault %+v", fault)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 10<<20 {
		t.Errorf("%d bytes of memory for a body of %d", took, len(body))
	}
}

// TestPostingIsBounded holds that what is taken in counts until it is kept, not
// only until it is read: that takes a while where NATS is slow.
func TestPostingIsBounded(t *testing.T) {
	d, server := newDesk(t)
	server.Lock()
	defer server.Unlock()
	ctx, leave := context.WithCancel(t.Context())
	post := func(ctx context.Context, read chan<- struct{}) *httptest.ResponseRecorder {
		text := `{"path":"/v1/chat/completions","request":{"model":"route","messages":[]}}`
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/weir/tasks", io.MultiReader(strings.NewReader(text), told(read)))
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = MaxPost
		w := httptest.NewRecorder()
		d.Post(w, r, "owner")
		return w
	}
	read, ended := make(chan struct{}), make(chan *httptest.ResponseRecorder)
	const most = maxPosting / MaxPost
	for range most {
		go func() { ended <- post(ctx, read) }()
	}
	for range most {
		<-read
	}
	if w := post(t.Context(), nil); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "too_many_tasks") {
		t.Errorf("one more than there is room for: %d %s", w.Code, w.Body)
	}
	leave()
	for range most {
		if w := <-ended; !strings.Contains(w.Body.String(), "tasks_unreachable") {
			t.Errorf("given up: %d %s", w.Code, w.Body)
		}
	}
	if n := d.posting.Load(); n != 0 {
		t.Errorf("%d bytes are still taken", n)
	}
}

// told is an end that tells when it is reached.
type told chan<- struct{}

func (c told) Read([]byte) (int, error) {
	if c != nil {
		c <- struct{}{}
	}
	return 0, io.EOF
}

// TestClocksOfOthers holds that an agent whose clock is hours ahead drops no
// item whose task is being written, and that one whose clock is behind does
// not put off for hours what another put off for a second.
func TestClocksOfOthers(t *testing.T) {
	d, _ := newDesk(t)
	w := &worker{room: d, calls: t.Context(), item: &item{Key: "none", UID: "u"}}
	w.got = &natslog.Delivery{Times: 1}
	w.got.Time = time.Now().Add(-5 * time.Hour)
	if v, due := w.look(t.Context()); due || v.drop || v.over || v.after != time.Second {
		t.Errorf("an item without a task, given out once: %+v", v)
	}
	w.got.Times, w.got.Time = orphanTimes, time.Now().Add(5*time.Hour)
	if v, due := w.look(t.Context()); due || !v.drop {
		t.Errorf("an item without a task, given out %d times: %+v", orphanTimes, v)
	}
	now := time.Now()
	w.job = &job{Expires: now.Add(20 * time.Hour).UnixNano()}
	w.st = status{State: Waiting, Until: now.Add(5 * time.Hour).UnixNano()}
	if v, due := w.judge(t.Context(), now); due || v.after <= 0 || v.after > 2*mostWait {
		t.Errorf("put off by a clock that is ahead: %+v", v)
	}
}

// TestClockOfTheServer holds that what a task may take is reckoned by the
// server's clock, which is not this agent's.
func TestClockOfTheServer(t *testing.T) {
	d, server := newDesk(t)
	server.Lock()
	server.ahead = 4 // so that the day exists
	server.Unlock()
	began := time.Now()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/weir/tasks", strings.NewReader(`{"id":"t","path":"/v1/chat/completions","request":{"model":"route","messages":[]}}`))
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	d.Post(answer, r, "owner")
	key, j, _, err := d.find(t.Context(), "owner", "t")
	if err != nil {
		t.Fatalf("%v: %d %s", err, answer.Code, answer.Body)
	}
	if ahead := instant(j.Created).Sub(began); ahead < 2*365*24*time.Hour {
		t.Errorf("created %v after this agent's clock", ahead)
	}
	if !strings.Contains(answer.Body.String(), `"state":"queued"`) {
		t.Errorf("told %s", answer.Body)
	}
	w := &worker{room: d, calls: t.Context(), item: &item{Key: key, UID: j.UID}, got: &natslog.Delivery{Times: 1}}
	if v, due := w.look(t.Context()); !due {
		t.Errorf("no call is due: %+v", v)
	}
	if left := w.request(t.Context()).Header.Get("X-Weir-Deadline-Ms"); left != "600000" {
		t.Errorf("the call has %s ms", left)
	}
}

// TestVanishedItemsAreCheap looks at a task whose items have all given way to
// newer ones: it takes as few questions as one that is well.
func TestVanishedItemsAreCheap(t *testing.T) {
	d, server := newDesk(t)
	j := &job{V: recordVersion, UID: "u", Items: 3 * group, Expires: time.Now().Add(time.Hour).UnixNano()}
	kept := status{V: recordVersion, State: Completed}
	if _, err := d.keep.Swap(t.Context(), stateKey("u", 2*group), encode(kept), 0); err != nil {
		t.Fatal(err)
	}
	if err := d.keep.SetClock(t.Context()); err != nil { // once a minute
		t.Fatal(err)
	}
	before := server.nc.Stats().OutMsgs
	all, err := d.states(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[State]int{}
	for _, s := range all {
		counts[s.State]++
	}
	if counts[Completed] != 1 || counts[Expired] != 3*group-1 || all[2*group].State != Completed {
		t.Errorf("states %v", counts)
	}
	if n := server.nc.Stats().OutMsgs - before; n > 9 {
		t.Errorf("%d questions for three groups of items", n)
	}
}

// TestRoomsSpeakForTheirTenant holds that a call of a tenant's room is that
// tenant's, whatever a record says: another agent may have written it that may
// speak for nobody else.
func TestRoomsSpeakForTheirTenant(t *testing.T) {
	d, server := newDesk(t)
	keep, err := natslog.NewTasks(server.nc, "test", "a", "ads")
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{room: &room{Desk: d.Desk, keep: keep}, item: &item{Path: "/v1/embeddings"}}
	w.job = &job{Owner: jobKey(OfTenant+"content", ""), Header: map[string]string{"X-Weir-Tenant": "content"}}
	h := w.request(t.Context()).Header
	if tenant, owner := h.Get("X-Weir-Tenant"), h.Get("X-Api-Key"); tenant != "ads" || owner != jobKey(OfTenant+"ads", "") {
		t.Errorf("a call of %s, whose answers are shared with %s", tenant, owner)
	}
}
