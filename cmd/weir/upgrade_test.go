package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/events"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
	"weir/model"
)

// grownEntries is what a newer version of the wire adds to what today's writes:
// something at the end of every section, a section of its own, and the mark of
// additions that today's does not know.
const grownEntries = `package events

import (
	"encoding/binary"

	"weir/model"
)

func Encode(dst []byte, f model.Fact) []byte { return grow(dst, encodeToday(nil, f)) }

func EncodeLimits(dst []byte, l *model.LimitSet) []byte { return grow(dst, encodeLimitsToday(nil, l)) }

func EncodeLease(dst []byte, l *model.Lease) []byte { return grow(dst, encodeLeaseToday(nil, l)) }

func EncodeTerm(dst []byte, t *model.TermNotice) []byte { return grow(dst, encodeTermToday(nil, t)) }

func EncodeConfig(dst []byte, seq uint64, c *model.Config) []byte {
	return grow(dst, encodeConfigToday(nil, seq, c))
}

// grow leaves an entry alone that lacks sections which its kind has by now: a
// newer version marks it as today's does.
func grow(dst, data []byte) []byte {
	least := 0
	switch data[1] {
	case byte(model.KindConfig), outputConfig:
		least = 2
	case byte(model.KindAttempts), byte(model.KindParams), outputLimits, outputLease:
		least = 1
	}
	if int(data[0]&15) < least {
		return append(dst, data...)
	}
	dst = append(dst, data[0]|15, data[1])
	for rest := data[2:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest)
		dst = binary.AppendUvarint(dst, size+2)
		dst = append(append(dst, rest[n:n+int(size)]...), 0xff, 0xff)
		rest = rest[n+int(size):]
	}
	return append(dst, 3, 1, 2, 3)
}
`

// buildNewer builds a weir that writes as a newer version of the wire would,
// and has newer laws, from the files of this one with some of them changed.
func buildNewer(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replaced := map[string]string{}
	replace := func(file string, change func(string) string) {
		t.Helper()
		path := filepath.Join(root, filepath.FromSlash(file))
		data, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		text := change(string(data))
		if text == string(data) {
			t.Fatalf("%s has nothing that a newer version changes", file)
		}
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replaced[path] = to
	}
	replace("events/encode.go", func(s string) string { return strings.Replace(s, "\nfunc Encode(", "\nfunc encodeToday(", 1) })
	replace("events/output.go", func(s string) string {
		for _, what := range []string{"Limits", "Lease", "Term", "Config"} {
			s = strings.Replace(s, "\nfunc Encode"+what+"(", "\nfunc encode"+what+"Today(", 1)
		}
		return s
	})
	replace("events/newer.go", func(string) string { return grownEntries })
	replace("model/fleet.go", func(s string) string {
		return strings.Replace(s, fmt.Sprintf("\nconst LawVersion = %d\n", model.LawVersion), fmt.Sprintf("\nconst LawVersion = %d\n", model.LawVersion+1), 1)
	})
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "newer")
	build := exec.Command("go", "build", "-overlay", file(t, "overlay.json", string(overlay)), "-o", exe, "./cmd/weir")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return exe
}

// TestRollingUpgrade replaces one process after the other of a fleet that is
// calling, three controllers and two sidecars, by those of a newer version of
// the wire and of the laws, and back: old and new lead, stand by, report and
// listen in every mixture, no call fails, the provider never has more than it
// takes, and in the end all controllers have counted every attempt once.
//
// WEIR_OLDER names the binary of an older version to begin with, instead of
// making up a newer one.
func TestRollingUpgrade(t *testing.T) {
	if os.Getenv("WEIR_LONG") != "1" {
		t.Skip("builds a second binary; WEIR_LONG=1 runs it")
	}
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	older, newer := os.Getenv("WEIR_OLDER"), this
	if older == "" {
		older, newer = this, buildNewer(t)
	}
	bus, provider := natstest.Start(t, natstest.Listen), newStation(t)
	u := &upgrade{trio: &trio{t: t, dir: t.TempDir(), nats: bus.URL(), exe: older}, provider: provider}
	u.set(provider.URL)
	u.led(-1)
	for i := range u.lines {
		u.line(i)
	}
	u.works("old")

	u.sidecar(0, newer)
	u.works("a new sidecar, an old leader and an old sidecar")
	first := u.led(-1)
	fresh := (first + 1) % 3
	u.renew(fresh, newer)
	u.works("a new standby")
	u.leads(fresh)
	u.works("a new leader, old standbys, an old sidecar")
	u.putUnknown(bus.URL())
	u.orders(fresh)
	for i := range u.controllers {
		if i != fresh {
			u.renew(i, newer)
		}
	}
	u.sidecar(1, newer)
	u.works("new")

	u.renew(fresh, older)
	u.leads(fresh)
	u.sidecar(0, older)
	u.works("back to an old leader and an old sidecar beside new ones")
	for _, c := range u.lines {
		c.end(t)
	}
	if most := provider.most.Load(); most > stationTakes {
		t.Errorf("%d calls at once at the provider, it takes %d", most, stationTakes)
	}
	u.wantCounted(provider.served.Load())
}

// upgrade is a fleet whose processes are replaced.
type upgrade struct {
	*trio
	provider *station
	lines    [2]*callers // at each sidecar
}

// line lets callers call through one sidecar.
func (u *upgrade) line(i int) {
	u.lines[i] = (&trio{sidecars: [2]string{u.sidecars[i], u.sidecars[i]}}).call(20)
}

// works wants calls through both sidecars to be answered.
func (u *upgrade) works(when string) {
	u.t.Helper()
	before := [2]int64{u.lines[0].done.Load(), u.lines[1].done.Load()}
	start := time.Now()
	u.agents[0].until("work: "+when, func() bool {
		return u.lines[0].done.Load() > before[0]+50 && u.lines[1].done.Load() > before[1]+50
	})
	for i, c := range u.lines {
		c.mu.Lock()
		for _, text := range c.troubles {
			u.t.Errorf("%s: a call through sidecar %d failed: %s", when, i, text)
		}
		c.troubles = nil
		c.mu.Unlock()
	}
	u.t.Logf("%s: a hundred calls in %s", when, time.Since(start).Round(time.Millisecond))
}

// renew ends a controller in order and starts another of that binary on its store.
func (u *upgrade) renew(i int, exe string) {
	u.t.Helper()
	if got := u.controllers[i].stop(); got.code != exitOK {
		u.t.Errorf("controller %d ended with %d: %s", i, got.code, got.stderr)
	}
	u.exe = exe
	u.controller(i)
}

// leads ends whoever leads, and starts it again as it was, until want does.
func (u *upgrade) leads(want int) {
	u.t.Helper()
	for range 20 {
		now := u.led(-1)
		if now == want {
			return
		}
		u.renew(now, u.controllers[now].cmd.Path)
	}
	u.t.Fatalf("controller %d does not come to lead", want)
}

// sidecar replaces a sidecar, whose callers stop meanwhile.
func (u *upgrade) sidecar(i int, exe string) {
	u.t.Helper()
	u.lines[i].end(u.t)
	u.agents[i].stop()
	u.exe = exe
	u.agent(i)
	u.line(i)
}

// putUnknown appends an entry of a kind that nobody knows.
func (u *upgrade) putUnknown(url string) {
	u.t.Helper()
	nc, err := natslog.Connect(url, natslog.Options{})
	if err != nil {
		u.t.Fatal(err)
	}
	defer nc.Close()
	log, err := natslog.OpenLog(u.t.Context(), nc, "test", natslog.LogOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
	if _, err := log.Append(u.t.Context(), events.Encode(nil, &model.Unknown{K: 99})); err != nil {
		u.t.Fatal(err)
	}
}

// orders has an operator of this version order something of a leader.
func (u *upgrade) orders(leader int) {
	u.t.Helper()
	for _, args := range [][]string{{"channel", "set", "main", "--limit", fmt.Sprint(stationTakes - 2)}, {"channel", "set", "main", "--limit", "none"}} {
		if got := weir(u.t, "", append(args, "--url", "http://"+u.http[leader])...); got.code != exitOK {
			u.t.Errorf("%v: %s", args, got.stderr)
		}
	}
}
