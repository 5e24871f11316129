package agent

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/events"
	"weir/model"
)

// sum is what the gate does.
func sum(facts []model.Fact) *model.Summary {
	var s model.Summary
	model.NewGate(model.GateConfig{Agent: "a", Boot: 1, Rand: rand.New(rand.NewPCG(1, 2))}).Summarize(facts, &s)
	return &s
}

func report(seq uint64) *model.Attempts {
	return &model.Attempts{
		Source:   model.Source{Agent: "a", Boot: 1, Seq: seq, Span: 1, Base: seq - 1},
		Channels: []model.ChannelReport{{Channel: "main"}},
		Pools:    []model.PoolReport{{Pool: "channel/main", UsedRequests: int64(seq)}},
		Attempts: []model.Attempt{{Request: seq, Try: 1, Class: model.ClassOK, In: 10}},
	}
}

func TestSpoolSumsUpWhatWaits(t *testing.T) {
	one := len(events.Encode(nil, report(1)))
	s := newSpool(6*one, sum)
	push := func(from, to uint64) {
		t.Helper()
		for seq := from; seq <= to; seq++ {
			if err := s.push(report(seq), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	push(1, 1)
	first, _ := s.next(t.Context())
	s.sent(false) // unclear: the log may have it
	push(2, 100)

	var got []model.Fact
	if data, _ := s.next(t.Context()); string(data) != string(first) {
		t.Error("the report that may be in the log was changed")
	}
	var expected uint64 = 1
	var attempts uint64
	for waiting, _ := s.count(); waiting > 0; waiting, _ = s.count() {
		data, _ := s.next(t.Context())
		f, err := events.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f)
		s.sent(true)
		switch f := f.(type) {
		case *model.Attempts:
			if f.Seq != expected {
				t.Errorf("report %d, want %d", f.Seq, expected)
			}
			expected += f.Span
			attempts += uint64(len(f.Attempts))
		case *model.Summary:
			if f.Seq != expected || f.Base != expected-1 {
				t.Errorf("summary at %d base %d, want %d", f.Seq, f.Base, expected)
			}
			expected += f.Span
			for _, c := range f.Counts {
				attempts += c.Attempts
			}
			if n := f.Pools[0].UsedRequests; n != int64(f.Seq+f.Span-1) {
				t.Errorf("summary's pools are those of report %d, want the last, %d", n, f.Seq+f.Span-1)
			}
		}
	}
	if expected != 101 || attempts != 100 {
		t.Errorf("%d reports and %d attempts came out, want 100 of both; got %d entries", expected-1, attempts, len(got))
	}
	if _, summed := s.count(); summed == 0 || len(got) >= 100 {
		t.Errorf("nothing was summed up: %d entries", len(got))
	}
	if s.bytes != 0 {
		t.Errorf("%d bytes are counted in an empty spool", s.bytes)
	}
}

func TestSpoolIsBounded(t *testing.T) {
	one := len(events.Encode(nil, report(1<<30)))
	s := newSpool(10*one, sum)
	for seq := uint64(1); seq < 5000; seq++ {
		if err := s.push(report(seq), time.Now()); err != nil {
			t.Fatal(err)
		}
		if s.bytes > 11*one {
			t.Fatalf("%d bytes are kept, the limit is %d", s.bytes, 10*one)
		}
		if want := float64(s.bytes) / float64(10*one); s.full() != want {
			t.Fatalf("%g of the room is said to be used, it is %g", s.full(), want)
		}
	}
}

func TestSpoolDrained(t *testing.T) {
	s := newSpool(1<<20, sum)
	<-s.drained()
	_ = s.push(report(1), time.Now())
	select {
	case <-s.drained():
		t.Fatal("drained with a report waiting")
	default:
	}
	if _, err := s.next(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.sent(true)
	<-s.drained()
}

func TestSpoolRaisesAges(t *testing.T) {
	s := newSpool(1<<20, sum)
	_ = s.push(report(1), time.Now().Add(-time.Minute))
	first, err := s.next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f, err := events.Decode(first)
	if err != nil {
		t.Fatal(err)
	}
	if age := f.(*model.Attempts).Attempts[0].Age; age < model.Minute {
		t.Errorf("the attempt's age is %v after a minute", age)
	}
	s.sent(false)
	if again, _ := s.next(t.Context()); string(again) != string(first) {
		t.Error("the report changed between two tries")
	}
}
