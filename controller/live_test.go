package controller_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/nats-io/nats.go"

	"weir/controller"
	"weir/controller/store"
	"weir/events"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
	"weir/model"
)

// live is a controller with real NATS and Pebble in one process.
type live struct {
	natsDir, stateDir string
	nats              *controller.NATS
	conn              *nats.Conn
	log               *natslog.Log
	store             *store.Store
	loop              *controller.Loop
	set               *metrics.Set
	cancel            context.CancelFunc
	done              chan error
}

// openLive starts everything on the two folders. listen is NATS's address.
func openLive(dir, listen string, keep uint64, logger *slog.Logger) (l *live, err error) {
	l = &live{natsDir: filepath.Join(dir, "nats"), stateDir: filepath.Join(dir, "state"), set: metrics.NewSet(), done: make(chan error, 1)}
	if l.nats, err = controller.StartNATS(controller.NATSOptions{Store: l.natsDir, Listen: listen, Logger: logger}); err != nil {
		return nil, err
	}
	if l.conn, err = l.nats.Connect(natslog.Options{Name: "controller"}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	if l.log, err = natslog.OpenLog(ctx, l.conn, fleet, natslog.LogOptions{}); err != nil {
		return nil, err
	}
	outbox, err := natslog.OpenOutbox(ctx, l.conn, fleet, 0)
	if err != nil {
		return nil, err
	}
	if l.store, err = store.Open(l.stateDir, store.Options{Logger: logger}); err != nil {
		return nil, err
	}
	l.loop, err = controller.New(controller.Options{
		Fleet: fleet, Log: l.log, Outbox: outbox, Store: l.store, Config: config("a", "b"), Keep: keep, Logger: logger, Metrics: l.set,
	})
	if err != nil {
		return nil, err
	}
	go func() { l.done <- l.loop.Run(ctx) }()
	return l, nil
}

// close stops everything in the order that loses nothing.
func (l *live) close() error {
	l.cancel()
	err := <-l.done
	err = errors.Join(err, l.store.Close())
	l.conn.Close()
	return errors.Join(err, l.nats.Close())
}

func startLive(t *testing.T, dir string, keep ...uint64) *live {
	t.Helper()
	l, err := openLive(dir, "", slices.Max(append(keep, 0)), slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) { w.t.Log(string(p)); return len(p), nil }

func (l *live) stop(t *testing.T) {
	t.Helper()
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
}

// until waits until a status is as wanted.
func (l *live) until(t *testing.T, what string, want func(controller.Status) bool) controller.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		s, err := l.loop.Status(ctx)
		if err != nil {
			t.Fatalf("waiting for %s: %v; last %+v", what, err, s)
		}
		if want(s) {
			return s
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (l *live) status(t *testing.T) controller.Status {
	t.Helper()
	s, err := l.loop.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (l *live) leads(t *testing.T) controller.Status {
	t.Helper()
	return l.until(t, "the term", func(s controller.Status) bool { return s.Leads && s.Owed == "" })
}

// agent returns an agent that writes over a connection of its own.
func (l *live) agent(t *testing.T, id string) *agent {
	t.Helper()
	conn, err := l.nats.Connect(natslog.Options{Agent: id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	w, err := natslog.NewWriter(conn, fleet, id)
	if err != nil {
		t.Fatal(err)
	}
	return &agent{t: t, id: id, writer: w, boot: 1}
}

// settled waits until everything in the log is folded and compares the state
// with a fresh fold.
func (l *live) settled(t *testing.T) model.FleetView {
	t.Helper()
	info, err := l.log.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.loop.Wait(t.Context(), info.Last); err != nil {
		t.Fatal(err)
	}
	_, digest, seq, err := l.loop.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := refold(t, l.log, seq); f.Digest() != digest {
		t.Errorf("state at %d is not what a fresh fold gives", seq)
	}
	v, err := l.loop.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// messages is where a log's stream keeps its messages.
func (l *live) messages() string {
	return filepath.Join(l.natsDir, "jetstream", "$G", "streams", "WEIR_"+fleet+"_LOG", "msgs")
}

// blocks returns the files with a log's messages, oldest first.
func (l *live) blocks(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(l.messages(), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".blk" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("blocks %v: %v", files, err)
	}
	return files
}

// forget removes the index that a clean stop wrote, as a crash would not have.
func (l *live) forget(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(l.messages(), "index.db")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

func size(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestLogDamagedOnDisk damages the stream's files between two runs: it is
// noticed, counted, shown, mended by a rebase, and the fold goes on with
// everything it had.
func TestLogDamagedOnDisk(t *testing.T) {
	for name, tc := range map[string]struct {
		kinds  []string
		damage func(t *testing.T, l *live, older string)
	}{
		"last block cut": {[]string{"shortened"}, func(t *testing.T, l *live, _ string) {
			all := l.blocks(t)
			last := all[len(all)-1]
			natstest.CutTail(t, last, size(t, last)/2)
			l.forget(t)
		}},
		"bit flipped": {[]string{"shortened", "holed"}, func(t *testing.T, l *live, _ string) {
			all := l.blocks(t)
			natstest.FlipBit(t, all[len(all)-1], size(t, all[len(all)-1])/2)
			l.forget(t)
		}},
		"older copy restored": {[]string{"shortened"}, func(t *testing.T, l *live, older string) {
			if err := errors.Join(os.RemoveAll(l.natsDir), os.CopyFS(l.natsDir, os.DirFS(older))); err != nil {
				t.Fatal(err)
			}
		}},
		"all gone": {[]string{"shortened"}, func(t *testing.T, l *live, _ string) {
			if err := os.RemoveAll(filepath.Join(l.natsDir, "jetstream")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, older := t.TempDir(), filepath.Join(t.TempDir(), "older")
			l := startLive(t, dir)
			l.leads(t)
			x := l.agent(t, "x")
			for range 100 {
				x.send(ok(), refusal())
			}
			l.settled(t)
			l.stop(t)
			if err := os.CopyFS(older, os.DirFS(l.natsDir)); err != nil {
				t.Fatal(err)
			}
			l = startLive(t, dir)
			l.leads(t)
			x.writer = l.agent(t, "x").writer
			for range 100 {
				x.send(ok(), refusal())
			}
			if got := l.settled(t).Counters.Attempts; got != 400 {
				t.Fatalf("%d attempts before the damage, want 400", got)
			}
			l.stop(t)
			tc.damage(t, l, older)

			l = startLive(t, dir)
			s := l.leads(t)
			if len(s.Faults) == 0 || !slices.Contains(tc.kinds, s.Faults[0].Kind) {
				t.Fatalf("faults %+v, want one of %v", s.Faults, tc.kinds)
			}
			if got := l.set.GetOrCreateCounter(`weir_log_faults_total{kind="` + s.Faults[0].Kind + `"}`).Get(); got != 1 {
				t.Errorf("%d faults counted, want 1", got)
			}
			x.writer = l.agent(t, "x").writer
			for range 50 {
				x.send(ok())
			}
			v := l.settled(t)
			if v.Counters.Attempts != 450 || v.Counters.Lost != 0 || v.Counters.Rebases != 1 {
				t.Errorf("counters %+v, want 450 attempts, none lost, one rebase", v.Counters)
			}
			l.stop(t)

			l = startLive(t, dir)
			if s := l.leads(t); len(s.Faults) != 0 {
				t.Errorf("faults after mending %+v", s.Faults)
			}
			l.settled(t)
			l.stop(t)
		})
	}
}

// TestManyAgentsAreFoldedOnce has agents write at once and under two numbers
// of processors: the fold is that of the log, and nothing counts twice.
func TestManyAgentsAreFoldedOnce(t *testing.T) {
	const agents, reports = 8, 150
	for _, procs := range []int{1, 2} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		l := startLive(t, t.TempDir())
		l.leads(t)
		var writers sync.WaitGroup
		for i := range agents {
			a := l.agent(t, string(rune('a'+i)))
			writers.Go(func() {
				for n := range reports {
					data := events.Encode(nil, a.report(ok(), refusal(), ok()))
					for range 1 + n%3 { // some are sent again
						if err := a.writer.Write(t.Context(), data); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		writers.Wait()
		v := l.settled(t)
		if got := v.Counters; got.Attempts != agents*reports*3 || got.Lost != 0 {
			t.Errorf("counters %+v, want %d attempts", got, agents*reports*3)
		}
		for _, a := range v.Agents {
			if a.Reports != reports || a.Lost != 0 {
				t.Errorf("agent %+v, want %d reports", a, reports)
			}
		}
		l.stop(t)

		// What is stored is what was folded.
		s, err := store.Open(l.stateDir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var scan error
		f, err := model.FleetFromParts(s.Parts(&scan))
		if err := errors.Join(err, scan); err != nil {
			t.Fatal(err)
		}
		if f.Counters().Attempts != agents*reports*3 {
			t.Errorf("stored %+v", f.Counters())
		}
		decisions := 0
		if err := errors.Join(s.Each(0, math.MaxUint64, false, func(uint64, []byte) bool { decisions++; return true }), s.Close()); err != nil || decisions == 0 {
			t.Errorf("%d decisions stored, %v", decisions, err)
		}
	}
}

// TestLiveLogIsTrimmed keeps a short log in a real stream over restarts.
func TestLiveLogIsTrimmed(t *testing.T) {
	const keep, rounds, reports = 100, 4, 150
	dir := t.TempDir()
	x := &agent{t: t, id: "x", boot: 1}
	for round := range rounds {
		l := startLive(t, dir, keep)
		if s := l.leads(t); len(s.Faults) != 0 {
			t.Errorf("faults %+v", s.Faults)
		}
		x.writer = l.agent(t, "x").writer
		for range reports {
			x.send(ok())
		}
		info, err := l.log.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.loop.Wait(t.Context(), info.Last); err != nil {
			t.Fatal(err)
		}
		if held := info.Last - info.First + 1; held > 4*keep || round > 1 && info.First == 1 {
			t.Errorf("the log holds %d to %d, want a few times %d records", info.First, info.Last, keep)
		}
		if v, err := l.loop.View(t.Context()); err != nil || v.Counters.Attempts != uint64((round+1)*reports) || v.Counters.Lost != 0 {
			t.Errorf("counters %+v, %v; want %d attempts", v.Counters, err, (round+1)*reports)
		}
		l.stop(t)
	}
}
