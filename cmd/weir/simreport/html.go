package simreport

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"math"

	"weir/cmd/weir/report/assets"
)

//go:embed assets/sim.html
var pageHTML string

//go:embed assets/sim.css
var pageCSS string

//go:embed assets/sim.js
var pageJS string

// page is what the template sees.
type page struct {
	Study  *Study
	Cells  []Cell
	Totals []Total
	Heats  []heat
	Style  template.CSS
	Script template.JS
}

// heat is a map of incidents by policies.
type heat struct {
	Title, Note string
	Rows        []heatRow
}

type heatRow struct {
	Incident, About string
	Cells           []heatCell
}

// heatCell is a square. Good is 0 to 100, negative for no run.
type heatCell struct {
	Policy string
	Good   int
	// Value is the median, Range the extremes, Collapsed how many runs did.
	Value, Range, Collapsed string
}

// manyPolicies is from how many policies on the maps stand below each other.
const manyPolicies = 9

// Wide reports whether the maps need the whole width.
func (p *page) Wide() bool { return len(p.Study.Policies) >= manyPolicies }

// heats are the two maps.
func heats(s *Study, cells []Cell) []heat {
	goodput := heat{Title: "Goodput", Note: "completed within the deadline, of what the oracle completed"}
	waste := heat{Title: "Waste", Note: "attempts refused, failed or given up, of all attempts"}
	byName := map[[2]string]*Cell{}
	for i := range cells {
		byName[[2]string{cells[i].Incident, cells[i].Policy}] = &cells[i]
	}
	for _, inc := range s.Incidents {
		g := heatRow{Incident: inc.Name, About: inc.About}
		w := g
		for _, p := range s.Policies {
			c := byName[[2]string{inc.Name, p.Name}]
			g.Cells = append(g.Cells, square(p.Name, c, func(c *Cell) (Spread, float64) { return c.Goodput, float64(c.Goodput.Median) }))
			w.Cells = append(w.Cells, square(p.Name, c, func(c *Cell) (Spread, float64) { return c.Waste, 1 - float64(c.Waste.Median) }))
		}
		goodput.Rows, waste.Rows = append(goodput.Rows, g), append(waste.Rows, w)
	}
	return []heat{goodput, waste}
}

func square(policy string, c *Cell, of func(*Cell) (Spread, float64)) heatCell {
	out := heatCell{Policy: policy, Good: -1, Value: none}
	if c == nil || c.Seeds == 0 {
		return out
	}
	s, good := of(c)
	out.Good = int(math.Round(100 * min(max(good, 0), 1)))
	out.Value = fmt.Sprintf("%.0f", 100*float64(s.Median))
	if c.Seeds > 1 {
		out.Range = fmt.Sprintf("%.0f–%.0f", 100*float64(s.Least), 100*float64(s.Most))
	}
	if c.Collapsed.K > 0 {
		out.Collapsed = fmt.Sprintf("✕ %d/%d", c.Collapsed.K, c.Collapsed.N)
	}
	return out
}

// WriteHTML writes the page.
func WriteHTML(w io.Writer, s *Study) error {
	study := *s
	study.Runs = append(study.Runs[:0:0], s.Runs...)
	for i := range study.Runs {
		study.Runs[i].WallS = 0 // the only figure that another run of the same would change
	}
	cells := study.Cells()
	funcs := template.FuncMap{"percent": percent, "seconds": seconds, "chance": chance}
	return assets.Write(w, pageHTML, funcs, &page{
		Study: &study, Cells: cells, Totals: study.Totals(cells), Heats: heats(&study, cells),
		Style: assets.Styles(pageCSS), Script: assets.Script(pageJS),
	})
}
