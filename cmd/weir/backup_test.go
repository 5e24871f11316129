package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/controller/web"
	"weir/model"
)

// TestBackupOfARunningFleet restores a backup made under way into a new
// folder: the controller that starts there has what the old one had.
func TestBackupOfARunningFleet(t *testing.T) {
	f := newFleet(t)
	calls := &callers{}
	for range 5 {
		calls.one(f.baseURL() + "/chat/completions")
	}
	if len(calls.troubles) > 0 {
		t.Fatal(calls.troubles)
	}
	f.sidecar.until("report its calls", func() bool { return f.attempts() == 5 })
	f.weir("channel", "set", "main", "--limit", "7", "--why", "to be kept")
	file, store := filepath.Join(f.dir, "fleet.weir"), filepath.Join(f.dir, "restored")
	got := start(t, f.dir, "backup", file).end()
	if got.code != exitOK {
		t.Fatal(got.stderr)
	}
	before := f.channels()
	f.sidecar.stop()
	f.controller.stop()

	if got := start(t, f.dir, "restore", file, "--store", store).end(); got.code != exitOK || !strings.Contains(got.stderr, "complete=true") {
		t.Fatalf("exit code %d: %s", got.code, got.stderr)
	}
	f.controller = start(t, f.dir, "controller", "--store", store)
	f.controller.said("msg=leading")
	f.controller.said("controller runs")
	if text := f.controller.err.String(); strings.Contains(text, "level=ERROR") || strings.Contains(text, "level=WARN") {
		t.Errorf("the restored controller said:\n%s", text)
	}
	if diff := cmp.Diff(before, f.channels()); diff != "" {
		t.Errorf("the restored channels differ (-before +after):\n%s", diff)
	}
	f.controller.stop()
	if v, got := verifyJSON(t, "--store", store, "--fleet", "test"); got.code != exitOK || !v.Verified || v.Stored == 0 {
		t.Errorf("exit code %d: %+v\n%s", got.code, v, got.stderr)
	}

	// Nothing that is there is overwritten.
	if got := start(t, f.dir, "restore", file, "--store", store).end(); got.code != exitUsage || !strings.Contains(got.stderr, "exists: restore into another folder") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}

// shown is what a restored channel must have of the old one's.
type shown struct {
	Name     string
	Attempts map[string]uint64
	Limit    int64  `json:"limit_slots"`
	Weight   int64  `json:"weight_ppm"`
	Reason   string `json:"reason"`
}

func (f *fleet) channels() []shown {
	f.t.Helper()
	var s struct{ Channels []shown }
	if err := json.Unmarshal([]byte(f.weir("status", "--json").stdout), &s); err != nil || len(s.Channels) == 0 {
		f.t.Fatalf("status shows %+v: %v", s, err)
	}
	return s.Channels
}

// TestBackupOfATrimmedLog has the controller's state in the place of what the
// log does not hold any more, asked of one that runs and read from the store of
// one that does not.
func TestBackupOfATrimmedLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := newKeeper(t, dir, 20)
	k.order(30)
	k.trimmed()
	api := httptest.NewServer(web.Handler(web.Options{Controller: k.loop}))
	defer api.Close()
	running, stopped := filepath.Join(dir, "running.weir"), filepath.Join(dir, "stopped.weir")
	if got := weir(t, "", "backup", running, "--nats", k.url, "--fleet", "test", "--url", api.URL); got.code != exitOK {
		t.Fatalf("exit code %d: %s", got.code, got.stderr)
	}
	view, err := k.loop.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k.stop()
	if got := weir(t, "", "backup", stopped, "--store", dir, "--fleet", "test"); got.code != exitOK {
		t.Fatalf("exit code %d: %s", got.code, got.stderr)
	}
	for _, file := range []string{running, stopped} {
		store := filepath.Join(t.TempDir(), "restored")
		if got := weir(t, "", "restore", file, "--store", store); got.code != exitOK {
			t.Fatalf("exit code %d: %s", got.code, got.stderr)
		}
		r := newKeeper(t, store, 20)
		after, err := r.loop.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s, err := r.loop.Status(t.Context()); err != nil || len(s.Faults) > 0 || s.Owed != "" {
			t.Errorf("%s: status %+v, %v", file, s, err)
		}
		if got, want := ordered(after), ordered(view); got != want {
			t.Errorf("%s: the restored limit is %d, want %d", file, got, want)
		}
		r.order(3)
		r.stop()
	}
}

// ordered returns the limit that an operator set on the first channel.
func ordered(v model.FleetView) model.Milli { return v.Channels[0].Window }

// TestRestoreOfWhatIsNoBackup: each is one line, and leaves nothing behind.
func TestRestoreOfWhatIsNoBackup(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t, filepath.Join(dir, "data"), 0)
	k.order(20)
	whole, part := filepath.Join(dir, "whole.weir"), filepath.Join(dir, "part.weir")
	for _, args := range [][]string{{whole}, {part, "--from", "5"}} {
		if got := weir(t, "", append([]string{"log", "export", "--nats", k.url, "--fleet", "test"}, args...)...); got.code != exitOK {
			t.Fatal(got.stderr)
		}
	}
	k.stop()
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), data...)
	flipped[len(flipped)/2] ^= 1
	for name, c := range map[string]struct {
		data []byte
		code int
		want string
	}{
		"empty":   {nil, exitUsage, "journal"},
		"text":    {[]byte("not a journal, but some text that is long enough"), exitUsage, "journal"},
		"flipped": {flipped, exitUsage, "checksum"},
		"torn":    {data[:len(data)-20], exitFailed, "its end is torn off"},
	} {
		file, store := filepath.Join(dir, name), filepath.Join(dir, name+"-store")
		if err := os.WriteFile(file, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		got := weir(t, "", "restore", file, "--store", store)
		if got.code != c.code || !strings.Contains(strings.Join(got.faults(), "\n"), c.want) {
			t.Errorf("%s: exit code %d, %q; want %d, %q", name, got.code, got.stderr, c.code, c.want)
		}
		if _, err := os.Stat(filepath.Join(store, "state")); c.code == exitUsage && err == nil {
			t.Errorf("%s left a store", name)
		}
	}
	if got := weir(t, "", "restore", part, "--store", filepath.Join(dir, "part-store")); got.code != exitUsage || !strings.Contains(got.stderr, "begins at record 5 without the state before it") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}
