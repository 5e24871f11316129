package journal

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"weir/events"
	"weir/model"
)

// Writer writes a journal. It belongs to one goroutine.
type Writer struct {
	w       *bufio.Writer
	fleet   string
	body    []byte
	entries uint64
	last    uint64
	bytes   int64
}

// NewWriter begins a journal. Close ends it; w stays open.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	if err := events.CheckFleet(h.Fleet); err != nil {
		return nil, fmt.Errorf("begin journal: %w", err)
	}
	j := &Writer{w: bufio.NewWriterSize(w, 64<<10), fleet: h.Fleet}
	if _, err := j.w.WriteString(magic); err != nil {
		return nil, fmt.Errorf("begin journal: %w", err)
	}
	j.bytes = int64(len(magic))
	j.body = append(j.body[:0], bodyHeader)
	j.body = appendString(j.body, h.Fleet)
	j.body = binary.AppendVarint(j.body, int64(h.Created))
	if err := j.frame(nil); err != nil {
		return nil, fmt.Errorf("begin journal: %w", err)
	}
	return j, nil
}

// Write adds an entry. Its sequence must be higher than the last one's; a gap
// is kept as it is.
func (j *Writer) Write(e events.Entry) error {
	switch {
	case j.entries > 0 && e.Seq <= j.last || e.Seq == 0:
		return fmt.Errorf("write entry %d after %d: %w", e.Seq, j.last, ErrOrder)
	case len(e.Data) > sizeLimit(j.entries == 0, e.Data) || len(e.Subject) > maxBeside/2:
		return fmt.Errorf("write entry %d of %d bytes: %w", e.Seq, len(e.Data), events.ErrTooLarge)
	}
	j.body = append(j.body[:0], bodyEntry)
	j.body = binary.AppendUvarint(j.body, e.Seq)
	j.body = binary.AppendVarint(j.body, int64(e.Time))
	j.body = appendString(j.body, e.Subject)
	if err := j.frame(e.Data); err != nil {
		return fmt.Errorf("write entry %d: %w", e.Seq, err)
	}
	j.entries++
	j.last = e.Seq
	return nil
}

// WriteRebase adds a state as the first entry, from which a fold of the
// journal starts; seq is the last entry that is folded into it.
func (j *Writer) WriteRebase(seq uint64, at model.Nanos, a *model.Rebase) error {
	return j.Write(events.Entry{Seq: seq, Time: at, Subject: events.ControlSubject(j.fleet), Data: events.Encode(nil, a)})
}

// Flush hands everything written so far to the underlying writer.
func (j *Writer) Flush() error {
	if err := j.w.Flush(); err != nil {
		return fmt.Errorf("flush journal: %w", err)
	}
	return nil
}

// Close ends the journal, so that a reader knows that it is complete.
func (j *Writer) Close() error {
	j.body = append(j.body[:0], bodyEnd)
	j.body = binary.AppendUvarint(j.body, j.entries)
	if err := j.frame(nil); err != nil {
		return fmt.Errorf("end journal: %w", err)
	}
	return j.Flush()
}

// Size returns how many bytes were written so far.
func (j *Writer) Size() int64 { return j.bytes }

// frame writes a frame whose body is j.body and then data.
func (j *Writer) frame(data []byte) error {
	var head [headSize]byte
	binary.LittleEndian.PutUint32(head[0:], uint32(len(j.body)+len(data)))
	binary.LittleEndian.PutUint32(head[4:], crc32.Update(crc32.Checksum(j.body, table), table, data))
	binary.LittleEndian.PutUint32(head[8:], crc32.Checksum(head[:8], table))
	for _, part := range [][]byte{head[:], j.body, data} {
		if _, err := j.w.Write(part); err != nil {
			return err
		}
		j.bytes += int64(len(part))
	}
	return nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
