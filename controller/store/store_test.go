package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"weir/controller/store"
)

func open(t *testing.T, dir string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

func parts(t *testing.T, s *store.Store) map[string]string {
	t.Helper()
	var err error
	got, last := map[string]string{}, ""
	for key, value := range s.Parts(&err) {
		if key < last {
			t.Errorf("part %q after %q", key, last)
		}
		got[key], last = string(value), key
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestCommitAndLoad(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	if _, found, err := s.Load(); found || err != nil {
		t.Fatalf("new store: found %v, error %v", found, err)
	}
	first := store.Position{Seq: 7, Time: -3, CRC: 0xfedcba98, Created: math.MaxInt64}
	commit(t, s, &store.Change{Position: first, Parts: []store.Part{
		{Key: "head", Value: []byte("h")}, {Key: "channel/a", Value: []byte{}}, {Key: "channel/b", Value: []byte("b")},
	}})
	second := store.Position{Seq: 9, Created: 1, Missing: 1 << 40, File: 0xabcdef01, Owed: "hole"}
	commit(t, s, &store.Change{Position: second, Parts: []store.Part{{Key: "channel/b"}, {Key: "head", Value: []byte("H")}}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, dir, store.Options{})
	got, found, err := s.Load()
	if err != nil || !found || got != second {
		t.Errorf("position = %+v, %v, %v; want %+v", got, found, err, second)
	}
	if diff := cmp.Diff(map[string]string{"head": "H", "channel/a": ""}, parts(t, s)); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func commit(t *testing.T, s *store.Store, c *store.Change) {
	t.Helper()
	if err := s.Commit(c, false); err != nil {
		t.Fatal(err)
	}
}

func TestOwedIsBounded(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	commit(t, s, &store.Change{Position: store.Position{Seq: 1, Owed: strings.Repeat("x", 10_000)}})
	got, _, err := s.Load()
	if err != nil || len(got.Owed) != 256 {
		t.Errorf("owed has %d bytes (%v), want 256", len(got.Owed), err)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, store.Options{})
	_, err := store.Open(dir, store.Options{})
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second open: %v, want ErrLocked with the folder", err)
	}
}

func TestNewerLayoutIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Set([]byte("v"), binary.AppendUvarint(nil, 1000), pebble.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(dir, store.Options{})
	if !errors.Is(err, store.ErrNewer) || strings.Contains(err.Error(), "\n") {
		t.Errorf("open: %q, want ErrNewer on one line", err)
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)             {}
func (quiet) Errorf(string, ...any)            {}
func (quiet) Fatalf(format string, arg ...any) { panic(fmt.Sprintf(format, arg...)) }

func TestDamagedStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	commit(t, s, &store.Change{Position: store.Position{Seq: 1}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("manifests %v, %v", manifests, err)
	}
	for _, name := range manifests {
		if err := os.WriteFile(name, []byte("not a manifest"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = store.Open(dir, store.Options{}); !errors.Is(err, store.ErrUnreadable) {
		t.Errorf("open: %v, want ErrUnreadable", err)
	}
	if _, err = store.Open(dir, store.Options{}); errors.Is(err, store.ErrLocked) {
		t.Errorf("a refused store stays locked: %v", err)
	}
}

func TestClosedStoreRefuses(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var partsErr error
	for range s.Parts(&partsErr) {
		t.Error("a part")
	}
	_, _, loadErr := s.Load()
	for name, err := range map[string]error{
		"parts": partsErr, "load": loadErr,
		"commit":     s.Commit(&store.Change{}, true),
		"each":       s.Each(0, math.MaxUint64, true, nil),
		"checkpoint": s.Checkpoint(filepath.Join(t.TempDir(), "c")),
	} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
}

func TestDecisionsAreARing(t *testing.T) {
	dir := t.TempDir()
	options := store.Options{KeepDecisions: 100}
	s := open(t, dir, options)
	for seq := uint64(1); seq <= 500; seq++ {
		if seq == 250 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, options)
		}
		commit(t, s, &store.Change{Position: store.Position{Seq: seq}, Decisions: []store.Decision{
			{Seq: seq, N: 0, Data: []byte("a")}, {Seq: seq, N: 1, Data: []byte("b")},
		}})
	}
	got := decisions(t, s, 0, math.MaxUint64, true)
	if len(got) < 80 || len(got) > 100 {
		t.Errorf("%d decisions are kept, want 80..100", len(got))
	}
	if diff := cmp.Diff([]string{"500b", "500a", "499b"}, got[:3]); diff != "" {
		t.Errorf("newest (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"490a", "490b", "491a", "491b"}, decisions(t, s, 490, 491, false)); diff != "" {
		t.Errorf("range (-want +got):\n%s", diff)
	}
}

func decisions(t *testing.T, s *store.Store, from, to uint64, newest bool) (got []string) {
	t.Helper()
	err := s.Each(from, to, newest, func(seq uint64, data []byte) bool {
		got = append(got, fmt.Sprintf("%d%s", seq, data))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestDecisionBytesAreBounded(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{KeepBytes: 10_000})
	for seq := uint64(1); seq <= 100; seq++ {
		commit(t, s, &store.Change{Decisions: []store.Decision{{Seq: seq, Data: make([]byte, 1_000)}}})
	}
	if got := len(decisions(t, s, 0, math.MaxUint64, false)); got < 8 || got > 10 {
		t.Errorf("%d decisions of 1,000 bytes are kept, want 8..10", got)
	}
	// One that is larger than all the room replaces everything.
	commit(t, s, &store.Change{Decisions: []store.Decision{{Seq: 101, Data: make([]byte, 50_000)}}})
	if got := decisions(t, s, 0, math.MaxUint64, false); len(got) != 1 || !strings.HasPrefix(got[0], "101") {
		t.Errorf("%d decisions are kept, want the one", len(got))
	}
}

func TestSnapshotsKeepTheLastTwo(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	for i, want := range [][]uint64{{10}, {10, 20}, {20, 30}, {30, 40}} {
		seq := uint64(i+1) * 10
		commit(t, s, &store.Change{Position: store.Position{Seq: seq}, Snapshot: fmt.Appendf(nil, "at %d", seq)})
		if got, err := s.Snapshots(); !slices.Equal(got, want) || err != nil {
			t.Errorf("after %d: snapshots at %v, %v; want %v", seq, got, err, want)
		}
	}
	for before, want := range map[uint64]string{29: "", 30: "at 30", 39: "at 30", 40: "at 40", 1000: "at 40"} {
		_, data, found, err := s.Snapshot(before)
		if string(data) != want || found != (want != "") || err != nil {
			t.Errorf("snapshot before %d = %q, %v, %v; want %q", before, data, found, err, want)
		}
	}
}

func TestCheckpointIsAWholeStore(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	commit(t, s, &store.Change{Position: store.Position{Seq: 3}, Parts: []store.Part{{Key: "head", Value: []byte("x")}}})
	dir := filepath.Join(t.TempDir(), "copy")
	if err := s.Checkpoint(dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parts(t, s), parts(t, open(t, dir, store.Options{}))); diff != "" {
		t.Errorf("copy (-want +got):\n%s", diff)
	}
}

// TestCrashAnywhere cuts the power at random moments, with a random part of
// what was not synced surviving: what comes back is the state at some record,
// whole, and not before the last synced one.
func TestCrashAnywhere(t *testing.T) {
	const rounds = 60
	for round := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(round, 1))
		fs := vfs.NewCrashableMem()
		s := open(t, "state", store.Options{FS: fs, KeepDecisions: 50})
		states := map[uint64]map[string]string{0: {}}
		state, synced := map[string]string{}, uint64(0)
		last := uint64(1 + rng.IntN(80))
		for seq := uint64(1); seq <= last; seq++ {
			c := randomChange(rng, seq, state)
			sync := rng.IntN(10) == 0
			if err := s.Commit(c, sync); err != nil {
				t.Fatal(err)
			}
			states[seq] = maps.Clone(state)
			if sync {
				synced = seq
			}
		}
		after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		s = open(t, "state", store.Options{FS: after, KeepDecisions: 50})
		p, _, err := s.Load()
		if err != nil {
			t.Fatal(err)
		}
		if p.Seq < synced || p.Seq > last {
			t.Errorf("round %d: state at %d, want %d..%d", round, p.Seq, synced, last)
		}
		if diff := cmp.Diff(states[p.Seq], parts(t, s)); diff != "" {
			t.Errorf("round %d: state at %d (-want +got):\n%s", round, p.Seq, diff)
		}
		for _, d := range decisions(t, s, p.Seq+1, math.MaxUint64, false) {
			t.Errorf("round %d: decision %s after the position %d", round, d, p.Seq)
		}
	}
}

func randomChange(rng *rand.Rand, seq uint64, state map[string]string) *store.Change {
	c := &store.Change{Position: store.Position{Seq: seq}}
	for range rng.IntN(4) {
		key := fmt.Sprintf("agent/%d", rng.IntN(8))
		value := bytes.Repeat([]byte{byte(seq)}, rng.IntN(400))
		if rng.IntN(5) == 0 {
			value = nil
			delete(state, key)
		} else {
			value = append([]byte{}, value...)
			state[key] = string(value)
		}
		c.Parts = append(c.Parts, store.Part{Key: key, Value: value})
	}
	for n := range uint32(rng.IntN(3)) {
		c.Decisions = append(c.Decisions, store.Decision{Seq: seq, N: n, Data: []byte("d")})
	}
	return c
}

// TestRefusedWriteEndsTheProcess runs itself as a child whose disk fails.
func TestRefusedWriteEndsTheProcess(t *testing.T) {
	const variable = "WEIR_TEST_FAILING_STORE"
	if what := os.Getenv(variable); what != "" {
		failingStore(what)
		return
	}
	for _, what := range []string{"all", "tables"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRefusedWriteEndsTheProcess$")
		cmd.Env = append(os.Environ(), variable+"="+what)
		out, err := cmd.CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() != 1 {
			t.Fatalf("%s: child ended with %v, want exit 1; it said\n%s", what, err, out)
		}
		if !strings.Contains(string(out), "store cannot go on") || strings.Contains(string(out), "committed after") {
			t.Errorf("%s: child said\n%s", what, out)
		}
	}
}

// TestOlderFormat opens a store that an older Pebble wrote, which becomes one
// of today's, and refuses one of a newer Pebble and one without a layout that
// was ever ours.
func TestOlderFormat(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	commit(t, s, &store.Change{Position: store.Position{Seq: 7}, Parts: []store.Part{{Key: "channel/a", Value: []byte("state")}}})
	where := filepath.Join(t.TempDir(), "copy")
	if err := errors.Join(s.Checkpoint(where), s.Close()); err != nil {
		t.Fatal(err)
	}
	dir := older(t, where, func(key, value []byte) []byte { return value })
	for range 2 { // today's from the first time on
		s = open(t, dir, store.Options{})
		p, found, err := s.Load()
		if err != nil || !found || p.Seq != 7 || parts(t, s)["channel/a"] != "state" {
			t.Errorf("position %+v, found %v, %v, parts %v", p, found, err, parts(t, s))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	newer := fmt.Sprintf("marker.format-version.%06d.%03d", 999, pebble.FormatNewest+1)
	if err := os.WriteFile(filepath.Join(dir, newer), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none := older(t, where, func(key, value []byte) []byte {
		if string(key) == "v" {
			return []byte{0}
		}
		return value
	})
	for dir, want := range map[string]error{dir: store.ErrNewer, none: store.ErrUnreadable} {
		if _, err := store.Open(dir, store.Options{}); !errors.Is(err, want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("open: %v; want %v on one line", err, want)
		}
	}
}

// older copies a store into one of the oldest format that Pebble opens.
func older(t *testing.T, from string, change func(key, value []byte) []byte) string {
	t.Helper()
	dir := t.TempDir()
	in, err := pebble.Open(from, &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatMinSupported, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := in.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for ok := all.First(); ok; ok = all.Next() {
		err = errors.Join(err, out.Set(all.Key(), change(all.Key(), all.Value()), pebble.NoSync))
	}
	if out.FormatMajorVersion() != pebble.FormatMinSupported {
		t.Errorf("the format is %s", out.FormatMajorVersion())
	}
	if err := errors.Join(err, all.Close(), in.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}
