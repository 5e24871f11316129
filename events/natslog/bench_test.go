package natslog_test

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"

	"weir/events"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
	"weir/model"
)

// batch is the size of a report of 100 attempts.
const batch = 3600

// BenchmarkWrite writes reports of 100 attempts, one agent after the other.
func BenchmarkWrite(b *testing.B) {
	s := natstest.Start(b, nil)
	openLog(b, s, natslog.LogOptions{})
	w, err := natslog.NewWriter(connect(b, s, natslog.Options{}), fleet, "a1")
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, batch)
	n := uint64(0)
	b.SetBytes(batch)
	for b.Loop() {
		n++
		binary.LittleEndian.PutUint64(data, n)
		if err := w.Write(b.Context(), data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWriters writes them from 64 agents at once.
func BenchmarkWriters(b *testing.B) {
	s := natstest.Start(b, nil)
	openLog(b, s, natslog.LogOptions{})
	b.SetBytes(batch)
	b.SetParallelism(32)
	var agents, n atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		agent := fmt.Sprint("a", agents.Add(1))
		w, err := natslog.NewWriter(connect(b, s, natslog.Options{}), fleet, agent)
		if err != nil {
			b.Error(err)
			return
		}
		data := make([]byte, batch)
		for pb.Next() {
			binary.LittleEndian.PutUint64(data, n.Add(1))
			if err := w.Write(b.Context(), data); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkRead reads a log of such reports.
func BenchmarkRead(b *testing.B) {
	s := natstest.Start(b, nil)
	l := openLog(b, s, natslog.LogOptions{})
	const entries = 5000
	appendN(b, l, entries, batch)
	b.SetBytes(batch * entries)
	for b.Loop() {
		r, err := l.Read(b.Context(), 1)
		if err != nil {
			b.Fatal(err)
		}
		for range entries {
			if _, err := r.Next(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		_ = r.Close()
	}
	b.ReportMetric(float64(b.N)*entries/b.Elapsed().Seconds(), "entries/s")
}

// BenchmarkTell times a broadcast from PutLimits until one agent has it.
func BenchmarkTell(b *testing.B) {
	s := natstest.Start(b, nil)
	o, err := natslog.OpenOutbox(b.Context(), connect(b, s, natslog.Options{}), fleet, 0)
	if err != nil {
		b.Fatal(err)
	}
	if err := o.PutTerm(b.Context(), &model.TermNotice{Term: 1, Controller: "c"}); err != nil {
		b.Fatal(err)
	}
	in, err := natslog.NewInbox(connect(b, s, natslog.Options{}), fleet, natslog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	heard := make(chan uint64, 1000)
	go func() {
		_ = in.Listen(b.Context(), "a1", events.Handler{
			Term:   func(n *model.TermNotice) { heard <- 0 },
			Limits: func(l *model.LimitSet) { heard <- l.Seq },
		})
	}()
	<-heard
	seq := uint64(0)
	for b.Loop() {
		seq++
		l := &model.LimitSet{Term: 1, Seq: seq, Channels: []model.ChannelLimit{{Channel: "a", Revision: seq}}}
		if err := o.PutLimits(b.Context(), l, seq == 1); err != nil {
			b.Fatal(err)
		}
		for <-heard != seq {
			continue
		}
	}
}
