package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asProgram makes the test binary be weir itself, so that tests can start
// processes of it, signal and kill them.
const asProgram = "WEIR_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asNATS); dir != "" {
		serveNATS(dir) // until it is killed
	}
	if os.Getenv(asProgram) != "" {
		main() // exits
	}
	for name, value := range map[string]string{"WEIR_TOKEN": "operator-token", "WEIR_TEST_KEY": "provider-key"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	// They wait for processes for the most part, on few processors too.
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); !testing.Short() && parallel.Value.String() == parallel.DefValue {
		if err := parallel.Value.Set("4"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must happen.
const patience = 90 * time.Second

// process is a running weir.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	out  lockedBuffer
	err  lockedBuffer
	done chan struct{} // closed when it has ended
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start starts weir with arguments, in the folder dir.
func start(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startOf(t, exe, dir, args...)
}

// startOf starts a weir of its own.
func startOf(t *testing.T, exe, dir string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: args[0], cmd: exec.Command(exe, args...), done: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code says it
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", strings.Join(args, " "), p.err.String())
		}
	})
	return p
}

// said waits until the process has logged a line with that text.
func (p *process) said(text string) {
	p.t.Helper()
	p.until("say "+text, func() bool { return strings.Contains(p.err.String(), text) })
}

// until waits until what is true.
func (p *process) until(what string, true func() bool) {
	p.t.Helper()
	deadline := time.After(patience)
	for !true() {
		select {
		case <-p.done:
			if true() {
				return
			}
			p.t.Fatalf("%s ended with code %d and did not %s:\n%s", p.name, p.cmd.ProcessState.ExitCode(), what, p.err.String())
		case <-deadline:
			p.t.Fatalf("%s did not %s:\n%s", p.name, what, p.err.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// end waits until the process ends by itself.
func (p *process) end() result {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%s does not end:\n%s", p.name, p.err.String())
	}
	return result{p.cmd.ProcessState.ExitCode(), p.out.String(), p.err.String()}
}

// stop asks the process to end and returns what it came to.
func (p *process) stop() result {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	return p.end()
}

// kill ends the process at once, as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// given are the ports that tests were given.
var given sync.Map

// freeAddress returns an address of loopback on which nobody listens. Its port is
// none of those that systems choose themselves, so that no connection takes it
// while the process that listens there is started again.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(20_000+rand.IntN(12_000)))
		if _, twice := given.LoadOrStore(address, true); twice {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close() // nothing was done with it
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// fleet is provider, controller and agent as processes of their own.
type fleet struct {
	t                     *testing.T
	dir                   string
	provider, agent, http string // addresses
	nats                  string
	controller            *process
	sidecar               *process
}

// newFleet starts a provider, a controller and an agent.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), provider: freeAddress(t), agent: freeAddress(t), http: freeAddress(t), nats: freeAddress(t)}
	text := fmt.Sprintf(`
fleet: test
nats: {listen: %q, credentials: %q}
controller: {listen: %q}
agent: {listen: %q}
channels:
  - {name: main, provider: minimax, base_url: "http://%s/v1", model: quick, api_key_env: WEIR_TEST_KEY}
routes:
  - {name: default, tiers: [[main]]}
`, f.nats, filepath.Join(f.dir, "weir-data", "credentials"), f.http, f.agent, f.provider)
	if err := os.WriteFile(filepath.Join(f.dir, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	incident, err := filepath.Abs("testdata/quick.yaml")
	if err != nil {
		t.Fatal(err)
	}
	start(t, f.dir, "provider", incident, "--listen", f.provider).said("provider runs")
	f.startController()
	f.sidecar = start(t, f.dir, "agent", "--id", "sidecar")
	f.sidecar.said("connected to nats")
	return f
}

func (f *fleet) startController() {
	f.t.Helper()
	f.controller = start(f.t, f.dir, "controller")
	f.controller.said("msg=leading")
	f.controller.said("controller runs")
}

// baseURL is what applications are given.
func (f *fleet) baseURL() string { return "http://" + f.agent + "/v1" }

// url says to commands which controller to ask.
func (f *fleet) url() string { return "--url=http://" + f.http }

// weir runs an operator's command.
func (f *fleet) weir(args ...string) result {
	f.t.Helper()
	if args[0] != "log" { // which asks NATS
		args = append(args, f.url())
	}
	got := weir(f.t, "", args...)
	if got.code != exitOK {
		f.t.Fatalf("%v: exit code %d: %s", args, got.code, got.stderr)
	}
	return got
}
