package controller_test

import (
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"weir/controller"
	"weir/events"
	"weir/events/natslog"
	"weir/model"
)

// BenchmarkFold folds a log of reports of 100 attempts from a real JetStream
// into a real store, as a start without state does: read, decode, fold,
// commit. The log is filled before the clock runs.
func BenchmarkFold(b *testing.B) {
	const agents, records, batch = 16, 10_000, 100
	for b.Loop() {
		b.StopTimer()
		l, err := openLive(b.TempDir(), "", 0, slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		waitConfig(b, l)
		l.cancel() // the log is filled while nobody reads
		if err := <-l.done; err != nil {
			b.Fatal(err)
		}
		fill(b, l, agents, records/agents, batch)
		l.done <- nil
		if err := l.close(); err != nil {
			b.Fatal(err)
		}
		dir := l.natsDir[:len(l.natsDir)-len("/nats")]
		b.StartTimer()
		started := time.Now()
		if l, err = openLive(dir, "", 0, slog.New(slog.DiscardHandler)); err != nil {
			b.Fatal(err)
		}
		opened := time.Now()
		info, err := l.log.Info(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for {
			s, err := l.loop.Status(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if s.Seq >= info.Last && s.Uncommitted == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		took := time.Since(opened)
		b.StopTimer()
		b.ReportMetric(records/took.Seconds(), "records/s")
		b.ReportMetric(records*batch/took.Seconds(), "attempts/s")
		b.ReportMetric(opened.Sub(started).Seconds()*1000, "ms-start")
		if err := l.close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func waitConfig(b *testing.B, l *live) {
	b.Helper()
	for {
		v, err := l.loop.View(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if len(v.Channels) > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// fill writes reports from many agents at once.
func fill(b *testing.B, l *live, agents, reports, batch int) {
	b.Helper()
	var writers sync.WaitGroup
	for i := range agents {
		writers.Go(func() {
			conn, err := l.nats.Connect(natslog.Options{})
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			id := "agent-" + strconv.Itoa(i)
			w, err := natslog.NewWriter(conn, fleet, id)
			if err != nil {
				b.Error(err)
				return
			}
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			base := uint64(0)
			for seq := uint64(1); seq <= uint64(reports); seq++ {
				data := events.Encode(nil, busyReport(rng, id, seq, base, batch))
				base += uint64(batch)
				if err := w.Write(b.Context(), data); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
}

// busyReport is a report of a busy agent: mostly answers, a few refusals.
func busyReport(rng *rand.Rand, agent string, seq, base uint64, batch int) *model.Attempts {
	r := &model.Attempts{
		Source:   model.Source{Agent: agent, Boot: 1, Seq: seq, Span: 1, Base: base},
		Channels: []model.ChannelReport{{Channel: "a", InFlight: 20, Accepted: 10, Queued: 5}, {Channel: "b", InFlight: 3}},
	}
	for i := range batch {
		a := model.Attempt{
			Channel: uint16(i % 2), Route: "default", Request: rng.Uint64(), Try: 1, Tenant: "content",
			Age: model.Nanos(rng.Int64N(int64(100 * model.Millisecond))), Took: model.Second + model.Nanos(rng.Int64N(int64(model.Second))),
			FirstToken: 300 * model.Millisecond, Class: model.ClassOK, Status: 200,
			Reserved: 3000, In: 2000, Out: model.Tokens(300 + rng.IntN(300)), UsageKnown: true, RetryAfter: -1, Rule: "openai/ok",
		}
		if rng.IntN(500) == 0 {
			a.Class, a.Status, a.In, a.Out, a.FirstToken, a.Code = model.ClassOverloaded, 529, 0, 0, 0, "2064"
		}
		r.Attempts = append(r.Attempts, a)
	}
	return r
}

// BenchmarkReport times one report from its writing until it is folded, while
// nothing else goes on.
func BenchmarkReport(b *testing.B) {
	l, err := openLive(b.TempDir(), "", 0, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	waitConfig(b, l)
	conn, err := l.nats.Connect(natslog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	w, err := natslog.NewWriter(conn, fleet, "x")
	if err != nil {
		b.Fatal(err)
	}
	rng, seq := rand.New(rand.NewPCG(1, 3)), uint64(0)
	for b.Loop() {
		seq++
		if err := w.Write(b.Context(), events.Encode(nil, busyReport(rng, "x", seq, 10*(seq-1), 10))); err != nil {
			b.Fatal(err)
		}
		for {
			v, err := l.loop.View(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if v.Counters.Attempts == 10*seq {
				break
			}
		}
	}
	b.StopTimer()
	conn.Close()
	if err := l.close(); err != nil {
		b.Fatal(err)
	}
}

var _ controller.Store = (*memory)(nil)
