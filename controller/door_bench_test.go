package controller_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"weir/controller"
	"weir/events"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
	"weir/model"
)

// listeners is a thousand agents that hear what one outbox tells.
type listeners struct {
	out   *natslog.Outbox
	seq   uint64
	began time.Time
	heard chan time.Duration // since began, of the last message told
	took  []time.Duration
}

const manyAgents = 1000

func newListeners(b *testing.B, inside *nats.Conn, url string) *listeners {
	b.Helper()
	l := &listeners{heard: make(chan time.Duration, manyAgents)}
	var err error
	if l.out, err = natslog.OpenOutbox(b.Context(), inside, "f", 0); err != nil {
		b.Fatal(err)
	}
	if err := l.out.PutTerm(b.Context(), &model.TermNotice{Term: 1, Controller: "c"}); err != nil {
		b.Fatal(err)
	}
	var ready sync.WaitGroup
	for i := range manyAgents {
		name := "a" + strconv.Itoa(i)
		nc, err := natslog.Connect(url, natslog.Options{Agent: name})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(nc.Close)
		in, err := natslog.NewInbox(nc, "f", natslog.Options{})
		if err != nil {
			b.Fatal(err)
		}
		ready.Add(1)
		first := sync.OnceFunc(ready.Done)
		ctx, cancel := context.WithCancel(context.Background())
		b.Cleanup(cancel)
		go func() {
			_ = in.Listen(ctx, name, events.Handler{
				Term: func(*model.TermNotice) { first() }, Config: func(uint64, *model.Config) {}, Lease: func(*model.Lease) {},
				Limits: func(s *model.LimitSet) {
					if s.Seq > 1 {
						l.heard <- time.Since(l.began)
					}
				},
			})
		}()
	}
	ready.Wait()
	return l
}

// cut tells all agents once and waits until they have heard.
func (l *listeners) cut(b *testing.B) {
	b.Helper()
	l.seq++
	l.began = time.Now()
	if err := l.out.PutLimits(b.Context(), &model.LimitSet{Term: 1, Seq: l.seq, Channels: []model.ChannelLimit{{Channel: "a", Revision: l.seq}}}, l.seq == 1); err != nil {
		b.Fatal(err)
	}
	if l.seq == 1 {
		time.Sleep(2 * time.Second) // the full set, which is not measured
		return
	}
	for range manyAgents {
		l.took = append(l.took, <-l.heard)
	}
}

// at returns the share of what was measured, in milliseconds.
func (l *listeners) at(share float64) float64 {
	slices.Sort(l.took)
	return l.took[int(float64(len(l.took)-1)*share)].Seconds() * 1000
}

// BenchmarkDoor times a cut until each of a thousand agents has heard of it,
// through the door and at a server that listens itself, in turn.
func BenchmarkDoor(b *testing.B) {
	n, err := controller.StartNATS(controller.NATSOptions{Store: b.TempDir(), Listen: "127.0.0.1:0", MaxStore: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Close() }) // the benchmark is over
	s := natstest.Start(b, natstest.Listen)
	var all [2]*listeners
	for i, url := range []string{n.URL(), s.URL()} {
		var inside *nats.Conn
		if i == 0 {
			inside, err = n.Connect(natslog.Options{})
		} else {
			inside, err = natslog.Connect("", natslog.Options{Extra: []nats.Option{s.Option()}})
		}
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(inside.Close)
		all[i] = newListeners(b, inside, url)
		all[i].cut(b)
	}
	for i := 0; b.Loop(); i++ {
		all[i%2].cut(b)
		all[1-i%2].cut(b)
	}
	for _, share := range []float64{0.5, 0.99} {
		door, bare := all[0].at(share), all[1].at(share)
		name := strconv.FormatFloat(100*share, 'f', -1, 64)
		b.ReportMetric(door, "ms-p"+name)
		b.ReportMetric(bare, "ms-p"+name+"-bare")
		b.ReportMetric(door/bare, "ratio-p"+name)
	}
}
