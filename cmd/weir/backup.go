package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"weir/controller/store"
	"weir/events"
	"weir/events/natslog"
	"weir/model"
)

// backupCommand is weir backup.
type backupCommand struct {
	logFlags
	apiFlags
	File string `arg:"" placeholder:"FILE" help:"File to write; - is standard output."`
}

// Help is shown by --help.
func (*backupCommand) Help() string {
	return `A backup is a journal: the whole event log, or where that was trimmed the controller's state and the log behind it. It can be made while everything runs, and read by weir log verify, weir log explain and weir sim replay. It holds no prompt, answer or key; the folder of credentials is not in it either: keep a copy where you keep secrets, or make new ones.

Examples:

  weir backup weir-$(date +%F).weir
  weir backup - --nats nats://10.0.0.5:4222 --url http://10.0.0.5:8080 | gzip >fleet.weir.gz
  weir backup weir.weir --store ./weir-data    # of a controller that does not run`
}

// Run writes the file.
func (c *backupCommand) Run(e *env) error {
	export := &exportCommand{logFlags: c.logFlags, File: c.File, As: "journal"}
	if c.Store == "" {
		export.state = func(ctx context.Context) ([]byte, error) { return c.state(ctx) }
	}
	return export.journal(e)
}

// keptState is the controller's state as its API shows it.
type keptState struct {
	Seq    uint64 `json:"seq"`
	Digest string `json:"digest"`
	State  []byte `json:"state"`
}

// state asks the running controller for its state.
func (c *backupCommand) state(ctx context.Context) ([]byte, error) {
	a, err := c.api()
	if err != nil {
		return nil, err
	}
	var s keptState
	if err := a.get(ctx, "/api/v1/snapshot", &s); err != nil {
		return nil, fmt.Errorf("the log was trimmed and the state before it is the controller's: %w", err)
	}
	fleet, err := model.DecodeFleet(s.State)
	if err != nil {
		return nil, fmt.Errorf("read the controller's state: %w", err)
	}
	if got := fleet.Digest(); hex.EncodeToString(got[:]) != s.Digest {
		return nil, errors.New("read the controller's state: it is not what its digest says")
	}
	return s.State, nil
}

// restoreCommand is weir restore.
type restoreCommand struct {
	File  string `arg:"" placeholder:"FILE" help:"Backup or journal to read."`
	Store string `default:"./weir-data" placeholder:"DIR" help:"Folder for the new state and log; both must not exist there yet."`
}

// Help is shown by --help.
func (*restoreCommand) Help() string {
	return `The file is folded, and what that comes to becomes the state of a controller and the beginning of its log, for weir controller to start on. For a NATS server of your own import the file there instead (weir log import). Agents that are still running are heard again; no lease grows until each of them has reported once.

Examples:

  weir restore weir-2026-11-30.weir
  weir restore weir.weir --store /var/lib/weir && weir controller --store /var/lib/weir`
}

// Run folds the file and writes the store.
func (c *restoreCommand) Run(e *env) (err error) {
	stateDir, natsDir := filepath.Join(c.Store, "state"), filepath.Join(c.Store, "nats")
	for _, dir := range []string{stateDir, natsDir} {
		if _, err := os.Stat(dir); err == nil {
			return badInput(fmt.Errorf("%s exists: restore into another folder with --store, or move it away", dir))
		}
	}
	folded, tail, err := c.fold(e.ctx)
	if err != nil {
		return err
	}
	fleet := folded.fleet
	if err := c.anchor(e, tail.fleet, fleet); err != nil {
		return errors.Join(err, os.RemoveAll(stateDir), os.RemoveAll(natsDir))
	}
	e.log.Info("restored", slog.String("fleet", tail.fleet), slog.Uint64("records", folded.records), slog.Uint64("last", folded.last),
		slog.Uint64("missing", folded.missing), slog.Bool("complete", tail.complete), slog.Int64("dropped_bytes", tail.dropped), slog.String("store", c.Store))
	if !tail.complete || folded.missing > 0 {
		return fmt.Errorf("%s: it is restored up to record %d, but the file is not whole: %d records are missing and its end is %s",
			c.File, folded.last, folded.missing, map[bool]string{true: "there", false: "torn off"}[tail.complete])
	}
	return nil
}

func (c *restoreCommand) fold(ctx context.Context) (*fold, journalTail, error) {
	if _, err := os.Stat(c.File); err != nil {
		return nil, journalTail{}, badInput(err)
	}
	f := newFold(model.NewFleet())
	tail, err := eachOfFile(ctx, c.File, f.take)
	switch {
	case err != nil:
		return nil, tail, badInput(err)
	case f.records == 0:
		return nil, tail, badInput(fmt.Errorf("%s: there is no record in it", c.File))
	case f.first > 1 && !f.anchored:
		return nil, tail, badInput(fmt.Errorf("%s: it begins at record %d without the state before it, so it is no backup", c.File, f.first))
	}
	return f, tail, nil
}

// anchor makes a log that begins with the state, and the store that belongs
// to it.
func (c *restoreCommand) anchor(e *env, name string, fleet *model.Fleet) (err error) {
	l := &openLog{fleet: name}
	defer func() { l.closers.close(&err) }()
	if err := os.MkdirAll(filepath.Join(c.Store, "nats", "jetstream"), 0o700); err != nil {
		return badInput(err)
	}
	nc, err := l.serveStore(c.Store, e.log)
	if err != nil {
		return err
	}
	l.closers.add(func() error { nc.Close(); return nil })
	if l.Log, err = natslog.OpenLog(e.ctx, nc, name, natslog.LogOptions{}); err != nil {
		return err
	}
	base := fleet.Seq() + 1
	if err := l.Reanchor(e.ctx, base); err != nil {
		return err
	}
	position := store.Position{Seq: fleet.Seq(), Time: fleet.LastTime(), Owed: "restored from a backup"}
	rebase := events.Encode(nil, &model.Rebase{
		Term: fleet.Term(), Snapshot: fleet.AppendBinary(nil), Digest: fleet.Digest(), Reason: position.Owed,
	})
	if len(rebase) <= events.MaxEntry { // else the controller goes on from its store alone
		if position, err = l.rebase(e.ctx, fleet, rebase); err != nil {
			return err
		}
	}
	return writeState(filepath.Join(c.Store, "state"), fleet, position)
}

// rebase puts a state into the log and folds it, as a controller would.
func (l *openLog) rebase(ctx context.Context, fleet *model.Fleet, data []byte) (p store.Position, err error) {
	seq := fleet.Seq() + 1
	if err = l.Load(ctx, events.Entry{Seq: seq, Subject: events.ControlSubject(l.fleet), Data: data}); err != nil {
		return p, err
	}
	entry, err := l.At(ctx, seq)
	if err != nil {
		return p, err
	}
	rec, err := events.NewDecoder().Record(entry)
	if err != nil {
		return p, err
	}
	var fx model.Effects
	fleet.Apply(rec, &fx)
	info, err := l.Info(ctx)
	return store.Position{Seq: seq, Time: entry.Time, CRC: store.Checksum(entry.Data), Created: info.Created}, err
}

func writeState(dir string, fleet *model.Fleet, p store.Position) (err error) {
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return badInput(hint(err))
	}
	var c closers
	c.add(s.Close)
	defer c.close(&err)
	change := store.Change{Position: p}
	for key, value := range fleet.Parts() {
		change.Parts = append(change.Parts, store.Part{Key: key, Value: value})
	}
	return s.Commit(&change, true)
}
