package tunereport

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"weir/cmd/weir/report/assets"
	"weir/sim/tune"
)

//go:embed assets/tune.html
var pageHTML string

//go:embed assets/tune.css
var pageCSS string

//go:embed assets/tune.js
var pageJS string

// page is what the template sees.
type page struct {
	Study  *Study
	Rows   []row
	Style  template.CSS
	Script template.JS
}

// row is one incident in the map of before and after.
type row struct {
	Name    string
	Gain    string
	LeftOut string
	Worse   bool
	Cells   []square
}

// square is one objective of it. Good is 0 to 100 with 50 for no change,
// negative for no colour.
type square struct {
	Text, Note string
	Good       int
}

// rows is the map.
func rows(v *tune.Verdict) []row {
	var all []row
	for i := range v.Incidents {
		g := &v.Incidents[i]
		r := row{Name: g.Name, Gain: signed(g.Gain), LeftOut: signed(g.LeftOut), Worse: g.Worse}
		for o := range tune.NumObjectives {
			before, after := g.Before[o], g.After[o]
			sq := square{Text: percent(after), Note: "from " + percent(before), Good: -1}
			if d := before - after; math.Abs(d) >= 0.0005 {
				// Ten points of loss are as much as the colours tell.
				sq.Good = int(math.Round(50 + 50*min(max(d/0.1, -1), 1)))
			}
			r.Cells = append(r.Cells, sq)
		}
		all = append(all, r)
	}
	return all
}

func percent(v float64) string {
	return strings.Replace(fmt.Sprintf("%.1f %%", 100*v), "-0.0", "0.0", 1)
}

func signed(v float64) string { return fmt.Sprintf("%+.4f", v) }

func score(n Number) string {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return "–"
	}
	return fmt.Sprintf("%.4f", float64(n))
}

// WriteHTML writes the page.
func WriteHTML(w io.Writer, s *Study) error {
	funcs := template.FuncMap{"percent": percent, "signed": signed, "score": score}
	return assets.Write(w, pageHTML, funcs, page{Study: s, Rows: rows(&s.Verdict), Style: assets.Styles(pageCSS), Script: assets.Script(pageJS)})
}
