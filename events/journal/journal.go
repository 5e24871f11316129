// Package journal keeps a stretch of a fleet's log in a file, for replay,
// backup and study.
//
// A journal is eight bytes of magic and frames. A frame is a head of twelve
// bytes, the length of its body, the CRC-32C of the body and the CRC-32C of
// these eight bytes, all little endian, and the body: the first says which
// fleet the journal is of and when it was made, then one body an entry, and at
// last one that says how many there were. An entry's data is exactly what the
// log held, so a journal is readable as long as the log is.
//
// The first entry may be a rebase that is larger than a log takes, up to
// events.MaxSnapshot: a fold of the journal starts from it.
//
// A journal whose writing was interrupted ends in the middle of a frame, in
// zeros, or before its last frame. That is no error: Reader.Dropped says what
// was dropped and Reader.Complete that nothing was. Damage anywhere else is a
// *CorruptError with its place. Bytes are not trusted: memory is bounded by
// what was really read.
package journal

import (
	"errors"
	"fmt"
	"hash/crc32"

	"weir/events"
	"weir/model"
)

// magic begins every journal. Its last byte is the version of the frames.
const magic = "weirjnl\x01"

// headSize is the size of a frame's head.
const headSize = 12

// The kinds of bodies, their first byte. Kinds of newer versions are skipped.
const (
	bodyHeader byte = 1
	bodyEntry  byte = 2
	bodyEnd    byte = 3
)

// maxBeside is how much a body may hold beside an entry's data.
const maxBeside = 512

// table is the polynomial of iSCSI, which processors compute.
var table = crc32.MakeTable(crc32.Castagnoli)

// Header says what a journal is of.
type Header struct {
	// Fleet is the fleet's name.
	Fleet string
	// Created is when the journal was made, in Unix nanoseconds.
	Created model.Nanos
}

// CorruptError says where a journal is damaged.
type CorruptError struct {
	// Offset is the byte at which the damaged frame begins.
	Offset int64
	// Reason is what is wrong with it.
	Reason string
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("journal is damaged at byte %d: %s", e.Offset, e.Reason)
}

// ErrOrder says that an entry does not follow the one before it.
var ErrOrder = errors.New("journal: sequence does not rise")

// sizeLimit is the largest data an entry may have: only a rebase at the very
// beginning may be larger than a log takes.
func sizeLimit(first bool, data []byte) int {
	if first && len(data) > 1 && model.Kind(data[1]) == model.KindRebase {
		return events.MaxSnapshot
	}
	return events.MaxEntry
}
