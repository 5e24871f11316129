package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"weir/cmd/weir/story"
	"weir/events"
	"weir/model"
)

// explainCommand is weir log explain.
type explainCommand struct {
	logFlags
	Channel string `arg:"" placeholder:"CHANNEL" help:"The channel's name."`
	File    string `arg:"" optional:"" placeholder:"FILE" help:"Journal to read; the log itself if none is named."`
	At      string `placeholder:"TIME" help:"The instant: RFC 3339, 21:04:10 (UTC, the last such), 5m (after the first record), -5m (before the last; write --at=-5m) or a record's number. The last record if none is given."`
	Last    int    `default:"20" placeholder:"N" help:"How many events to tell, the newest first; 20 if none is given."`
	JSON    bool   `name:"json" help:"Print everything as one JSON object."`
}

// Help is shown by --help.
func (*explainCommand) Help() string {
	return `The log is folded again up to that instant. Each line says where window, weight, breaker and budgets stood, which record put them there, and why, in the words and numbers of the law that decided.

Examples:

  weir log explain minimax-main
  weir log explain minimax-main incident.weir --at 21:04:10
  weir log explain minimax-main incident.weir --at 2026-11-30T21:04:10Z --json
  weir log explain minimax-main --store ./weir-data --at=-5m`
}

// maxTold bounds how many events a command keeps.
const maxTold = 100_000

// Run folds and tells.
func (c *explainCommand) Run(e *env) (err error) {
	if c.Last < 1 || c.Last > maxTold {
		return badInput(fmt.Errorf("--last=%d: want 1 to %d", c.Last, maxTold))
	}
	at, err := parseMoment(c.At)
	if err != nil {
		return badInput(fmt.Errorf("--at=%w", err))
	}
	source, err := c.records(e, c.File)
	if err != nil {
		return err
	}
	defer source.closers.close(&err)
	told, err := tell(e.ctx, source, at, story.Options{Channel: c.Channel, Keep: c.Last})
	if err != nil {
		return err
	}
	why, ok := told.Why(c.Channel)
	if !ok {
		return badInput(fmt.Errorf("%s: there is no channel %q at record %d; there are %s", source.name, c.Channel, told.Fleet().Seq(), channelNames(told.Fleet())))
	}
	if c.JSON {
		return json.NewEncoder(e.stdout).Encode(&explained{source.name, told.rootless, &why})
	}
	return (&explained{source.name, told.rootless, &why}).print(e.stdout)
}

// explained is what explain prints. Rootless is set when the state before the
// first record is not there.
type explained struct {
	Source   string `json:"source"`
	Rootless bool   `json:"rootless"`
	*story.Why
}

// print writes it for people.
func (x *explained) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "channel %s at %s, record %d, term %d, parameters %s\n", x.Channel, x.Time, x.Seq, x.Term, x.Params)
	if x.Rootless {
		b.WriteString("the state before the first record is not there: what came of it is not known here\n")
	}
	for _, p := range x.Parts {
		fmt.Fprintf(&b, "\n%-8s %s\n         because %s\n", p.Part, p.Stands, p.Because)
	}
	b.WriteString("\nwhat happened, newest first:\n")
	if len(x.Events) == 0 {
		b.WriteString("  nothing was decided\n")
	}
	for i := range x.Events {
		b.WriteString(line(&x.Events[i]))
	}
	if x.Omitted > 0 {
		fmt.Fprintf(&b, "  %d events before these; --last shows more\n", x.Omitted)
	}
	_, err := io.WriteString(out, wrapped(b.String(), 9, screenWidth(out)))
	return err
}

// line is an event as one line.
func line(e *story.Event) string {
	return fmt.Sprintf("  %s  record %d  %s%s; cause: %s\n", e.Time, e.Seq, prefix(e.Channel), e.Text, e.Cause)
}

func prefix(channel string) string {
	if channel == "" {
		return ""
	}
	return channel + ": "
}

func channelNames(f *model.Fleet) string {
	const most = 20
	c, _ := f.Config()
	var names []string
	for i := range c.Channels {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(c.Channels)-i))
			break
		}
		names = append(names, c.Channels[i].Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// told is a story with what its source lacks.
type told struct {
	*story.Story
	rootless bool
	end      journalTail
}

// errEnough ends the reading of a source.
var errEnough = errors.New("enough")

// tell folds a source's records up to a moment.
func tell(ctx context.Context, s *records, at moment, o story.Options) (*told, error) {
	until, err := at.resolve(ctx, s)
	if err != nil {
		return nil, err
	}
	base, err := s.base()
	if err != nil {
		return nil, fmt.Errorf("read the stored snapshot: %w", err)
	}
	t := &told{Story: story.New(base, o)}
	from, first := base.Seq(), true
	decoder := events.NewDecoder()
	t.end, err = s.each(ctx, func(e events.Entry) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("record %d leads to an impossible state: %v", e.Seq, p)
			}
		}()
		if e.Seq <= from {
			return nil
		}
		if until(e) {
			return errEnough
		}
		rec, _ := decoder.Record(e) // the fold counts what cannot be read
		if first {
			_, anchored := rec.Fact.(*model.Rebase)
			t.rootless = from == 0 && e.Seq > 1 && !anchored
		}
		first = false
		t.Fold(rec)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, asInput(err)
	}
	if first {
		return nil, badInput(fmt.Errorf("%s: there is no record up to %s", s.name, cmp.Or(at.text, "its end")))
	}
	return t, nil
}
