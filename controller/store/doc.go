// Package store keeps a controller's folded state on disk, in one Pebble
// database. It knows nothing of what the state means: parts are keys and bytes.
//
// A Change commits at once or not at all: the parts that changed and the
// position in the log they belong to stand in one batch. A change that was
// not synced may be lost in a crash, but then everything after it is lost
// too: what Load returns is always the state at exactly the position beside
// it, and the log holds the rest.
//
// Key layout, first byte first:
//
//	v               the layout's version, uvarint
//	p               the Position
//	s PART          one part of the state, by its name
//	d SEQ(8) N(4)   the Nth decision of record SEQ, big endian, so in order
//	n SEQ(8)        the whole state at record SEQ, kept for the log before it
//	h KIND LEN(1) NAME TIME(8)   what a series was at a time, big endian
//
// Decisions are a ring: over KeepDecisions or KeepBytes the oldest go.
//
// A store belongs to one process: it holds a lock on its folder. A commit
// that the disk refuses ends the process (Options.Exit), because a state that
// cannot be stored must not go on changing; the log brings it back.
package store
