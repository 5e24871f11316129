package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"weir/events"
	"weir/events/journal"
	"weir/events/memlog"
	"weir/model"
)

var header = journal.Header{Fleet: "f", Created: 1_790_000_000_000_000_000}

// whole compares data at once: element by element takes seconds.
var whole = cmp.Comparer(bytes.Equal)

// entry returns a distinct entry of some 100 bytes.
func entry(seq uint64) events.Entry {
	return events.Entry{
		Seq: seq, Time: model.Nanos(seq) * model.Second, Subject: events.LogSubject("f", fmt.Sprint("a", seq%3)),
		Data: bytes.Repeat([]byte{byte(seq)}, 100),
	}
}

// write returns a journal of entries, closed or not.
func write(t testing.TB, closed bool, list ...events.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := journal.NewWriter(&b, header)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if closed {
		err = w.Close()
	} else {
		err = w.Flush()
	}
	if err != nil || w.Size() != int64(b.Len()) {
		t.Fatalf("size %d, wrote %d, error %v", w.Size(), b.Len(), err)
	}
	return b.Bytes()
}

func entries(from, to uint64) []events.Entry {
	var list []events.Entry
	for seq := from; seq <= to; seq++ {
		list = append(list, entry(seq))
	}
	return list
}

// read returns what a reader makes of bytes; a reader that cannot begin is nil.
func read(r io.Reader) ([]events.Entry, *journal.Reader, error) {
	j, err := journal.NewReader(r)
	if err != nil {
		return nil, nil, err
	}
	var list []events.Entry
	for {
		e, err := j.Next()
		if errors.Is(err, io.EOF) {
			return list, j, nil
		}
		if err != nil {
			return list, j, err
		}
		e.Data = bytes.Clone(e.Data)
		list = append(list, e)
	}
}

func TestRoundTrip(t *testing.T) {
	want := slices.Concat(entries(41, 60), entries(70, 75)) // with a gap
	want[3].Data = bytes.Repeat([]byte{9}, events.MaxEntry)
	want[4].Time = -5
	data := write(t, true, want...)
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(data), "by bytes": iotest.OneByteReader(bytes.NewReader(data))} {
		got, j, err := read(r)
		if err != nil || !j.Complete() || j.Dropped() != 0 || j.Header() != header || j.Offset() != int64(len(data)) {
			t.Fatalf("%s: complete %v, dropped %d, offset %d of %d, header %+v, error %v", name, j.Complete(), j.Dropped(), j.Offset(), len(data), j.Header(), err)
		}
		if diff := cmp.Diff(want, got, whole); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestTorn cuts a journal at every byte: whole entries before the cut are
// read, the rest is counted.
func TestTorn(t *testing.T) {
	want := entries(1, 4)
	ends := []int64{}
	for n := range len(want) + 1 {
		ends = append(ends, int64(len(write(t, false, want[:n]...))))
	}
	data := write(t, true, want...)
	for size := range len(data) {
		got, j, err := read(bytes.NewReader(data[:size]))
		if int64(size) < ends[0] {
			if fault := (*journal.CorruptError)(nil); !errors.As(err, &fault) {
				t.Errorf("cut to %d: %v", size, err)
			}
			continue
		}
		n := 0
		for n < len(want) && ends[n+1] <= int64(size) {
			n++
		}
		if err != nil || len(got) != n || j.Complete() || j.Dropped() != int64(size)-ends[n] {
			t.Errorf("cut to %d: %d entries, want %d; complete %v, dropped %d, error %v", size, len(got), n, j.Complete(), j.Dropped(), err)
		}
	}
}

// TestZeros ends a journal in zeros, as file systems do.
func TestZeros(t *testing.T) {
	data := write(t, false, entries(1, 3)...)
	for _, n := range []int{1, 11, 12, 13, 100_000} {
		got, j, err := read(bytes.NewReader(slices.Concat(data, make([]byte, n))))
		if err != nil || len(got) != 3 || j.Dropped() != int64(n) {
			t.Errorf("%d zeros: %d entries, dropped %d, error %v", n, len(got), j.Dropped(), err)
		}
	}
	if _, _, err := read(bytes.NewReader(slices.Concat(data, make([]byte, 50), []byte{1}))); err == nil {
		t.Error("zeros with something behind them are no damage")
	}
}

// TestDamage flips every bit but those of the last frame: an error that names
// the frame's place, and the entries before it.
func TestDamage(t *testing.T) {
	want := entries(1, 4)
	data := write(t, false, want...)
	lastFrame := len(write(t, false, want[:3]...))
	for i := range lastFrame {
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			got, j, err := read(bytes.NewReader(bad))
			fault := (*journal.CorruptError)(nil)
			if !errors.As(err, &fault) || fault.Offset > int64(i) || fault.Reason == "" {
				t.Fatalf("bit %d of byte %d: %d entries, error %v", bit, i, len(got), err)
			}
			if len(got) > 0 && !cmp.Equal(got, want[:len(got)], whole) {
				t.Errorf("bit %d of byte %d: entries differ", bit, i)
			}
			if j != nil {
				if _, again := j.Next(); !errors.Is(again, err) {
					t.Errorf("Next after damage = %v", again)
				}
			}
		}
	}
}

// TestLostFrame takes a whole frame out of the middle of a closed journal: the
// gap shows in the sequences, and the end's count does not fit.
func TestLostFrame(t *testing.T) {
	want := entries(1, 4)
	data := write(t, true, want...)
	a, b := len(write(t, false, want[:1]...)), len(write(t, false, want[:2]...))
	got, _, err := read(bytes.NewReader(slices.Concat(data[:a], data[b:])))
	if len(got) != 3 || err == nil {
		t.Errorf("%d entries, %v", len(got), err)
	}
	if _, _, err := read(bytes.NewReader(slices.Concat(data, data[a:b]))); err == nil {
		t.Error("a frame behind the end is taken")
	}
	if _, _, err := read(bytes.NewReader(slices.Concat(data[:b], data[a:b]))); err == nil {
		t.Error("an entry that comes twice is taken")
	}
}

func TestWriteRefuses(t *testing.T) {
	if _, err := journal.NewWriter(io.Discard, journal.Header{Fleet: "a b"}); err == nil {
		t.Error("a fleet with a space is taken")
	}
	w, err := journal.NewWriter(io.Discard, header)
	if err != nil {
		t.Fatal(err)
	}
	large := entry(5)
	large.Data = make([]byte, events.MaxEntry+1)
	if err := w.Write(large); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if err := w.Write(entry(5)); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{0, 4, 5} {
		if err := w.Write(entry(seq)); !errors.Is(err, journal.ErrOrder) {
			t.Errorf("entry %d after 5: %v", seq, err)
		}
	}
}

// TestRebase begins a journal with a state larger than a log takes.
func TestRebase(t *testing.T) {
	want := &model.Rebase{Term: 3, Snapshot: bytes.Repeat([]byte("state"), 1<<20), Reason: "export"}
	var b bytes.Buffer
	w, err := journal.NewWriter(&b, header)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteRebase(99, 7, want); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(entry(100)); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteRebase(101, 8, want); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("a large rebase that is not the first: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	list, j, err := read(&b)
	if err != nil || len(list) != 2 || !j.Complete() {
		t.Fatalf("%d entries, %v", len(list), err)
	}
	rec, err := events.NewDecoder().Record(list[0])
	if err != nil || rec.Seq != 99 || rec.Time != 7 {
		t.Fatalf("%+v, %v", rec, err)
	}
	if diff := cmp.Diff(model.Fact(want), rec.Fact, whole); diff != "" {
		t.Error(diff)
	}
}

func TestFailingReaderAndWriter(t *testing.T) {
	broken := errors.New("broken")
	data := write(t, true, entries(1, 3)...)
	r := io.MultiReader(bytes.NewReader(data[:200]), iotest.ErrReader(broken))
	if _, _, err := read(r); !errors.Is(err, broken) {
		t.Errorf("read: %v", err)
	}
	w, err := journal.NewWriter(failing{broken}, header)
	if err == nil {
		err = w.Close()
	}
	if !errors.Is(err, broken) {
		t.Errorf("write: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// fill returns a log with ticks and reports.
func fill(t *testing.T, fleet string, n int) events.Loader {
	t.Helper()
	b := memlog.New(fleet, memlog.Options{})
	l, w := b.Log(), b.Writer("a1")
	for i := range n {
		var err error
		if i%2 == 0 {
			_, err = l.Append(t.Context(), events.Encode(nil, &model.Tick{Term: 1, Elapsed: model.Nanos(i)}))
		} else {
			err = w.Write(t.Context(), events.Encode(nil, &model.Attempts{Source: model.Source{Agent: "a1", Boot: 1, Seq: uint64(i), Span: 1}}))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestExportImport(t *testing.T) {
	from := fill(t, "f", 20)
	if err := from.Trim(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := journal.NewWriter(&b, header)
	if err != nil {
		t.Fatal(err)
	}
	var told []uint64
	done, err := journal.Export(t.Context(), from, w, 0, 0, func(n, of uint64) { told = append(told, n, of) })
	if want := (journal.Result{Entries: 15, First: 6, Last: 20}); err != nil || done != want {
		t.Fatalf("Export = %+v, %v; want %+v", done, err, want)
	}
	if len(told) != 30 || told[28] != 15 || told[29] != 15 {
		t.Errorf("progress %v", told)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	bus := memlog.New("g", memlog.Options{})
	to := bus.Log()
	r, err := journal.NewReader(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if done, err = journal.Import(t.Context(), r, to, "g", nil); err != nil || done.Entries != 15 || !r.Complete() {
		t.Fatalf("Import = %+v, %v", done, err)
	}
	for seq := uint64(6); seq <= 20; seq++ {
		want, err := from.At(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		want.Subject = strings.Replace(want.Subject, "weir.f.", "weir.g.", 1)
		got, err := to.At(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, whole); diff != "" {
			t.Errorf("entry %d: %s", seq, diff)
		}
	}
	if info, err := to.Info(t.Context()); err != nil || info.First != 6 || info.Last != 20 {
		t.Errorf("Info = %+v, %v", info, err)
	}
}

func TestExportRange(t *testing.T) {
	l := fill(t, "f", 20)
	if err := l.Trim(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	w, err := journal.NewWriter(io.Discard, header)
	if err != nil {
		t.Fatal(err)
	}
	if done, err := journal.Export(t.Context(), l, w, 8, 10, nil); err != nil || done != (journal.Result{Entries: 3, First: 8, Last: 10}) {
		t.Errorf("Export = %+v, %v", done, err)
	}
	for _, r := range [][2]uint64{{3, 8}, {8, 30}} {
		if _, err := journal.Export(t.Context(), l, w, r[0], r[1], nil); !errors.Is(err, events.ErrNotFound) {
			t.Errorf("export of %v: %v", r, err)
		}
	}
	empty := memlog.New("f", memlog.Options{}).Log()
	if done, err := journal.Export(t.Context(), empty, w, 0, 0, nil); err != nil || done.Entries != 0 {
		t.Errorf("export of nothing: %+v, %v", done, err)
	}
}

func TestImportRefuses(t *testing.T) {
	open := func(list ...events.Entry) *journal.Reader {
		r, err := journal.NewReader(bytes.NewReader(write(t, true, list...)))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	full := fill(t, "f", 5)
	if _, err := journal.Import(t.Context(), open(entries(9, 12)...), full, "", nil); !errors.Is(err, events.ErrConflict) {
		t.Errorf("behind a gap: %v", err)
	}
	if done, err := journal.Import(t.Context(), open(entries(6, 8)...), full, "", nil); err != nil || done.Last != 8 {
		t.Errorf("right behind the log: %+v, %v", done, err)
	}
	gap := slices.Concat(entries(1, 2), entries(4, 5))
	if done, err := journal.Import(t.Context(), open(gap...), memlog.New("f", memlog.Options{}).Log(), "", nil); !errors.Is(err, journal.ErrOrder) || done.Last != 2 {
		t.Errorf("with a gap: %+v, %v", done, err)
	}
	foreign := entry(1)
	foreign.Subject = "orders.new"
	if _, err := journal.Import(t.Context(), open(foreign), memlog.New("f", memlog.Options{}).Log(), "f", nil); err == nil {
		t.Error("a foreign subject is taken")
	}
}

// FuzzJournal reads anything, and writes what it read again.
func FuzzJournal(f *testing.F) {
	f.Add(write(f, true, entries(1, 3)...))
	f.Add(write(f, false, entries(7, 9)...))
	f.Add(write(f, true))
	f.Add(append(write(f, false, entries(1, 1)...), make([]byte, 40)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, j, err := read(bytes.NewReader(data))
		if j == nil {
			if fault := (*journal.CorruptError)(nil); !errors.As(err, &fault) {
				t.Fatalf("no reader, error %v", err)
			}
			return
		}
		if err == nil && j.Offset()+j.Dropped() != int64(len(data)) {
			t.Fatalf("read %d, dropped %d, of %d bytes", j.Offset(), j.Dropped(), len(data))
		}
		var b bytes.Buffer
		w, err := journal.NewWriter(&b, j.Header())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if err := w.Write(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		again, j, err := read(&b)
		if err != nil || !j.Complete() {
			t.Fatal(err)
		}
		if diff := cmp.Diff(list, again, whole); diff != "" {
			t.Fatal(diff)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	w, err := journal.NewWriter(io.Discard, header)
	if err != nil {
		b.Fatal(err)
	}
	e := entry(1)
	e.Data = make([]byte, 3600)
	b.SetBytes(int64(len(e.Data)))
	for b.Loop() {
		e.Seq++
		if err := w.Write(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	e := entry(1)
	e.Data = make([]byte, 3600)
	var list []events.Entry
	for range 1000 {
		e.Seq++
		list = append(list, e)
	}
	data := write(b, true, list...)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		j, err := journal.NewReader(bytes.NewReader(data))
		for err == nil {
			_, err = j.Next()
		}
		if !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
}
