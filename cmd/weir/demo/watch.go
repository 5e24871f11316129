package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"weir/cmd/weir/report"
)

// watch shows the run in a browser while it goes on: the report of what there
// is so far, with the figures of the terminal's table, and at last the report.
type watch struct {
	d      *director
	server *http.Server
	ended  chan error

	mu      sync.Mutex
	phases  [2]report.Phase // those that are over, or have not begun
	now     int             // the phase that goes on
	samples []sample        // of it so far; what is in it never changes
	address string          // of the controller's own page, once it is there
	last    []byte          // the report, once the run is over
	asked   time.Time       // when somebody looked
	taken   chan struct{}   // closed when somebody has the report
}

// A viewer that looked within viewerStays is waited for at the end, for so long.
const viewerStays = 3 * time.Second

func newWatch(d *director) *watch {
	w := &watch{d: d, taken: make(chan struct{})}
	for i := range w.phases {
		w.phases[i] = d.phase(i, nil, nil)
	}
	return w
}

// serve serves the page on a free port of loopback.
func (w *watch) serve() (url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	w.server = &http.Server{Handler: w, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	w.ended = make(chan error, 1)
	go func() { w.ended <- w.server.Serve(l) }()
	return "http://" + l.Addr().String() + "/", nil
}

// begin starts a phase.
func (w *watch) begin(phase int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now, w.samples = phase, nil
}

// show takes all samples of the phase so far.
func (w *watch) show(samples []sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = samples
}

// finish takes what a phase came to.
func (w *watch) finish(phase int, p *report.Phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phases[phase], w.samples = *p, nil
}

// controller takes the address of the controller's page.
func (w *watch) controller(url string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.address = url
}

// end takes the report.
func (w *watch) end(run *report.Run) {
	var page bytes.Buffer
	if err := report.WriteHTML(&page, run); err != nil {
		return // whoever writes the file hears of it
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = page.Bytes()
}

// ServeHTTP implements http.Handler.
func (w *watch) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		http.NotFound(rw, r)
		return
	}
	page, over, err := w.page()
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	rw.Header().Set("Cache-Control", "no-store")
	if _, err := rw.Write(page); err == nil && over {
		w.take()
	}
}

// page is the page as the run stands, and whether it is the report.
func (w *watch) page() (page []byte, over bool, err error) {
	w.mu.Lock()
	w.asked = time.Now()
	phases, now, samples, live := w.phases, w.now, w.samples, report.Live{Controller: w.address}
	page = w.last
	w.mu.Unlock()
	if page != nil {
		return page, true, nil
	}
	if len(samples) > 0 {
		phases[now] = w.d.phase(now, samples, nil)
	}
	second := 0.0
	if t := phases[now].Samples.T; len(t) > 0 {
		second = t[len(t)-1]
	}
	live.Now = fmt.Sprintf("Second %.0f of %.0f, %s.", second, phases[now].Seconds, phases[now].Name)
	if second < countFrom.Seconds() {
		live.Now += fmt.Sprintf(" Nothing counts before second %.0f.", countFrom.Seconds())
	}
	var out bytes.Buffer
	err = report.WriteLive(&out, w.d.frame(phases[:]), live)
	return out.Bytes(), false, err
}

// take notes that somebody has the report.
func (w *watch) take() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.taken:
	default:
		close(w.taken)
	}
}

// wait gives who looks the time to take the report.
func (w *watch) wait(ctx context.Context) {
	w.mu.Lock()
	looked := w.last != nil && !w.asked.IsZero() && time.Since(w.asked) < viewerStays
	w.mu.Unlock()
	if !looked {
		return
	}
	select {
	case <-w.taken:
	case <-time.After(viewerStays):
	case <-ctx.Done():
	}
}

// close ends the serving, once who looks has the report.
func (w *watch) close(ctx context.Context) error {
	if w.server == nil {
		return nil
	}
	w.wait(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), viewerStays)
	defer cancel()
	err := w.server.Shutdown(ctx)
	if err != nil {
		err = w.server.Close()
	}
	if end := <-w.ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
