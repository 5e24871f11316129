package controller_test

import (
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"weir/controller"
	"weir/events/natslog"
)

func startNATS(t *testing.T, o controller.NATSOptions) *controller.NATS {
	t.Helper()
	if o.Store == "" {
		o.Store = t.TempDir()
	}
	n, err := controller.StartNATS(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestNATSInProcess(t *testing.T) {
	n := startNATS(t, controller.NATSOptions{})
	if n.URL() != "" {
		t.Errorf("URL %q, want none without an address", n.URL())
	}
	c, err := n.Connect(natslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	js, err := c.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AccountInfo(); err != nil {
		t.Errorf("JetStream: %v", err)
	}
}

func TestNATSRefusals(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	locked := t.TempDir()
	startNATS(t, controller.NATSOptions{Store: locked})
	for name, tc := range map[string]struct {
		options controller.NATSOptions
		want    string
	}{
		"port in use":   {controller.NATSOptions{Listen: taken.Addr().String()}, "cannot listen on " + taken.Addr().String()},
		"store in use":  {controller.NATSOptions{Store: locked}, "in use by another process"},
		"no port":       {controller.NATSOptions{Listen: "localhost"}, "want host:port"},
		"silly port":    {controller.NATSOptions{Listen: "localhost:http"}, "port \"http\" is none"},
		"open to all":   {controller.NATSOptions{Listen: "0.0.0.0:0"}, "say who may connect"},
		"open by name":  {controller.NATSOptions{Listen: "example.org:0"}, "say who may connect"},
		"open by blank": {controller.NATSOptions{Listen: ":0"}, "say who may connect"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.options.Store == "" {
				tc.options.Store = t.TempDir()
			}
			n, err := controller.StartNATS(tc.options)
			if err == nil {
				t.Fatal("started", n.Close())
			}
			if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, tc.want)
			}
		})
	}
}

func TestNATSStoreSurvives(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		n, err := controller.StartNATS(controller.NATSOptions{Store: dir, SyncAlways: round == 0})
		if err != nil {
			t.Fatal(err)
		}
		c, err := n.Connect(natslog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		js, err := c.JetStream()
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			if _, err := js.AddStream(&nats.StreamConfig{Name: "s", Subjects: []string{"a"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := js.Publish("a", []byte("kept")); err != nil {
				t.Fatal(err)
			}
		} else if m, err := js.GetMsg("s", 1); err != nil || string(m.Data) != "kept" {
			t.Errorf("message = %v, %v", m, err)
		}
		c.Close()
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
