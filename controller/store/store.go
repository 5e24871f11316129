package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The errors of Open and of a closed store.
var (
	// ErrLocked says that another process holds the store.
	ErrLocked = errors.New("store is in use by another process")
	// ErrNewer says that a newer version of Weir wrote the store.
	ErrNewer = errors.New("store was written by a newer version of weir")
	// ErrUnreadable says that the store is damaged. The state is in the log:
	// move the folder away and start again.
	ErrUnreadable = errors.New("store cannot be read")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("store is closed")
)

// layout is the version of the key layout. A store with a higher one is
// refused; one with a lower one is read by the code that knows it.
const layout = 1

// Options are what a store may be told. The zero value is useful.
type Options struct {
	// KeepDecisions is how many decisions are kept; 0 means 100,000.
	KeepDecisions int
	// KeepBytes is how many bytes of decisions are kept; 0 means 64 MiB.
	KeepBytes int64
	// Logger hears of trouble; nil means nobody does.
	Logger *slog.Logger
	// FS is the file system; nil means the disk.
	FS vfs.FS
	// Exit ends the process when the disk refuses a write. It must not
	// return; nil means os.Exit.
	Exit func(code int)
}

func (o Options) withDefaults() Options {
	if o.KeepDecisions <= 0 {
		o.KeepDecisions = 100_000
	}
	if o.KeepBytes <= 0 {
		o.KeepBytes = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Exit == nil {
		o.Exit = os.Exit
	}
	return o
}

// Store is an open store. Commit is for one goroutine; the rest is safe for
// many, also while Close runs.
type Store struct {
	options Options
	// mu is held for reading while the database is used, so that Close
	// waits: Pebble panics when it is used after that.
	mu     sync.RWMutex
	closed bool
	db     *pebble.DB
	lock   *pebble.Lock
	ring   ring
}

// Open opens the store in dir, or makes one. Its errors are ErrLocked,
// ErrNewer and ErrUnreadable with the folder's name, or the disk's.
func Open(dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	if err := o.FS.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make store %s: %w", dir, err)
	}
	lock, err := pebble.LockDirectory(dir, o.FS)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w (%w)", dir, ErrLocked, err)
	}
	s := &Store{options: o, lock: lock}
	if err := s.open(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", dir, err), lock.Close())
	}
	return s, nil
}

func (s *Store) open(dir string) error {
	cache := pebble.NewCache(16 << 20)
	defer cache.Unref()
	log := logger{s.options.Logger, s.options.Exit}
	db, err := pebble.Open(dir, &pebble.Options{
		Cache:              cache,
		FS:                 s.options.FS,
		FormatMajorVersion: pebble.FormatNewest,
		Lock:               s.lock,
		Logger:             log,
		EventListener:      patience(log),
		// The state is a few megabytes, and a crash costs about 11 ms per
		// megabyte of write-ahead log at the next start.
		MemTableSize: 4 << 20,
		MaxOpenFiles: 200,
	})
	switch {
	case err != nil && strings.Contains(err.Error(), "unknown format major version"): // Pebble has no value for it
		return fmt.Errorf("%w: %w", ErrNewer, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	s.db = db
	if err := errors.Join(s.checkLayout(), s.scanRing()); err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

func (s *Store) checkLayout() error {
	value, found, err := s.get(keyLayout())
	if err != nil {
		return err
	}
	if !found {
		return s.db.Set(keyLayout(), binary.AppendUvarint(nil, layout), pebble.Sync)
	}
	switch version, n := binary.Uvarint(value); {
	case n <= 0 || version == 0:
		return fmt.Errorf("%w: layout version %x", ErrUnreadable, value)
	case version > layout:
		return fmt.Errorf("%w: layout %d, this version knows %d", ErrNewer, version, layout)
	}
	return nil
}

// Close waits for what is running, writes what is not on disk yet and frees
// the folder. Later calls of anything return ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.closed = true
	// Pebble's Close does not sync the write-ahead log of unsynced batches.
	return errors.Join(s.db.LogData(nil, pebble.Sync), s.db.Close(), s.lock.Close())
}

// Checkpoint writes a copy of the store into the new folder dir.
func (s *Store) Checkpoint(dir string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	if err := s.db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("copy store to %s: %w", dir, err)
	}
	return nil
}

// get returns a copy of the value of key.
func (s *Store) get(key []byte) (value []byte, found bool, err error) {
	v, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %q: %w", key, err)
	}
	value = append([]byte{}, v...)
	return value, true, closer.Close()
}

// patienceFor is how often in a row Pebble may fail to write in the background:
// on a full disk it tries for ever, thousands of times a second.
const patienceFor = 10

// patience hears of what Pebble does in the background and ends the process
// when that comes to nothing.
func patience(log logger) *pebble.EventListener {
	var failed atomic.Int64
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if log.Errorf("background error: %s", err); failed.Add(1) >= patienceFor {
				log.Fatalf("failed %d times in the background: %s", patienceFor, err)
			}
		},
		FlushEnd: func(i pebble.FlushInfo) {
			if i.Err == nil {
				failed.Store(0)
			}
		},
	}
}

// logger hands Pebble's words on. Pebble calls Fatalf when it cannot go on,
// and is undefined if that returns.
type logger struct {
	to   *slog.Logger
	exit func(int)
}

// Infof implements pebble.Logger.
func (l logger) Infof(format string, args ...any) {
	l.to.Debug("store", slog.String("text", fmt.Sprintf(format, args...)))
}

// Errorf implements pebble.Logger.
func (l logger) Errorf(format string, args ...any) {
	l.to.Error("store", slog.String("text", fmt.Sprintf(format, args...)))
}

// Fatalf implements pebble.Logger.
func (l logger) Fatalf(format string, args ...any) {
	l.to.Error("store cannot go on, stopping", slog.String("text", fmt.Sprintf(format, args...)))
	l.exit(1)
}
