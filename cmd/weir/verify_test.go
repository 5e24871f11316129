package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"weir/controller"
	"weir/controller/store"
	"weir/events/natslog"
	"weir/model"
)

// keeper is a controller in this process that keeps a short log.
type keeper struct {
	t    *testing.T
	dir  string
	loop *controller.Loop
	log  *natslog.Log
	nc   *nats.Conn
	url  string // of its NATS
	stop func()
}

// newKeeper starts a controller on the store in dir.
func newKeeper(t *testing.T, dir string, keep uint64) *keeper {
	t.Helper()
	k := &keeper{t: t, dir: dir}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	bus, err := controller.StartNATS(controller.NATSOptions{Store: filepath.Join(dir, "nats"), Listen: "127.0.0.1:0"})
	must(err)
	k.url = bus.URL()
	nc, err := bus.Connect(natslog.Options{Name: "test"})
	must(err)
	k.nc = nc
	k.log, err = natslog.OpenLog(t.Context(), nc, "test", natslog.LogOptions{})
	must(err)
	outbox, err := natslog.OpenOutbox(t.Context(), nc, "test", 1)
	must(err)
	state, err := store.Open(filepath.Join(dir, "state"), store.Options{})
	must(err)
	k.loop, err = controller.New(controller.Options{
		Fleet: "test", Log: k.log, Outbox: outbox, Store: state, Keep: keep,
		Config: &model.Config{Fleet: "test", Channels: []model.ChannelConfig{{Name: "main"}}},
	})
	must(err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.loop.Run(ctx) }()
	k.stop = func() {
		cancel()
		must(<-ended)
		must(state.Close())
		nc.Close()
		must(bus.Close())
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		status, statusErr := k.loop.Status(ctx)
		view, viewErr := k.loop.View(ctx)
		if statusErr == nil && viewErr == nil && status.Leads && len(view.Channels) == 1 {
			return k
		}
		if time.Now().After(deadline) {
			t.Fatalf("the controller does not lead: %+v, %v, %v", status, statusErr, viewErr)
		}
	}
}

// order gives n orders, each a record with a decision.
func (k *keeper) order(n int) {
	k.t.Helper()
	for i := range n {
		seq, err := k.loop.Append(k.t.Context(), &model.Command{Command: model.CommandSetLimit, Channel: "main", Value: int64(10 + i%7), By: "test"})
		if err == nil {
			err = k.loop.Wait(k.t.Context(), seq)
		}
		if err != nil {
			k.t.Fatal(err)
		}
	}
}

// trimmed waits until the log begins later than with its first record.
func (k *keeper) trimmed() {
	k.t.Helper()
	for deadline := time.Now().Add(patience); ; k.order(5) {
		info, err := k.log.Info(k.t.Context())
		if err != nil {
			k.t.Fatal(err)
		}
		if info.First > 1 {
			return
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("the log is not trimmed: %+v", info)
		}
	}
}

func verifyJSON(t *testing.T, args ...string) (verdict, result) {
	t.Helper()
	got := weir(t, "", append([]string{"log", "verify", "--json"}, args...)...)
	var v verdict
	if err := json.Unmarshal([]byte(got.stdout), &v); err != nil {
		t.Fatalf("%v: %s%s", err, got.stdout, got.stderr)
	}
	return v, got
}

// TestVerifyTrimmedLog folds a log that was trimmed from the state that was
// kept beside it, and compares with the controller's state and decisions.
func TestVerifyTrimmedLog(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t, dir, 20)
	k.order(30)
	k.trimmed()
	k.stop()
	v, got := verifyJSON(t, "--store", dir, "--fleet", "test")
	if got.code != exitOK || !v.Verified || v.Rootless || v.Base == 0 || v.First != v.Base+1 || v.Stored != v.Last || v.StoredDecisions < 10 || v.Missing > 0 {
		t.Fatalf("exit code %d: %+v", got.code, v)
	}

	journal := filepath.Join(t.TempDir(), "j.weir")
	if got := weir(t, "", "log", "export", journal, "--store", dir, "--fleet", "test"); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	w, got := verifyJSON(t, journal)
	if got.code != exitOK || !w.Verified || w.Rootless || w.Records != v.Records+1 || w.First != v.Base {
		t.Errorf("exit code %d: %+v", got.code, w)
	}
	part := filepath.Join(t.TempDir(), "part.weir")
	if got := weir(t, "", "log", "export", part, "--store", dir, "--fleet", "test", "--from", fmt.Sprint(v.First+3)); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	if w, got = verifyJSON(t, part); got.code != exitOK || !w.Verified || !w.Rootless {
		t.Errorf("exit code %d: %+v", got.code, w)
	}
}

// TestVerifyFindsAForeignState compares a log with the state of another.
func TestVerifyFindsAForeignState(t *testing.T) {
	dirs := [2]string{t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		k := newKeeper(t, dir, 0)
		k.order(10 + 5*i)
		k.stop()
	}
	mixed := t.TempDir()
	link(t, filepath.Join(dirs[1], "nats"), filepath.Join(mixed, "nats"))
	link(t, filepath.Join(dirs[0], "state"), filepath.Join(mixed, "state"))
	v, got := verifyJSON(t, "--store", mixed, "--fleet", "test")
	if got.code != exitFailed || v.Verified || !strings.Contains(got.stderr, "differs from the controller's") {
		t.Errorf("exit code %d: %+v\n%s", got.code, v, got.stderr)
	}
	mixed = t.TempDir()
	link(t, filepath.Join(dirs[0], "nats"), filepath.Join(mixed, "nats"))
	link(t, filepath.Join(dirs[1], "state"), filepath.Join(mixed, "state"))
	v, got = verifyJSON(t, "--store", mixed, "--fleet", "test")
	if got.code != exitFailed || v.Verified || !strings.Contains(got.stderr, "which the log does not hold") {
		t.Errorf("exit code %d: %+v\n%s", got.code, v, got.stderr)
	}
	for i, dir := range dirs {
		if v, got := verifyJSON(t, "--store", dir, "--fleet", "test"); got.code != exitOK || !v.Verified || v.StoredDecisions < 10+5*i {
			t.Errorf("exit code %d: %+v", got.code, v)
		}
	}
}

func link(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Symlink(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestVerifyAcrossARebase puts an older copy of the log in its place: the
// controller keeps what it had folded, its term goes on, and the log verifies
// across the state that it was anchored at.
func TestVerifyAcrossARebase(t *testing.T) {
	t.Parallel()
	dir, older := t.TempDir(), filepath.Join(t.TempDir(), "older")
	bus := filepath.Join(dir, "nats")
	k := newKeeper(t, dir, 0)
	k.order(20)
	k.stop()
	if err := os.CopyFS(older, os.DirFS(bus)); err != nil {
		t.Fatal(err)
	}
	k = newKeeper(t, dir, 0)
	k.order(24)
	before, err := k.loop.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k.stop()
	if err := errors.Join(os.RemoveAll(bus), os.CopyFS(bus, os.DirFS(older))); err != nil {
		t.Fatal(err)
	}
	k = newKeeper(t, dir, 0)
	var after model.FleetView
	for end := time.Now().Add(time.Minute); after.Counters.Rebases == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if after, err = k.loop.View(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after.Counters.Rebases != 1 || after.Term <= before.Term || after.Seq <= before.Seq || ordered(after) != ordered(before) || after.Channels[0].Epoch < before.Channels[0].Epoch {
		t.Errorf("behind an older log %+v, before %+v", after, before)
	}
	k.order(10)
	k.stop()
	if v, got := verifyJSON(t, "--store", dir, "--fleet", "test"); got.code != exitOK || !v.Verified || v.Stored != v.Last || v.Last < before.Seq+10 {
		t.Errorf("exit code %d: %+v\n%s", got.code, v, got.stderr)
	}
}
