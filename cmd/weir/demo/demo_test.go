package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/cmd/weir/load"
	"weir/cmd/weir/report"
	"weir/controller"
	"weir/events"
	"weir/events/journal"
	"weir/model"
	"weir/sim/incident"
	"weir/sim/provider"
)

// TestDemo plays the whole demo and holds it to what it promises.
func TestDemo(t *testing.T) {
	if os.Getenv("WEIR_LONG") == "" {
		t.Skip("takes a minute; set WEIR_LONG=1")
	}
	dir := t.TempDir()
	var out bytes.Buffer
	r, err := Run(t.Context(), Options{Dir: dir, Stdout: &out, Stderr: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if !r.Better {
		t.Error("not better with Weir")
	}
	checkFolder(t, dir, &r)
	checkJournal(t, r.Journal)
	if r.Lag > mostLag/2 {
		t.Skipf("the machine was busy: requests were noticed %.2f s late; the simulator holds the figures", r.Lag)
	}
	a, b := &r.Uncontrolled, &r.Weir
	if a.GoodputRatio >= 0.5 || a.WasteRatio <= 0.3 {
		t.Errorf("uncontrolled: %.3f of what was possible with %.3f wasted, want under 0.5 with over 0.3", a.GoodputRatio, a.WasteRatio)
	}
	if b.GoodputRatio < 0.88 || b.WasteRatio >= 0.03 {
		t.Errorf("with Weir: %.3f of what was possible with %.3f wasted, want at least 0.88 with under 0.03", b.GoodputRatio, b.WasteRatio)
	}
}

// checkFolder holds that exactly the promised files are left, and that the
// summary says what Run returned.
func checkFolder(t *testing.T, dir string, r *Result) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{fileJournal, fileReport, fileSummary, filePicture}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	data, err := os.ReadFile(filepath.Join(dir, fileSummary))
	if err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*r, back, cmp.Comparer(same)); diff != "" {
		t.Errorf("summary (-returned +read back):\n%s", diff)
	}
}

// checkJournal reads the journal back to its end.
func checkJournal(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	j, err := journal.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[model.Kind]int{}
	for {
		e, err := j.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		fact, err := events.Decode(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		kinds[fact.Kind()]++
	}
	if !j.Complete() || kinds[model.KindLead] != 1 || kinds[model.KindConfig] != 1 || kinds[model.KindAttempts] < 100 {
		t.Errorf("journal complete %v with %v", j.Complete(), kinds)
	}
}

func same(a, b report.Number) bool {
	return a == b || math.IsNaN(float64(a)) && math.IsNaN(float64(b))
}

func TestOptions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	for _, o := range []Options{{For: 19 * time.Second, Dir: dir}, {For: -1, Dir: dir}, {Incident: "no-such", Dir: dir}} {
		if _, err := Run(t.Context(), o); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("options %+v: error %v, want one line", o, err)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("bad options made the folder: %v", err)
	}
}

// steady is a phase of 20 s at 100 ms: a hundred wanted a second, as many
// could be served, and the given number is, from the given instant on.
func steady(from time.Duration, rate int64) []sample {
	var out []sample
	done := int64(0)
	for i := range int64(201) {
		now := time.Duration(i) * 100 * time.Millisecond
		if now > from {
			done += rate / 10
		}
		out = append(out, sample{
			at:       now,
			load:     load.Snapshot{At: now, Total: load.Counts{Offered: 10 * i, Completed: done}, P50: time.Second, P99: -1},
			books:    provider.Books{Offered: 20 * i, Served: done, Refused: provider.Refused{Concurrency: 5 * i}, Abandoned: i, CouldHaveServed: 10 * i},
			capacity: 80, best: 60, window: math.NaN(), weight: 1,
		})
	}
	return out
}

func TestFigures(t *testing.T) {
	got := figures(steady(0, 50), 5*time.Second, 15*time.Second, &load.Result{})
	want := report.Figures{
		Seconds: 15, Offered: 1500, Completed: 750, Goodput: 50, CouldHaveServed: 1500, GoodputRatio: 0.5,
		Attempts: 3000, Refused: 750, Abandoned: 150, Wasted: 900, WasteRatio: 0.3,
		P50: none, P99: none, CallP50: none, CallP99: none, Recover: none,
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(same)); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	for _, cut := range []int{0, 1, 10, 51} { // a run that ended before anything counted
		f := figures(steady(0, 50)[:cut], 5*time.Second, 15*time.Second, &load.Result{})
		if f.Seconds != 0 || f.Goodput != 0 {
			t.Errorf("%d samples: %+v, want nothing counted", cut, f)
		}
	}
}

func TestRecovery(t *testing.T) {
	change := 10 * time.Second
	for _, c := range []struct {
		name string
		from time.Duration
		rate int64
		want float64
	}{
		{"never down", 0, 100, 0},
		{"down to the end", 0, 50, math.NaN()},
		// From t on, 100(20-15) of 100(20-t) is nine tenths at t = 14.44 s.
		{"back after five seconds", 15 * time.Second, 100, 4.5},
		{"back too late to be held", 19500 * time.Millisecond, 100, math.NaN()},
	} {
		got := float64(recovery(steady(c.from, c.rate), change))
		if math.IsNaN(got) != math.IsNaN(c.want) || math.Abs(got-c.want) > 0.11 {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestColumns(t *testing.T) {
	c := columns(steady(0, 50))
	i := 150
	got := []float64{c.T[i], c.Offered[i], c.Completed[i], c.Sent[i], c.Refused[i], c.Could[i], c.Capacity[i], c.P50[i]}
	want := []float64{15, 100, 50, 200, 50, 100, 80, 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("t, offered, completed, sent, refused, could, capacity, p50 (-want +got):\n%s", diff)
	}
	if !math.IsNaN(c.Offered[0]) || !math.IsNaN(c.Window[i]) || !math.IsNaN(c.P99[i]) {
		t.Errorf("gaps became %v, %v and %v", c.Offered[0], c.Window[i], c.P99[i])
	}
}

func builtin(t *testing.T) *incident.Incident {
	t.Helper()
	inc, err := incident.Builtin("2064-cascade")
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

func TestCode2064(t *testing.T) {
	inc, samples := builtin(t), steady(0, 50)
	if got := code2064(inc, samples, 5*time.Second); got != 750 {
		t.Errorf("got %d answers, want the 750 refused for concurrency", got)
	}
	inc.Providers[0].Law.Refusal.Code = "1002"
	if got := code2064(inc, samples, 5*time.Second); got != 0 {
		t.Errorf("got %d answers of a provider that says 1002", got)
	}
}

func TestScript(t *testing.T) {
	inc := builtin(t).Compress(30 * time.Second)
	m := marks(inc)
	if len(m) != len(inc.Providers[0].Changes) || !strings.Contains(m[0].Text, "concurrency 240 → ") {
		t.Errorf("marks %+v", m)
	}
	if last := lastChange(inc); last <= 0 || last >= inc.Duration || last.Seconds() < m[len(m)-1].At {
		t.Errorf("last change at %v of %v, marks %+v", last, inc.Duration, m)
	}
}

func TestDecision(t *testing.T) {
	began := time.Unix(100, 0)
	at := model.Nanos(began.Add(1500 * time.Millisecond).UnixNano())
	for _, c := range []struct {
		in   controller.Decision
		want report.Decision
	}{
		{
			controller.Decision{At: at, Channel: "c", Rule: "window.cut", Before: 120_500, After: 80_000, Reason: "why"},
			report.Decision{At: 1.5, Channel: "c", Rule: "window.cut", Change: "120.5 → 80.0", Reason: "why"},
		},
		{
			controller.Decision{At: at, Channel: "c", Rule: "weight.decay", Before: 1_000_000, After: 700_000},
			report.Decision{At: 1.5, Channel: "c", Rule: "weight.decay", Change: "1.00 → 0.70"},
		},
		{controller.Decision{At: at, Agent: "a", Rule: "agent"}, report.Decision{At: 1.5, Channel: "a", Rule: "agent"}},
	} {
		if diff := cmp.Diff(c.want, decision(&c.in, began)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.in.Rule, diff)
		}
	}
}

// TestLiveLines holds that nothing moves the cursor where there is no terminal.
func TestLiveLines(t *testing.T) {
	var out bytes.Buffer
	l := newLive(&out, []string{"one", "two"}, 20*time.Second)
	for p := range 2 {
		l.begin(p)
		for _, s := range steady(0, 50) {
			l.show(p, &s)
		}
	}
	l.say("done")
	if strings.Contains(out.String(), "\x1b") {
		t.Error("a file got escape sequences")
	}
	if lines := strings.Count(out.String(), "\n"); lines < 8 || lines > 16 {
		t.Errorf("%d lines for 40 s:\n%s", lines, out.String())
	}
}

func TestLiveTable(t *testing.T) {
	var out bytes.Buffer
	l := newLive(&out, []string{"one", "two"}, 20*time.Second)
	l.terminal = true
	samples := steady(0, 50)
	l.show(0, &samples[100])
	first := out.Len()
	l.show(1, &samples[200])
	if redraw := out.String()[first:]; !strings.HasPrefix(redraw, "\x1b[11A\x1b[J") || !strings.Contains(redraw, "100 %") {
		t.Errorf("redraw %q", redraw)
	}
	if got := strings.Count(out.String()[:first], "\n"); got != 11 {
		t.Errorf("drew %d lines, goes back over 11", got)
	}
	newLive(nil, []string{"one"}, time.Second).say("nobody listens")
}
