package tunereport

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"

	"weir/model"
	"weir/sim/tune"
)

const hostile = `</script><script src="//evil.example/x.js"></script><img src=x onerror=alert(1)>`

// result is a study whose losses follow two parameters in a closed form.
func result(t *testing.T, trials int) *tune.Result {
	t.Helper()
	c := tune.Config{
		Incidents: []tune.Incident{{Name: hostile, Hash: "1"}, {Name: "two", Hash: "2"}}, Trials: trials, Seeds: 2, Seed: 4,
		InForce: model.DefaultParams(), Weights: tune.DefaultWeights(), Tail: 0.25, Tolerance: 0.02, Worth: 0.01, Only: []string{"cut_share", "plateau", "safe_share"},
	}
	c.InForce.CutShare = 310_000
	r, err := tune.Run(c, tune.NewJournal(nil), func(jobs []tune.Job, take func(tune.Outcome) error) error {
		for _, j := range jobs {
			d := float64(j.Params.CutShare-700_000) / 1e6
			e := float64(j.Params.SafeShare-500_000) / 1e6
			o := tune.Outcome{}
			o.Losses[tune.Lost], o.Losses[tune.Wasted] = d*d+0.1, e*e+d/10+float64(j.Seed%10)/1000
			if j.Params.CutShare > 850_000 {
				o.Broken = hostile
			}
			if err := take(o); err != nil {
				return err
			}
		}
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func written(t *testing.T, s *Study) string {
	t.Helper()
	var out bytes.Buffer
	if err := WriteHTML(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func study(t *testing.T) *Study {
	s := StudyOf(result(t, 60), 2)
	s.Command, s.Version = "weir sim tune "+hostile, "v1"
	return s
}

func TestPageAsksNobody(t *testing.T) {
	text := written(t, study(t))
	if hit := regexp.MustCompile(`(?i:<[^>]*\s(src|href|srcset|action|data)\s*=|@import)|\burl\(`).FindString(text); hit != "" {
		t.Errorf("the page can load something: %q", hit)
	}
	if !strings.Contains(text, `default-src 'none';`) && !strings.Contains(text, `default-src &#39;none&#39;;`) {
		t.Error("the page has no content policy that forbids requests")
	}
}

func TestPageEscapes(t *testing.T) {
	text := written(t, study(t))
	if strings.Contains(text, hostile) || strings.Contains(text, "<img") {
		t.Error("foreign text stands in the page unescaped")
	}
	if got, ends := strings.Count(text, "<script"), strings.Count(text, "</script"); got != 2 || ends != 2 {
		t.Errorf("got %d scripts and %d ends, want 2", got, ends)
	}
	if strings.Contains(text, "ZgotmplZ") {
		t.Error("a value was refused by the template")
	}
}

// TestPageHoldsData reads the data back as the page's script does.
func TestPageHoldsData(t *testing.T) {
	s := study(t)
	_, rest, ok := strings.Cut(written(t, s), `id="study">`)
	if !ok {
		t.Fatal("the page holds no data")
	}
	data, _, _ := strings.Cut(rest, "</script>")
	var got struct {
		Objectives []string
		Params     []struct{ Name string }
		Trials     []struct {
			ID                int
			Full, Front, Best bool
			Score, Selected   *float64
			Losses, At        []float64
			Broken            string
		}
		Verdict tune.Verdict
	}
	if err := json.Unmarshal([]byte(data), &got); err != nil {
		t.Fatal(err)
	}
	front, best, held, broken := 0, 0, 0, 0
	for _, o := range got.Trials {
		if len(o.At) != len(got.Params) || len(o.Losses) != len(got.Objectives) {
			t.Fatalf("trial %d has %d places and %d losses", o.ID, len(o.At), len(o.Losses))
		}
		if o.Front {
			front++
		}
		if o.Best {
			best++
		}
		if o.Selected != nil {
			held++
		}
		if o.Broken != "" {
			broken++
			if o.Score != nil {
				t.Errorf("trial %d broke an invariant and has the score %v", o.ID, *o.Score)
			}
		}
	}
	if len(got.Trials) != 60 || front == 0 || best < 2 || held < 2 || broken == 0 || !got.Verdict.Recommend {
		t.Errorf("%d trials, %d on the front, %d best, %d held out, %d broken, %+v", len(got.Trials), front, best, held, broken, got.Verdict)
	}
}

func TestPageShows(t *testing.T) {
	s := study(t)
	text := written(t, s)
	for _, want := range []string{"cut_share", "0.31", "Gain on unseen seeds", "left out", "What changes"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if p := s.Important(); len(p) == 0 || p[0].Name == "plateau" {
		t.Errorf("important are %v", p)
	}
	if p := s.Changed(); len(p) == 0 || p[0].Name != "cut_share" && p[0].Name != "safe_share" {
		t.Errorf("changed are %v", p)
	}
	again := study(t)
	if written(t, again) != text {
		t.Error("the same study gives another page")
	}
}

// TestPageOfNothing: a study that tried only what is in force has a page too.
func TestPageOfNothing(t *testing.T) {
	text := written(t, StudyOf(result(t, 1), 2))
	if !strings.Contains(text, "keep what you have") || strings.Contains(text, "Incidents before and after") {
		t.Error("the page shows a change that there is not")
	}
}

func TestParamText(t *testing.T) {
	for _, c := range []struct {
		unit string
		v    int64
		want string
	}{
		{"ns", 1_500_000_000, "1.5s"}, {"ns", 0, "0s"}, {"ppm", 1_060_000, "1.06"}, {"milli-slots", 2_500, "2.5 slots"}, {"count", 16, "16"},
	} {
		if got := (Param{Unit: c.unit}).Text(c.v); got != c.want {
			t.Errorf("%d %s: got %q, want %q", c.v, c.unit, got, c.want)
		}
	}
	if got := score(Number(math.Inf(1))); got != "–" {
		t.Errorf("infinity: got %q", got)
	}
}
