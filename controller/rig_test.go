package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"weir/controller"
	"weir/controller/store"
	"weir/events"
	"weir/events/memlog"
	"weir/model"
)

const fleet = "test"

// rig is a controller in memory: bus, store and loop.
type rig struct {
	t     *testing.T
	bus   *memlog.Bus
	log   events.Log
	out   *spy
	store *memory
	set   *metrics.Set
	text  *bytes.Buffer // what was logged
	opts  controller.Options

	loop *controller.Loop
	stop context.CancelFunc
	done chan error
}

func newRig(t *testing.T) *rig {
	bus := memlog.New(fleet, memlog.Options{})
	r := &rig{t: t, bus: bus, log: bus.Log(), store: newMemory()}
	r.out = &spy{Outbox: bus.Outbox()}
	r.opts = controller.Options{Fleet: fleet, Version: "v1", Config: config("a", "b")}
	return r
}

// config is a fleet with the named channels.
func config(channels ...string) *model.Config {
	c := &model.Config{Fleet: fleet}
	for _, name := range channels {
		c.Channels = append(c.Channels, model.ChannelConfig{Name: name, Provider: "main"})
	}
	return c
}

// start runs a new loop on what is there and waits until it rests.
func (r *rig) start() {
	r.t.Helper()
	r.set, r.text = metrics.NewSet(), new(bytes.Buffer)
	o := r.opts
	o.Log, o.Outbox, o.Store, o.Metrics = r.log, r.out, r.store, r.set
	o.Logger = slog.New(slog.NewTextHandler(r.text, nil))
	loop, err := controller.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	r.loop, r.stop, r.done = loop, cancel, make(chan error, 1)
	go func() { r.done <- loop.Run(ctx) }()
	synctest.Wait()
}

// end stops the loop.
func (r *rig) end() {
	r.t.Helper()
	r.stop()
	if err := <-r.done; err != nil {
		r.t.Errorf("Run returned %v", err)
	}
}

func (r *rig) restart() {
	r.t.Helper()
	r.end()
	r.start()
}

func (r *rig) status() controller.Status {
	r.t.Helper()
	s, err := r.loop.Status(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) view() model.FleetView {
	r.t.Helper()
	v, err := r.loop.View(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// metric returns a metric's line, to compare it.
func (r *rig) metric(name string) string {
	var b bytes.Buffer
	r.set.WritePrometheus(&b)
	for line := range bytes.Lines(b.Bytes()) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			return string(bytes.TrimSpace(rest))
		}
	}
	return ""
}

func (r *rig) wantMetric(name, want string) {
	r.t.Helper()
	if got := r.metric(name); got != want {
		r.t.Errorf("%s = %q, want %q", name, got, want)
	}
}

// facts returns what the true log holds.
func (r *rig) facts() []model.Fact {
	r.t.Helper()
	var all []model.Fact
	for e := range entries(r.t, r.bus.Log()) {
		f, _ := events.Decode(e.Data)
		all = append(all, f)
	}
	return all
}

// count returns how many facts of a kind the log holds.
func (r *rig) count(kind model.Kind) (n int) {
	for _, f := range r.facts() {
		if f != nil && f.Kind() == kind {
			n++
		}
	}
	return n
}

// wantFold checks that the loop's state is what a fresh fold of the log gives.
func (r *rig) wantFold() {
	r.t.Helper()
	_, digest, seq, err := r.loop.Snapshot(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	f := refold(r.t, r.log, seq)
	if f.Seq() != seq || f.Digest() != digest {
		r.t.Errorf("state at %d is not what a fresh fold gives at %d", seq, f.Seq())
	}
}

// refold folds a log anew, from its latest rebase before last on.
func refold(t *testing.T, log events.Log, last uint64) *model.Fleet {
	t.Helper()
	f, d := model.NewFleet(), events.NewDecoder()
	var fx model.Effects
	for e := range entries(t, log) {
		if e.Seq > last {
			break
		}
		rec, err := d.Record(e)
		if err != nil {
			rec = model.Record{Seq: e.Seq, Time: e.Time}
		}
		f.Apply(rec, &fx)
		fx.Reset()
	}
	return f
}

// entries yields what a log holds now.
func entries(t *testing.T, log events.Log) iter.Seq[events.Entry] {
	return func(yield func(events.Entry) bool) {
		info, err := log.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for seq := info.First; seq <= info.Last; seq++ {
			e, err := log.At(t.Context(), seq)
			if errors.Is(err, events.ErrNotFound) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if !yield(e) {
				return
			}
		}
	}
}

// agent is an agent as the log sees it.
type agent struct {
	t      *testing.T
	id     string
	writer events.Writer
	boot   uint64
	seq    uint64
	base   uint64
}

func (r *rig) agent(id string) *agent {
	return &agent{t: r.t, id: id, writer: r.bus.Writer(id), boot: 1}
}

// report makes the agent's next report.
func (a *agent) report(attempts ...model.Attempt) *model.Attempts {
	a.seq++
	report := &model.Attempts{
		Source: model.Source{Agent: a.id, Boot: a.boot, Seq: a.seq, Span: 1, Base: a.base},
		Channels: []model.ChannelReport{
			{Channel: "a", InFlight: 9, Queued: 3}, {Channel: "b"},
		},
		Attempts: attempts,
	}
	a.base += uint64(len(attempts))
	return report
}

// send writes the next report.
func (a *agent) send(attempts ...model.Attempt) {
	a.t.Helper()
	if err := a.writer.Write(a.t.Context(), events.Encode(nil, a.report(attempts...))); err != nil {
		a.t.Fatal(err)
	}
}

func ok() model.Attempt {
	return model.Attempt{Class: model.ClassOK, Status: 200, Took: model.Second, In: 10, Out: 20, UsageKnown: true, RetryAfter: -1}
}

// refusal is an answer that cuts channel a.
func refusal() model.Attempt {
	return model.Attempt{Class: model.ClassOverloaded, Status: 529, Took: 10 * model.Millisecond, RetryAfter: -1}
}

// spy is an outbox that remembers what went through, and fails on demand.
type spy struct {
	events.Outbox
	mu     sync.Mutex
	fail   error
	delay  time.Duration
	terms  []model.TermNotice
	limits []limits
	leases []model.Lease
	confs  []uint64
}

type limits struct {
	at   time.Time
	full bool
	set  model.LimitSet
}

func (s *spy) do(f func()) error {
	s.mu.Lock()
	fail, delay := s.fail, s.delay
	s.mu.Unlock()
	time.Sleep(delay)
	if fail != nil {
		return fail
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	return nil
}

func (s *spy) setFail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// forget empties the memory and returns what was in it.
func (s *spy) forget() (terms []model.TermNotice, ls []limits, leases []model.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	terms, ls, leases = s.terms, s.limits, s.leases
	s.terms, s.limits, s.leases = nil, nil, nil
	return terms, ls, leases
}

func (s *spy) PutTerm(ctx context.Context, t *model.TermNotice) error {
	if err := s.do(func() { s.terms = append(s.terms, *t) }); err != nil {
		return err
	}
	return s.Outbox.PutTerm(ctx, t)
}

func (s *spy) PutLimits(ctx context.Context, l *model.LimitSet, full bool) error {
	if err := s.do(func() { s.limits = append(s.limits, limits{time.Now(), full, *l}) }); err != nil {
		return err
	}
	return s.Outbox.PutLimits(ctx, l, full)
}

func (s *spy) PutLease(ctx context.Context, l *model.Lease) error {
	if err := s.do(func() { s.leases = append(s.leases, *l) }); err != nil {
		return err
	}
	return s.Outbox.PutLease(ctx, l)
}

func (s *spy) PutConfig(ctx context.Context, seq uint64, c *model.Config) error {
	if err := s.do(func() { s.confs = append(s.confs, seq) }); err != nil {
		return err
	}
	return s.Outbox.PutConfig(ctx, seq, c)
}

// memory is a store in memory, slow or broken on demand.
type memory struct {
	mu        sync.Mutex
	delay     time.Duration
	fail      error
	found     bool
	position  store.Position
	parts     map[string][]byte
	decisions []store.Decision
	snapshots []store.Decision // by Seq
	commits   int
	// durable is the state at the last synced commit, what a power cut leaves.
	durable *memory
}

func newMemory() *memory { return &memory{parts: map[string][]byte{}} }

func (m *memory) Load() (store.Position, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.position, m.found, m.fail
}

func (m *memory) Parts(err *error) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		*err = m.fail
		for _, key := range slices.Sorted(maps.Keys(m.parts)) {
			if !yield(key, m.parts[key]) {
				return
			}
		}
	}
}

func (m *memory) Commit(c *store.Change, sync bool) error {
	m.mu.Lock()
	delay := m.delay
	m.mu.Unlock()
	time.Sleep(delay)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.found, m.position = true, c.Position
	m.commits++
	for _, p := range c.Parts {
		if p.Value == nil {
			delete(m.parts, p.Key)
			continue
		}
		m.parts[p.Key] = bytes.Clone(p.Value)
	}
	for _, d := range c.Decisions {
		m.decisions = append(m.decisions, store.Decision{Seq: d.Seq, N: d.N, Data: bytes.Clone(d.Data)})
	}
	if c.Snapshot != nil {
		m.snapshots = append(m.snapshots, store.Decision{Seq: c.Position.Seq, Data: bytes.Clone(c.Snapshot)})
		m.snapshots = m.snapshots[max(len(m.snapshots)-2, 0):]
	}
	if sync {
		m.durable = &memory{found: true, position: m.position, parts: maps.Clone(m.parts), decisions: slices.Clone(m.decisions), snapshots: slices.Clone(m.snapshots)}
	}
	return nil
}

func (m *memory) Each(from, to uint64, newest bool, f func(uint64, []byte) bool) error {
	m.mu.Lock()
	all := slices.Clone(m.decisions)
	m.mu.Unlock()
	if newest {
		slices.Reverse(all)
	}
	for _, d := range all {
		if d.Seq >= from && d.Seq <= to && !f(d.Seq, d.Data) {
			return nil
		}
	}
	return nil
}

func (m *memory) Snapshots() (all []uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.snapshots {
		all = append(all, s.Seq)
	}
	return all, m.fail
}

// after returns what a power cut leaves.
func (m *memory) after() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.durable == nil {
		return newMemory()
	}
	return m.durable
}

func (m *memory) set(f func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m)
}

var errTest = fmt.Errorf("on purpose")
