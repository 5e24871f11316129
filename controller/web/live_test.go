package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/controller/history"
	"weir/controller/web"
	"weir/model"
)

// listening serves the API over a real connection.
func (r *rig) listening() string {
	r.t.Helper()
	l, err := web.Listen("127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- web.Serve(ctx, l, r.api, slog.New(slog.DiscardHandler)) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// told is what a test reads of an event.
type told struct {
	Status   struct{ Seq uint64 }
	Channels []struct {
		Name    string
		Breaker string
	}
	Decisions []struct {
		Seq           uint64
		Channel, Rule string
	}
}

// follow reads events until f returns true.
func follow(t *testing.T, in io.Reader, f func(*told) bool) {
	t.Helper()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e told
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if f(&e) {
			return
		}
	}
	t.Fatalf("the events ended: %v", lines.Err())
}

// TestLive sees a channel being stopped, and its decision once.
func TestLive(t *testing.T) {
	r := start(t, nil)
	base := r.listening()
	resp, err := http.Get(base + "/api/v1/live")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("%s %s", resp.Status, kind)
	}
	seq, err := r.loop.Append(t.Context(), &model.Command{Command: model.CommandForceBreaker, Value: 1, Channel: "a", By: "me"})
	if err != nil {
		t.Fatal(err)
	}
	open, decided := false, map[string]int{}
	follow(t, resp.Body, func(e *told) bool {
		for _, d := range e.Decisions {
			if d.Seq == seq && d.Channel == "a" {
				decided[d.Rule]++
			}
		}
		enough := open && len(decided) > 0 && e.Status.Seq >= seq
		open = open || e.Channels[0].Breaker == "open"
		return enough
	})
	for rule, n := range decided {
		if n != 1 {
			t.Errorf("decision %s is told %d times", rule, n)
		}
	}
}

// TestLiveEndsWithTheController holds that a page's connection keeps nobody
// from stopping.
func TestLiveEndsWithTheController(t *testing.T) {
	r := start(t, nil)
	resp, err := http.Get(r.listening() + "/api/v1/live")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	follow(t, resp.Body, func(*told) bool { return true })
	r.stop()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the stream breaks: %v", err)
	}
}

// TestPagesAreBounded opens one page more than may be told.
func TestPagesAreBounded(t *testing.T) {
	r := start(t, nil)
	base := r.listening()
	refused := 0
	for range 65 {
		resp, err := http.Get(base + "/api/v1/live")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		if resp.StatusCode == http.StatusServiceUnavailable {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d of 65 pages are refused", refused)
	}
	r.want(200, "GET", "/metrics", "", `weir_bound_used_ratio{bound="pages"} 1`+"\n")
	r.want(200, "GET", "/metrics", "", `weir_bound_used_ratio{bound="agents"} 0`+"\n")
}

// past is a history of one point.
type past struct{ from, to time.Time }

func (p *past) Points(channel string, from, to time.Time) ([]history.Point, error) {
	p.from, p.to = from, to
	if channel != "a" {
		return nil, errors.New("disk on fire")
	}
	return []history.Point{{Unix: 100, Window: 2500, OK: 7}}, nil
}

func TestHistory(t *testing.T) {
	p := &past{}
	r := start(t, func(o *web.Options) { o.Past = p })
	var got struct {
		Channel string
		Columns []string
		Points  [][]int64
	}
	decode(t, r.want(200, "GET", "/api/v1/history?channel=a&from=50&to=150", "", ""), &got)
	if p.from.Unix() != 50 || p.to.Unix() != 150 {
		t.Errorf("asked for %s to %s", p.from, p.to)
	}
	if len(got.Points) != 1 || len(got.Points[0]) != len(got.Columns) || got.Points[0][0] != 100 || got.Columns[1] != "window_milli" || got.Points[0][1] != 2500 {
		t.Errorf("%+v", got)
	}
	_, table := r.do("GET", "/api/v1/history?channel=a&format=csv", "")
	if lines := strings.Split(strings.TrimSpace(table), "\n"); len(lines) != 2 || !strings.HasPrefix(lines[1], "100,2500,") {
		t.Errorf("table: %q", table)
	}
	if span := p.to.Sub(p.from); span != time.Hour {
		t.Errorf("without a time it asks for %s", span)
	}
	for query, want := range map[string]int{
		"channel=a&from=x": 400, "channel=a&to=-1": 400, "channel=a&from=99999999999999999999": 400, "channel=a&from=9&to=8": 400,
		"channel=z": 500,
	} {
		if got, _ := r.do("GET", "/api/v1/history?"+query, ""); got != want {
			t.Errorf("%s: status %d, want %d", query, got, want)
		}
	}
	if got, _ := start(t, nil).do("GET", "/api/v1/history?channel=a", ""); got != http.StatusNotFound {
		t.Errorf("without a history: status %d", got)
	}
}

// TestPageIsServedBesideTheAPI holds that the page takes no path of the API's.
func TestPageIsServedBesideTheAPI(t *testing.T) {
	r := start(t, func(o *web.Options) {
		o.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })
	})
	for path, want := range map[string]bool{"/": true, "/page.js": true, "/api/v1/status": false, "/healthz": false} {
		if _, got := r.do("GET", path, ""); (got == "page") != want {
			t.Errorf("%s answers %q", path, got)
		}
	}
}
