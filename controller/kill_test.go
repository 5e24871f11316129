package controller_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/controller/store"
	"weir/events"
	"weir/events/natslog"
	"weir/model"
)

const (
	childDir    = "WEIR_TEST_CONTROLLER_DIR"
	childListen = "WEIR_TEST_CONTROLLER_LISTEN"
)

// TestMain is a controller process when a parent test asks for one.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir, os.Getenv(childListen)); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child runs a controller until it is told to end.
func child(dir, listen string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := openLive(dir, listen, 0, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if v, err := l.loop.View(ctx); err == nil && len(v.Channels) == 2 {
			fmt.Println("up")
			break
		}
		time.Sleep(time.Millisecond)
	}
	<-ctx.Done()
	return l.close()
}

// process is a child under a parent's control.
type process struct {
	cmd *exec.Cmd
	out io.ReadCloser
}

func spawn(t *testing.T, dir, listen string, procs int) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childListen+"="+listen, fmt.Sprintf("GOMAXPROCS=%d", procs))
	cmd.Stderr = testWriter{t}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &process{cmd, out}
}

// up waits until the child's controller runs.
func (p *process) up(t *testing.T) {
	t.Helper()
	if line, err := bufio.NewReader(p.out).ReadString('\n'); line != "up\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
}

func (p *process) end(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil && s != os.Kill {
		t.Fatalf("child ended with %v", err)
	}
}

// TestKilledAtRandom kills the controller and its NATS, as kill -9 does, while
// agents write, again and again. In the end the stored state is what a fresh
// fold of the log gives, and every attempt counts once.
func TestKilledAtRandom(t *testing.T) {
	kills := 5
	if os.Getenv("WEIR_LONG") == "1" {
		kills = 100
	}
	dir, listen := t.TempDir(), freeAddress(t)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	ctx, stop := context.WithCancel(t.Context())
	p := spawn(t, dir, listen, 2)
	p.up(t)
	var writers sync.WaitGroup
	var agents []*agent
	for i := range 4 {
		a := &agent{t: t, id: fmt.Sprintf("agent-%d", i), boot: 1}
		agents = append(agents, a)
		writers.Go(func() { a.pour(ctx, listen, uint64(i)) })
	}
	for kill := range kills {
		time.Sleep(time.Duration(rng.IntN(700)) * time.Millisecond)
		p.end(t, os.Kill)
		p = spawn(t, dir, listen, 1+kill%2)
		if rng.IntN(3) > 0 { // else the next kill may hit the start
			p.up(t)
		}
	}
	time.Sleep(time.Second)
	stop()
	writers.Wait()
	p.end(t, syscall.SIGTERM)

	var attempts uint64
	for _, a := range agents {
		attempts += a.base
	}
	stored := storedFleet(t, filepath.Join(dir, "state"))
	l := startLive(t, dir)
	if f := refold(t, l.log, stored.Seq()); f.Digest() != stored.Digest() {
		t.Errorf("stored state at %d is not what a fresh fold gives", stored.Seq())
	}
	if s := l.leads(t); len(s.Faults) != 0 || s.Term > uint64(kills)+2 {
		t.Errorf("status %+v, want no fault and at most %d terms", s, kills+2)
	}
	v := l.settled(t)
	l.stop(t)
	if v.Counters.Attempts != attempts || v.Counters.Lost != 0 || v.Counters.Rebases != 0 {
		t.Errorf("counters %+v, want %d attempts", v.Counters, attempts)
	}
	var counted uint64
	for _, c := range v.Channels {
		for _, n := range c.Counts {
			counted += n
		}
	}
	if counted != attempts {
		t.Errorf("channels counted %d attempts, want %d", counted, attempts)
	}
	for _, a := range v.Agents {
		for _, w := range agents {
			if w.id == a.Agent && a.Reports != w.seq {
				t.Errorf("%s: %d reports folded, %d acknowledged", a.Agent, a.Reports, w.seq)
			}
		}
	}
	t.Logf("%d kills, %d records, %d attempts", kills, v.Seq, attempts)
}

// pour writes reports until ctx ends, each again and again until it is
// acknowledged, also after that.
func (a *agent) pour(ctx context.Context, address string, seed uint64) {
	conn, err := natslog.Connect("nats://"+address, natslog.Options{Agent: a.id})
	if err != nil {
		a.t.Error(err)
		return
	}
	defer conn.Close()
	if a.writer, err = natslog.NewWriter(conn, fleet, a.id); err != nil {
		a.t.Error(err)
		return
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	for ctx.Err() == nil {
		var attempts []model.Attempt
		for range rng.IntN(30) {
			if rng.IntN(20) == 0 {
				attempts = append(attempts, refusal())
			} else {
				attempts = append(attempts, ok())
			}
		}
		data := events.Encode(nil, a.report(attempts...))
		for {
			call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			err := a.writer.Write(call, data)
			cancel()
			if err == nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}

func storedFleet(t *testing.T, dir string) *model.Fleet {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var scan error
	f, err := model.FleetFromParts(s.Parts(&scan))
	if err != nil || scan != nil {
		t.Fatal(err, scan)
	}
	p, _, err := s.Load()
	if err := errors.Join(err, s.Close()); err != nil || p.Seq != f.Seq() {
		t.Fatalf("position %+v (%v) and state at %d", p, err, f.Seq())
	}
	return f
}
