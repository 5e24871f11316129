package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"weir/model"
)

// Position is the place in the log that a state belongs to, with what is
// needed to recognise that place again.
type Position struct {
	// Seq is the last record folded; 0 when there was none.
	Seq uint64
	// Time is that record's timestamp in the log, in Unix nanoseconds.
	Time model.Nanos
	// CRC is the Checksum of that record's bytes.
	CRC uint32
	// Created is when the log was made, in Unix nanoseconds.
	Created model.Nanos
	// Missing is how many entries the log was known to have lost.
	Missing uint64
	// File is the Checksum of the configuration file that was last put into
	// the log; 0 when none was.
	File uint32
	// Owed is why the log still needs a rebase from this state; empty when
	// it needs none. At most 256 bytes are kept.
	Owed string
}

// maxOwed bounds Position.Owed.
const maxOwed = 256

// Checksum is the CRC-32C of a record's bytes.
func Checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

func (p Position) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, p.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(p.Time))
	b = binary.BigEndian.AppendUint32(b, p.CRC)
	b = binary.BigEndian.AppendUint64(b, uint64(p.Created))
	b = binary.BigEndian.AppendUint64(b, p.Missing)
	b = binary.BigEndian.AppendUint32(b, p.File)
	return append(b, p.Owed[:min(len(p.Owed), maxOwed)]...)
}

// positionSize is the length of a position without Owed.
const positionSize = 8 + 8 + 4 + 8 + 8 + 4

func decodePosition(b []byte) (Position, error) {
	if len(b) < positionSize {
		return Position{}, fmt.Errorf("decode position: %d bytes, want at least %d", len(b), positionSize)
	}
	return Position{
		Seq:     binary.BigEndian.Uint64(b),
		Time:    model.Nanos(binary.BigEndian.Uint64(b[8:])),
		CRC:     binary.BigEndian.Uint32(b[16:]),
		Created: model.Nanos(binary.BigEndian.Uint64(b[20:])),
		Missing: binary.BigEndian.Uint64(b[28:]),
		File:    binary.BigEndian.Uint32(b[36:]),
		Owed:    string(b[positionSize:]),
	}, nil
}
