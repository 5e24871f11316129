package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"text/tabwriter"

	"weir/events"
	"weir/events/journal"
	"weir/model"
)

// verifyCommand is weir log verify.
type verifyCommand struct {
	logFlags
	File string `arg:"" optional:"" placeholder:"FILE" help:"Journal to verify; the log itself if none is named."`
	JSON bool   `name:"json" help:"Print the result as one JSON object."`
}

// Help is shown by --help.
func (*verifyCommand) Help() string {
	return `The records are folded from the first to the last, then once more, then from a snapshot of the middle. All three must come to the same state and the same decisions, byte by byte. The exit code is 1 when they do not, or when records are damaged or missing. With --store the controller's own state and decisions are compared too, words and all: verify a store with the version that wrote it.

Examples:

  weir log verify demo-out/journal.weir
  weir log verify --nats nats://127.0.0.1:4222 --json
  weir log verify --store ./weir-data`
}

// verdict is what verify prints.
type verdict struct {
	Source string `json:"source"`
	Fleet  string `json:"fleet"`
	// Records were folded, from First to Last; Missing between them were not
	// there. Unreadable ones are no facts, Unknown ones of a newer version.
	Records    uint64 `json:"records"`
	First      uint64 `json:"first"`
	Last       uint64 `json:"last"`
	Missing    uint64 `json:"missing"`
	Unreadable uint64 `json:"unreadable"`
	Unknown    uint64 `json:"unknown"`
	Attempts   uint64 `json:"attempts"`
	Decisions  uint64 `json:"decisions"`
	// Digest is the state's, DecisionDigest that of all decisions in order.
	Digest         string `json:"digest"`
	DecisionDigest string `json:"decision_digest"`
	// Base is the record of the stored snapshot that the folds began from, 0
	// for none. Rootless is set when there is none though the first record is
	// not the log's: the figures cover only what follows.
	Base     uint64 `json:"base"`
	Rootless bool   `json:"rootless"`
	// Middle is the record of the snapshot that the last fold began from.
	Middle uint64 `json:"middle"`
	// Stored is the record at which a controller's stored state was compared,
	// StoredDecisions how many of its decisions were; 0 without a store.
	Stored          uint64 `json:"stored"`
	StoredDecisions int    `json:"stored_decisions"`
	Params          string `json:"params"`
	Laws            uint32 `json:"laws"`
	// Complete is set when the journal was closed by its writer; Dropped is
	// what stood behind its last whole record.
	Complete bool  `json:"complete"`
	Dropped  int64 `json:"dropped_bytes"`
	Verified bool  `json:"verified"`
	// Fault says what differs, empty for nothing.
	Fault string `json:"fault,omitempty"`
}

// Run folds and compares.
func (c *verifyCommand) Run(e *env) (err error) {
	source, err := c.records(e, c.File)
	if err != nil {
		return err
	}
	defer source.closers.close(&err)
	v, err := verify(e.ctx, source)
	if err != nil {
		return err
	}
	if err := v.print(e.stdout, c.JSON); err != nil {
		return err
	}
	switch {
	case !v.Verified:
		return fmt.Errorf("%s: %s", v.Source, v.Fault)
	case v.Missing > 0:
		return fmt.Errorf("%s: %d records are missing", v.Source, v.Missing)
	}
	return nil
}

// records can be read several times from the beginning.
type records struct {
	name    string
	closers closers
	// each calls take with every entry in order.
	each func(ctx context.Context, take func(events.Entry) error) (tail journalTail, err error)
	// stored is what a controller's store says, nil without one.
	stored *stored
}

// base returns the state before the first record.
func (r *records) base() (*model.Fleet, error) {
	if r.stored == nil || r.stored.snapshot == nil {
		return model.NewFleet(), nil
	}
	return model.DecodeFleet(r.stored.snapshot)
}

// journalTail is how a source ends.
type journalTail struct {
	fleet    string
	complete bool
	dropped  int64
}

// records are those of a journal, or of the log if none is named.
func (f *logFlags) records(e *env, file string) (*records, error) {
	if file != "" {
		if _, err := os.Stat(file); err != nil {
			return nil, badInput(err)
		}
		return &records{name: file, each: func(ctx context.Context, take func(events.Entry) error) (journalTail, error) {
			return eachOfFile(ctx, file, take)
		}}, nil
	}
	l, err := f.open(e, false)
	if err != nil {
		return nil, err
	}
	info, err := l.Info(e.ctx)
	if err == nil {
		err = l.loadStored(f.Store, info.First)
	}
	if err != nil {
		l.closers.close(&err)
		return nil, err
	}
	each := func(ctx context.Context, take func(events.Entry) error) (journalTail, error) {
		return journalTail{fleet: l.fleet, complete: true}, eachOfLog(ctx, l, info, take)
	}
	return &records{name: "log of fleet " + l.fleet, closers: l.closers, each: each, stored: l.stored}, nil
}

func eachOfFile(ctx context.Context, path string, take func(events.Entry) error) (tail journalTail, err error) {
	f, err := os.Open(path)
	if err != nil {
		return tail, badInput(err)
	}
	defer func() { _ = f.Close() }() // only read
	r, err := journal.NewReader(f)
	if err != nil {
		return tail, badInput(fmt.Errorf("%s: %w", path, err))
	}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return journalTail{r.Header().Fleet, r.Complete(), r.Dropped()}, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = take(e)
		}
		if err != nil {
			return tail, fmt.Errorf("%s: %w", path, err)
		}
	}
}

func eachOfLog(ctx context.Context, l events.Log, info events.Info, take func(events.Entry) error) (err error) {
	if info.Last < info.First {
		return nil
	}
	r, err := l.Read(ctx, info.First)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		e, err := r.Next(ctx)
		if err == nil && e.Seq <= info.Last {
			err = take(e)
		}
		if err != nil {
			return err
		}
		if e.Seq >= info.Last {
			return nil
		}
	}
}

// fold is one fold of all records, or of those behind a snapshot.
type fold struct {
	fleet   *model.Fleet
	decoder *events.Decoder
	fx      model.Effects
	from    uint64 // folded up to here already
	// snapshotAt is how many records are folded when snapshot is taken.
	snapshotAt uint64
	snapshot   []byte
	// stored is compared on the way, nil for nothing.
	stored *comparison

	records, first, last, missing uint64
	anchored                      bool // the first record is a state
	// all is over every decision, tail over those behind the snapshot.
	decisions uint64
	all, tail hash.Hash
}

func newFold(fleet *model.Fleet) *fold {
	return &fold{fleet: fleet, from: fleet.Seq(), last: fleet.Seq(), decoder: events.NewDecoder(), all: sha256.New(), tail: sha256.New()}
}

// take folds an entry. A fold that finds its state impossible panics; here
// that is what the records brought about.
func (f *fold) take(e events.Entry) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("record %d leads to an impossible state: %v", e.Seq, p)
		}
	}()
	if e.Seq <= f.from {
		return nil
	}
	rec, _ := f.decoder.Record(e) // the fold counts what cannot be read
	if f.records == 0 {
		f.first = e.Seq
		_, f.anchored = rec.Fact.(*model.Rebase)
	}
	if f.last > 0 {
		f.missing += e.Seq - f.last - 1
	}
	f.fx.Reset()
	f.fleet.Apply(rec, &f.fx)
	f.records++
	f.last = e.Seq
	for i := range f.fx.Decisions {
		line := fmt.Appendf(nil, "%+v\n", f.fx.Decisions[i])
		f.all.Write(line)
		f.tail.Write(line)
		f.decisions++
	}
	if f.stored != nil {
		f.stored.take(f.fleet, f.fx.Decisions)
	}
	if f.records == f.snapshotAt {
		f.snapshot = f.fleet.AppendBinary(nil)
		f.tail.Reset()
	}
	return nil
}

// verify folds three times.
func verify(ctx context.Context, s *records) (*verdict, error) {
	run := func(fleet *model.Fleet, snapshotAt uint64, compare *comparison) (*fold, journalTail, error) {
		f := newFold(fleet)
		f.snapshotAt, f.stored = snapshotAt, compare
		end, err := s.each(ctx, f.take)
		return f, end, err
	}
	base, err := s.base()
	if err != nil {
		return nil, fmt.Errorf("read the stored snapshot: %w", err)
	}
	compare := s.stored.compare()
	once, end, err := run(base, 0, compare)
	if err != nil {
		return nil, err
	}
	if base, err = s.base(); err != nil {
		return nil, fmt.Errorf("read the stored snapshot: %w", err)
	}
	again, _, err := run(base, (once.records+1)/2, nil)
	if err != nil {
		return nil, err
	}
	v := once.verdict(s.name, end)
	if once.fleet.Digest() != again.fleet.Digest() || sum(once.all) != sum(again.all) {
		v.Fault = "two folds of the same records differ"
	}
	if again.snapshot != nil {
		middle, err := model.DecodeFleet(again.snapshot)
		if err != nil {
			return nil, fmt.Errorf("read the snapshot of the middle: %w", err)
		}
		rest, _, err := run(middle, 0, nil)
		if err != nil {
			return nil, err
		}
		v.Middle = rest.from
		if rest.fleet.Digest() != once.fleet.Digest() || sum(rest.all) != sum(again.tail) {
			v.Fault = fmt.Sprintf("the fold from a snapshot at record %d differs", v.Middle)
		}
	}
	compare.judge(v)
	v.Verified = v.Fault == ""
	return v, nil
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

func (f *fold) verdict(source string, end journalTail) *verdict {
	counters := f.fleet.Counters()
	params, _ := f.fleet.Params()
	digest := f.fleet.Digest()
	return &verdict{
		Source: source, Fleet: end.fleet, Records: f.records, First: f.first, Last: f.last, Missing: f.missing,
		Base: f.from, Rootless: f.from == 0 && f.first > 1 && !f.anchored,
		Unreadable: counters.Unreadable, Unknown: counters.Unknown, Attempts: counters.Attempts, Decisions: f.decisions,
		Digest: hex.EncodeToString(digest[:]), DecisionDigest: sum(f.all), Params: params.Params.Hash(), Laws: model.LawVersion,
		Complete: end.complete, Dropped: end.dropped,
	}
}

// print writes the verdict.
func (v *verdict) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(v)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "records\t%d (%d to %d)\n", v.Records, v.First, v.Last)
	for _, n := range []struct {
		label string
		n     uint64
	}{{"missing", v.Missing}, {"unreadable", v.Unreadable}, {"of a newer version", v.Unknown}, {"bytes torn off at the end", uint64(v.Dropped)}} {
		if n.n > 0 {
			fmt.Fprintf(w, "%s\t%d\n", n.label, n.n)
		}
	}
	fmt.Fprintf(w, "attempts\t%d\ndecisions\t%d\ndigest\t%s\n", v.Attempts, v.Decisions, v.Digest)
	fmt.Fprintf(w, "\t\n%s\n", v.sentence())
	return w.Flush()
}

// sentence is the outcome in words.
func (v *verdict) sentence() string {
	if !v.Verified {
		return "NOT verified: " + v.Fault
	}
	text := fmt.Sprintf("verified: three folds, one from a snapshot at record %d, came to the same", v.Middle)
	if v.Stored > 0 {
		text += fmt.Sprintf("; so did the controller at record %d, in %d decisions", v.Stored, v.StoredDecisions)
	}
	if v.Rootless {
		text += "; the state before the first record is not there, so they cover only what follows"
	}
	return text
}
