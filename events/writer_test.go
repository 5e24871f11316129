package events_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"weir/events"
)

var errLost = errors.New("lost")

// fickle is a subject that loses messages and answers as it is told to.
type fickle struct {
	entries []events.Entry
	next    uint64
	fate    func() string
}

func (f *fickle) end() uint64 {
	if len(f.entries) == 0 {
		return 0
	}
	return f.entries[len(f.entries)-1].Seq
}

func (f *fickle) store(data []byte) uint64 {
	f.next += 3 // others write too
	f.entries = append(f.entries, events.Entry{Seq: f.next, Data: bytes.Clone(data)})
	return f.next
}

// Append implements events.Tail.
func (f *fickle) Append(_ context.Context, data []byte, last uint64) (uint64, error) {
	fate := f.fate()
	if fate == "lost" {
		return 0, errLost
	}
	if fate == "trimmed" {
		f.entries = nil
	}
	if fate == "other" {
		f.store([]byte("another process"))
	}
	if last != f.end() {
		return 0, events.ErrConflict
	}
	if fate == "full" {
		return 0, events.ErrFull
	}
	seq := f.store(data)
	if fate == "no answer" {
		return 0, errLost
	}
	return seq, nil
}

// Last implements events.Tail.
func (f *fickle) Last(context.Context) (events.Entry, error) {
	if f.fate() == "lost" {
		return events.Entry{}, errLost
	}
	if len(f.entries) == 0 {
		return events.Entry{}, events.ErrNotFound
	}
	return f.entries[len(f.entries)-1], nil
}

// TestWriter writes reports, again and again where Write fails: whatever is
// lost on the way, each is stored once and in order.
func TestWriter(t *testing.T) {
	fates := []string{"", "", "", "lost", "no answer", "other", "full"}
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			f := &fickle{fate: func() string { return rapid.SampledFrom(fates).Draw(t, "fate") }}
			w := events.NewWriter(f)
			for n := range 20 {
				report := []byte{'r', byte(n)}
				tries := 0
				for w.Write(context.Background(), report) != nil {
					if tries++; tries == 10 {
						f.fate = func() string { return "" }
					}
				}
				if rapid.Bool().Draw(t, "again") {
					if err := w.Write(context.Background(), report); err != nil && f.end() == 0 {
						t.Fatal(err)
					}
				}
				if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
					w = events.NewWriter(f)
				}
			}
			next := 0
			for _, e := range f.entries {
				if e.Data[0] != 'r' {
					continue
				}
				if int(e.Data[1]) != next {
					t.Fatalf("report %d where %d is due", e.Data[1], next)
				}
				next++
			}
			if next != 20 {
				t.Fatalf("%d reports of 20", next)
			}
		})
	})
}

// TestWriterTrimmed loses the subject's entries to a trim between two reports.
func TestWriterTrimmed(t *testing.T) {
	fate := ""
	f := &fickle{fate: func() string { return fate }}
	w := events.NewWriter(f)
	if err := w.Write(t.Context(), []byte("one")); err != nil {
		t.Fatal(err)
	}
	fate = "trimmed"
	if err := w.Write(t.Context(), []byte("two")); err != nil {
		t.Fatal(err)
	}
	if len(f.entries) != 1 || string(f.entries[0].Data) != "two" {
		t.Errorf("%v", f.entries)
	}
}

// TestWriterGivesUp writes against a process that is always first.
func TestWriterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fickle{fate: func() string { return "other" }}
		if err := events.NewWriter(f).Write(t.Context(), []byte("one")); !errors.Is(err, events.ErrConflict) {
			t.Errorf("Write = %v", err)
		}
		f.fate = func() string { return "full" }
		if err := events.NewWriter(f).Write(t.Context(), []byte("one")); !errors.Is(err, events.ErrFull) {
			t.Errorf("Write = %v", err)
		}
	})
}
