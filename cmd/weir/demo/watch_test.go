package demo

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/cmd/weir/load"
	"weir/cmd/weir/pagetest"
	"weir/cmd/weir/report"
)

// watched is a director whose run is told by hand.
func watched(t *testing.T) *director {
	t.Helper()
	d, err := newDirector(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// halfway ends the first phase and has the second at its tenth second.
func halfway(d *director) {
	p := d.phase(0, steady(0, 50), &load.Result{})
	d.watch.finish(0, &p)
	d.watch.begin(1)
	d.watch.show(steady(0, 90)[:101])
}

// over ends the run.
func over(d *director) {
	p := d.phase(1, steady(0, 90), &load.Result{})
	p.Decisions = []report.Decision{{At: 3, Channel: "m2.7", Rule: "window.cut", Reason: "for a reason"}}
	d.watch.finish(1, &p)
	d.watch.end(d.report(&Result{Incident: d.incident.Name, Better: true}))
}

func (w *watch) get(t *testing.T) string {
	t.Helper()
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// TestWatch holds the page to the figures of the samples at each moment.
func TestWatch(t *testing.T) {
	d := watched(t)
	card := func(first, second string) string {
		return `<div class="phase0"><dt>uncontrolled</dt><dd>` + first + `</dd></div><div class="phase1"><dt>with Weir</dt><dd>` + second + `</dd>`
	}
	want := func(when string, texts ...string) {
		t.Helper()
		page := d.watch.get(t)
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("%s the page lacks %q", when, text)
			}
		}
		if over, live := when == "over", strings.Contains(page, "<html lang=\"en\" data-live>"); over == live {
			t.Errorf("%s: live %t", when, live)
		}
	}
	want("before", "Second 0 of 30, uncontrolled. Nothing counts before second 5.", card("–", "–"))
	d.watch.begin(0)
	d.watch.show(steady(0, 50)[:101])
	want("in the first phase", "Second 10 of 30, uncontrolled.", card("50.0", "–"), card("50.0 %", "–"))
	d.watch.controller("http://127.0.0.1:1")
	halfway(d)
	want("in the second phase", "Second 10 of 30, with Weir.", card("50.0", "90.0"), card("50.0 %", "90.0 %"), "http://127.0.0.1:1")
	over(d)
	want("over", card("50.0", "90.0"), "for a reason")
}

// TestWatchWaits holds that whoever looks gets the report before the serving
// ends, and that nobody else is waited for.
func TestWatchWaits(t *testing.T) {
	for _, c := range []struct {
		name        string
		looks, asks time.Duration // before the end; after it, negative for never
		want        time.Duration
	}{
		{"nobody looks", -1, -1, 0},
		{"somebody looked long ago", time.Minute, -1, 0},
		{"somebody looks", time.Second, time.Second / 2, time.Second / 2},
		{"somebody left", time.Second, -1, viewerStays},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := watched(t)
			synctest.Test(t, func(t *testing.T) {
				w := newWatch(dir)
				dir.watch = w
				if c.looks > 0 {
					w.get(t)
					time.Sleep(c.looks)
				}
				over(dir)
				if c.asks > 0 {
					go func() { time.Sleep(c.asks); w.get(t) }()
				}
				begun := time.Now()
				w.wait(t.Context())
				if got := time.Since(begun); got != c.want {
					t.Errorf("waited %s, want %s", got, c.want)
				}
			})
		})
	}
}

// TestWatchInABrowser looks at the page while a run goes on and ends.
func TestWatchInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("another program looks at what other tests of the same parts run")
	}
	d := watched(t)
	url, err := d.watch.serve()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.watch.close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	d.watch.begin(0)
	d.watch.show(steady(0, 50)[:101])
	teller := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/half":
			halfway(d)
		case "/over":
			over(d)
		}
	}))
	defer teller.Close()
	for _, v := range pagetest.Look(t, map[string]string{"URL": url, "TELL": teller.URL}, "side") {
		if v.Fault != "" {
			t.Error(v.Fault)
		}
		t.Log(v.Figures)
	}
}
