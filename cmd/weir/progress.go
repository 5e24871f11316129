package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// bar shows how far a command is: a bar on a terminal, elsewhere a line now and
// then, the first after lineEvery. The zero value shows nothing.
type bar struct {
	all   *mpb.Progress
	bar   *mpb.Bar
	lines *progressLines
}

// progressLines writes progress where there is no terminal.
type progressLines struct {
	out   io.Writer
	label string
	now   func() time.Time
	next  time.Time
}

// lineEvery is the least time between two lines.
const lineEvery = 10 * time.Second

func newLines(w io.Writer, label string, now func() time.Time) *progressLines {
	return &progressLines{out: w, label: label, now: now, next: now().Add(lineEvery)}
}

func (l *progressLines) set(n, total int64) {
	now := l.now()
	if now.Before(l.next) {
		return
	}
	l.next = now.Add(lineEvery)
	if total > 0 {
		fmt.Fprintf(l.out, "%s: %d of %d\n", l.label, n, total)
		return
	}
	fmt.Fprintf(l.out, "%s: %d\n", l.label, n)
}

// newBar returns a bar of total steps; total 0 means that it is not known.
func newBar(w io.Writer, label string, total int64) bar {
	if !terminal(w) {
		return bar{lines: newLines(w, label, time.Now)}
	}
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(40))
	return bar{all: p, bar: p.AddBar(total, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(label+" ")),
		mpb.AppendDecorators(decor.CountersNoUnit("%d of %d"), decor.Elapsed(decor.ET_STYLE_GO, decor.WCSyncSpace)))}
}

// set shows that n of total steps are done.
func (b bar) set(n, total int64) {
	if b.lines != nil {
		b.lines.set(n, total)
	}
	if b.bar == nil {
		return
	}
	b.bar.SetTotal(total, false)
	b.bar.SetCurrent(n)
}

// close removes the bar.
func (b bar) close() {
	if b.bar == nil {
		return
	}
	b.bar.Abort(true)
	b.all.Wait()
}

// terminal reports whether people read w as it is written.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
