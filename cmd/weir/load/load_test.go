package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/agent/dialect"
	"weir/sim/incident"
	"weir/sim/workload"
)

// desk is a server that counts, and answers as its behave says.
type desk struct {
	*httptest.Server
	mu     sync.Mutex
	tries  map[string]int // by request
	now    int
	most   int
	bodies []map[string]any
	behave func(w http.ResponseWriter, req *http.Request, try int)
}

func newDesk(t *testing.T, behave func(w http.ResponseWriter, req *http.Request, try int)) *desk {
	t.Helper()
	d := &desk{tries: map[string]int{}, behave: behave}
	d.Server = httptest.NewServer(http.HandlerFunc(d.serve))
	t.Cleanup(d.Close)
	return d
}

func (d *desk) serve(w http.ResponseWriter, req *http.Request) {
	var body map[string]any
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil || req.URL.Path != "/v1/chat/completions" {
		http.Error(w, "no such call", http.StatusNotFound)
		return
	}
	id := req.Header.Get(headerRequest)
	d.mu.Lock()
	d.tries[id]++
	try := d.tries[id]
	d.now++
	d.most = max(d.most, d.now)
	if len(d.bodies) < 10 {
		d.bodies = append(d.bodies, body)
	}
	d.mu.Unlock()
	d.behave(w, req, try)
	d.mu.Lock()
	d.now--
	d.mu.Unlock()
}

// seen ends the server and returns the tries by request.
func (d *desk) seen() map[string]int {
	d.Close()
	return d.tries
}

const good = `{"choices":[{"message":{"content":"done"},"finish_reason":"stop"}]}`

func answerGood(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, good) }

// world is an incident of two agents whose applications want 100 requests a
// second each.
func world(t *testing.T, client string) *incident.Incident {
	t.Helper()
	inc, err := incident.Parse("test.yaml", strings.NewReader(fmt.Sprintf(`
name: test
about: test
duration: 700ms
fleet: {agents: 2}
channels: [{name: c, provider: p}]
routes: [{name: default, tiers: [[{channel: c}]]}]
providers: [{name: p, service: {base: 10ms}}]
workload:
  - name: w
    route: default
    tenant: content
    priority: batch
    arrivals: {kind: batch, size: 10, parallel: 5, every: 100ms}
    input_tokens: {kind: fixed, value: 4000}
    output_tokens: {kind: fixed, value: 30}
    %s
`, client)))
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

// checkBooks holds that nothing wanted or tried is lost or counted twice.
func checkBooks(t *testing.T, r *Result) {
	t.Helper()
	c := r.Total
	if got := c.Completed + c.GaveUp + c.Dropped + r.Unfinished; got != c.Offered {
		t.Errorf("%d wanted, but %d completed, given up, dropped or unfinished", c.Offered, got)
	}
	if got := c.OK + c.Late + c.Failed + r.InFlight; got != c.Attempts {
		t.Errorf("%d attempts, but %d ended or in flight", c.Attempts, got)
	}
	failed := int64(0)
	for _, n := range r.Codes {
		failed += n
	}
	if failed != r.Failed {
		t.Errorf("%d failed, but codes say %d", r.Failed, failed)
	}
}

func run(t *testing.T, o Options) Result {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	checkBooks(t, &r)
	return r
}

func TestEveryWantIsServed(t *testing.T) {
	d := newDesk(t, answerGood)
	wanted := map[uint64]bool{}
	r := run(t, Options{
		Incident: world(t, "client: {pool: 50}"), Seed: 7, Targets: []string{d.URL + "/v1/"},
		Wanted: func(_ time.Duration, r workload.Request) { wanted[r.ID] = true },
	})
	if int(r.Offered) != len(wanted) || r.Offered < 50 {
		t.Errorf("offered %d, wanted said %d, want the same and at least 50", r.Offered, len(wanted))
	}
	if r.Failed != 0 || r.Completed < r.Offered*8/10 {
		t.Errorf("%d failed and %d completed of %d", r.Failed, r.Completed, r.Offered)
	}
	d.seen()
	want := map[string]any{"model": "default", "max_tokens": 30.0}
	got := map[string]any{"model": d.bodies[0]["model"], "max_tokens": d.bodies[0]["max_tokens"]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if len(r.Timeline) != 0 && r.Timeline[0].Offered == 0 {
		t.Error("the timeline counts nothing")
	}
}

// TestRequeue refuses every first try with an error in a 200.
func TestRequeue(t *testing.T) {
	d := newDesk(t, func(w http.ResponseWriter, req *http.Request, try int) {
		if try == 1 {
			_, _ = io.WriteString(w, `{"choices":null,"base_resp":{"status_code":2064,"status_msg":"busy"}}`)
			return
		}
		answerGood(w, req, try)
	})
	r := run(t, Options{Incident: world(t, "client: {pool: 50, retry: {kind: requeue, after: 20ms}}"), Targets: []string{d.URL}})
	if r.Codes["2064"] != r.Failed || r.Failed == 0 {
		t.Errorf("codes %v with %d failed, want all 2064", r.Codes, r.Failed)
	}
	for id, n := range d.seen() {
		if n > 2 {
			t.Errorf("request %s was tried %d times, want at most 2", id, n)
		}
	}
	if r.Completed == 0 || r.GaveUp != 0 {
		t.Errorf("completed %d, given up %d; want some and none", r.Completed, r.GaveUp)
	}
	if want := r.Failed * 4000; r.FailedTokens != want {
		t.Errorf("failed prompt tokens %d, want %d", r.FailedTokens, want)
	}
}

func TestHabitNone(t *testing.T) {
	d := newDesk(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		http.Error(w, `{"error":{"type":"overloaded_error"}}`, http.StatusServiceUnavailable)
	})
	r := run(t, Options{Incident: world(t, "client: {pool: 50, retry: {kind: none}}"), Targets: []string{d.URL}})
	if r.Completed != 0 || r.GaveUp != r.Failed || r.Codes["overloaded_error"] != r.Failed {
		t.Errorf("completed %d, given up %d, failed %d by %v", r.Completed, r.GaveUp, r.Failed, r.Codes)
	}
}

// TestPoolBoundsCalls lets nothing end: the pools fill, and stay within bounds.
func TestPoolBoundsCalls(t *testing.T) {
	d := newDesk(t, func(_ http.ResponseWriter, req *http.Request, _ int) { <-req.Context().Done() })
	r := run(t, Options{Incident: world(t, "client: {pool: 3}"), Targets: []string{d.URL, d.URL}, Hold: 10})
	if d.seen(); d.most > 6 || r.InFlight != 6 {
		t.Errorf("%d calls at once and %d at the end, want 6", d.most, r.InFlight)
	}
	if r.Unfinished > 6+10 || r.Dropped == 0 {
		t.Errorf("%d unfinished and %d dropped, want at most 16 and some", r.Unfinished, r.Dropped)
	}
}

func TestTimeout(t *testing.T) {
	d := newDesk(t, func(_ http.ResponseWriter, req *http.Request, _ int) { <-req.Context().Done() })
	r := run(t, Options{Incident: world(t, "client: {timeout: 50ms, pool: 3, retry: {kind: none}}"), Targets: []string{d.URL}})
	if r.Codes["timeout"] == 0 || r.Codes["timeout"] != r.Failed {
		t.Errorf("codes %v, want only timeouts", r.Codes)
	}
}

func TestDeadline(t *testing.T) {
	d := newDesk(t, func(_ http.ResponseWriter, req *http.Request, _ int) { <-req.Context().Done() })
	r := run(t, Options{Incident: world(t, "deadline: 100ms\n    client: {pool: 3, retry: {kind: requeue, after: 10ms}}"), Targets: []string{d.URL}})
	if r.GaveUp == 0 || r.Completed != 0 {
		t.Errorf("%d given up and %d completed, want some and none", r.GaveUp, r.Completed)
	}
	for id, n := range d.seen() {
		if n > 1 {
			t.Errorf("request %s was tried %d times after its deadline", id, n)
		}
	}
}

func TestClosedUsersComeBack(t *testing.T) {
	d := newDesk(t, answerGood)
	inc := world(t, "client: {pool: 50}")
	inc.Workloads[0].Arrivals = incident.Arrivals{Kind: incident.ArriveClosed, Users: 4, Think: 10 * time.Millisecond}
	r := run(t, Options{Incident: inc, Targets: []string{d.URL}})
	if r.Offered < 20 {
		t.Errorf("4 users wanted %d in 700 ms with 10 ms of thought, want more than a few each", r.Offered)
	}
}

func TestNobodyListens(t *testing.T) {
	r := run(t, Options{Incident: world(t, "client: {pool: 2, retry: {kind: requeue, after: 50ms}}"), Targets: []string{"http://127.0.0.1:1"}})
	if r.Codes["connection_refused"] != r.Failed || r.Failed == 0 {
		t.Errorf("codes %v with %d failed", r.Codes, r.Failed)
	}
}

func TestCancelKeepsTheResult(t *testing.T) {
	d := newDesk(t, answerGood)
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	r, err := Run(ctx, Options{
		Incident: world(t, "client: {pool: 50}"), Targets: []string{d.URL}, Every: 100 * time.Millisecond,
		For: time.Hour, Stdout: &out, JSON: true,
		Watch: func(s Snapshot) {
			if s.Total.Completed > 0 {
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) || !r.Cut || r.Completed == 0 {
		t.Errorf("error %v, cut %v, completed %d", err, r.Cut, r.Completed)
	}
	checkBooks(t, &r)
	var back Result
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Errorf("JSON (-result +read back):\n%s", diff)
	}
}

func TestWarmUpIsLeftOut(t *testing.T) {
	d := newDesk(t, answerGood)
	r := run(t, Options{Incident: world(t, "client: {pool: 50}"), Targets: []string{d.URL}, CountFrom: 350 * time.Millisecond})
	if r.Offered == 0 || r.Offered >= r.Total.Offered || r.Call.Count != r.OK || r.Lag.Count != r.Offered {
		t.Errorf("counted %d of %d, %d spread of %d good, lag of %d", r.Offered, r.Total.Offered, r.Call.Count, r.OK, r.Lag.Count)
	}
	sum := Counts{}
	for _, p := range r.Timeline {
		sum = sum.plus(p.Counts)
	}
	if sum != r.Total {
		t.Errorf("the timeline counts %+v, want %+v", sum, r.Total)
	}
}

func TestBadTargets(t *testing.T) {
	for _, target := range []string{"", "localhost:9000", "ftp://x", "http://", "http://a b"} {
		if _, err := Run(t.Context(), Options{Incident: world(t, "client: {pool: 1}"), Targets: []string{target}}); err == nil {
			t.Errorf("target %q was taken", target)
		}
	}
	if _, err := Run(t.Context(), Options{Targets: []string{"http://127.0.0.1:1"}}); err == nil {
		t.Error("a run without an incident was taken")
	}
}

func TestCoarserKeepsCounts(t *testing.T) {
	var points []Point
	for i := range 100 {
		points = append(points, Point{At: float64(i), Counts: Counts{Offered: int64(i), Failed: 1}})
	}
	half := coarser(points)
	sum := Counts{}
	for _, p := range half {
		sum = sum.plus(p.Counts)
	}
	if want := (Counts{Offered: 4950, Failed: 100}); len(half) != 50 || sum != want || half[0].At != 1 {
		t.Errorf("%d points from %v with %+v, want 50 from 1 with %+v", len(half), half[0].At, sum, want)
	}
}

// TestWords: agents reckon as many tokens of a prompt as it stands for.
func TestWords(t *testing.T) {
	c, err := newCaller("http://127.0.0.1:1", "", false, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bool{false, true} {
		c.whole = whole
		for _, tokens := range []int64{0, 1, 100, 5000} {
			req, err := c.request(t.Context(), &incident.Workload{Route: "default"}, &request{Request: workload.Request{ID: 7, Input: tokens}})
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				t.Fatal(err)
			}
			got, want := int64(dialect.Estimate(body)), max(tokens, 22)
			if !whole {
				want = 22
			}
			if off := got - want; off < -4 || off > 4 {
				t.Errorf("whole %v, %d tokens: reckoned as %d", whole, tokens, got)
			}
		}
	}
}
