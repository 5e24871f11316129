package natslog_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"weir/events"
	"weir/events/logtest"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
)

func connect(t testing.TB, s *natstest.Server, o natslog.Options) *nats.Conn {
	t.Helper()
	o.Extra = append(o.Extra, s.Option())
	nc, err := natslog.Connect("", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// conform returns a fleet's bus on a server.
func conform(t *testing.T, s *natstest.Server, fleet string) *logtest.Bus {
	nc := connect(t, s, natslog.Options{Name: "controller"})
	log, err := natslog.OpenLog(t.Context(), nc, fleet, natslog.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	outbox := func() events.Outbox {
		o, err := natslog.OpenOutbox(t.Context(), nc, fleet, 0)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	outbox() // makes the stream that agents look into
	return &logtest.Bus{
		Fleet:  fleet,
		Log:    log,
		Outbox: outbox,
		Election: func(name string) events.Election {
			e, err := natslog.OpenElection(t.Context(), nc, fleet, name, 0)
			if err != nil {
				t.Fatal(err)
			}
			return e
		},
		Writer: func(agent string) events.Writer {
			w, err := natslog.NewWriter(connect(t, s, natslog.Options{Agent: agent}), fleet, agent)
			if err != nil {
				t.Fatal(err)
			}
			return w
		},
		Inbox: func(agent string) events.Inbox {
			i, err := natslog.NewInbox(connect(t, s, natslog.Options{Agent: agent}), fleet, natslog.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return i
		},
	}
}

func TestContract(t *testing.T) {
	s := natstest.Start(t, nil)
	for i, c := range logtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, conform(t, s, fmt.Sprint("fleet", i)))
		})
	}
}
