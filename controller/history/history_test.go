package history

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weir/controller/store"
	"weir/model"
)

// fleet is one whose channels a test sets.
type fleet struct{ view model.FleetView }

func (f *fleet) look(context.Context) (model.FleetView, error) { return f.view, nil }

func recorder(t *testing.T, dir string, f *fleet) *Recorder {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	})
	return New(s, f.look, nil)
}

func channel(name string, ok uint64) model.FleetChannel {
	c := model.FleetChannel{Name: name, Window: 12_500, Leased: 12, InFlight: 9, Weight: 700_000, State: model.BreakerOpen, Epoch: 3}
	c.Counts[model.ClassOK] = ok
	c.Counts[model.ClassRateLimited] = 2
	c.Counts[model.ClassOverloaded] = 3
	c.Counts[model.ClassTransport] = 4
	c.Counts[model.ClassInvalid] = 5
	return c
}

// TestHistoryOfADay records more than a day and reads it back after a restart.
func TestHistoryOfADay(t *testing.T) {
	dir := t.TempDir()
	f := &fleet{}
	r := recorder(t, dir, f)
	now := time.Now().Truncate(time.Minute)
	start := now.Add(-26 * time.Hour)
	steps := 0
	for at := start; !at.After(now); at = at.Add(Fine) {
		steps++
		f.view.Channels = []model.FleetChannel{channel("a", uint64(steps)), channel("b", 1)}
		if err := r.Record(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		if err := r.Record(t.Context(), at.Add(time.Second)); err != nil { // the same step
			t.Fatal(err)
		}
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	r = recorder(t, dir, f)

	hour, err := r.Points("a", now.Add(-time.Hour), now)
	if err != nil || len(hour) != 361 {
		t.Fatalf("an hour has %d points, %v", len(hour), err)
	}
	want := Point{
		Unix: now.Unix(), Window: 12_500, Leased: 12, InFlight: 9, Weight: 700_000, Breaker: model.BreakerOpen, Epoch: 3,
		OK: int64(steps), Refused: 5, Failed: 4, Mistaken: 5,
	}
	if d := cmp.Diff(want, hour[360]); d != "" {
		t.Errorf("the newest point (-want +got):\n%s", d)
	}
	day, err := r.Points("a", now.Add(-23*time.Hour), now)
	if err != nil || len(day) > MaxPoints || len(day) < MaxPoints/2 {
		t.Errorf("a day has %d points, %v", len(day), err)
	}
	all, err := r.Points("a", start, now)
	if err != nil || len(all) != 26*60+1 {
		t.Errorf("all has %d points, want one a minute: %v", len(all), err)
	}
	n := 0
	if err := r.store.Samples(kindFine, "b", 0, ^uint64(0), func(uint64, []byte) bool { n++; return true }); err != nil {
		t.Fatal(err)
	}
	if most := int((KeepFine + trimEvery) / Fine); n > most+1 {
		t.Errorf("%d fine points are kept, at most %d", n, most)
	}
	if none, err := r.Points("c", start, now); err != nil || len(none) != 0 {
		t.Errorf("an unknown channel: %v, %v", none, err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	f := &fleet{}
	r := recorder(t, t.TempDir(), f)
	for i := range MaxChannels + 5 {
		f.view.Channels = append(f.view.Channels, channel(fmt.Sprintf("c%05d", i), 1))
	}
	now := time.Now()
	if err := r.Record(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"c00999": 1, "c01000": 0} {
		if p, err := r.Points(name, now.Add(-time.Minute), now); err != nil || len(p) != want {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

func TestPointIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Point
		for _, f := range p.fields() {
			*f = rapid.Int64().Draw(t, "n")
		}
		data := p.append(nil)
		if got, ok := parsePoint(data); !ok || got != p {
			t.Fatalf("%+v became %+v", p, got)
		}
		if got, ok := parsePoint(append(data, 2)); !ok || got != p {
			t.Fatalf("with one number more %+v became %+v", p, got)
		}
		parsePoint(data[:rapid.IntRange(0, len(data)).Draw(t, "cut")]) // must not fail
	})
}
