package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"weir/events"
	"weir/model"
)

// Reader reads a journal. It belongs to one goroutine.
type Reader struct {
	r       *bufio.Reader
	header  Header
	body    []byte
	offset  int64 // where the next frame begins
	entries uint64
	last    uint64

	err      error // what ended it, io.EOF included
	complete bool
	dropped  int64
}

// NewReader begins to read a journal. The error is a *CorruptError when r is
// none, or one that ends within its first frame.
func NewReader(r io.Reader) (*Reader, error) {
	j := &Reader{r: bufio.NewReaderSize(r, 64<<10)}
	if err := j.begin(); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return j, nil
}

func (j *Reader) begin() error {
	start := make([]byte, len(magic))
	n, err := io.ReadFull(j.r, start)
	switch {
	case err != nil && !torn(err):
		return err
	case err != nil || string(start[:len(magic)-1]) != magic[:len(magic)-1]:
		return &CorruptError{Reason: fmt.Sprintf("it does not begin as a journal but %q", start[:n])}
	case start[len(magic)-1] != magic[len(magic)-1]:
		return &CorruptError{Reason: fmt.Sprintf("its version is %d, this program reads %d", start[len(magic)-1], magic[len(magic)-1])}
	}
	j.offset = int64(len(magic))
	body, err := j.frame()
	if errors.Is(err, io.EOF) {
		return j.corrupt("it ends within its first frame")
	}
	if err != nil {
		return err
	}
	f := fields{rest: body}
	kind := f.octet()
	j.header.Fleet = f.text()
	j.header.Created = model.Nanos(f.varint())
	if f.bad || kind != bodyHeader || events.CheckFleet(j.header.Fleet) != nil {
		return j.corrupt("its first frame is no header")
	}
	return nil
}

// Header returns what the journal is of.
func (j *Reader) Header() Header { return j.header }

// Complete reports whether the journal was read to its end and was closed by
// its writer.
func (j *Reader) Complete() bool { return j.complete }

// Dropped returns how many bytes at the end were no whole frame; known once
// Next returned io.EOF.
func (j *Reader) Dropped() int64 { return j.dropped }

// Offset returns how many bytes were read as whole frames.
func (j *Reader) Offset() int64 { return j.offset }

// Next returns the next entry, io.EOF after the last one, or a *CorruptError.
// The entry's data is good until the next call.
func (j *Reader) Next() (events.Entry, error) {
	for j.err == nil {
		begin := j.offset
		body, err := j.frame()
		if err != nil {
			j.err = err
			break
		}
		switch body[0] {
		case bodyEntry:
			e, err := j.entry(body)
			if err != nil {
				j.err = &CorruptError{Offset: begin, Reason: err.Error()}
				break
			}
			return e, nil
		case bodyEnd:
			j.err = j.end(body, begin)
		case bodyHeader, 0:
			j.err = &CorruptError{Offset: begin, Reason: fmt.Sprintf("a frame of kind %d", body[0])}
		}
	}
	return events.Entry{}, j.err
}

func (j *Reader) entry(body []byte) (events.Entry, error) {
	f := fields{rest: body[1:]}
	e := events.Entry{Seq: f.uvarint(), Time: model.Nanos(f.varint()), Subject: f.text(), Data: f.rest}
	switch {
	case f.bad:
		return e, errors.New("an entry is cut short")
	case e.Seq == 0 || j.entries > 0 && e.Seq <= j.last:
		return e, fmt.Errorf("entry %d follows %d", e.Seq, j.last)
	case len(e.Data) > sizeLimit(j.entries == 0, e.Data):
		return e, fmt.Errorf("entry %d has %d bytes", e.Seq, len(e.Data))
	}
	j.entries++
	j.last = e.Seq
	return e, nil
}

// end checks the last frame and that nothing follows.
func (j *Reader) end(body []byte, begin int64) error {
	f := fields{rest: body[1:]}
	if n := f.uvarint(); f.bad || n != j.entries {
		return &CorruptError{Offset: begin, Reason: fmt.Sprintf("its end counts %d entries, it has %d", n, j.entries)}
	}
	if _, err := j.r.Peek(1); err == nil {
		return j.corrupt("something follows its end")
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read journal: %w", err)
	}
	j.complete = true
	return io.EOF
}

func (j *Reader) corrupt(reason string) error { return &CorruptError{Offset: j.offset, Reason: reason} }

// frame reads the next frame and returns its body, io.EOF when the rest is
// nothing or torn.
func (j *Reader) frame() ([]byte, error) {
	var head [headSize]byte
	n, err := io.ReadFull(j.r, head[:])
	if err != nil {
		return nil, j.tornAt(int64(n), err)
	}
	size := binary.LittleEndian.Uint32(head[0:])
	if crc32.Checksum(head[:8], table) != binary.LittleEndian.Uint32(head[8:]) {
		return nil, j.zerosFrom(head[:])
	}
	if size == 0 || size > j.largest() {
		return nil, j.corrupt(fmt.Sprintf("a frame of %d bytes", size))
	}
	if err := j.read(int(size)); err != nil {
		return nil, j.tornAt(headSize+int64(len(j.body)), err)
	}
	if crc32.Checksum(j.body, table) != binary.LittleEndian.Uint32(head[4:]) {
		if _, err := j.r.Peek(1); errors.Is(err, io.EOF) {
			return nil, j.tornAt(headSize+int64(size), err) // the last one, not all of which was written
		}
		return nil, j.corrupt("a frame whose checksum does not match")
	}
	j.offset += headSize + int64(size)
	return j.body, nil
}

// largest is the largest body that may come next.
func (j *Reader) largest() uint32 {
	if j.entries == 0 {
		return events.MaxSnapshot + maxBeside
	}
	return events.MaxEntry + maxBeside
}

// chunk is how much of a body is read before more memory is made: a length may
// be a lie.
const chunk = 256 << 10

// read reads a body of that size, in part when it ends before.
func (j *Reader) read(size int) error {
	j.body = j.body[:0]
	for len(j.body) < size {
		from := len(j.body)
		step := min(size-from, chunk)
		j.body = slices.Grow(j.body, step)[:from+step]
		n, err := io.ReadFull(j.r, j.body[from:])
		if err != nil {
			j.body = j.body[:from+n]
			return err
		}
	}
	return nil
}

// tornAt notes that the rest, of which that much was read, is no whole frame.
func (j *Reader) tornAt(read int64, err error) error {
	if !torn(err) {
		return fmt.Errorf("read journal: %w", err)
	}
	j.dropped = read
	return io.EOF
}

func torn(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// zerosFrom takes a rest of nothing but zeros, which a file system leaves
// after a crash, for a torn end, and anything else for damage.
func (j *Reader) zerosFrom(head []byte) error {
	read := int64(len(head))
	zero := allZero(head)
	for buf := make([]byte, 32<<10); zero; {
		n, err := j.r.Read(buf)
		zero = allZero(buf[:n])
		read += int64(n)
		if err != nil && zero {
			return j.tornAt(read, err)
		}
	}
	return j.corrupt("a frame whose head is damaged")
}

func allZero(b []byte) bool { return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) }

// fields takes a body apart. bad is set once something is missing.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) octet() byte {
	if len(f.rest) == 0 {
		f.bad = true
		return 0
	}
	c := f.rest[0]
	f.rest = f.rest[1:]
	return c
}

func (f *fields) uvarint() uint64 {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.rest, f.bad = nil, true
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.rest)
	if n <= 0 {
		f.rest, f.bad = nil, true
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

func (f *fields) text() string {
	n := f.uvarint()
	if n > uint64(len(f.rest)) || n > maxBeside/2 {
		f.rest, f.bad = nil, true
		return ""
	}
	s := string(f.rest[:n])
	f.rest = f.rest[n:]
	return s
}
