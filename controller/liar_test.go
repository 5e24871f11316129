package controller_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/events"
	"weir/events/memlog"
	"weir/model"
)

const memlogController = memlog.Controller

func faults(cut []string) memlog.Faults { return memlog.Faults{Cut: cut} }

// liar is a log that loses what it acknowledged, or delivers it oddly.
type liar struct {
	events.Log
	twice bool
	delay time.Duration

	mu      sync.Mutex
	hidden  func(seq uint64) bool // entries that are gone
	cut     bool                  // the next read fails
	readers int                   // opened so far
}

// breaks reports whether the read under way fails, once.
func (l *liar) breaks() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	cut := l.cut
	l.cut = false
	return cut
}

func (l *liar) hide(f func(seq uint64) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hidden = f
}

func (l *liar) hides(seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hidden != nil && l.hidden(seq)
}

func (l *liar) At(ctx context.Context, seq uint64) (events.Entry, error) {
	if l.hides(seq) {
		return events.Entry{}, fmt.Errorf("entry %d: %w", seq, events.ErrNotFound)
	}
	return l.Log.At(ctx, seq)
}

// Load implements events.Loader.
func (l *liar) Load(ctx context.Context, e events.Entry) error {
	return l.Log.(events.Loader).Load(ctx, e)
}

func (l *liar) Read(ctx context.Context, from uint64) (events.Reader, error) {
	l.mu.Lock()
	l.readers++
	l.mu.Unlock()
	r, err := l.Log.Read(ctx, from)
	return &lyingReader{Reader: r, log: l}, err
}

type lyingReader struct {
	events.Reader
	log   *liar
	again *events.Entry
}

func (r *lyingReader) Next(ctx context.Context) (events.Entry, error) {
	if r.again != nil {
		e := *r.again
		r.again = nil
		return e, nil
	}
	for {
		e, err := r.Reader.Next(ctx)
		if err != nil {
			return e, err
		}
		time.Sleep(r.log.delay)
		if r.log.breaks() {
			return e, errTest
		}
		if r.log.hides(e.Seq) {
			continue
		}
		if r.log.twice {
			again := e
			again.Data = bytes.Clone(e.Data)
			r.again = &again
		}
		return e, nil
	}
}

// copyOf returns a new bus with the entries of another up to last, as when an
// older copy of a disk is put back.
func copyOf(t *testing.T, from events.Log, last uint64) *memlog.Bus {
	t.Helper()
	to := memlog.New(fleet, memlog.Options{})
	for e := range entries(t, from) {
		if e.Seq > last {
			break
		}
		if err := to.Log().Load(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// wantAnchored checks that a fault was found and mended by one rebase, and
// that the fold goes on.
func (r *rig) wantAnchored(kind string, attempts uint64) {
	r.t.Helper()
	s := r.status()
	if len(s.Faults) == 0 || s.Faults[0].Kind != kind || s.Owed != "" || !s.Leads {
		r.t.Errorf("status %+v, want a fault %q, mended", s, kind)
	}
	r.wantMetric(fmt.Sprintf("weir_log_faults_total{kind=%q}", kind), "1")
	if n := r.count(model.KindRebase); n != 1 {
		r.t.Errorf("the log holds %d rebases, want 1", n)
	}
	if got := r.view().Counters; got.Attempts != attempts || got.Rebases != 1 || got.BadRebases != 0 {
		r.t.Errorf("counters %+v, want %d attempts and a rebase", got, attempts)
	}
	r.wantFold()
	// The log goes on and a restart finds nothing.
	y := r.agent("y")
	y.send(ok())
	synctest.Wait()
	r.restart()
	if s := r.status(); len(s.Faults) != 0 || s.Owed != "" {
		r.t.Errorf("after a restart: %+v, want no fault", s)
	}
	y.send(ok())
	synctest.Wait()
	if got := r.view().Counters.Attempts; got != attempts+2 {
		r.t.Errorf("%d attempts, want %d", got, attempts+2)
	}
	r.wantFold()
}

// filled is a rig that folded 100 attempts and stopped.
func filled(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.start()
	x := r.agent("x")
	for range 100 {
		x.send(ok())
	}
	synctest.Wait()
	r.end()
	return r
}

// use puts another bus in place.
func (r *rig) use(b *memlog.Bus) {
	r.bus, r.log = b, b.Log()
	r.out = &spy{Outbox: b.Outbox()}
}

func TestLogCameBackShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := filled(t)
		r.use(copyOf(t, r.log, 60))
		r.start()
		defer func() { r.end() }()
		r.wantAnchored("shortened", 100)
	})
}

func TestLogCameBackEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := filled(t)
		r.use(memlog.New(fleet, memlog.Options{}))
		r.start()
		defer func() { r.end() }()
		r.wantAnchored("shortened", 100)
	})
}

// TestLogCameBackWithReusedNumbers has an older copy that others went on
// writing into while no controller looked: what they wrote beyond the fold
// counts.
func TestLogCameBackWithReusedNumbers(t *testing.T) {
	for _, more := range []int{10, 42, 100} {
		synctest.Test(t, func(t *testing.T) {
			r := filled(t)          // 2 + 100 entries
			time.Sleep(time.Second) // the copy is made at another time
			r.use(copyOf(t, r.log, 60))
			z := r.agent("z")
			for range more {
				z.send(ok())
			}
			r.start()
			defer func() { r.end() }()
			kind, fresh := "replaced", max(60+more-102, 0)
			if 60+more < 102 {
				kind = "shortened"
			}
			if kind == "replaced" && fresh > 0 {
				// The first of what is beyond the fold says how many were before.
				if lost := r.view().Counters.Lost; lost != uint64(more-fresh) {
					t.Errorf("%d attempts lost, want %d", lost, more-fresh)
				}
			}
			r.wantAnchored(kind, uint64(100+fresh))
		})
	}
}

// TestLogRewoundUnderARunningFold takes entries away and lets others write.
func TestLogRewoundUnderARunningFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		x := r.agent("x")
		r.start()
		defer func() { r.end() }()
		for range 50 {
			x.send(ok())
		}
		synctest.Wait()
		seq := r.status().Seq
		// The whole log is replaced by one that begins anew and is shorter.
		if err := r.bus.Log().Reanchor(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		z := r.agent("z")
		for range 5 {
			z.send(ok())
		}
		time.Sleep(20 * time.Second)
		if s := r.status(); s.Seq <= seq || len(s.Faults) == 0 {
			t.Fatalf("status %+v, want it noticed", s)
		}
		r.wantAnchored("shortened", 50)
	})
}

// TestLogRewoundWhileTheReaderWasAway has others write beyond the fold before
// anybody reads again.
func TestLogRewoundWhileTheReaderWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		lying := &liar{Log: r.log}
		r.log = lying
		r.start()
		defer func() { r.end() }()
		x := r.agent("x")
		for range 50 {
			x.send(ok())
		}
		synctest.Wait() // at record 52
		lying.mu.Lock()
		lying.cut = true
		lying.mu.Unlock()
		if err := r.bus.Log().Reanchor(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		z := r.agent("z")
		for range 60 {
			z.send(ok())
		}
		time.Sleep(time.Second)
		if got := r.view().Counters.Lost; got != 43 {
			t.Errorf("%d attempts lost, want the 43 with numbers that were folded", got)
		}
		r.wantAnchored("rewound", 50+17)
	})
}

// TestReaderThatFailsIsOpenedAgain has nothing wrong but the reader.
func TestReaderThatFailsIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		lying := &liar{Log: r.log}
		r.log = lying
		r.start()
		defer func() { r.end() }()
		x := r.agent("x")
		for range 20 {
			lying.mu.Lock()
			lying.cut = true
			lying.mu.Unlock()
			x.send(ok())
			time.Sleep(10 * time.Second)
		}
		s := r.status()
		if got := r.view().Counters.Attempts; got != 20 || len(s.Faults) != 0 || s.Duplicates != 0 {
			t.Errorf("%d attempts, status %+v; want 20 and nothing wrong", got, s)
		}
		if lying.readers < 20 {
			t.Errorf("%d readers, want one after each failure", lying.readers)
		}
		r.wantFold()
	})
}

func TestHoleInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		x := r.agent("x")
		for range 100 {
			x.send(ok())
		}
		lying := &liar{Log: r.log}
		lying.hide(func(seq uint64) bool { return seq > 40 && seq <= 50 })
		r.log = lying
		r.start()
		defer func() { r.end() }()
		synctest.Wait()
		if s := r.status(); s.Lost != 10 {
			t.Errorf("%d entries lost, want 10", s.Lost)
		}
		if got := r.view().Counters.Lost; got != 10 {
			t.Errorf("%d attempts lost by the agent's numbers, want 10", got)
		}
		r.wantAnchored("holed", 90)
	})
}

func TestHoleWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		lying := &liar{Log: r.log}
		r.log = lying
		r.start()
		defer func() { r.end() }()
		lying.hide(func(seq uint64) bool { return seq >= 10 && seq < 13 })
		x := r.agent("x")
		for range 20 {
			x.send(ok())
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if s := r.status(); s.Lost != 3 {
			t.Errorf("%d entries lost, want 3", s.Lost)
		}
		r.wantAnchored("holed", 17)
	})
}

// TestHoleAtTheEnd has a log whose last entries are gone though it counts
// them: nothing comes that would show the hole.
func TestHoleAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		x := r.agent("x")
		for range 20 {
			x.send(ok())
		}
		lying := &liar{Log: r.log}
		lying.hide(func(seq uint64) bool { return seq > 15 && seq <= 20 })
		r.log = lying
		r.start()
		defer func() { r.end() }()
		time.Sleep(20 * time.Second)
		if s := r.status(); s.Lost != 5 {
			t.Errorf("%d entries lost, want 5", s.Lost)
		}
		r.wantAnchored("holed", 15)
	})
}

// TestFreshStoreOnATrimmedLog starts without state on a log that lost its
// beginning.
func TestFreshStoreOnATrimmedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := filled(t)
		if err := r.bus.Log().Trim(t.Context(), 53); err != nil {
			t.Fatal(err)
		}
		r.store = newMemory()
		r.start()
		defer func() { r.end() }()
		if s := r.status(); s.Lost != 52 {
			t.Errorf("%d entries lost, want 52", s.Lost)
		}
		r.wantAnchored("holed", 50)
	})
}

// TestFreshStoreOnAnAnchoredLog starts without state on a log that begins
// with a rebase: nothing is missing.
func TestFreshStoreOnAnAnchoredLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := filled(t)
		r.use(copyOf(t, r.log, 60))
		r.start()
		synctest.Wait()
		r.end()
		r.store = newMemory()
		r.start()
		defer func() { r.end() }()
		if s := r.status(); len(s.Faults) != 0 || s.Owed != "" || s.Lost != 0 {
			t.Errorf("status %+v, want no fault", s)
		}
		if got := r.view().Counters.Attempts; got != 100 {
			t.Errorf("%d attempts, want 100 out of the rebase", got)
		}
		r.wantFold()
	})
}

// TestCrashWhileMending stops after each step of the mending.
func TestCrashWhileMending(t *testing.T) {
	for _, step := range []string{"before the log", "after the log"} {
		synctest.Test(t, func(t *testing.T) {
			r := filled(t)
			r.use(copyOf(t, r.log, 60))
			crash := &crashing{Log: r.log, after: step == "after the log"}
			r.log = crash
			r.start()
			time.Sleep(time.Second)
			r.store = r.store.after() // before the loop can finish
			r.end()
			r.log = crash.Log
			r.start()
			defer func() { r.end() }()
			if n := r.count(model.KindRebase); n != 1 {
				t.Errorf("%s: %d rebases, want 1", step, n)
			}
			if got := r.view().Counters.Attempts; got != 100 {
				t.Errorf("%s: %d attempts, want 100", step, got)
			}
			r.wantFold()
		})
	}
}

// crashing is a log that stops in the middle of being mended.
type crashing struct {
	events.Log
	after   bool
	crashed bool
}

func (c *crashing) Reanchor(ctx context.Context, next uint64) error {
	if c.after {
		if err := c.Log.Reanchor(ctx, next); err != nil {
			return err
		}
	}
	c.crashed = true
	<-ctx.Done()
	return ctx.Err()
}

func (c *crashing) Append(ctx context.Context, data []byte) (uint64, error) {
	if c.crashed {
		return 0, errTest
	}
	return c.Log.Append(ctx, data)
}

// TestRebaseLosesNothing anchors anew while others write all the time.
func TestRebaseLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := filled(t)
		r.use(copyOf(t, r.log, 60))
		r.log = &liar{Log: r.log, delay: 500 * time.Microsecond}
		y := r.agent("y")
		go func() {
			for range 2000 {
				y.send(ok())
				time.Sleep(1300 * time.Microsecond)
			}
		}()
		r.start()
		defer func() { r.end() }()
		time.Sleep(10 * time.Second)
		v, s := r.view(), r.status()
		if s.Owed != "" || v.Counters.Rebases != 1 {
			t.Errorf("status %+v, want one rebase", s)
		}
		// y wrote a few before the log was mended; the rest counts.
		if v.Counters.Attempts+v.Counters.Lost != 2100 || v.Counters.Lost > 2 {
			t.Errorf("counters %+v, want 2,100 attempts", v.Counters)
		}
		r.wantFold()
	})
}

// TestMendingThatFails counts a fault once, however often it must be tried.
func TestMendingThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := filled(t)
		r.use(copyOf(t, r.log, 60))
		stubborn := newStubborn(r.log, 5)
		r.log = stubborn
		r.start()
		defer func() { r.end() }()
		time.Sleep(30 * time.Second)
		if left := stubborn.left.Load(); left != 0 {
			t.Errorf("%d refusals are left", left)
		}
		r.log = stubborn.Log
		r.wantAnchored("shortened", 100)
	})
}

// TestMendingThatFailsWhileRunning does the same under a running fold, and
// folds nothing of the other past meanwhile.
func TestMendingThatFailsWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		stubborn := newStubborn(r.log, 3)
		r.log = stubborn
		r.start()
		defer func() { r.end() }()
		x := r.agent("x")
		for range 50 {
			x.send(ok())
		}
		synctest.Wait()
		seq := r.status().Seq
		if err := stubborn.Log.Reanchor(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		z := r.agent("z")
		for range 5 {
			z.send(ok())
		}
		time.Sleep(2500 * time.Millisecond)
		if s := r.status(); s.Seq != seq || len(s.Faults) != 1 {
			t.Errorf("status %+v, want one fault and nothing folded beyond %d", s, seq)
		}
		time.Sleep(20 * time.Second)
		r.wantAnchored("shortened", 50)
	})
}

// stubborn is a log that refuses to be mended a few times.
type stubborn struct {
	events.Log
	left atomic.Int32
}

func newStubborn(log events.Log, times int32) *stubborn {
	s := &stubborn{Log: log}
	s.left.Store(times)
	return s
}

func (s *stubborn) Reanchor(ctx context.Context, next uint64) error {
	if s.left.Load() > 0 {
		s.left.Add(-1)
		return errTest
	}
	return s.Log.Reanchor(ctx, next)
}
