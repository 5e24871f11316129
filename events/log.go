package events

import (
	"context"
	"errors"

	"weir/model"
)

// Entry is one message of the log as it is stored.
type Entry struct {
	// Seq is its place, Time the log's timestamp in Unix nanoseconds.
	Seq  uint64
	Time model.Nanos
	// Subject is where it was published: LogSubject(fleet, agent) or ControlSubject(fleet).
	Subject string
	// Data is one encoded fact. A reader may keep it.
	Data []byte
}

// Info says what a log holds.
type Info struct {
	// First and Last are the sequences held; Last is First-1 in an empty log.
	First, Last uint64
	// Missing counts the entries between them that the log knows it lost.
	Missing uint64
	// Created is when the log was made, in Unix nanoseconds; another value
	// means another log.
	Created model.Nanos
}

// The errors of a Log.
var (
	// ErrConflict says that another writer was there first: the expected
	// last sequence of the subject is not the stored one.
	ErrConflict = errors.New("events: conflicting append")
	// ErrNotFound says that the log does not hold that sequence.
	ErrNotFound = errors.New("events: no such entry")
	// ErrFull says that the log refuses appends for want of space.
	ErrFull = errors.New("events: log is full")
	// ErrTooLarge says that an entry is over MaxEntry.
	ErrTooLarge = errors.New("events: entry too large")
	// ErrClosed says that the log or reader was closed.
	ErrClosed = errors.New("events: closed")
)

// MaxEntry is the largest entry a log takes, in bytes: 1 MiB, the default
// limit of a NATS message, less room for subject and headers.
const MaxEntry = 1<<20 - 4<<10

// Log is one fleet's log as its controller uses it: one total order, appended
// to by many, read by one. Implementations pass events/logtest.
type Log interface {
	// Append adds one encoded fact on the control subject and returns its
	// sequence. It returns when the log has acknowledged it.
	Append(ctx context.Context, data []byte) (seq uint64, err error)
	// Read delivers the entries from the given sequence on, in order, and
	// then those that come. It never hides a gap: the caller compares Seq.
	Read(ctx context.Context, from uint64) (Reader, error)
	// At returns one entry, or ErrNotFound.
	At(ctx context.Context, seq uint64) (Entry, error)
	// Info says what the log holds.
	Info(ctx context.Context) (Info, error)
	// Reanchor drops everything and goes on at sequence next.
	Reanchor(ctx context.Context, next uint64) error
	// Trim drops the entries before the given sequence.
	Trim(ctx context.Context, before uint64) error
}

// Loader is a Log into which another log's entries can be put, as when a
// journal is restored.
type Loader interface {
	Log
	// Load stores an entry with its subject at its sequence, which must be
	// the log's next: ErrConflict says that it is not. Whether its time is
	// kept is up to the implementation.
	Load(ctx context.Context, e Entry) error
}

// Reader delivers entries in order. It is used by one goroutine.
type Reader interface {
	// Next waits for the next entry. It returns ctx's error when that ends
	// first, and ErrClosed after Close.
	Next(ctx context.Context) (Entry, error)
	// Close ends the reader and frees what it holds.
	Close() error
}

// Writer is an agent's way into the log. One call at a time.
type Writer interface {
	// Write appends one encoded report to the agent's own subject and
	// returns when it is acknowledged. An unclear outcome is resolved by
	// reading the subject's last entry, so that a report that was stored is
	// not stored again.
	Write(ctx context.Context, data []byte) error
}

// Outbox is how a controller tells the fleet. What it sends replaces what was
// sent before, and late joiners get the latest. PutTerm comes first, then a
// full set of limits; once a later term was announced, by whomever, every call
// is refused with ErrConflict, and so is one of another term than announced.
// Each call returns when the bus has stored what was said, so a caller that
// must not wait calls from a goroutine of its own. Calls may come from several.
type Outbox interface {
	// PutTerm announces a leader; it fences every later call by its term.
	PutTerm(ctx context.Context, t *model.TermNotice) error
	// PutLimits tells all agents; full is set when it holds every channel.
	// What else changed since the last full set is sent along, see Board.
	PutLimits(ctx context.Context, l *model.LimitSet, full bool) error
	// PutLease tells one agent.
	PutLease(ctx context.Context, l *model.Lease) error
	// PutConfig publishes the fleet's configuration.
	PutConfig(ctx context.Context, seq uint64, c *model.Config) error
}

// Handler takes what a controller tells; nil functions are left out. Calls
// come one at a time, and may repeat or lag: the receiver compares term and
// revision. A full set of limits is not marked as such: a channel that is not
// in a message stays as it was.
type Handler struct {
	Term   func(*model.TermNotice)
	Limits func(*model.LimitSet)
	Lease  func(*model.Lease)
	Config func(seq uint64, c *model.Config)
}

// Inbox is how an agent hears.
type Inbox interface {
	// Listen delivers the latest of everything for that agent, then what
	// comes, until ctx ends. It outlives lost connections, and gets the
	// latest again after each and from time to time.
	Listen(ctx context.Context, agent string, h Handler) error
	// Connected reports whether the bus can be reached at the moment.
	Connected() bool
}
