package simreport

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weir/cmd/weir/report"
	"weir/model"
	"weir/sim/world"
)

const hostile = `</script><script src="//evil.example/x.js"></script><img src=x onerror=alert(1)>`

// result is a run of ten seconds with two channels, of which Weir knows when
// it decides.
func result(policy string) *world.Result {
	r := &world.Result{Incident: "storm", Policy: policy, Seed: 1, Series: &world.Series{Step: 2, Channels: []string{"a", hostile}}}
	for i := range 5 {
		p := world.Point{P50: time.Second, P95: 2 * time.Second, P99: -1, Abandoned: 2}
		p.At, p.Wanted, p.Sent, p.Completed, p.InFlight, p.Capacity = 2*(i+1), 20, 30, 10, 7, 9
		p.Refused[model.ClassOverloaded] = 6
		for k := range 2 {
			p.Channels = append(p.Channels, world.ChannelPoint{
				InFlight: 3, Capacity: 5 - 6*int64(k), Known: policy == world.PolicyWeir, Window: 4500, Weight: 700_000, Breaker: model.BreakerHalfOpen,
			})
		}
		r.Series.Points = append(r.Series.Points, p)
	}
	for i := range 101 {
		r.Series.Spread = append(r.Series.Spread, time.Duration(i)*100*time.Millisecond)
	}
	return r
}

// study is two policies of one incident with four seeds; Weir recovers in
// three of them.
func study() *Study {
	s := &Study{
		Title: "Simulated " + hostile, Command: "weir sim run " + hostile, Version: "test", Seeds: []uint64{1, 2, 3, 4},
		Incidents: []Incident{{Name: "storm", About: hostile, Seconds: 10, LastChange: 5, Marks: []report.Mark{{At: 3, Text: hostile}}}},
		Policies:  []Policy{{Name: "none", About: "nothing"}, {Name: "weir", About: hostile}},
	}
	for p, policy := range []string{"none", "weir"} {
		for seed := range uint64(4) {
			f := world.Figures{
				Incident: "storm", Policy: policy, Seed: seed + 1, GoodputRatio: 0.2 + 0.6*float64(p) + float64(seed)/100, WasteRatio: 0.8 - 0.7*float64(p),
				Collapsed: p == 0 && seed < 3, P50S: 1, P95S: 2, P99S: 3, Jain: 1, WallS: float64(seed),
			}
			if p == 1 && seed > 0 {
				took := float64(seed)
				f.RecoverS = &took
			}
			s.Runs = append(s.Runs, f)
		}
		s.Timelines = append(s.Timelines, TimelineOf(result(policy)))
	}
	return s
}

func written(t *testing.T, s *Study) string {
	t.Helper()
	var out bytes.Buffer
	if err := WriteHTML(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPageAsksNobody(t *testing.T) {
	text := written(t, study())
	tags := regexp.MustCompile(`="[^"]*"`).ReplaceAllString(text, `=""`) // what an attribute says is no tag
	if hit := regexp.MustCompile(`(?i:<[^>]*\s(src|href|srcset|action|data)\s*=|@import)|\burl\(`).FindString(tags); hit != "" {
		t.Errorf("the page can load something: %q", hit)
	}
	if !strings.Contains(text, `content="default-src 'none';`) {
		t.Error("the page has no content policy that forbids requests")
	}
}

func TestPageEscapes(t *testing.T) {
	text := written(t, study())
	if strings.Contains(text, hostile) || strings.Contains(text, "<img") {
		t.Error("foreign text stands in the page unescaped")
	}
	if begin, end := strings.Count(text, "<script"), strings.Count(text, "</script"); begin != 3 || end != 3 {
		t.Errorf("%d scripts with %d ends, want 3", begin, end)
	}
}

// TestPageHoldsData reads the study back out of the page, as its script does.
func TestPageHoldsData(t *testing.T) {
	_, rest, _ := strings.Cut(written(t, study()), `id="study">`)
	data, _, _ := strings.Cut(rest, "</script>")
	var got Study
	if err := json.Unmarshal([]byte(strings.ReplaceAll(data, "null", "-1")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Runs) != 8 || got.Runs[7].GoodputRatio < 0.82 || got.Runs[7].WallS != 0 || len(got.Timelines) != 2 || len(got.Timelines[1].Spread) != 101 {
		t.Errorf("got %d runs and %d timelines: %+v", len(got.Runs), len(got.Timelines), got.Runs)
	}
}

// TestPageIsTheSame holds that what takes longer looks no different.
func TestPageIsTheSame(t *testing.T) {
	a, b := study(), study()
	for i := range b.Runs {
		b.Runs[i].WallS += 7
	}
	if written(t, a) != written(t, b) {
		t.Error("the page depends on how long the runs took")
	}
	if b.Runs[0].WallS != 7 {
		t.Error("writing changed the study")
	}
}

// TestEmptyStudy holds that a study without runs still makes a page.
func TestEmptyStudy(t *testing.T) {
	if err := WriteHTML(io.Discard, &Study{}); err != nil {
		t.Error(err)
	}
}

func TestTimeline(t *testing.T) {
	for _, policy := range []string{world.PolicyNone, world.PolicyWeir} {
		line := TimelineOf(result(policy))
		got := []float64{line.T[4], line.Wanted[1], line.Sent[1], line.Completed[1], line.Refused[1], line.Abandoned[1], line.P95[1], line.Channels[0].Capacity[0]}
		if d := cmp.Diff([]float64{10, 10, 15, 5, 3, 1, 2, 5}, got); d != "" {
			t.Errorf("%s: t, wanted, sent, completed, refused, given up, p95, capacity (-want +got):\n%s", policy, d)
		}
		if len(line.Classes) != 1 || line.Classes[0].Name != "overloaded" || line.Classes[0].Refused[0] != 3 {
			t.Errorf("%s: classes %+v, want the one that occurred", policy, line.Classes)
		}
		if !math.IsNaN(line.P99[1]) || !math.IsNaN(line.Capacity[0]) || !math.IsNaN(line.Channels[1].Capacity[0]) {
			t.Errorf("%s: what there is none of is %v, %v, %v", policy, line.P99[1], line.Capacity[0], line.Channels[1].Capacity[0])
		}
	}
	none, weir := TimelineOf(result(world.PolicyNone)), TimelineOf(result(world.PolicyWeir))
	if !math.IsNaN(none.Window[0]) || !math.IsNaN(none.Channels[0].Weight[0]) || !math.IsNaN(none.Channels[0].Breaker[0]) {
		t.Errorf("without a controller there is window %v", none.Window[0])
	}
	if c := weir.Channels[0]; weir.Window[0] != 9 || c.Window[0] != 4.5 || c.Weight[0] != 0.7 || c.Breaker[0] != 0.5 {
		t.Errorf("window %v of two channels, the first %+v", weir.Window[0], c)
	}
}

func TestCells(t *testing.T) {
	cells := study().Cells()
	if len(cells) != 2 {
		t.Fatalf("%d cells, want 2", len(cells))
	}
	none, weir := &cells[0], &cells[1]
	if none.Collapsed.K != 3 || none.Recovered.K != 0 || none.Recovered.N != 4 || weir.Collapsed.K != 0 || weir.Recovered.K != 3 {
		t.Errorf("collapsed %+v and %+v, recovered %+v and %+v", none.Collapsed, weir.Collapsed, none.Recovered, weir.Recovered)
	}
	if g := weir.Goodput; math.Abs(float64(g.Median)-0.815) > 1e-9 || math.Abs(float64(g.Least)-0.8) > 1e-9 || weir.Recovery.Median != 2 || weir.Recovery.Most != 3 {
		t.Errorf("goodput %+v, recovery %+v", g, weir.Recovery)
	}
	calm := study()
	calm.Incidents[0].LastChange = 0
	if c := calm.Cells()[1]; c.Recovered.N != 0 || c.Recovery.N != 0 {
		t.Errorf("recovered %+v from nothing", c.Recovered)
	}
	totals := study().Totals(cells)
	if tt := totals[0]; tt.Policy != "none" || tt.Collapsed.K != 3 || tt.At != "storm" || tt.Worst != none.Goodput.Median {
		t.Errorf("total %+v", tt)
	}
}

// TestShare compares with published values of Wilson's interval and holds that
// it is one.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{{0, 10, 0, 0.2775}, {5, 10, 0.2366, 0.7634}, {10, 10, 0.7225, 1}, {1, 1, 0.2065, 1}} {
		if s := shareOf(c.k, c.n); math.Abs(float64(s.Low)-c.low) > 1e-4 || math.Abs(float64(s.High)-c.high) > 1e-4 {
			t.Errorf("%d of %d: %+v, want %v to %v", c.k, c.n, s, c.low, c.high)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 10_000).Draw(t, "n")
		k := rapid.IntRange(0, n).Draw(t, "k")
		s := shareOf(k, n)
		if p := Number(float64(k) / float64(n)); s.Low > p+1e-12 || s.High < p-1e-12 || s.Low < 0 || s.High > 1 {
			t.Fatalf("%+v does not hold %v", s, p)
		}
	})
}

func TestSpread(t *testing.T) {
	s := spreadOf([]float64{4, 1, 3, 2, 10})
	if d := cmp.Diff(Spread{N: 5, Least: 1, Low: 2, Median: 3, High: 4, Most: 10, Mean: 4}, s); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if s := spreadOf(nil); s.N != 0 || !math.IsNaN(float64(s.Median)) {
		t.Errorf("of nothing: %+v", s)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out, func(string) bool { return true })
	for _, f := range study().Runs {
		if err := table.Show(&f); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.End(); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(rows) != 3 || !strings.Contains(rows[1], "3/4 (30–95 %)") || !strings.Contains(rows[2], "81.5 %") || !strings.Contains(rows[2], "2.00s") {
		t.Errorf("got\n%s", out.String())
	}
}
