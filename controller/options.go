package controller

import (
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"

	"github.com/VictoriaMetrics/metrics"

	"weir/controller/store"
	"weir/events"
	"weir/model"
)

// Store is where a Loop keeps its state; *store.Store is one. Commit is called
// by one goroutine, the rest by many.
type Store interface {
	Load() (p store.Position, found bool, err error)
	Parts(err *error) iter.Seq2[string, []byte]
	Commit(c *store.Change, sync bool) error
	Snapshots() ([]uint64, error)
	Each(from, to uint64, newest bool, f func(seq uint64, data []byte) bool) error
}

// Options are what a Loop works with.
type Options struct {
	// Fleet is the fleet's name.
	Fleet string
	// Log, Outbox and Store are required and outlive the Loop. A Log that is
	// an events.Loader takes a rebase right behind the state it holds; with
	// any other, what agents report in that moment is counted as lost.
	Log    events.Log
	Outbox events.Outbox
	Store  Store
	// Election decides which of several controllers leads; the others fold the
	// same log and stand by. Nil means that this is the only one: it leads
	// from its start, and another that starts takes its place.
	Election events.Election
	// Controller is this process's id, as an agent's name; empty means
	// "controller". Each start adds a random part of its own.
	Controller string
	// Version is this software's version, for people.
	Version string
	// Config is what the configuration file says. It is put into the log when
	// it differs from the folded one and the file changed since it last was;
	// nil leaves the folded one.
	Config *model.Config
	// Keep is how many records the log keeps at least; it holds up to twice as
	// many. 0 keeps all of them, for ever.
	Keep uint64
	// Logger hears of trouble; nil means nobody does.
	Logger *slog.Logger
	// Metrics takes the Loop's own metrics; nil means a set of its own.
	Metrics *metrics.Set
}

// withDefaults returns complete options, or an error that names what is
// missing or wrong.
func (o Options) withDefaults() (Options, error) {
	if o.Log == nil || o.Outbox == nil || o.Store == nil {
		return o, errors.New("controller needs a log, an outbox and a store")
	}
	if err := events.CheckFleet(o.Fleet); err != nil {
		return o, err
	}
	if o.Controller == "" {
		o.Controller = "controller"
	}
	if len(o.Controller) > events.MaxName {
		return o, fmt.Errorf("controller id has %d bytes, at most %d", len(o.Controller), events.MaxName)
	}
	if o.Config != nil {
		c, err := copyConfig(o.Config)
		if err == nil {
			err = c.Check()
		}
		if err != nil {
			return o, fmt.Errorf("check configuration: %w", err)
		}
		o.Config = c
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	return o, nil
}

// copyConfig returns a copy that shares nothing with c, in normal form. Its
// error says that the log would not take c.
func copyConfig(c *model.Config) (*model.Config, error) {
	f, err := events.Decode(events.Encode(nil, c))
	if err != nil {
		return nil, err
	}
	copied, ok := f.(*model.Config)
	if !ok {
		return nil, fmt.Errorf("a configuration reads back as %s", f.Kind())
	}
	return copied, nil
}

// processName makes an id unique to this start, so that a process never takes
// the term of its predecessor for its own.
func processName(id string) string { return id + "." + strings.ToLower(rand.Text()[:8]) }
