package controller_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"weir/events"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
	"weir/model"
)

// accounts is a server with the configuration that is shipped for servers of
// one's own, with the accounts of two agents.
type accounts struct {
	*natstest.Server
	t    *testing.T
	keys map[string]nkeys.KeyPair // by whose
}

func startAccounts(t *testing.T) *accounts {
	t.Helper()
	text, err := os.ReadFile("../cmd/weir/deploy/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	conf := string(text)
	one := conf[strings.Index(conf, "  web-1 {"):strings.LastIndex(conf, "}")]
	conf = strings.Replace(conf, one, one+strings.ReplaceAll(strings.ReplaceAll(one, "web-1", "web-2"), "WEB_1", "WEB_2"), 1)
	a := &accounts{t: t, keys: map[string]nkeys.KeyPair{}}
	for name, variable := range map[string]string{"controller": "CONTROLLER_KEY", "web-1": "WEB_1_KEY", "web-2": "WEB_2_KEY"} {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		key, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(variable, key)
		a.keys[name] = pair
	}
	parsed := &server.Options{}
	if err := parsed.ProcessConfigString(conf); err != nil {
		t.Fatal(err)
	}
	a.Server = natstest.Start(t, func(o *server.Options) { o.Accounts, o.Nkeys = parsed.Accounts, parsed.Nkeys })
	return a
}

// connect connects as an agent, or the controller.
func (a *accounts) connect(name string) *nats.Conn {
	a.t.Helper()
	pair := a.keys[name]
	key, err := pair.PublicKey()
	if err != nil {
		a.t.Fatal(err)
	}
	o := natslog.Options{Agent: name, Extra: []nats.Option{a.Option(), nats.Nkey(key, pair.Sign)}}
	if name == "controller" {
		o.Agent = ""
	}
	nc, err := natslog.Connect("", o)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(nc.Close)
	for end := time.Now().Add(20 * time.Second); !nc.IsConnected(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			a.t.Fatalf("%s does not get in: %v", name, nc.LastError())
		}
	}
	return nc
}

// TestAccounts holds that with an account for each agent, as the shipped
// configuration has them, an agent does all that it must, and nothing else, also
// not by wanting an answer sent where it may not write.
func TestAccounts(t *testing.T) {
	a := startAccounts(t)
	inside := a.connect("controller")
	log, err := natslog.OpenLog(t.Context(), inside, "default", natslog.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := natslog.OpenOutbox(t.Context(), inside, "default", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := out.PutTerm(t.Context(), &model.TermNotice{Term: 1, Controller: "c"}); err != nil {
		t.Fatal(err)
	}
	for _, agent := range []string{"web-1", "web-2"} {
		if err := out.PutLease(t.Context(), &model.Lease{Agent: agent, Term: 1}); err != nil {
			t.Fatal(err)
		}
	}
	nc := a.connect("web-1")
	in, err := natslog.NewInbox(nc, "default", natslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 10)
	go func() {
		_ = in.Listen(t.Context(), "web-1", events.Handler{ // it ends with the test
			Term: func(*model.TermNotice) { heard <- "term" }, Limits: func(*model.LimitSet) { heard <- "limits" },
			Lease: func(l *model.Lease) { heard <- "lease of " + l.Agent }, Config: func(uint64, *model.Config) { heard <- "config" },
		})
	}()
	hears := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			select {
			case one := <-heard:
				got = append(got, one)
			case <-time.After(20 * time.Second):
				t.Fatalf("it hears %v, want %v", got, want)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("heard (-want +got):\n%s", d)
		}
	}
	hears("term", "lease of web-1")
	if err := out.PutLimits(t.Context(), &model.LimitSet{Term: 1, Seq: 1}, true); err != nil {
		t.Fatal(err)
	}
	hears("limits")
	w, err := natslog.NewWriter(nc, "default", "web-1")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Write(t.Context(), attempts("web-1")); err != nil {
			t.Fatal(err)
		}
	}
	if boot, err := natslog.LastBoot(t.Context(), nc, "default", "web-1"); err != nil || boot != 1 {
		t.Errorf("its last boot is %d, %v", boot, err)
	}
	a.attack(nc, inside)
	if i, err := log.Info(t.Context()); err != nil || i.First != 1 || i.Last != 2 {
		t.Errorf("the log is %+v, %v", i, err)
	}
	if r, err := log.Read(t.Context(), 1); err != nil {
		t.Error(err)
	} else if e, err := r.Next(t.Context()); err != nil || e.Subject != events.LogSubject("default", "web-1") {
		t.Errorf("its entry is %+v, %v", e, err)
	}
}

// attack publishes to what is not web-1's, and wants answers there.
func (a *accounts) attack(nc, inside *nats.Conn) {
	a.t.Helper()
	own := "$JS.API.DIRECT.GET.WEIR_default_LOG." + events.LogSubject("default", "web-1")
	for what, subject := range map[string]string{
		"the controller's records": events.ControlSubject("default"),
		"another's report":         events.LogSubject("default", "web-2"),
		"limits, kept":             events.LimitsSubject("default"),
		"limits, live":             events.LiveSubject("default", events.LimitsSubject("default")),
		"another's lease":          events.LeaseSubject("default", "web-2"),
		"deleting the log":         "$JS.API.STREAM.DELETE.WEIR_default_LOG",
		"purging the log":          "$JS.API.STREAM.PURGE.WEIR_default_LOG",
		"reading another's lease":  "$JS.API.DIRECT.GET.WEIR_default_OUT." + events.LeaseSubject("default", "web-2"),
		"reading all":              "$JS.API.DIRECT.GET.WEIR_default_OUT",
	} {
		heard, err := inside.SubscribeSync(subject)
		if err != nil {
			a.t.Fatal(err)
		}
		if err := inside.Flush(); err != nil {
			a.t.Fatal(err)
		}
		for _, m := range []*nats.Msg{
			{Subject: subject, Data: []byte(`{"last_by_subj":"weir.default.out.lease.web-2"}`)},
			{Subject: own, Reply: subject},
			{Subject: own, Reply: subject, Data: []byte(`{"no_hdr":true}`)},
			{Subject: own, Header: nats.Header{"Nats-Trace-Dest": {subject}}},
		} {
			if err := nc.PublishMsg(m); err != nil {
				a.t.Fatal(err)
			}
		}
		if m, err := nc.Request(subject, nil, 50*time.Millisecond); err == nil && !strings.Contains(string(m.Data), "not enabled for account") {
			a.t.Errorf("%s: it is answered %q", what, m.Data)
		}
		if err := nc.Flush(); err != nil {
			a.t.Fatal(err)
		}
		if m, err := heard.NextMsg(50 * time.Millisecond); err == nil {
			a.t.Errorf("%s: %q was sent there", what, m.Data)
		}
	}
	if sub, err := nc.SubscribeSync(">"); err != nil {
		a.t.Error(err)
	} else if _, err := a.connect("web-2").Request("weir.default.log.web-2", attempts("web-2"), 50*time.Millisecond); err != nil {
		a.t.Error(err)
	} else if m, err := sub.NextMsg(50 * time.Millisecond); err == nil {
		a.t.Errorf("it hears %q on %s", m.Data, m.Subject)
	}
}
