package main

import (
	"errors"
	"fmt"
	"io"

	"weir/events"
	"weir/model"
)

// tailCommand is weir log tail.
type tailCommand struct {
	logFlags
	tailFilter
	Last   uint64 `default:"10" placeholder:"N" help:"Begin with the last N records; of a choice those among the newest 100,000."`
	From   uint64 `placeholder:"SEQ" help:"Begin with this record instead."`
	NoWait bool   `help:"End with the last record instead of waiting for more."`
}

// Help is shown by --help.
func (*tailCommand) Help() string {
	return `A line is a record's number, time, kind and what matters of it. No prompt, answer or key is ever in the log.

Examples:

  weir log tail
  weir log tail --class overloaded,rate_limited --channel main
  weir log tail --kind command,params,config --last 50 --no-wait
  weir log tail --last 100 --no-wait --nats nats://10.0.0.5:4222
  weir log tail --store ./weir-data --from 1`
}

// mostTail bounds the lines kept until the end of the log is reached, and
// tailBack how many records before it a choice is made among.
const (
	mostTail = 100_000
	tailBack = 100_000
)

// Run prints until it is stopped.
func (c *tailCommand) Run(e *env) (err error) {
	choice, err := c.choice()
	if err != nil {
		return badInput(err)
	}
	if c.Last > mostTail {
		return badInput(fmt.Errorf("--last=%d: want at most %d; --from begins anywhere", c.Last, mostTail))
	}
	l, err := c.open(e, false)
	if err != nil {
		return err
	}
	defer l.closers.close(&err)
	info, err := l.Info(e.ctx)
	if err != nil {
		return err
	}
	from := max(c.From, info.First)
	if c.From == 0 {
		back := c.Last
		if choice.some() {
			back = tailBack
		}
		from = max(info.First, info.Last+1-min(back, info.Last))
	}
	if c.NoWait && from > info.Last {
		return nil
	}
	r, err := l.Read(e.ctx, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	t := tail{out: e.stdout, width: screenWidth(e.stdout), choice: choice, held: c.From == 0 && from <= info.Last, most: int(c.Last)}
	for decoder := events.NewDecoder(); ; {
		entry, err := r.Next(e.ctx)
		if e.ctx.Err() != nil {
			return nil // stopped
		}
		if err != nil {
			return err
		}
		rec, _ := decoder.Record(entry) // what cannot be read is described as that
		end := entry.Seq >= info.Last
		if err := t.add(rec, end); err != nil {
			return err
		}
		if c.NoWait && end {
			return nil
		}
	}
}

// tail prints the records of a choice: the newest of those up to the end of the
// log, and all that come after.
type tail struct {
	out    io.Writer
	width  int // of the screen, 0 for no bound
	choice tailChoice
	held   bool // what is told is kept until the end is reached
	most   int
	lines  []string
}

// add takes the next record; end is set for the log's last and what follows.
func (t *tail) add(rec model.Record, end bool) error {
	if t.choice.has(rec.Fact) {
		t.lines = append(t.lines, events.Describe(rec))
		if t.held && len(t.lines) > t.most {
			t.lines = t.lines[1:]
		}
	}
	if t.held && !end {
		return nil
	}
	t.held = false
	for _, line := range t.lines {
		if _, err := fmt.Fprintln(t.out, wrapped(line, 2, t.width)); err != nil {
			return fmt.Errorf("write record: %w", err)
		}
	}
	t.lines = nil
	return nil
}

// tailFilter says which records are shown.
type tailFilter struct {
	Kind    []string `placeholder:"KIND" help:"Only records of these kinds: attempts, summary, config, params, command, lead, tick, rebase."`
	Agent   string   `placeholder:"NAME" help:"Only what this agent reported, and orders about it."`
	Channel string   `placeholder:"NAME" help:"Only reports with calls of this channel, and orders about it."`
	Class   []string `placeholder:"CLASS" help:"Only reports with a call that ended so: ok, rate_limited, overloaded, quota_exhausted, auth, invalid, transport, canceled."`
}

// tailChoice is a filter that was read.
type tailChoice struct {
	kinds          map[model.Kind]bool // empty: all
	classes        map[model.Class]bool
	agent, channel string
}

func (f *tailFilter) choice() (tailChoice, error) {
	c := tailChoice{kinds: map[model.Kind]bool{}, classes: map[model.Class]bool{}, agent: f.Agent, channel: f.Channel}
	for _, name := range f.Kind {
		kind, ok := kindNamed(name)
		if !ok {
			return c, fmt.Errorf("--kind=%s: there is no such kind of record; see weir log tail --help", name)
		}
		c.kinds[kind] = true
	}
	for _, name := range f.Class {
		class, ok := model.ParseClass(name)
		if !ok {
			return c, fmt.Errorf("--class=%s: there is no such class; see weir log tail --help", name)
		}
		c.classes[class] = true
	}
	return c, nil
}

func kindNamed(name string) (model.Kind, bool) {
	for k := model.KindAttempts; k <= model.KindRebase; k++ {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}

// some reports whether anything is left out.
func (c *tailChoice) some() bool {
	return len(c.kinds) > 0 || len(c.classes) > 0 || c.agent != "" || c.channel != ""
}

// has reports whether a record is shown.
func (c *tailChoice) has(fact model.Fact) bool {
	if !c.some() {
		return true
	}
	if fact == nil || len(c.kinds) > 0 && !c.kinds[fact.Kind()] {
		return false
	}
	switch f := fact.(type) {
	case *model.Attempts:
		return c.by(f.Agent) && c.any(f)
	case *model.Summary:
		return c.by(f.Agent) && c.anySum(f)
	case *model.Command:
		return len(c.classes) == 0 && c.by(f.Agent) && (c.channel == "" || f.Channel == c.channel)
	}
	return c.agent == "" && c.channel == "" && len(c.classes) == 0
}

func (c *tailChoice) by(agent string) bool { return c.agent == "" || agent == c.agent }

// of reports whether a call of a channel that ended so is meant.
func (c *tailChoice) of(channel string, class model.Class) bool {
	return (c.channel == "" || channel == c.channel) && (len(c.classes) == 0 || c.classes[class])
}

func (c *tailChoice) any(f *model.Attempts) bool {
	if c.channel == "" && len(c.classes) == 0 {
		return true
	}
	for i := range f.Attempts {
		if a := &f.Attempts[i]; int(a.Channel) < len(f.Channels) && c.of(f.Channels[a.Channel].Channel, a.Class) {
			return true
		}
	}
	return false
}

func (c *tailChoice) anySum(f *model.Summary) bool {
	if c.channel == "" && len(c.classes) == 0 {
		return true
	}
	for i := range f.Counts {
		if n := &f.Counts[i]; c.of(n.Channel, n.Class) {
			return true
		}
	}
	return false
}
