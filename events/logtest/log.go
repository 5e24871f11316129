package logtest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"weir/events"
)

func testAppend(t *testing.T, b *Bus) {
	for want := uint64(1); want <= 5; want++ {
		seq, err := b.Log.Append(t.Context(), tick(int(want)))
		if err != nil || seq != want {
			t.Fatalf("Append = %d, %v; want %d", seq, err, want)
		}
	}
	extent(t, b.Log, 1, 5)
	r := read(t, b.Log, 1)
	last := events.Entry{}
	for want := uint64(1); want <= 5; want++ {
		e := next(t, r)
		if e.Seq != want || e.Subject != events.ControlSubject(b.Fleet) || !bytes.Equal(e.Data, tick(int(want))) {
			t.Errorf("entry %d: %+v", want, e)
		}
		if e.Time <= 0 || e.Time < last.Time {
			t.Errorf("entry %d has time %d after %d", want, e.Time, last.Time)
		}
		last = e
	}
	nothing(t, r)
}

func testReadFrom(t *testing.T, b *Bus) {
	appendTicks(t, b.Log, 10)
	if e := next(t, read(t, b.Log, 7)); e.Seq != 7 {
		t.Errorf("read from 7 begins at %d", e.Seq)
	}
	if e := next(t, read(t, b.Log, 0)); e.Seq != 1 {
		t.Errorf("read from 0 begins at %d", e.Seq)
	}
	r := read(t, b.Log, 11)
	nothing(t, r)
	appendTicks(t, b.Log, 1)
	if e := next(t, r); e.Seq != 11 {
		t.Errorf("read from 11 begins at %d", e.Seq)
	}
}

func testReadWaits(t *testing.T, b *Bus) {
	r := read(t, b.Log, 1)
	done := make(chan error, 1)
	go func() {
		for range 3 {
			time.Sleep(20 * time.Millisecond)
			if _, err := b.Log.Append(t.Context(), tick(0)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for want := uint64(1); want <= 3; want++ {
		if e := next(t, r); e.Seq != want {
			t.Errorf("entry %d, want %d", e.Seq, want)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func testReadContext(t *testing.T, b *Bus) {
	r := read(t, b.Log, 1)
	nothing(t, r)
	appendTicks(t, b.Log, 1)
	if e := next(t, r); e.Seq != 1 {
		t.Errorf("after a wait that ended: entry %d", e.Seq)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Next(ctx)
	wantError(t, "Next", err, context.Canceled)
}

func testReadClose(t *testing.T, b *Bus) {
	appendTicks(t, b.Log, 3)
	r := read(t, b.Log, 1)
	next(t, r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := r.Next(t.Context())
	wantError(t, "Next", err, events.ErrClosed)
}

func testAt(t *testing.T, b *Bus) {
	appendTicks(t, b.Log, 3)
	r := read(t, b.Log, 2)
	want := next(t, r)
	got, err := b.Log.At(t.Context(), 2)
	if err != nil || got.Seq != 2 || got.Time != want.Time || got.Subject != want.Subject || !bytes.Equal(got.Data, want.Data) {
		t.Errorf("At(2) = %+v, %v; read gave %+v", got, err, want)
	}
	for _, seq := range []uint64{4, 1 << 40} {
		_, err := b.Log.At(t.Context(), seq)
		wantError(t, "At", err, events.ErrNotFound)
	}
}

func testEmpty(t *testing.T, b *Bus) {
	extent(t, b.Log, 1, 0)
	_, err := b.Log.At(t.Context(), 1)
	wantError(t, "At(1)", err, events.ErrNotFound)
}

func testReanchorForward(t *testing.T, b *Bus) {
	appendTicks(t, b.Log, 3)
	before, err := b.Log.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Log.Reanchor(t.Context(), 1001); err != nil {
		t.Fatal(err)
	}
	extent(t, b.Log, 1001, 1000)
	if after, err := b.Log.Info(t.Context()); err != nil || after.Created != before.Created {
		t.Errorf("created %d, was %d, error %v", after.Created, before.Created, err)
	}
	if seq, err := b.Log.Append(t.Context(), tick(0)); err != nil || seq != 1001 {
		t.Errorf("Append = %d, %v; want 1001", seq, err)
	}
	if e := next(t, read(t, b.Log, 1)); e.Seq != 1001 {
		t.Errorf("first entry %d", e.Seq)
	}
	_, err = b.Log.At(t.Context(), 3)
	wantError(t, "At(3)", err, events.ErrNotFound)
}

func testReanchorBack(t *testing.T, b *Bus) {
	appendTicks(t, b.Log, 10)
	if err := b.Log.Reanchor(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	extent(t, b.Log, 5, 4)
	if seq, err := b.Log.Append(t.Context(), tick(0)); err != nil || seq != 5 {
		t.Errorf("Append = %d, %v; want 5", seq, err)
	}
	extent(t, b.Log, 5, 5)
}

// testReanchorReader anchors a log forward while it is read: the reader goes
// on behind the gap.
func testReanchorReader(t *testing.T, b *Bus) {
	appendTicks(t, b.Log, 3)
	r := read(t, b.Log, 1)
	for range 3 {
		next(t, r)
	}
	if err := b.Log.Reanchor(t.Context(), 1001); err != nil {
		t.Fatal(err)
	}
	appendTicks(t, b.Log, 1)
	if e := next(t, r); e.Seq != 1001 {
		t.Errorf("entry %d after the anchor, want 1001", e.Seq)
	}
}

func testTrim(t *testing.T, b *Bus) {
	appendTicks(t, b.Log, 10)
	for _, before := range []uint64{0, 1, 6} {
		if err := b.Log.Trim(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		extent(t, b.Log, max(before, 1), 10)
	}
	if e := next(t, read(t, b.Log, 2)); e.Seq != 6 {
		t.Errorf("read from 2 begins at %d: the caller sees a gap up to 6", e.Seq)
	}
	if err := b.Log.Trim(t.Context(), 11); err != nil {
		t.Fatal(err)
	}
	extent(t, b.Log, 11, 10)
	if seq, err := b.Log.Append(t.Context(), tick(0)); err != nil || seq != 11 {
		t.Errorf("Append = %d, %v; want 11", seq, err)
	}
}

func testTooLarge(t *testing.T, b *Bus) {
	_, err := b.Log.Append(t.Context(), make([]byte, events.MaxEntry+1))
	wantError(t, "Append", err, events.ErrTooLarge)
	err = b.Writer("a1").Write(t.Context(), make([]byte, events.MaxEntry+1))
	wantError(t, "Write", err, events.ErrTooLarge)
	extent(t, b.Log, 1, 0)
}

func testLargest(t *testing.T, b *Bus) {
	data := bytes.Repeat([]byte{7}, events.MaxEntry)
	if _, err := b.Log.Append(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	if err := b.Writer("a1").Write(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	r := read(t, b.Log, 1)
	for want := uint64(1); want <= 2; want++ {
		if e := next(t, r); e.Seq != want || !bytes.Equal(e.Data, data) {
			t.Errorf("entry %d of %d bytes", e.Seq, len(e.Data))
		}
	}
}

func testWrite(t *testing.T, b *Bus) {
	a1, a2 := b.Writer("a1"), b.Writer("a2")
	for n := uint64(1); n <= 3; n++ {
		if err := a1.Write(t.Context(), report("a1", n)); err != nil {
			t.Fatal(err)
		}
		if err := a2.Write(t.Context(), report("a2", n)); err != nil {
			t.Fatal(err)
		}
	}
	r := read(t, b.Log, 1)
	for n := uint64(1); n <= 3; n++ {
		for _, agent := range []string{"a1", "a2"} {
			e := next(t, r)
			if e.Subject != events.LogSubject(b.Fleet, agent) || !bytes.Equal(e.Data, report(agent, n)) {
				t.Errorf("entry %d on %s, want report %d of %s", e.Seq, e.Subject, n, agent)
			}
		}
	}
	nothing(t, r)
}

// testWriteAgain sends a report again, by the same writer and by one that does
// not know that it was stored.
func testWriteAgain(t *testing.T, b *Bus) {
	w := b.Writer("a1")
	for range 2 {
		if err := w.Write(t.Context(), report("a1", 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Writer("a1").Write(t.Context(), report("a1", 1)); err != nil {
		t.Fatal(err)
	}
	extent(t, b.Log, 1, 1)
	if err := w.Write(t.Context(), report("a1", 2)); err != nil {
		t.Fatal(err)
	}
	extent(t, b.Log, 1, 2)
}

// testWriteAdopts has two processes with one name write in turns.
func testWriteAdopts(t *testing.T, b *Bus) {
	old, young := b.Writer("a1"), b.Writer("a1")
	for n := uint64(1); n <= 3; n++ {
		if err := old.Write(t.Context(), report("a1", n)); err != nil {
			t.Fatal(err)
		}
		if err := young.Write(t.Context(), report("a1", 100+n)); err != nil {
			t.Fatal(err)
		}
	}
	extent(t, b.Log, 1, 6)
}

func testWriteAnchored(t *testing.T, b *Bus) {
	w := b.Writer("a1")
	if err := w.Write(t.Context(), report("a1", 1)); err != nil {
		t.Fatal(err)
	}
	if err := b.Log.Reanchor(t.Context(), 501); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), report("a1", 2)); err != nil {
		t.Fatal(err)
	}
	extent(t, b.Log, 501, 501)
}

func testWriteTrimmed(t *testing.T, b *Bus) {
	w := b.Writer("a1")
	if err := w.Write(t.Context(), report("a1", 1)); err != nil {
		t.Fatal(err)
	}
	appendTicks(t, b.Log, 2)
	if err := b.Log.Trim(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), report("a1", 2)); err != nil {
		t.Fatal(err)
	}
	extent(t, b.Log, 3, 4)
}

func testLoad(t *testing.T, b *Bus) {
	l, ok := b.Log.(events.Loader)
	if !ok {
		t.Skip("the log takes no entries of others")
	}
	if err := b.Log.Reanchor(t.Context(), 40); err != nil {
		t.Fatal(err)
	}
	e := events.Entry{Seq: 40, Time: 1, Subject: events.LogSubject(b.Fleet, "a1"), Data: report("a1", 9)}
	if err := l.Load(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	wantError(t, "Load of the same", l.Load(t.Context(), e), events.ErrConflict)
	e.Seq = 42
	wantError(t, "Load beyond a gap", l.Load(t.Context(), e), events.ErrConflict)
	got, err := b.Log.At(t.Context(), 40)
	if err != nil || got.Subject != e.Subject || !bytes.Equal(got.Data, e.Data) {
		t.Errorf("At(40) = %+v, %v", got, err)
	}
	if err := b.Writer("a1").Write(t.Context(), report("a1", 10)); err != nil {
		t.Error(err)
	}
	extent(t, b.Log, 40, 41)
}

// testCanceled wants an error, and nothing stored, from calls whose context
// has ended.
func testCanceled(t *testing.T, b *Bus) {
	appendTicks(t, b.Log, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func() error{
		"append":   func() error { _, err := b.Log.Append(ctx, tick(1)); return err },
		"at":       func() error { _, err := b.Log.At(ctx, 1); return err },
		"info":     func() error { _, err := b.Log.Info(ctx); return err },
		"read":     func() error { _, err := b.Log.Read(ctx, 1); return err },
		"reanchor": func() error { return b.Log.Reanchor(ctx, 9) },
		"trim":     func() error { return b.Log.Trim(ctx, 2) },
		"write":    func() error { return b.Writer("a1").Write(ctx, report("a1", 1)) },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v; want %v", name, err, context.Canceled)
		}
	}
	extent(t, b.Log, 1, 1)
}

// testTorn stores bytes that are no fact: the log keeps them, the reader of
// facts counts them.
func testTorn(t *testing.T, b *Bus) {
	whole := report("a1", 1)
	if err := b.Writer("a1").Write(t.Context(), whole[:len(whole)-3]); err != nil {
		t.Fatal(err)
	}
	appendTicks(t, b.Log, 1)
	r := read(t, b.Log, 1)
	d := events.NewDecoder()
	rec, err := d.Record(next(t, r))
	if fault := (*events.DecodeError)(nil); !errors.As(err, &fault) || rec.Seq != 1 || rec.Fact != nil {
		t.Errorf("torn entry: %+v, %v", rec, err)
	}
	if rec, err := d.Record(next(t, r)); err != nil || rec.Seq != 2 || rec.Fact == nil {
		t.Errorf("entry behind it: %+v, %v", rec, err)
	}
}
