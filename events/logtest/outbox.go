package logtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"weir/events"
	"weir/model"
)

// ear is an agent that listens and keeps the newest of everything, as the
// contract tells a receiver to.
type ear struct {
	mu     sync.Mutex
	term   uint64
	limits map[string]model.ChannelLimit
	lease  *model.Lease
	config uint64
	calls  int
	stop   context.CancelFunc
	done   chan error
}

// listen starts an ear for an agent; it ends with the test.
func listen(t *testing.T, b *Bus, agent string) *ear {
	ctx, cancel := context.WithCancel(t.Context())
	e := &ear{limits: make(map[string]model.ChannelLimit), stop: cancel, done: make(chan error, 1)}
	h := events.Handler{
		Term: func(n *model.TermNotice) { e.hear(func() { e.term = max(e.term, n.Term) }) },
		Limits: func(l *model.LimitSet) {
			e.hear(func() {
				for _, c := range l.Channels {
					if l.Term >= e.term && c.Revision >= e.limits[c.Channel].Revision {
						e.limits[c.Channel] = c
					}
				}
			})
		},
		Lease:  func(l *model.Lease) { e.hear(func() { e.lease = l }) },
		Config: func(seq uint64, _ *model.Config) { e.hear(func() { e.config = max(e.config, seq) }) },
	}
	go func() { e.done <- b.Inbox(agent).Listen(ctx, agent, h) }()
	t.Cleanup(func() { e.end(t) })
	return e
}

func (e *ear) hear(what func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	what()
}

// end stops the ear, once.
func (e *ear) end(t *testing.T) {
	t.Helper()
	e.stop()
	select {
	case err, open := <-e.done:
		if open && !errors.Is(err, context.Canceled) {
			t.Errorf("Listen = %v; want %v", err, context.Canceled)
		}
	case <-time.After(patience):
		t.Error("Listen does not end with its context")
	}
	e.done = closed()
}

func closed() chan error {
	c := make(chan error)
	close(c)
	return c
}

// wait waits until the ear has heard enough.
func (e *ear) wait(t *testing.T, what string, enough func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		e.mu.Lock()
		ok := enough()
		e.mu.Unlock()
		if ok {
			return
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	t.Fatalf("waited for %s; heard term %d, config %d, limits %v, lease %v", what, e.term, e.config, e.limits, e.lease)
}

// windows waits until the ear knows exactly these windows.
func (e *ear) windows(t *testing.T, want map[string]model.Milli) {
	t.Helper()
	e.wait(t, fmt.Sprint("windows ", want), func() bool {
		got := make(map[string]model.Milli)
		for name, c := range e.limits {
			got[name] = c.Window
		}
		return maps.Equal(got, want)
	})
}

func limits(term, revision uint64, windows map[string]model.Milli) *model.LimitSet {
	l := &model.LimitSet{Term: term, Seq: revision}
	for name, w := range windows {
		l.Channels = append(l.Channels, model.ChannelLimit{Channel: name, Revision: revision, Window: w, Weight: model.One})
	}
	return l
}

func lease(agent string, term, quotes uint64) *model.Lease {
	return &model.Lease{Agent: agent, Boot: 1, Term: term, Quotes: quotes, Duration: 15 * model.Second}
}

// lead returns the outbox of a controller that announced its term.
func lead(t *testing.T, b *Bus, term uint64) events.Outbox {
	t.Helper()
	o := b.Outbox()
	n := &model.TermNotice{Term: term, Controller: fmt.Sprint("ctl-", term)}
	if err := o.PutTerm(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return o
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testLateJoiner(t *testing.T, b *Bus) {
	o := lead(t, b, 3)
	must(t, o.PutLimits(t.Context(), limits(3, 10, map[string]model.Milli{"a": 1, "b": 2, "c": 3, "d": 4}), true))
	must(t, o.PutLimits(t.Context(), limits(3, 11, map[string]model.Milli{"b": 20}), false))
	must(t, o.PutLease(t.Context(), lease("a1", 3, 7)))
	must(t, o.PutConfig(t.Context(), 9, &model.Config{Fleet: b.Fleet}))
	e := listen(t, b, "a1")
	e.windows(t, map[string]model.Milli{"a": 1, "b": 20, "c": 3, "d": 4})
	e.wait(t, "everything", func() bool { return e.term == 3 && e.config == 9 && e.lease != nil && e.lease.Quotes == 7 })
}

func testLive(t *testing.T, b *Bus) {
	e := listen(t, b, "a1")
	o := lead(t, b, 1)
	e.wait(t, "the term", func() bool { return e.term == 1 })
	for n := uint64(1); n <= 20; n++ {
		must(t, o.PutLimits(t.Context(), limits(1, n, map[string]model.Milli{"a": model.Milli(n)}), n == 1))
		must(t, o.PutLease(t.Context(), lease("a1", 1, n)))
	}
	must(t, o.PutConfig(t.Context(), 5, &model.Config{Fleet: b.Fleet}))
	e.windows(t, map[string]model.Milli{"a": 20})
	e.wait(t, "the last lease and config", func() bool { return e.lease != nil && e.lease.Quotes == 20 && e.config == 5 })
}

// testChanges changes one channel after the other: who joins at any moment
// knows them all.
func testChanges(t *testing.T, b *Bus) {
	o := lead(t, b, 1)
	want := make(map[string]model.Milli)
	for i := range 8 {
		want[fmt.Sprint("c", i)] = 1
	}
	must(t, o.PutLimits(t.Context(), limits(1, 1, want), true))
	for i := range 8 {
		name := fmt.Sprint("c", i)
		want[name] = model.Milli(100 + i)
		must(t, o.PutLimits(t.Context(), limits(1, uint64(2+i), map[string]model.Milli{name: want[name]}), false))
		e := listen(t, b, "a1")
		e.windows(t, want)
		e.end(t)
	}
}

// testFence has an old leader speak after a new one.
func testFence(t *testing.T, b *Bus) {
	old := lead(t, b, 1)
	must(t, old.PutLimits(t.Context(), limits(1, 1, map[string]model.Milli{"a": 1}), true))
	young := lead(t, b, 2)
	must(t, young.PutLimits(t.Context(), limits(2, 2, map[string]model.Milli{"a": 2}), true))
	e := listen(t, b, "a1")
	e.windows(t, map[string]model.Milli{"a": 2})
	ctx := t.Context()
	wantError(t, "old limits", old.PutLimits(ctx, limits(1, 3, map[string]model.Milli{"a": 9}), true), events.ErrConflict)
	wantError(t, "old lease", old.PutLease(ctx, lease("a1", 1, 1)), events.ErrConflict)
	wantError(t, "old config", old.PutConfig(ctx, 1, &model.Config{}), events.ErrConflict)
	wantError(t, "old term", old.PutTerm(ctx, &model.TermNotice{Term: 1, Controller: "ctl-1"}), events.ErrConflict)
	wantError(t, "same term", old.PutTerm(ctx, &model.TermNotice{Term: 2, Controller: "ctl-1"}), events.ErrConflict)
	wantError(t, "limits of the new term by the old leader", old.PutLimits(ctx, limits(2, 3, nil), true), events.ErrConflict)
	must(t, young.PutTerm(ctx, &model.TermNotice{Term: 2, Controller: "ctl-2"}))
	must(t, young.PutLease(ctx, lease("a1", 2, 4)))
	e.wait(t, "the new lease", func() bool { return e.lease != nil })
	e.windows(t, map[string]model.Milli{"a": 2})
	if e.lease.Quotes != 4 {
		t.Errorf("lease quotes %d", e.lease.Quotes)
	}
}

func testTermFirst(t *testing.T, b *Bus) {
	o := b.Outbox()
	err := o.PutLimits(t.Context(), limits(1, 1, map[string]model.Milli{"a": 1}), true)
	wantError(t, "limits before a term", err, events.ErrConflict)
}

func testOwnLease(t *testing.T, b *Bus) {
	e1, e2 := listen(t, b, "a1"), listen(t, b, "a2")
	o := lead(t, b, 1)
	must(t, o.PutLease(t.Context(), lease("a1", 1, 1)))
	must(t, o.PutLease(t.Context(), lease("a2", 1, 2)))
	for i, e := range []*ear{e1, e2} {
		e.wait(t, "a lease", func() bool { return e.lease != nil })
		if want := fmt.Sprint("a", i+1); e.lease.Agent != want {
			t.Errorf("%s hears the lease of %s", want, e.lease.Agent)
		}
	}
}

func testBadLease(t *testing.T, b *Bus) {
	o := lead(t, b, 1)
	for _, agent := range []string{"", "a.b", "*", ">", "control"} {
		if err := o.PutLease(t.Context(), lease(agent, 1, 1)); err == nil {
			t.Errorf("a lease for %q is sent", agent)
		}
		if err := b.Inbox("a1").Listen(t.Context(), agent, events.Handler{}); err == nil {
			t.Errorf("%q can listen", agent)
		}
	}
}

// testListenEnds wants silence once a listener's context has ended.
func testListenEnds(t *testing.T, b *Bus) {
	e := listen(t, b, "a1")
	o := lead(t, b, 1)
	e.wait(t, "the term", func() bool { return e.term == 1 })
	e.end(t)
	calls := e.calls
	must(t, o.PutLease(t.Context(), lease("a1", 1, 1)))
	time.Sleep(50 * time.Millisecond)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.calls != calls {
		t.Error("the handler is called after Listen returned")
	}
}
