package history

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"weir/controller/store"
	"weir/events"
	"weir/events/memlog"
	"weir/model"
)

// past is a log that is folded as it grows.
type past struct {
	t      *testing.T
	log    *memlog.Log
	fleet  *model.Fleet
	rewind *Rewind
	fx     model.Effects
}

func newPast(t *testing.T) *past {
	t.Helper()
	s, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &past{t: t, log: memlog.New("test", memlog.Options{}).Log(), fleet: model.NewFleet()}
	p.rewind = NewRewind(s, p.log, func(context.Context) ([]byte, [32]byte, uint64, error) {
		return p.fleet.AppendBinary(nil), p.fleet.Digest(), p.fleet.Seq(), nil
	}, nil)
	return p
}

// add appends a fact and folds it.
func (p *past) add(f model.Fact) {
	p.t.Helper()
	seq, err := p.log.Append(p.t.Context(), events.Encode(nil, f))
	if err != nil {
		p.t.Fatal(err)
	}
	e, err := p.log.At(p.t.Context(), seq)
	if err != nil {
		p.t.Fatal(err)
	}
	rec, err := events.NewDecoder().Record(e)
	if err != nil {
		p.t.Fatal(err)
	}
	p.fleet.Apply(rec, &p.fx)
	p.fx.Reset()
}

// TestRewindShowsWhatWas asks for the fleet at many moments, also of a log that
// was trimmed: each is what it was then.
func TestRewindShowsWhatWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(t)
		type was struct {
			at    time.Time
			limit int64
			seq   uint64
		}
		start := time.Now()
		p.add(&model.Config{Fleet: "test", Channels: []model.ChannelConfig{{Name: "main"}}})
		var all []was
		for n := range int64(200) {
			time.Sleep(10 * time.Second)
			if n%30 == 29 {
				if err := p.rewind.Keep(t.Context(), time.Now()); err != nil {
					t.Fatal(err)
				}
			}
			p.add(&model.Command{Command: model.CommandSetLimit, Channel: "main", Value: 5 + n, By: "test"})
			all = append(all, was{time.Now(), p.fleet.View().Channels[0].Limit, p.fleet.Seq()})
		}
		check := func(from int) {
			t.Helper()
			for i, w := range all[from:] {
				for _, later := range []time.Duration{0, 9 * time.Second} {
					v, err := p.rewind.At(t.Context(), w.at.Add(later))
					if err != nil || v.Seq != w.seq || v.Channels[0].Limit != w.limit {
						t.Fatalf("moment %d + %s: record %d, limit %d, %v; want %d, %d", from+i, later, v.Seq, v.Channels[0].Limit, err, w.seq, w.limit)
					}
				}
			}
		}
		check(0)
		if _, err := p.rewind.At(t.Context(), start.Add(-time.Second)); !errors.Is(err, ErrBeyond) {
			t.Errorf("before the log: %v", err)
		}
		if v, err := p.rewind.At(t.Context(), time.Now().Add(time.Hour)); err != nil || v.Seq != p.fleet.Seq() {
			t.Errorf("after now: record %d, %v", v.Seq, err)
		}
		if err := p.log.Trim(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		check(120)
		if _, err := p.rewind.At(t.Context(), all[90].at); !errors.Is(err, ErrBeyond) {
			t.Errorf("of the trimmed part: %v", err)
		}
	})
}

// TestRewindForgets: states older than a day go, and one that is too large is
// not kept.
func TestRewindForgets(t *testing.T) {
	p := newPast(t)
	p.add(&model.Config{Fleet: "test", Channels: []model.ChannelConfig{{Name: "main"}}})
	now := time.Now()
	for i := range 40 {
		if err := p.rewind.Keep(t.Context(), now.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (n int) {
		if err := p.rewind.store.Samples(kindState, "", 0, 1<<40, func(uint64, []byte) bool { n++; return true }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 25 {
		t.Errorf("%d states of 40 hours, want 25", n)
	}
	big := &model.Config{Fleet: "test"}
	for i := range 20_000 {
		big.Channels = append(big.Channels, model.ChannelConfig{Name: fmt.Sprint("channel-with-a-rather-long-name-", i)})
	}
	var fx model.Effects
	p.fleet.Apply(model.Record{Seq: p.fleet.Seq() + 1, Time: model.Nanos(now.UnixNano()), Fact: big}, &fx)
	if size := len(p.fleet.AppendBinary(nil)); size <= maxState {
		t.Fatalf("the state has %d bytes, too few for this test", size)
	}
	if err := p.rewind.Keep(t.Context(), now.Add(40*time.Hour)); err != nil || count() != 24 {
		t.Errorf("%d states, %v; want one less", count(), err)
	}
}
