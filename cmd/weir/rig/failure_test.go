package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/events"
	"weir/events/memlog"
	"weir/events/natslog/natstest"
	"weir/model"
)

// slowLog is a log whose entries take a time to read.
type slowLog struct {
	events.Log
	delay *atomic.Int64
}

func (l *slowLog) Read(ctx context.Context, from uint64) (events.Reader, error) {
	r, err := l.Log.Read(ctx, from)
	return &slowReader{r, l.delay}, err
}

type slowReader struct {
	events.Reader
	delay *atomic.Int64
}

func (r *slowReader) Next(ctx context.Context) (events.Entry, error) {
	e, err := r.Reader.Next(ctx)
	time.Sleep(time.Duration(r.delay.Load()))
	return e, err
}

// few is a fleet whose provider takes all it wants.
var few = crowd{limit: 100, spare: 100, agents: 20, each: 4, took: time.Second, warm: 15 * time.Second, spool: 1 << 20}

// begin has the fleet call and returns when it is warm; end stops the calls and
// wants each counted.
func (f *outage) begin(c crowd) (end func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	wait := f.call(ctx, c)
	time.Sleep(c.warm)
	f.told("before")
	f.refused.Store(0)
	return func() {
		f.t.Helper()
		cancel()
		wait()
		f.counted()
		f.bounded(c)
	}
}

// served wants calls to be answered and none to fail since the last look.
func (f *outage) served(when string) {
	f.t.Helper()
	if f.answered.Load() == 0 || f.failed.Load() > 0 || f.refused.Load() > 0 {
		f.t.Errorf("%s: %d calls answered, %d failed, %d refused, as %v", when, f.answered.Load(), f.failed.Load(), f.refused.Load(), f.odd.Load())
	}
	f.told(when)
}

// alive runs a test of a fleet on a bus in memory.
func alive(t *testing.T, c crowd, run func(t *testing.T, bus *memory, f *outage)) {
	synctest.Test(t, func(t *testing.T) {
		bus := &memory{t: t, bus: memlog.New("test", memlog.Options{}), store: newShelf()}
		run(t, bus, newOutage(t, bus, c))
	})
}

// TestSlowController has a controller that folds two entries a second while the
// agents write two hundred: leases run out, the safe shares carry the calls,
// and when it is fast again it catches up with all of them.
func TestSlowController(t *testing.T) {
	alive(t, few, func(t *testing.T, bus *memory, f *outage) {
		end := f.begin(few)
		bus.delay.Store(int64(500 * time.Millisecond))
		time.Sleep(45 * time.Second)
		f.served("slow")
		bus.delay.Store(0)
		time.Sleep(few.warm)
		f.served("fast again")
		end()
	})
}

// TestAgentFloods has one agent write five hundred reports a second that claim
// endless demand and any number of calls in flight: the others go on.
func TestAgentFloods(t *testing.T) {
	alive(t, few, func(t *testing.T, bus *memory, f *outage) {
		end := f.begin(few)
		writer := bus.bus.Writer("flood")
		a := model.Attempts{Source: model.Source{Agent: "flood", Boot: 1, Span: 1}, Channels: []model.ChannelReport{{Channel: "main", Queued: 1 << 30}, {Channel: "spare", Queued: 1 << 30}}}
		for range 50 {
			a.Attempts = append(a.Attempts, model.Attempt{Class: model.ClassOK, Status: 200, Took: model.Second, RetryAfter: -1})
		}
		for range 5_000 {
			a.Seq++
			if err := writer.Write(t.Context(), events.Encode(nil, &a)); err != nil {
				t.Fatal(err)
			}
			a.Base += uint64(len(a.Attempts))
			time.Sleep(2 * time.Millisecond)
		}
		f.settled.Add(a.Base)
		if f.answered.Load()+f.degraded.Load() == 0 || f.failed.Load() > 0 {
			t.Errorf("%d calls answered, %d by the next tier, %d failed", f.answered.Load(), f.degraded.Load(), f.failed.Load())
		}
		f.told("flooded")
		end()
	})
}

// TestThousandAgentsJoin has a thousand agents appear in one moment where there
// is room for half of them: within half a minute each was answered.
func TestThousandAgentsJoin(t *testing.T) {
	c := crowd{limit: 500, spare: 1, agents: 1000, each: 1, took: 200 * time.Millisecond, warm: 30 * time.Second, spool: 64 << 10}
	if os.Getenv("WEIR_LONG") != "1" {
		c.agents, c.limit = 100, 50 // a thousand take minutes of a processor
	}
	alive(t, c, func(t *testing.T, _ *memory, f *outage) {
		end := f.begin(c)
		v, err := f.loop.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		starving := 0
		for _, client := range f.agents {
			var g model.GateView
			if client.View(&g); g.Admitted == 0 {
				starving++
			}
		}
		if len(v.Agents) != c.agents || starving > 0 {
			t.Errorf("%d agents known, %d were never admitted", len(v.Agents), starving)
		}
		end()
	})
}

// cutter passes connections on to a server, until it is cut: then nothing
// passes, and nobody is told.
type cutter struct {
	l   net.Listener
	cut atomic.Bool
	mu  sync.Mutex
	all []net.Conn
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{l: l}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close() // nobody is there
				continue
			}
			c.mu.Lock()
			c.all = append(c.all, in, out)
			c.mu.Unlock()
			go c.pass(in, out)
			go c.pass(out, in)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); c.drop() })
	return c
}

func (c *cutter) pass(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		for c.cut.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		if n > 0 {
			_, werr := to.Write(buf[:n])
			err = errors.Join(err, werr)
		}
		if err != nil {
			_, _ = from.Close(), to.Close() // one ends with the other
			return
		}
	}
}

// drop ends what is connected.
func (c *cutter) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.all {
		_ = conn.Close() // it may be closed
	}
	c.all = nil
}

// TestPartition cuts all agents off from NATS, without a word to either side,
// for longer than a lease and than a connection is believed in: calls go on,
// and afterwards all are counted.
func TestPartition(t *testing.T) {
	if os.Getenv("WEIR_LONG") != "1" {
		t.Skip("takes two minutes; WEIR_LONG=1 runs it")
	}
	c := few
	c.took = 300 * time.Millisecond
	server := natstest.Start(t, natstest.Listen)
	cut := newCutter(t, strings.TrimPrefix(server.URL(), "nats://"))
	bus := &grounds{t: t, server: server, dir: filepath.Join(t.TempDir(), "state"), url: fmt.Sprint("nats://", cut.l.Addr())}
	f := newOutage(t, bus, c)
	end := f.begin(c)
	cut.cut.Store(true)
	time.Sleep(time.Minute)
	f.served("cut off")
	cut.cut.Store(false)
	time.Sleep(c.warm)
	f.served("back")
	end()
}
