package main

import (
	"io"
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// bar shows how far a command is, on a terminal only. The zero value shows
// nothing.
type bar struct {
	all *mpb.Progress
	bar *mpb.Bar
}

// newBar returns a bar of total steps; total 0 means that it is not known.
func newBar(w io.Writer, label string, total int64) bar {
	if !terminal(w) {
		return bar{}
	}
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(40))
	return bar{p, p.AddBar(total, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(label+" ")),
		mpb.AppendDecorators(decor.CountersNoUnit("%d of %d"), decor.Elapsed(decor.ET_STYLE_GO, decor.WCSyncSpace)))}
}

// set shows that n of total steps are done.
func (b bar) set(n, total int64) {
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
