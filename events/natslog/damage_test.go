package natslog_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"weir/events"
	"weir/events/journal"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
)

// reopen starts a stopped server and opens its log.
func reopen(t testing.TB, s *natstest.Server) *natslog.Log {
	t.Helper()
	s.Restart(t)
	return openLog(t, s, natslog.LogOptions{})
}

// appendN appends n entries of that size and returns the last sequence.
func appendN(t testing.TB, l events.Log, n, size int) uint64 {
	t.Helper()
	var last uint64
	for i := range n {
		data := bytes.Repeat([]byte{byte(i)}, size)
		seq, err := l.Append(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		last = seq
	}
	return last
}

func info(t testing.TB, l events.Log) events.Info {
	t.Helper()
	i, err := l.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func at(t testing.TB, l events.Log, seq uint64) events.Entry {
	t.Helper()
	e, err := l.At(t.Context(), seq)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// sequences reads from a sequence on up to last, and what else is there then.
func sequences(t testing.TB, l events.Log, from, last uint64) []uint64 {
	t.Helper()
	r, err := l.Read(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var got []uint64
	for {
		patience := 300 * time.Millisecond
		if from <= last {
			patience = 30 * time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		e, err := r.Next(ctx)
		cancel()
		if err != nil {
			return got
		}
		got = append(got, e.Seq)
		from = e.Seq + 1
	}
}

// TestShortened loses the end of the log, as a loss of power does. Info shows
// it when the fold is ahead; a reader would skip what comes next.
func TestShortened(t *testing.T) {
	s := natstest.Start(t, nil)
	l := openLog(t, s, natslog.LogOptions{})
	folded := appendN(t, l, 100, 1000)
	before := info(t, l)
	s.Stop()
	natstest.CutTail(t, s.Blocks(t, stream)[0], 10_500)
	s.Forget(t, stream)
	l = reopen(t, s)

	after := info(t, l)
	if after.Last >= folded || after.Last < 80 || after.Created != before.Created {
		t.Fatalf("after the cut: %+v; before: %+v", after, before)
	}
	if _, err := l.At(t.Context(), folded); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("At(folded) = %v; want %v", err, events.ErrNotFound)
	}
	if seq := appendN(t, l, 1, 10); seq != after.Last+1 {
		t.Errorf("next sequence %d: those lost are used again from %d", seq, after.Last+1)
	}
	if got := sequences(t, l, folded+1, 0); len(got) != 0 {
		t.Errorf("a reader behind the end gets %v", got)
	}
	if err := l.Reanchor(t.Context(), folded+1); err != nil {
		t.Fatal(err)
	}
	if seq := appendN(t, l, 1, 10); seq != folded+1 {
		t.Errorf("after reanchor: %d, want %d", seq, folded+1)
	}
	if got := sequences(t, l, folded+1, folded+1); len(got) != 1 || got[0] != folded+1 {
		t.Errorf("after reanchor a reader gets %v", got)
	}
}

// TestFlippedLast turns one bit of the last block: its entries from there on
// are gone without a word.
func TestFlippedLast(t *testing.T) {
	s := natstest.Start(t, nil)
	l := openLog(t, s, natslog.LogOptions{})
	folded := appendN(t, l, 100, 1000)
	s.Stop()
	natstest.FlipBit(t, s.Blocks(t, stream)[0], 50_000)
	s.Forget(t, stream)
	if after := info(t, reopen(t, s)); after.Last >= folded && after.Missing == 0 {
		t.Errorf("a flipped bit shows nowhere: %+v", after)
	}
}

// TestHoled turns one bit of an older block: the entries behind it in that
// block are gone, a reader jumps over them, Info counts them.
func TestHoled(t *testing.T) {
	s := natstest.Start(t, nil)
	l := openLog(t, s, natslog.LogOptions{})
	last := appendN(t, l, 40, 900_000)
	s.Stop()
	blocks := s.Blocks(t, stream)
	if len(blocks) < 3 {
		t.Fatalf("%d blocks", len(blocks))
	}
	natstest.FlipBit(t, blocks[1], 2_000_000)
	s.Forget(t, stream)
	l = reopen(t, s)

	after := info(t, l)
	if after.First != 1 || after.Last != last || after.Missing == 0 {
		t.Fatalf("Info = %+v; want a hole between 1 and %d", after, last)
	}
	got := sequences(t, l, 1, last)
	var gaps uint64
	for i := 1; i < len(got); i++ {
		gaps += got[i] - got[i-1] - 1
	}
	if gaps != after.Missing || got[len(got)-1] != last {
		t.Errorf("read %v, %d missing; Info says %d", got, gaps, after.Missing)
	}
	w, err := journal.NewWriter(io.Discard, journal.Header{Fleet: fleet})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := journal.Export(t.Context(), l, w, 0, 0, nil); err != nil || done.Missing != gaps || done.Last != last {
		t.Errorf("Export = %+v, %v", done, err)
	}
	for seq := uint64(1); seq <= last; seq++ {
		if _, err := l.At(t.Context(), seq); err != nil && !errors.Is(err, events.ErrNotFound) {
			t.Errorf("At(%d) = %v", seq, err)
		}
	}
}

// TestRewound puts an older copy of the store in place and goes on: the log is
// as long again, and only its entries tell that they are others.
func TestRewound(t *testing.T) {
	s := natstest.Start(t, nil)
	l := openLog(t, s, natslog.LogOptions{})
	appendN(t, l, 10, 100)
	s.Stop()
	saved := s.Save(t)
	l = reopen(t, s)
	folded := at(t, l, appendN(t, l, 10, 100))
	before := info(t, l)
	s.Stop()
	s.Restore(t, saved)
	l = reopen(t, s)
	appendN(t, l, 30, 100)

	after := info(t, l)
	if after.Created != before.Created || after.Last <= folded.Seq || after.Missing != 0 {
		t.Fatalf("Info = %+v, before %+v", after, before)
	}
	if e := at(t, l, folded.Seq); e.Time == folded.Time {
		t.Errorf("entry %d has the time of the one that was lost", e.Seq)
	}
}

// TestReplaced takes another store: it was created at another time.
func TestReplaced(t *testing.T) {
	s := natstest.Start(t, nil)
	l := openLog(t, s, natslog.LogOptions{})
	appendN(t, l, 10, 100)
	before := info(t, l)
	if err := l.Reanchor(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	if after := info(t, l); after.Created == before.Created || after.First != 5 || after.Last != 4 {
		t.Errorf("Info = %+v, before %+v", after, before)
	}
}
