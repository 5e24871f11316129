package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/cmd/weir/config"
	"weir/controller"
	"weir/events"
	"weir/events/journal"
	"weir/events/natslog"
	"weir/model"
)

// logCommand is weir log.
type logCommand struct {
	Tail    tailCommand    `cmd:"" help:"Print the log's records, one a line, as they come."`
	Export  exportCommand  `cmd:"" help:"Write a stretch of the log to a journal file."`
	Import  importCommand  `cmd:"" help:"Put a journal into a log."`
	Verify  verifyCommand  `cmd:"" help:"Fold a journal anew, twice and from its middle, and compare."`
	Explain explainCommand `cmd:"" help:"Say why a channel stood where it stood at an instant."`
}

// logFlags say which log.
type logFlags struct {
	configFlag
	NATS  string `name:"nats" placeholder:"URL" help:"The fleet's NATS; the one in the file if none is named."`
	Store string `placeholder:"DIR" help:"Instead of a NATS server: the store of a controller that does not run, such as ./weir-data."`
	Fleet string `placeholder:"NAME" help:"The fleet; the file's if none is named."`
}

// openLog is a log with what it takes to close it.
type openLog struct {
	*natslog.Log
	fleet   string
	closers closers
	stored  *stored // what a controller's store says, if it was loaded
}

// open opens the log, which must exist unless create is set.
func (f *logFlags) open(e *env, create bool) (*openLog, error) {
	file, err := f.want()
	if err != nil {
		return nil, err
	}
	if f.NATS != "" {
		file.NATS.URL = f.NATS
	}
	l := &openLog{fleet: cmp.Or(f.Fleet, file.Model.Fleet)}
	if err := events.CheckFleet(l.fleet); err != nil {
		return nil, badInput(fmt.Errorf("--fleet: %w", err))
	}
	if err := l.open(e, f.Store, &file.NATS, create); err != nil {
		l.closers.close(&err)
		return nil, err
	}
	return l, nil
}

func (l *openLog) open(e *env, store string, n *config.NATS, create bool) error {
	where := cmp.Or(store, servers(n.Address()))
	nc, err := l.connect(e, store, n)
	if err != nil {
		return err
	}
	l.closers.add(func() error { nc.Close(); return nil })
	ctx, cancel := context.WithTimeout(e.ctx, connectWithin)
	defer cancel()
	if !create {
		if err := exists(ctx, nc, l.fleet); err != nil {
			return badInput(fmt.Errorf("%s: %w", where, err))
		}
	}
	if l.Log, err = natslog.OpenLog(ctx, nc, l.fleet, natslog.LogOptions{}); err != nil {
		return badInput(fmt.Errorf("%s: %w", where, err))
	}
	return nil
}

// connect connects to a running server, or to one of its own on a store.
func (l *openLog) connect(e *env, store string, n *config.NATS) (*nats.Conn, error) {
	if store != "" {
		return l.serveStore(store, e.log)
	}
	file, err := operatorCredential(n)
	if err != nil {
		return nil, badInput(err)
	}
	o, err := busOptions(n, "weir log", "", func() string { return file }, e.log)
	if err != nil {
		return nil, err
	}
	o.Extra = append(o.Extra, nats.ConnectHandler(nil)) // that it connected goes without saying
	return connect(e.ctx, n.Address(), o, askWithin)
}

// serveStore starts a NATS server on a store, for this process alone.
func (l *openLog) serveStore(store string, log *slog.Logger) (*nats.Conn, error) {
	dir := store
	if nested := filepath.Join(dir, "nats"); isDir(nested) {
		dir = nested
	}
	if !isDir(filepath.Join(dir, "jetstream")) {
		return nil, badInput(fmt.Errorf("--store=%s: there is no store of a controller's NATS", store))
	}
	bus, err := controller.StartNATS(controller.NATSOptions{Store: dir, Logger: log})
	if err != nil {
		return nil, badInput(fmt.Errorf("%w; while a controller runs, use --nats", err))
	}
	l.closers.add(bus.Close)
	return bus.Connect(natslog.Options{Name: "weir log"})
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// exists says so when a fleet has no log: opening one makes it.
func exists(ctx context.Context, nc *nats.Conn, fleet string) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	_, err = js.StreamNameBySubject(ctx, events.ControlSubject(fleet))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("there is no log of a fleet %q; --fleet names another", fleet)
	}
	return err
}

// exportCommand is weir log export.
type exportCommand struct {
	logFlags
	File    string `arg:"" placeholder:"FILE" help:"File to write; - is standard output."`
	From    uint64 `placeholder:"SEQ" help:"First record; the first held if none is named."`
	To      uint64 `placeholder:"SEQ" help:"Last record; the last held if none is named."`
	As      string `enum:"journal,requests" default:"journal" placeholder:"KIND" help:"journal, or requests: one line for each call, as CSV into a FILE that ends in .csv, else as JSON."`
	Journal string `placeholder:"FILE" help:"With --as requests: a journal to read instead of the log."`
	Times   bool   `help:"With --as requests: an eleventh field, timestamp, when each call was sent."`

	// state returns the state of a controller that runs, for a log that was
	// trimmed; nil where only --store may have it.
	state func(ctx context.Context) ([]byte, error)
}

// Help is shown by --help.
func (*exportCommand) Help() string {
	return `A journal holds exactly the bytes of the log. Records that the log lost are counted and left out. Of a log that was trimmed it begins with the state that the controller kept beside it, if --store names its store. A request log has request_id, tenant, channel, input_tokens, output_tokens, http_status, error_class (empty for a success), latency_ms, attempt, retryable; what the log lost is not in it.

Examples:

  weir log export today.weir
  weir log export - --from 1000 --to 2000 >part.weir
  weir log export backup.weir --store ./weir-data
  weir log export calls.csv --as requests --times
  weir log export - --as requests --journal today.weir | jq .error_class`
}

// Run writes the file.
func (c *exportCommand) Run(e *env) error {
	switch {
	case c.As == "requests":
		return c.requests(e)
	case c.Journal != "":
		return badInput(errors.New("--journal goes with --as requests; a journal is copied by any program that copies files"))
	case c.Times:
		return badInput(errors.New("--times goes with --as requests"))
	}
	return c.journal(e)
}

// requests writes a request log.
func (c *exportCommand) requests(e *env) (err error) {
	source, err := c.records(e, c.Journal)
	if err != nil {
		return err
	}
	defer source.closers.close(&err)
	out, finish, err := c.create(e)
	if err != nil {
		return badInput(err)
	}
	n, err := c.writeRequests(e.ctx, source, out)
	if err = finish(err); err != nil {
		return err
	}
	e.log.Info("exported", slog.Uint64("calls", n))
	return nil
}

// journal writes a journal.
func (c *exportCommand) journal(e *env) (err error) {
	l, err := c.open(e, false)
	if err != nil {
		return err
	}
	defer l.closers.close(&err)
	out, finish, err := c.create(e)
	if err != nil {
		return badInput(err)
	}
	progress := newBar(e.stderr, "records", 0)
	done, size, err := c.write(e.ctx, l, out, progress)
	progress.close()
	if err = finish(err); err != nil {
		if errors.Is(err, events.ErrNotFound) {
			return badInput(err)
		}
		return err
	}
	e.log.Info("exported", slog.Uint64("records", done.Entries), slog.Uint64("first", done.First), slog.Uint64("last", done.Last),
		slog.Uint64("missing", done.Missing), slog.Int64("bytes", size))
	return nil
}

// create makes the journal under a name of its own; finish gives it its name,
// or removes it after an error.
func (c *exportCommand) create(e *env) (w io.Writer, finish func(error) error, err error) {
	if c.File == "-" {
		return e.stdout, func(err error) error { return err }, nil
	}
	f, err := os.Create(c.File + ".part")
	if err != nil {
		return nil, nil, err
	}
	return f, func(err error) error {
		if err = errors.Join(err, f.Close()); err == nil {
			return os.Rename(f.Name(), c.File)
		}
		return errors.Join(err, os.Remove(f.Name()))
	}, nil
}

func (c *exportCommand) write(ctx context.Context, l *openLog, out io.Writer, progress bar) (done journal.Result, size int64, err error) {
	w, err := journal.NewWriter(out, journal.Header{Fleet: l.fleet, Created: model.Nanos(time.Now().UnixNano())})
	if err != nil {
		return done, 0, err
	}
	if err := c.begin(ctx, l, w); err != nil {
		return done, 0, err
	}
	done, err = journal.Export(ctx, l, w, c.From, c.To, func(n, of uint64) { progress.set(int64(n), int64(of)) })
	if err == nil {
		err = w.Close()
	}
	return done, w.Size(), err
}

// begin puts the stored state before a log that no longer begins at its first
// record, so that a fold of the journal has something to start from.
func (c *exportCommand) begin(ctx context.Context, l *openLog, w *journal.Writer) error {
	info, err := l.Info(ctx)
	if err != nil || c.From > 0 || info.First == 1 {
		return err
	}
	err = l.loadStored(c.Store, info.First)
	if err == nil && c.state != nil {
		l.stored = new(stored)
		l.stored.snapshot, err = c.state(ctx)
	}
	if err != nil {
		return err
	}
	if l.stored == nil || l.stored.snapshot == nil {
		return nil
	}
	fleet, err := model.DecodeFleet(l.stored.snapshot)
	if err != nil {
		return fmt.Errorf("read the stored snapshot: %w", err)
	}
	c.From = fleet.Seq() + 1
	return w.WriteRebase(fleet.Seq(), fleet.LastTime(), &model.Rebase{
		Term: fleet.Term(), Snapshot: l.stored.snapshot, Digest: fleet.Digest(), Reason: "the log was trimmed before it was exported",
	})
}

// importCommand is weir log import.
type importCommand struct {
	logFlags
	File string `arg:"" placeholder:"FILE" help:"Journal to read; - is standard input."`
}

// Help is shown by --help.
func (*importCommand) Help() string {
	return `The log must be empty, or end right before the journal's first record; each record keeps its number. Records become the fleet's that the file or --fleet names.

Examples:

  weir log import backup.weir --nats nats://127.0.0.1:4222
  weir log import backup.weir --store ./weir-data --fleet default`
}

// Run puts the journal into the log.
func (c *importCommand) Run(e *env) (err error) {
	in := e.stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return badInput(err)
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	r, err := journal.NewReader(in)
	if err != nil {
		return badInput(fmt.Errorf("%s: %w", c.File, err))
	}
	l, err := c.open(e, true)
	if err != nil {
		return err
	}
	defer l.closers.close(&err)
	done, err := journal.Import(e.ctx, r, l, l.fleet, nil)
	var damaged *journal.CorruptError
	switch {
	case errors.Is(err, events.ErrConflict), errors.As(err, &damaged), errors.Is(err, journal.ErrOrder):
		return badInput(fmt.Errorf("%s: %w; %d records are imported", c.File, err, done.Entries))
	case err != nil:
		return fmt.Errorf("%s: %w; %d records are imported", c.File, err, done.Entries)
	}
	e.log.Info("imported", slog.Uint64("records", done.Entries), slog.Uint64("first", done.First), slog.Uint64("last", done.Last),
		slog.Int64("dropped_bytes", r.Dropped()), slog.Bool("complete", r.Complete()))
	return nil
}
