package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"weir/controller/store"
)

// trouble is a folder with a good file, in which something else is wrong.
type trouble struct {
	t   *testing.T
	dir string
}

func newTrouble(t *testing.T) *trouble {
	t.Helper()
	w := &trouble{t: t, dir: t.TempDir()}
	w.write("weir.yaml", fmt.Sprintf(`
nats: {listen: %q}
controller: {listen: "127.0.0.1:0"}
agent: {listen: "127.0.0.1:0"}
channels: [{name: main, base_url: "http://127.0.0.1:1/v1", alone: 1}]
routes: [{name: default, tiers: [[main]]}]
`, freeAddress(t)))
	return w
}

func (w *trouble) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// run runs weir in the folder until it ends by itself.
func (w *trouble) run(args ...string) result {
	w.t.Helper()
	got := start(w.t, w.dir, args...).end()
	if strings.Contains(got.stderr, "goroutine ") {
		w.t.Errorf("a stack trace:\n%s", got.stderr)
	}
	return got
}

// occupied is an address that somebody listens on.
func occupied(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestOccupiedAddress(t *testing.T) {
	w := newTrouble(t)
	address := occupied(t)
	want := "cannot listen on " + address + ": bind: address already in use; choose another"
	w.run("controller", "--listen", address).wantFaults(t, want)
	w.run("agent", "--listen", address).wantFaults(t, want)
	w.run("provider", "2064-cascade", "--listen", address).wantFaults(t, want)
	w.write("other.yaml", strings.Replace(read1(t, w.dir+"/weir.yaml"), "nats: {", "nats: {store: other/nats, ", 1))
	text := read1(t, w.dir+"/other.yaml")
	at := strings.Index(text, "listen: ")
	end := strings.Index(text[at:], "}")
	w.write("other.yaml", text[:at]+fmt.Sprintf("listen: %q", address)+text[at+end:])
	w.run("controller", "-c", "other.yaml").wantFaults(t, "nats cannot listen on "+address)
}

func read1(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestUnreachableNATS(t *testing.T) {
	if testing.Short() {
		t.Skip("left out under -short, to keep the race detector within its time; a whole run has it")
	}
	t.Parallel()
	w := newTrouble(t)
	nobody := "nats://" + freeAddress(t)
	want := "cannot reach nats at " + nobody
	w.run("controller", "--nats", nobody).wantFaults(t, want)
	w.run("log", "tail", "--nats", nobody).wantFaults(t, want)
	secret := strings.Replace(nobody, "nats://", "nats://user:hunter2@", 1)
	got := w.run("log", "tail", "--nats", secret)
	if got.wantFaults(t, want); strings.Contains(got.stderr, "hunter2") {
		t.Errorf("a message shows a secret: %s", got.stderr)
	}
}

// TestAgentStartsAlone holds that an agent serves though there is no NATS, and
// says so.
func TestAgentStartsAlone(t *testing.T) {
	t.Parallel()
	w := newTrouble(t)
	address := freeAddress(t)
	p := start(t, w.dir, "agent", "--listen", address, "--nats", "nats://"+freeAddress(t))
	p.said("cannot reach nats: the agent works alone until it can")
	resp, err := http.Get("http://" + address + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	if got := p.stop(); got.code != exitOK {
		t.Errorf("exit code %d:\n%s", got.code, got.stderr)
	}
}

func TestStoreInUse(t *testing.T) {
	w := newTrouble(t)
	s, err := store.Open(w.dir+"/weir-data/state", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // of no use to the test any more
	w.run("controller").wantFaults(t, "store is in use by another process")
}

func TestStoreOfNewerVersion(t *testing.T) {
	w := newTrouble(t)
	db, err := pebble.Open(w.dir+"/weir-data/state", &pebble.Options{Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Set([]byte("v"), binary.AppendUvarint(nil, 99), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	w.run("controller").wantFaults(t, "store was written by a newer version of weir: layout 99")
}

// quiet drops what Pebble says.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func TestUnreadableStore(t *testing.T) {
	w := newTrouble(t)
	w.write("weir-data/state", "a file where a folder should be")
	w.run("controller").wantFaults(t, "weir-data/state")
	w.write("file", "")
	w.run("controller", "--store", "file").wantFaults(t, "file/state")

	s, err := store.Open(w.dir+"/damaged/state", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, w.dir+"/damaged/state")
	w.run("controller", "--store", "damaged").wantFaults(t, "store cannot be read")
}

// damage overwrites every file of a folder.
func damage(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), "LOCK") {
			return err
		}
		return os.WriteFile(path, bytes.Repeat([]byte{0xa5}, 1000), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStoreWithoutLog(t *testing.T) {
	w := newTrouble(t)
	w.run("log", "verify", "--store", w.dir).wantFaults(t, "there is no store of a controller's NATS")
	c := start(t, w.dir, "controller")
	c.said("msg=leading")
	w.run("log", "verify", "--store", w.dir+"/weir-data").wantFaults(t, "while a controller runs, use --nats")
	w.run("controller", "--id", "second").wantFaults(t, "store is in use")
	w.run("log", "tail", "--fleet", "nobody").wantFaults(t, `there is no log of a fleet "nobody"`)
	if got := c.stop(); got.code != exitOK {
		t.Errorf("exit code %d", got.code)
	}
	w.run("log", "tail", "--fleet", "nobody", "--store", w.dir+"/weir-data").wantFaults(t, `there is no log of a fleet "nobody"`)
}

// TestDamagedJournal changes one byte of a good journal.
func TestDamagedJournal(t *testing.T) {
	w := newTrouble(t)
	c := start(t, w.dir, "controller")
	c.said("msg=leading")
	if got := w.run("log", "export", "good.weir"); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	if got := w.run("log", "verify", "good.weir"); got.code != exitOK || !strings.Contains(got.stdout, "verified:") {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	data := []byte(read1(t, w.dir+"/good.weir"))
	data[len(data)/2] ^= 1
	w.write("bad.weir", string(data))
	got := w.run("log", "verify", "bad.weir")
	if lines := got.faults(); got.code != exitFailed || len(lines) != 1 || !strings.Contains(lines[0], "bad.weir: journal is damaged at byte") {
		t.Errorf("exit code %d: %v", got.code, lines)
	}
	w.write("torn.weir", string(data[:len(data)/2-20]))
	if got := w.run("log", "verify", "torn.weir"); got.code != exitOK || !strings.Contains(got.stdout, "torn off") {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
}

// TestStopLetsCallsEnd stops a sidecar while it has a call in flight, and then
// another one twice.
func TestStopLetsCallsEnd(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	call := func(tokens int) <-chan int {
		ended := make(chan int, 1)
		body := fmt.Sprintf(`{"model":"default","messages":[{"role":"user","content":"hi"}],"max_tokens":%d}`, tokens)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.baseURL()+"/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Emulator-Output-Tokens", strconv.Itoa(tokens))
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				ended <- 0
				return
			}
			_ = resp.Body.Close()
			ended <- resp.StatusCode
		}()
		f.sidecar.until("have a call in flight", func() bool { return f.running() > 0 })
		return ended
	}
	ended := call(10_000) // two seconds
	if got := f.sidecar.stop(); got.code != exitOK || !strings.Contains(got.stderr, "stopping") {
		t.Errorf("exit code %d:\n%s", got.code, got.stderr)
	}
	if status := <-ended; status != http.StatusOK {
		t.Errorf("the call in flight ended with status %d", status)
	}

	f.sidecar = start(t, f.dir, "agent", "--id", "sidecar")
	f.sidecar.said("connected to nats")
	ended = call(500_000) // a hundred seconds
	signal := func() { _ = f.sidecar.cmd.Process.Signal(syscall.SIGTERM) }
	signal()
	f.sidecar.said("stopping")
	for alive := true; alive; {
		signal()
		select {
		case <-f.sidecar.done:
			alive = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	if state := f.sidecar.cmd.ProcessState; state.ExitCode() != -1 {
		t.Errorf("a second signal ends it with code %d", state.ExitCode())
	}
	if status := <-ended; status == http.StatusOK {
		t.Error("the call was answered")
	}
}

// TestStopAtOnce stops processes while they start: nothing hangs, nothing fails.
func TestStopAtOnce(t *testing.T) {
	w := newTrouble(t)
	c := start(t, w.dir, "controller")
	c.said("msg=leading")
	for range 5 {
		p := start(t, w.dir, "agent", "--id", "hasty")
		p.said("connected to nats")
		if got := p.stop(); got.code != exitOK {
			t.Errorf("exit code %d:\n%s", got.code, got.stderr)
		}
	}
	if got := c.stop(); got.code != exitOK {
		t.Errorf("exit code %d", got.code)
	}
	for range 3 {
		c = start(t, w.dir, "controller")
		c.said("caught up")
		if got := c.stop(); got.code != exitOK {
			t.Errorf("exit code %d:\n%s", got.code, got.stderr)
		}
	}
}

// running is how many calls the provider works on.
func (f *fleet) running() int64 {
	resp, err := http.Get("http://" + f.provider + "/emulator/books")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	var report struct{ Books struct{ Running int64 } }
	if json.NewDecoder(resp.Body).Decode(&report) != nil {
		return 0
	}
	return report.Books.Running
}

func TestLoad(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	got := weir(t, "", "load", "testdata/quick.yaml", "--target", "http://"+f.agent, "--for", "3s", "--json")
	var result struct{ Completed, Failed int64 }
	if err := json.Unmarshal([]byte(got.stdout), &result); err != nil || got.code != exitOK || result.Completed < 10 || result.Failed > 0 {
		t.Errorf("exit code %d, %v: %s%s", got.code, err, got.stdout, got.stderr)
	}
	got = weir(t, "", "load", "testdata/quick.yaml", "--target", "http://"+freeAddress(t), "--for", "1s")
	if lines := got.faults(); got.code != exitFailed || !strings.Contains(lines[len(lines)-1], "was completed") {
		t.Errorf("a load that nobody answers: exit code %d:\n%s", got.code, got.stderr)
	}
}
