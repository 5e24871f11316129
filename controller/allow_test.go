package controller_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/controller"
	"weir/controller/credential"
	"weir/events"
	"weir/events/natslog"
	"weir/model"
)

// doors is an embedded server that lets in who is in its book, with the log
// and the outputs of fleet f, and who was refused something.
type doors struct {
	*controller.NATS
	t    *testing.T
	book *credential.Book
	out  *natslog.Outbox
}

func openDoors(t *testing.T) *doors { return openDoorsOf(t, false) }

// openDoorsOf opens doors to a fleet that may have tasks, and rooms of tenants.
func openDoorsOf(t *testing.T, tasks bool, tenants ...string) *doors {
	t.Helper()
	book, err := credential.Open(filepath.Join(t.TempDir(), "credentials"))
	if err != nil {
		t.Fatal(err)
	}
	n := startNATS(t, controller.NATSOptions{Listen: "127.0.0.1:0", Fleet: "f", Allowed: []credential.Credential{}, Tasks: tasks, Tenants: tenants})
	d := &doors{NATS: n, t: t, book: book}
	own, err := n.Connect(natslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	if _, err := natslog.OpenLog(t.Context(), own, "f", natslog.LogOptions{}); err != nil {
		t.Fatal(err)
	}
	if d.out, err = natslog.OpenOutbox(t.Context(), own, "f", 0); err != nil {
		t.Fatal(err)
	}
	return d
}

// add makes a credential and lets it in.
func (d *doors) add(name string, role credential.Role) (file string) {
	d.t.Helper()
	return d.addOf(name, role, "")
}

// addOf makes a credential that may be bound to a tenant, and lets it in.
func (d *doors) addOf(name string, role credential.Role, tenant string) (file string) {
	d.t.Helper()
	file, err := d.book.Add(name, role, tenant)
	if err != nil {
		d.t.Fatal(err)
	}
	d.allow()
	return file
}

func (d *doors) allow() {
	d.t.Helper()
	list, err := d.book.List()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.Allow(list); err != nil {
		d.t.Fatal(err)
	}
}

// connect connects as an agent with a credential.
func (d *doors) connect(agent, file string) (*nats.Conn, <-chan natslog.Fault) {
	d.t.Helper()
	key, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		d.t.Fatal(err)
	}
	faults := make(chan natslog.Fault, 100)
	nc, err := natslog.Connect(d.URL(), natslog.Options{Agent: agent, Extra: []nats.Option{key}, OnFault: func(f natslog.Fault, _ error) {
		select {
		case faults <- f:
		default:
		}
	}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(nc.Close)
	for end := time.Now().Add(20 * time.Second); !nc.IsConnected(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			d.t.Fatalf("%s does not get in: %v", agent, nc.LastError())
		}
	}
	return nc, faults
}

func awaitFault(t *testing.T, faults <-chan natslog.Fault, want natslog.Fault) {
	t.Helper()
	for end := time.After(20 * time.Second); ; {
		select {
		case f := <-faults:
			if f == want {
				return
			}
		case <-end:
			t.Fatalf("no fault %s", want)
		}
	}
}

func attempts(agent string) []byte {
	return events.Encode(nil, &model.Attempts{Source: model.Source{Agent: agent, Boot: 1, Seq: 1, Span: 1}})
}

// TestOnlyTheAllowedGetIn tries the door without a key and with a wrong one.
func TestOnlyTheAllowedGetIn(t *testing.T) {
	d := openDoors(t)
	stranger, err := credential.Open(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := stranger.Add("a1", credential.Operator, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string][]nats.Option{
		"nothing": nil, "a key of another fleet": {key}, "a password": {nats.UserInfo("a", "b")}, "a token": {nats.Token("x")},
	} {
		if c, err := nats.Connect(d.URL(), o...); err == nil {
			c.Close()
			t.Errorf("%s opens the door", what)
		}
	}
}

// TestAgentCredential is what one agent may and may not do, at a real server of a
// fleet that has tasks, which are for workers.
func TestAgentCredential(t *testing.T) {
	d := openDoorsOf(t, true)
	nc, faults := d.connect("a1", d.add("a1", credential.Agent))
	w, err := natslog.NewWriter(nc, "f", "a1")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), attempts("a1")); err != nil {
		t.Fatalf("its own report: %v", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for what, try := range map[string]func() error{
		"another's report": func() error {
			return nc.Publish(events.LogSubject("f", "a2"), []byte("x"))
		},
		"the controller's records": func() error { return nc.Publish(events.ControlSubject("f"), []byte("x")) },
		"limits":                   func() error { return nc.Publish(events.LimitsSubject("f"), []byte("x")) },
		"config":                   func() error { return nc.Publish(events.ConfigSubject("f"), []byte("x")) },
		"another fleet":            func() error { return nc.Publish(events.LogSubject("g", "a1"), []byte("x")) },
		"another's lease": func() error {
			_, err := nc.SubscribeSync(events.LiveSubject("f", events.LeaseSubject("f", "a2")))
			return err
		},
		"a task": func() error { return nc.Publish("weir.f.task.job.x", []byte("x")) },
		"a task's item": func() error {
			return nc.Publish("$JS.API.CONSUMER.MSG.NEXT.WEIR_f_TASK.lane-0", nil)
		},
		"a task's answer":          func() error { return nc.Publish("$JS.API.DIRECT.GET.WEIR_f_DONE.weir.f.task.state.x", nil) },
		"the log":                  func() error { _, err := nc.SubscribeSync(events.LogSubjects("f")); return err },
		"another's answers":        func() error { _, err := nc.SubscribeSync("_INBOX_AGENT.a2.>"); return err },
		"the controller's answers": func() error { _, err := nc.SubscribeSync("_INBOX.>"); return err },
		"everything":               func() error { _, err := nc.SubscribeSync(">"); return err },
		"deleting the log": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return missed(js.DeleteStream(ctx, "WEIR_f_LOG"))
		},
		"looking at the log": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := js.Stream(ctx, "WEIR_f_LOG")
			return missed(err)
		},
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		t.Log("refused:", what)
		awaitFault(t, faults, natslog.FaultRefused)
	}
}

// missed turns the error of a request that the server let nobody hear, which
// is what a refused request looks like, into none.
func missed(err error) error {
	if err == nil {
		return errors.New("it was done")
	}
	return nil
}

// TestAnyAgentCredential writes in any agent's name, never in the controller's.
func TestAnyAgentCredential(t *testing.T) {
	d := openDoors(t)
	file := d.add("pods", credential.AnyAgent)
	for _, agent := range []string{"p1", "p2"} {
		nc, faults := d.connect(agent, file)
		w, err := natslog.NewWriter(nc, "f", agent)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(t.Context(), attempts(agent)); err != nil {
			t.Fatal(err)
		}
		in, err := natslog.NewInbox(nc, "f", natslog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		heard := make(chan uint64, 1)
		go func() {
			_ = in.Listen(t.Context(), agent, events.Handler{
				Term: func(n *model.TermNotice) { heard <- n.Term }, Limits: func(*model.LimitSet) {}, Lease: func(*model.Lease) {}, Config: func(uint64, *model.Config) {},
			})
		}()
		if agent == "p1" {
			if err := d.out.PutTerm(t.Context(), &model.TermNotice{Term: 1, Controller: "c"}); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-heard:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s hears nothing", agent)
		}
		if len(faults) > 0 {
			t.Errorf("%s: fault %s", agent, <-faults)
		}
		if err := nc.Publish(events.ControlSubject("f"), []byte("x")); err != nil {
			t.Fatal(err)
		}
		awaitFault(t, faults, natslog.FaultRefused)
	}
}

// TestRevoked cuts off who is not allowed any more, and nobody else.
func TestRevoked(t *testing.T) {
	d := openDoors(t)
	gone, faults := d.connect("a1", d.add("a1", credential.Agent))
	stays, _ := d.connect("a2", d.add("a2", credential.Agent))
	if err := d.book.Revoke("a1"); err != nil {
		t.Fatal(err)
	}
	d.allow()
	awaitFault(t, faults, natslog.FaultDisconnected)
	if gone.IsConnected() {
		t.Error("the revoked is connected")
	}
	w, err := natslog.NewWriter(stays, "f", "a2")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), attempts("a2")); err != nil {
		t.Errorf("the other: %v", err)
	}
	if _, err := natslog.OpenLog(t.Context(), own(t, d.NATS), "f", natslog.LogOptions{}); err != nil {
		t.Errorf("this process: %v", err)
	}
}

func own(t *testing.T, n *controller.NATS) *nats.Conn {
	t.Helper()
	nc, err := n.Connect(natslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func TestAllowNeedsADoor(t *testing.T) {
	n := startNATS(t, controller.NATSOptions{})
	if err := n.Allow(nil); err == nil {
		t.Error("a server that is open to everybody takes a list")
	}
	shut := startNATS(t, controller.NATSOptions{Fleet: "f", Allowed: []credential.Credential{}})
	if err := shut.Allow([]credential.Credential{{Name: "a", Role: "king", Key: "x"}}); err == nil {
		t.Error("an unknown role is taken")
	}
}

// TestTaskRights is what agents may do where the fleet has tasks, and no more.
func TestTaskRights(t *testing.T) {
	d := openDoorsOf(t, true)
	if err := natslog.OpenTasks(t.Context(), own(t, d.NATS), "f", natslog.TaskLimits{Bytes: 10 << 20, Age: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for name, role := range map[string]credential.Role{"a1": credential.Worker, "pods": credential.AnyWorker} {
		nc, faults := d.connect(name, d.add(name, role))
		k, err := natslog.NewTasks(nc, "f", name, "")
		if err != nil {
			t.Fatal(err)
		}
		stop, err := k.Answer(func(q string) string { return q })
		if err != nil {
			t.Fatal(err)
		}
		hear, err := k.Hear(func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Set(t.Context(), "todo.1.u.0.0", []byte("x")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if names, err := k.Names(t.Context(), "todo.1.u"); err != nil || len(names) != 1 {
			t.Errorf("%s: names %v %v", name, names, err)
		}
		got, err := k.Next(t.Context(), 1, 10*time.Second)
		if err != nil || got == nil {
			t.Fatalf("%s: %+v %v", name, got, err)
		}
		if _, err := k.Swap(t.Context(), "state.u.0.0", []byte(name), 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		list, err := k.List(t.Context(), "state.u.0")
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %v %v", name, list, err)
		}
		if answer, err := k.Ask(t.Context(), name, "me?"); err != nil || answer != "me?" {
			t.Errorf("%s asks itself: %q %v", name, answer, err)
		}
		_, err = k.Line(t.Context(), 1)
		if err := errors.Join(err, k.Tell("w"), got.Working(), got.Done(), k.Drop(t.Context(), got.Key, got.Seq), k.Drop(t.Context(), "state.u.0.0", list[0].Seq), nc.Flush()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(faults) > 0 {
			t.Errorf("%s: fault %s", name, <-faults)
		}
		for what, try := range map[string]func() error{
			"another's questions": func() error { _, err := nc.SubscribeSync("weir.f.task.ask.a2"); return err },
			"another fleet":       func() error { return nc.Publish("weir.g.task.job.x", []byte("x")) },
			"all of the log":      func() error { return nc.Publish("$JS.API.DIRECT.GET.WEIR_f_LOG", []byte("{}")) },
			"purging":             func() error { return nc.Publish("$JS.API.STREAM.PURGE.WEIR_f_TASK", nil) },
			"deleting":            func() error { return nc.Publish("$JS.API.STREAM.DELETE.WEIR_f_DONE", nil) },
			"a reader of its own": func() error { return nc.Publish("$JS.API.CONSUMER.CREATE.WEIR_f_TASK", nil) },
			"an entry of the log": func() error { return nc.Publish("$JS.API.STREAM.MSG.DELETE.WEIR_f_LOG", nil) },
		} {
			if role == credential.AnyWorker && what == "another's questions" {
				continue // it may go by any name
			}
			if err := errors.Join(try(), nc.Flush()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			t.Log("refused:", what)
			awaitFault(t, faults, natslog.FaultRefused)
		}
		stop()
		hear()
	}
}

// TestTenantRights is what a worker may do that is bound to one tenant: what
// another may in its room, and nothing in the rooms of another or of all others,
// however it asks. One that is bound to a tenant without a room reaches no tasks.
func TestTenantRights(t *testing.T) {
	d := openDoorsOf(t, true, "ads", "content")
	inside := own(t, d.NATS)
	if err := natslog.OpenTasks(t.Context(), inside, "f", natslog.TaskLimits{Tenants: []string{"ads", "content"}, Bytes: 30 << 20, Age: time.Hour}); err != nil {
		t.Fatal(err)
	}
	use := func(nc *nats.Conn, name, tenant string) error {
		k, err := natslog.NewTasks(nc, "f", name, tenant)
		if err != nil {
			return err
		}
		stop, err := k.Answer(func(q string) string { return q })
		if err != nil {
			return err
		}
		defer stop()
		hear, err := k.Hear(func(string) {})
		if err != nil {
			return err
		}
		defer hear()
		if err := errors.Join(k.Set(t.Context(), "todo.0.u.0.0", []byte("x")), k.Set(t.Context(), "state.u.0.0", []byte("x"))); err != nil {
			return err
		}
		got, err := k.Next(t.Context(), 0, 10*time.Second)
		if err != nil || got == nil {
			return fmt.Errorf("it is given %v: %w", got, err)
		}
		list, err := k.List(t.Context(), "state.u.0")
		if err != nil || len(list) != 1 {
			return fmt.Errorf("it lists %v: %w", list, err)
		}
		_, names := k.Names(t.Context(), "todo.0.u")
		_, line := k.Line(t.Context(), 0)
		_, ask := k.Ask(t.Context(), name, "me?")
		return errors.Join(names, line, ask, k.Tell("w"), k.SetClock(t.Context()), got.Working(), got.Done(), k.Drop(t.Context(), got.Key, got.Seq), nc.Flush())
	}
	everybody, faults := d.connect("w", d.add("w", credential.Worker))
	for _, tenant := range []string{"", "ads", "content"} {
		if err := use(everybody, "w", tenant); err != nil || len(faults) > 0 {
			t.Errorf("a worker that is not bound, in the room of %q: %v, %d faults", tenant, err, len(faults))
		}
	}
	bound, faults := d.connect("c", d.addOf("c", credential.Worker, "content"))
	if err := use(bound, "c", "content"); err != nil || len(faults) > 0 {
		t.Errorf("in its own room: %v, %d faults", err, len(faults))
	}
	roomless, lacks := d.connect("r", d.addOf("r", credential.AnyWorker, "none"))
	strange := map[*nats.Conn][]string{bound: {"", "ads"}, roomless: {"", "ads", "content", "none"}}
	for nc, tenants := range strange {
		faults := faults
		if nc == roomless {
			faults = lacks
		}
		for _, tenant := range tenants {
			publish, subscribe := natslog.TaskRights("f", "w", tenant)
			for _, subject := range publish {
				subject = strings.NewReplacer("*", "lane-0", ">", "x").Replace(subject)
				if err := errors.Join(nc.Publish(subject, []byte(`{"seq":1,"multi_last":["weir.f.>"]}`)), nc.Flush()); err != nil {
					t.Fatal(err)
				}
				t.Log("refused:", subject)
				awaitFault(t, faults, natslog.FaultRefused)
			}
			for _, subject := range subscribe {
				if _, err := nc.SubscribeSync(subject); err != nil {
					t.Fatal(err)
				}
				t.Log("refused:", subject)
				awaitFault(t, faults, natslog.FaultRefused)
			}
		}
	}
	for _, tenant := range []string{"", "ads"} {
		k, err := natslog.NewTasks(inside, "f", "x", tenant)
		if err != nil {
			t.Fatal(err)
		}
		if list, err := k.List(t.Context(), "state.u.0"); err != nil || len(list) != 1 || string(list[0].Data) != "x" {
			t.Errorf("the room of %q has %v, %v", tenant, list, err)
		}
	}
}
