package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample is a run with two phases, a gap in every kind of place, and hostile
// text wherever text comes from elsewhere.
func sample() *Run {
	run := &Run{
		Title: "A shrinking cluster, without Weir and with it", About: "An emulated provider on loopback.",
		Verdict: "Weir completed 58.0 requests a second of 61.0; without it 20.0.", Good: true,
		Made: "2026-01-02T03:04:05Z", Version: "test", Notes: []string{"service times are real"}, CountedFrom: 5,
	}
	for p, name := range []string{"uncontrolled", "with Weir"} {
		phase := Phase{Name: name, About: "load goes to the provider", Seconds: 30, Marks: []Mark{{At: 10, Text: "concurrency 165 -> 80"}}}
		phase.Figures = Figures{
			Seconds: 25, Offered: 5000, Completed: int64(500 + 950*p), Goodput: float64(20 + 38*p), CouldHaveServed: 1525,
			GoodputRatio: Number(0.328 + 0.623*float64(p)), Attempts: int64(24000 - 22500*p), Refused: int64(22000 - 21980*p),
			Wasted: int64(22000 - 21980*p), WasteRatio: Number(0.917 - 0.904*float64(p)), Code2064: int64(22000 - 21980*p),
			P50: 4.2, P99: 9.1, CallP50: 2.5, CallP99: Number(math.NaN()), Recover: Number([]float64{math.NaN(), 3.5}[p]),
		}
		s := &phase.Samples
		for i := range 120 {
			t := float64(i) / 4
			gap := []float64{math.NaN(), 1}[p]
			s.T = append(s.T, t)
			s.Offered = append(s.Offered, 200)
			s.Could = append(s.Could, 190-130*step(t, 10)+120*step(t, 24))
			s.Completed = append(s.Completed, (60+120*float64(p))*(1-0.6*step(t, 10)))
			s.Sent = append(s.Sent, 200+1300*step(t, 8)*float64(1-p))
			s.Refused = append(s.Refused, 1300*step(t, 8)*float64(1-p))
			s.InFlight = append(s.InFlight, 150-70*step(t, 10)*float64(p))
			s.Capacity = append(s.Capacity, 240-160*step(t, 10))
			s.Best = append(s.Best, 170-110*step(t, 10))
			s.Window = append(s.Window, gap*(150-90*step(t, 10)))
			s.P50 = append(s.P50, 0.8+step(t, 9))
			s.P99 = append(s.P99, 1.5+2*step(t, 9))
			s.Weight = append(s.Weight, gap)
			s.Breaker = append(s.Breaker, gap*0)
		}
		run.Phases = append(run.Phases, phase)
	}
	run.Phases[1].Decisions = []Decision{
		{At: 10.5, Channel: "m2.7", Rule: "window.cut", Change: "160 → 92", Reason: "2064 under epoch 0"},
		{At: 12, Channel: hostile, Rule: hostile, Reason: hostile},
	}
	run.Notes = append(run.Notes, hostile)
	return run
}

const hostile = `</script><script src="//evil.example/x.js"></script><img src=x onerror=alert(1)>`

func step(t, at float64) float64 {
	if t < at {
		return 0
	}
	return 1
}

func written(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	if err := WriteHTML(&out, sample()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPageAsksNobody(t *testing.T) {
	text := written(t)
	if hit := regexp.MustCompile(`(?i:<[^>]*\s(src|href|srcset|action|data)\s*=|@import)|\burl\(`).FindString(text); hit != "" {
		t.Errorf("the page can load something: %q", hit)
	}
	if !strings.Contains(text, `content="default-src &#39;none&#39;;`) && !strings.Contains(text, `content="default-src 'none';`) {
		t.Error("the page has no content policy that forbids requests")
	}
}

// TestLivePageAsksItself holds that the page of a run that goes on may ask where
// it comes from, and nobody else.
func TestLivePageAsksItself(t *testing.T) {
	var out bytes.Buffer
	if err := WriteLive(&out, sample(), Live{Now: hostile, Controller: "http://127.0.0.1:8080"}); err != nil {
		t.Fatal(err)
	}
	text := html.UnescapeString(out.String())
	if !strings.Contains(text, "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'\">") {
		t.Error("the page's content policy allows more, or less")
	}
	if strings.Contains(out.String(), hostile) {
		t.Error("foreign text stands in the page unescaped")
	}
}

func TestPageEscapes(t *testing.T) {
	text := written(t)
	if strings.Contains(text, hostile) || strings.Contains(text, "<img") {
		t.Error("foreign text stands in the page unescaped")
	}
	if got, want := strings.Count(text, "<script"), 3; got != want {
		t.Errorf("got %d scripts, want %d", got, want)
	}
	if got, want := strings.Count(text, "</script"), 3; got != want {
		t.Errorf("got %d ends of script, want %d", got, want)
	}
}

// TestPageHoldsData reads the data back out of the page, as its script does.
func TestPageHoldsData(t *testing.T) {
	text := written(t)
	_, rest, ok := strings.Cut(text, `id="run">`)
	if !ok {
		t.Fatal("the page holds no data")
	}
	data, _, _ := strings.Cut(rest, "</script>")
	var got struct {
		Phases []struct {
			Figures Figures               `json:"figures"`
			Samples map[string][]*float64 `json:"samples"`
		} `json:"phases"`
	}
	if err := json.Unmarshal([]byte(data), &got); err != nil {
		t.Fatal(err)
	}
	want := sample()
	for i, p := range got.Phases {
		if diff := cmp.Diff(want.Phases[i].Figures, p.Figures, cmp.Comparer(sameNumber)); diff != "" {
			t.Errorf("figures of phase %d (-want +got):\n%s", i, diff)
		}
		for key, column := range p.Samples {
			if len(column) != 120 {
				t.Errorf("phase %d: column %s has %d values, want 120", i, key, len(column))
			}
		}
	}
	if v := got.Phases[0].Samples["window"][3]; v != nil {
		t.Errorf("a gap became %v", *v)
	}
}

func sameNumber(a, b Number) bool {
	return a == b || math.IsNaN(float64(a)) && math.IsNaN(float64(b))
}

// TestChartsNameColumns keeps the charts' keys, the JSON names and column in step.
func TestChartsNameColumns(t *testing.T) {
	s := sample().Phases[1].Samples
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var byName map[string]json.RawMessage
	if err := json.Unmarshal(data, &byName); err != nil {
		t.Fatal(err)
	}
	for _, c := range charts() {
		for _, l := range c.Lines {
			want, err := json.Marshal(s.column(l.Key))
			if err != nil {
				t.Fatal(err)
			}
			if got := byName[l.Key]; string(got) != string(want) {
				t.Errorf("chart %q, line %q: JSON and picture read different columns", c.Title, l.Key)
			}
		}
	}
}

func TestPictureIsWellFormed(t *testing.T) {
	run := sample()
	run.Title, run.Phases[0].Name = hostile, hostile
	var out bytes.Buffer
	if err := WriteSVG(&out, run); err != nil {
		t.Fatal(err)
	}
	paths := 0
	dec := xml.NewDecoder(&out)
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			switch e.Name.Local {
			case "script", "img", "image", "use":
				t.Errorf("the picture has a %s", e.Name.Local)
			case "path":
				paths++
			}
		}
	}
	// Three strips: 3+2+3 lines and 1+1+1 areas without Weir, one line more with it.
	if want := 11 + 12; paths != want {
		t.Errorf("got %d paths, want %d", paths, want)
	}
}

func TestColumnEncoding(t *testing.T) {
	got, err := json.Marshal(Column{0, 1, -2.5, math.NaN(), math.Inf(1), 1.0 / 3, 1e18})
	if err != nil {
		t.Fatal(err)
	}
	if want := `[0,1,-2.5,null,null,0.33333,1e+18]`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRows(t *testing.T) {
	rows := Rows(sample().Phases)
	got := map[string]string{}
	for _, r := range rows {
		got[r.Label] = strings.Join(r.Values, " | ")
	}
	for label, want := range map[string]string{
		"completed a second":                   "20.0 | 58.0",
		"share of what could have been served": "32.8 % | 95.1 %",
		"wasted attempts":                      "91.7 % | 1.3 %",
		"answers with code 2064":               "22\u202f000 | 20",
		"call time, 99th percentile":           "– | –",
		"time to recover":                      "not within the run | 3.5 s",
	} {
		if got[label] != want {
			t.Errorf("%s: got %q, want %q", label, got[label], want)
		}
	}
}

// TestEmptyRun holds that a run cut short still makes a report.
func TestEmptyRun(t *testing.T) {
	run := &Run{Title: "cut short", Phases: []Phase{{Name: "uncontrolled"}}}
	if err := WriteHTML(io.Discard, run); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	if err := WriteSVG(&out, run); err != nil {
		t.Error(err)
	}
	if strings.Contains(out.String(), "NaN") {
		t.Error("the picture has coordinates that are no numbers")
	}
}

func TestTick(t *testing.T) {
	for _, top := range []float64{1, 1.05, 7, 30, 59.9, 1600, 0.03} {
		step := tick(top, 4)
		if parts := top / step; parts > 4.001 || parts < 1 {
			t.Errorf("scale 0..%v: step %v makes %.1f parts", top, step, parts)
		}
	}
}

// TestLeaveFiles writes the sample where WEIR_REPORT_OUT says, to be looked at.
func TestLeaveFiles(t *testing.T) {
	dir := os.Getenv("WEIR_REPORT_OUT")
	if dir == "" {
		t.Skip("WEIR_REPORT_OUT names no folder")
	}
	for name, write := range map[string]func(io.Writer, *Run) error{"report.html": WriteHTML, "summary.svg": WriteSVG} {
		var out bytes.Buffer
		if err := write(&out, sample()); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), out.Bytes(), 0o644); err != nil {
			t.Fatal(fmt.Errorf("leave %s: %w", name, err))
		}
	}
}
