package controller_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"weir/controller"
	"weir/controller/credential"
	"weir/events"
	"weir/events/natslog"
	"weir/model"
)

// TestAnswersElsewhere has an agent write an entry of the controller's, or a
// request to the API, into its own subject, and ask for that, or just for an
// acknowledgement, to be sent where it may not write itself. The server would do
// so in its own name.
func TestAnswersElsewhere(t *testing.T) {
	for what, reply := range map[string]string{
		"the controller's records": events.ControlSubject("f"),
		"another's report":         events.LogSubject("f", "a2"),
		"limits, kept":             events.LimitsSubject("f"),
		"limits, live":             events.LiveSubject("f", events.LimitsSubject("f")),
		"another's lease":          events.LeaseSubject("f", "a2"),
		"deleting the log":         "$JS.API.STREAM.DELETE.WEIR_f_LOG",
		"purging the log":          "$JS.API.STREAM.PURGE.WEIR_f_LOG",
	} {
		t.Run(what, func(t *testing.T) {
			d := openDoors(t)
			if err := d.out.PutTerm(t.Context(), &model.TermNotice{Term: 1, Controller: "c"}); err != nil {
				t.Fatal(err)
			}
			inside := own(t, d.NATS)
			heard, err := inside.SubscribeSync(reply)
			if err != nil {
				t.Fatal(err)
			}
			if err := inside.Flush(); err != nil {
				t.Fatal(err)
			}
			file := d.add("a1", credential.Agent)
			nc, _ := d.connect("a1", file)
			forged := events.Encode(nil, &model.ParamSet{Name: "mine", Params: model.DefaultParams()})
			if strings.HasPrefix(reply, "$JS") {
				forged = []byte("{}")
			}
			w, err := natslog.NewWriter(nc, "f", "a1")
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(t.Context(), forged); err != nil {
				t.Fatal(err)
			}
			for _, m := range []*nats.Msg{
				{Subject: "$JS.API.DIRECT.GET.WEIR_f_LOG." + events.LogSubject("f", "a1"), Reply: reply},
				{Subject: "$JS.API.DIRECT.GET.WEIR_f_LOG." + events.LogSubject("f", "a1"), Reply: reply, Data: []byte(`{"no_hdr":true}`)},
				{Subject: events.LogSubject("f", "a1"), Reply: reply, Data: forged},
			} {
				nc, faults := d.connect("a1", file)
				if err := nc.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
				awaitFault(t, faults, natslog.FaultDisconnected)
			}
			if m, err := heard.NextMsg(100 * time.Millisecond); err == nil {
				t.Errorf("%q was sent there", m.Data)
			}
			l, err := natslog.OpenLog(t.Context(), inside, "f", natslog.LogOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if i, err := l.Info(t.Context()); err != nil || i.First != 1 || i.Last != 1 {
				t.Errorf("the log is %+v, %v", i, err)
			}
		})
	}
}

// TestDoorLines says to the door what no client says, in ways that a server
// might read another way: nothing of it arrives.
func TestDoorLines(t *testing.T) {
	n := startNATS(t, controller.NATSOptions{Listen: "127.0.0.1:0"})
	inside := own(t, n)
	heard, err := inside.SubscribeSync("b")
	if err != nil {
		t.Fatal(err)
	}
	if err := inside.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"PUB a b 1\r\nx\r\n", "pub a b 1\r\nx\r\n", "PUB\ta\tb\t1\r\nx\r\n", "PUB a  b 1\nx\r\n", "PUB a\rb b 1\r\nx\r\n", "PUB a b\r 1\r\nx\r\n",
		"HPUB a b 12 13\r\nNATS/1.0\r\n\r\nx\r\n", "HPUB a b 1\r\nx\r\n", "PUB a _INBOX.x b 1\r\nx\r\n", "PUB a b -1\r\n", "PUB b\r\n", "PUB b 99999999999\r\n",
		"RMSG a b 1\r\nx\r\n", "MSG b 1 1\r\nx\r\n", "\r\n", "INFO {}\r\n", "PUB " + strings.Repeat("a", 5000) + " 1\r\nx\r\n", strings.Repeat("a", 50_000),
	} {
		c, err := net.Dial("tcp", n.Address())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("CONNECT {\"verbose\":false,\"headers\":true}\r\nPING\r\n")); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(c)
		for said := ""; said != "PONG\r\n"; {
			if said, err = r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = c.Write([]byte(line)) // it may be cut off before all is sent
		if _, err := io.Copy(io.Discard, r); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.30q: it is not cut off", line)
		}
		_ = c.Close() // it is closed
	}
	if m, err := heard.NextMsg(50 * time.Millisecond); err == nil {
		t.Errorf("%q arrived from %q", m.Data, m.Subject)
	}
	for _, line := range []string{"PUB b 1\r\nx\r\n", "pub  b\t_INBOX.a  1\nx\r\n", "HPUB b _INBOX.a 12 13\r\nNATS/1.0\r\n\r\nx\r\n"} {
		c, err := net.Dial("tcp", n.Address())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, "CONNECT {\"verbose\":false,\"headers\":true}\r\n%s", line); err != nil {
			t.Fatal(err)
		}
		if m, err := heard.NextMsg(20 * time.Second); err != nil || string(m.Data) != "x" {
			t.Errorf("%q: %v, %v", line, m, err)
		}
		_ = c.Close() // it may be closed
	}
}
