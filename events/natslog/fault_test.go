package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/events"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
	"weir/model"
)

const (
	fleet  = "f"
	stream = "WEIR_f_LOG"
)

func openLog(t testing.TB, s *natstest.Server, o natslog.LogOptions) *natslog.Log {
	t.Helper()
	l, err := natslog.OpenLog(t.Context(), connect(t, s, natslog.Options{}), fleet, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestRestarts writes and reads while the server is stopped and started: every
// report arrives once and in order.
func TestRestarts(t *testing.T) {
	s := natstest.Start(t, nil)
	l := openLog(t, s, natslog.LogOptions{})
	w, err := natslog.NewWriter(connect(t, s, natslog.Options{Agent: "a1"}), fleet, "a1")
	if err != nil {
		t.Fatal(err)
	}
	const reports = 300
	r, err := l.Read(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	read := make(chan error, 1)
	go func() { read <- readReports(t.Context(), r, reports) }()
	for n := uint64(1); n <= reports; n++ {
		for t.Context().Err() == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			err := w.Write(ctx, report("a1", n))
			cancel()
			if err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if n%75 == 0 && n < reports {
			s.Stop()
			time.Sleep(50 * time.Millisecond)
			s.Restart(t)
		}
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}

// readReports wants the reports 1 to n as the entries 1 to n.
func readReports(ctx context.Context, r events.Reader, n uint64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d := events.NewDecoder()
	for want := uint64(1); want <= n; want++ {
		e, err := r.Next(ctx)
		if err != nil {
			return fmt.Errorf("report %d: %w", want, err)
		}
		rec, err := d.Record(e)
		if err != nil {
			return err
		}
		if got := rec.Fact.(*model.Attempts).Seq; got != want || e.Seq != want {
			return fmt.Errorf("entry %d holds report %d, want %d", e.Seq, got, want)
		}
	}
	return nil
}

func report(agent string, n uint64) []byte {
	return events.Encode(nil, &model.Attempts{Source: model.Source{Agent: agent, Boot: 1, Seq: n, Span: 1}})
}

// TestLateServer connects, listens and writes before there is a server.
func TestLateServer(t *testing.T) {
	s := natstest.Start(t, nil)
	if _, err := natslog.OpenOutbox(t.Context(), connect(t, s, natslog.Options{}), fleet, 0); err != nil {
		t.Fatal(err)
	}
	openLog(t, s, natslog.LogOptions{})
	s.Stop()
	nc := connect(t, s, natslog.Options{Agent: "a1"})
	in, err := natslog.NewInbox(nc, fleet, natslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if in.Connected() {
		t.Error("connected without a server")
	}
	w, err := natslog.NewWriter(nc, fleet, "a1")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), report("a1", 1)); !errors.Is(err, nats.ErrReconnectBufExceeded) {
		t.Errorf("Write = %v; want %v, at once and with nothing kept to be sent later", err, nats.ErrReconnectBufExceeded)
	}
	terms := make(chan uint64, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = in.Listen(ctx, "a1", events.Handler{Term: func(n *model.TermNotice) { terms <- n.Term }})
	}()
	s.Restart(t)
	o, err := natslog.OpenOutbox(t.Context(), connect(t, s, natslog.Options{}), fleet, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.PutTerm(t.Context(), &model.TermNotice{Term: 5, Controller: "c"}); err != nil {
		t.Fatal(err)
	}
	select {
	case term := <-terms:
		if term != 5 {
			t.Errorf("term %d", term)
		}
	case <-time.After(20 * time.Second):
		t.Error("the term is not heard")
	}
	if err := w.Write(t.Context(), report("a1", 1)); err != nil {
		t.Error(err)
	}
}

// TestListen reaches a server over a socket, before and after a restart.
func TestListen(t *testing.T) {
	s := natstest.Start(t, natstest.Listen)
	for range 2 {
		nc, err := natslog.Connect(s.URL(), natslog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := natslog.OpenLog(t.Context(), nc, fleet, natslog.LogOptions{}); err != nil {
			t.Error(err)
		}
		nc.Close()
		s.Restart(t)
	}
}

func TestFull(t *testing.T) {
	s := natstest.Start(t, nil)
	l := openLog(t, s, natslog.LogOptions{MaxBytes: 50_000})
	var err error
	for range 100 {
		if _, err = l.Append(t.Context(), make([]byte, 1000)); err != nil {
			break
		}
	}
	if !errors.Is(err, events.ErrFull) {
		t.Fatalf("Append = %v; want %v", err, events.ErrFull)
	}
	w, err := natslog.NewWriter(connect(t, s, natslog.Options{}), fleet, "a1")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), make([]byte, 2000)); !errors.Is(err, events.ErrFull) {
		t.Errorf("Write = %v; want %v", err, events.ErrFull)
	}
	if first := info(t, l).First; first != 1 {
		t.Errorf("a full log dropped entries up to %d", first)
	}
	if err := l.Trim(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	appendN(t, l, 1, 1000)
}

// TestStreamSettings opens logs whose stream was made by somebody else. Each
// has a server of its own: a stream that is made anew at once after it was
// deleted sometimes finds its folder in the way.
func TestStreamSettings(t *testing.T) {
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"messages per subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 },
		"messages":             func(c *jetstream.StreamConfig) { c.MaxMsgs = 5 },
		"age":                  func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"work queue":           func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
	} {
		c := jetstream.StreamConfig{Name: stream, Subjects: []string{"weir.f.log.*"}}
		change(&c)
		nc, _ := made(t, c)
		if _, err := natslog.OpenLog(t.Context(), nc, fleet, natslog.LogOptions{}); err == nil {
			t.Errorf("a stream with a limit of %s is taken", name)
		}
	}
	nc, js := made(t, jetstream.StreamConfig{Name: stream, Subjects: []string{"weir.f.log.*"}, FirstSeq: 77})
	l, err := natslog.OpenLog(t.Context(), nc, fleet, natslog.LogOptions{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if i := info(t, l); i.First != 77 || i.Last != 76 {
		t.Errorf("Info = %+v", i)
	}
	st, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if c := st.CachedInfo().Config; c.Discard != jetstream.DiscardNew || c.MaxBytes != 1<<20 {
		t.Errorf("settings are left as they were: %+v", c)
	}
	if _, err := natslog.OpenLog(t.Context(), nc, "a.b", natslog.LogOptions{}); err == nil {
		t.Error("a fleet with a dot is taken")
	}
}

// made starts a server and makes a stream there.
func made(t *testing.T, c jetstream.StreamConfig) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc := connect(t, natstest.Start(t, nil), natslog.Options{})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// TestRights gives an agent the rights it is said to need and no other.
func TestRights(t *testing.T) {
	publish, subscribe := natslog.Rights(fleet, "a1")
	s := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "ctl", Password: "x"},
			{Username: "a1", Password: "x", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: publish},
				Subscribe: &server.SubjectPermission{Allow: subscribe},
			}},
		}
	})
	ctl := connect(t, s, natslog.Options{Extra: []nats.Option{nats.UserInfo("ctl", "x")}})
	l, err := natslog.OpenLog(t.Context(), ctl, fleet, natslog.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o, err := natslog.OpenOutbox(t.Context(), ctl, fleet, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.PutTerm(t.Context(), &model.TermNotice{Term: 1, Controller: "c"}); err != nil {
		t.Fatal(err)
	}

	faults := make(chan natslog.Fault, 100)
	opts := natslog.Options{Agent: "a1", OnFault: func(f natslog.Fault, err error) { faults <- f }}
	nc := connect(t, s, natslog.Options{Agent: "a1", OnFault: opts.OnFault, Extra: []nats.Option{nats.UserInfo("a1", "x")}})
	in, err := natslog.NewInbox(nc, fleet, opts)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = in.Listen(ctx, "a1", events.Handler{
			Term:   func(*model.TermNotice) { heard <- "term" },
			Limits: func(*model.LimitSet) { heard <- "limits" },
			Lease:  func(*model.Lease) { heard <- "lease" },
			Config: func(uint64, *model.Config) { heard <- "config" },
		})
	}()
	wait(t, heard, "term")
	w, err := natslog.NewWriter(nc, fleet, "a1")
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); n <= 3; n++ {
		if err := w.Write(t.Context(), report("a1", n)); err != nil {
			t.Fatal(err)
		}
	}
	for what, put := range map[string]func() error{
		"limits": func() error { return o.PutLimits(t.Context(), &model.LimitSet{Term: 1}, true) },
		"lease":  func() error { return o.PutLease(t.Context(), &model.Lease{Agent: "a1", Term: 1}) },
		"config": func() error { return o.PutConfig(t.Context(), 1, &model.Config{}) },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		wait(t, heard, what)
	}
	if len(faults) != 0 {
		t.Errorf("fault %s with the rights listed", <-faults)
	}

	other, err := natslog.NewWriter(nc, fleet, "a2")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := other.Write(ctx, report("a2", 1)); err == nil {
		t.Error("an agent writes in another's name")
	}
	wait(t, faults, natslog.FaultRefused)
	if i := info(t, l); i.Last != 3 {
		t.Errorf("Info = %+v", i)
	}
}

func wait[T comparable](t *testing.T, from <-chan T, want T) {
	t.Helper()
	for end := time.After(20 * time.Second); ; {
		select {
		case got := <-from:
			if got == want {
				return
			}
		case <-end:
			t.Fatalf("%v does not come", want)
		}
	}
}

// TestBadOutput puts garbage where outputs stand: it is a fault, and the
// listener goes on.
func TestBadOutput(t *testing.T) {
	s := natstest.Start(t, nil)
	nc := connect(t, s, natslog.Options{})
	o, err := natslog.OpenOutbox(t.Context(), nc, fleet, 0)
	if err != nil {
		t.Fatal(err)
	}
	faults := make(chan natslog.Fault, 100)
	in, err := natslog.NewInbox(nc, fleet, natslog.Options{OnFault: func(f natslog.Fault, err error) { faults <- f }})
	if err != nil {
		t.Fatal(err)
	}
	terms := make(chan uint64, 10)
	go func() {
		_ = in.Listen(t.Context(), "a1", events.Handler{Term: func(n *model.TermNotice) { terms <- n.Term }})
	}()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), events.LimitsSubject(fleet), []byte{0x10, 0x81, 9, 9}); err != nil {
		t.Fatal(err)
	}
	wait(t, faults, natslog.FaultOutput)
	if err := o.PutTerm(t.Context(), &model.TermNotice{Term: 3, Controller: "c"}); err != nil {
		t.Fatal(err)
	}
	wait(t, terms, 3)
}

// TestSlowListener holds a handler up while more is said than may wait.
func TestSlowListener(t *testing.T) {
	s := natstest.Start(t, nil)
	faults := make(chan natslog.Fault, 10_000)
	nc := connect(t, s, natslog.Options{OnFault: func(f natslog.Fault, err error) {
		select {
		case faults <- f:
		default:
		}
	}})
	o, err := natslog.OpenOutbox(t.Context(), connect(t, s, natslog.Options{}), fleet, 0)
	if err != nil {
		t.Fatal(err)
	}
	in, err := natslog.NewInbox(nc, fleet, natslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	terms := make(chan uint64, 2000)
	go func() {
		_ = in.Listen(t.Context(), "a1", events.Handler{Term: func(n *model.TermNotice) { terms <- n.Term; <-gate }})
	}()
	const last = 1000
	for term := uint64(1); term <= last; term++ {
		if err := o.PutTerm(t.Context(), &model.TermNotice{Term: term, Controller: "c"}); err != nil {
			t.Fatal(err)
		}
		if term == 1 {
			wait(t, terms, 1)
		}
	}
	wait(t, faults, natslog.FaultSlow)
	close(gate)
	wait(t, terms, last)
}

// TestStoredHeaders looks at what the server is told beside the data.
func TestStoredHeaders(t *testing.T) {
	s := natstest.Start(t, nil)
	nc := connect(t, s, natslog.Options{})
	o, err := natslog.OpenOutbox(t.Context(), nc, fleet, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		o.PutTerm(t.Context(), &model.TermNotice{Term: 1, Controller: "c"}),
		o.PutLease(t.Context(), &model.Lease{Agent: "a1", Term: 1, Duration: 15 * model.Second}),
		o.PutConfig(t.Context(), 1, &model.Config{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), "WEIR_f_OUT")
	if err != nil {
		t.Fatal(err)
	}
	for subject, want := range map[string]string{
		events.TermSubject(fleet):        "",
		events.ConfigSubject(fleet):      "",
		events.LeaseSubject(fleet, "a1"): "10m15s",
	} {
		m, err := st.GetLastMsgForSubject(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Header.Get("Nats-TTL"); got != want {
			t.Errorf("%s lives %q, want %q", subject, got, want)
		}
	}
	if got := fmt.Sprint(st.CachedInfo().Config.RePublish); !strings.Contains(got, "weir.f.live.>") {
		t.Errorf("repeated as %s", got)
	}
}
