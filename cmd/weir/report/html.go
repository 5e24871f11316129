package report

import (
	_ "embed" // the page
	"html/template"
	"io"
	"math"
	"slices"

	"weir/cmd/weir/report/assets"
)

//go:embed assets/page.html
var pageHTML string

//go:embed assets/page.js
var pageJS string

// page is what the template sees.
type page struct {
	Run    *Run
	Live   *Live
	Rows   []Row
	Charts []chart
	Style  template.CSS
	Script template.JS
	// Picture stands where the script does not run.
	Picture template.HTML
}

// chart is a row of the page: the same columns for every phase on one scale.
type chart struct {
	Title string `json:"title"`
	Unit  string `json:"unit"`
	Lines []line `json:"lines"`
	// Top is the least upper end of the scale.
	Top float64 `json:"top"`
}

// line is one column in a chart.
type line struct {
	// Key is the column's name in Samples.
	Key   string `json:"key"`
	Label string `json:"label"`
	// Tone names a colour of the page's style.
	Tone string `json:"tone"`
	Dash bool   `json:"dash"`
	Fill bool   `json:"fill"`
	Step bool   `json:"step"`
	// Free lines do not stretch the scale; they may leave it at the top.
	Free bool `json:"free"`
}

// charts are the rows of the page. What can differ by an order of magnitude
// between phases stands in a row of its own.
func charts() []chart {
	return []chart{
		{Title: "Requests a second", Unit: "/s", Top: 1, Lines: []line{
			{Key: "could_have_served", Label: "could be served", Tone: "bound", Dash: true},
			{Key: "completed", Label: "completed", Tone: "good", Fill: true},
			{Key: "offered", Label: "wanted", Tone: "quiet"},
		}},
		{Title: "Attempts a second at the provider", Unit: "/s", Top: 1, Lines: []line{
			{Key: "refused", Label: "refused", Tone: "bad", Fill: true},
			{Key: "sent", Label: "sent", Tone: "plain"},
		}},
		{Title: "Calls at the provider", Unit: "", Top: 1, Lines: []line{
			{Key: "in_flight", Label: "in flight", Tone: "plain", Fill: true},
			{Key: "capacity", Label: "true capacity", Tone: "bad", Dash: true},
			{Key: "best", Label: "most gets done at", Tone: "bound", Dash: true},
			{Key: "window", Label: "Weir's window", Tone: "weir", Free: true},
		}},
		{Title: "Time of an answered call", Unit: " s", Top: 1, Lines: []line{
			{Key: "call_p50_s", Label: "median", Tone: "plain"},
			{Key: "call_p99_s", Label: "99th percentile", Tone: "quiet"},
		}},
		{Title: "Weir's weight and breaker", Unit: "", Top: 1.05, Lines: []line{
			{Key: "weight", Label: "weight", Tone: "weir"},
			{Key: "breaker", Label: "breaker (1 open)", Tone: "bad", Step: true},
		}},
	}
}

// Live is what the page of a run that goes on says beside.
type Live struct {
	// Now says in a sentence how far it is.
	Now string
	// Controller is the address of the controller's own page; empty for none.
	Controller string
}

// WriteHTML writes the page of a run that is over. It needs nobody.
func WriteHTML(w io.Writer, run *Run) error { return write(w, run, nil) }

// WriteLive writes the page of a run that goes on, of what there is so far. It
// asks its own address for itself each second, until that answers with the page
// of a run that is over.
func WriteLive(w io.Writer, run *Run, live Live) error { return write(w, run, &live) }

func write(w io.Writer, run *Run, live *Live) error {
	p := page{
		Run: run, Live: live, Rows: run.Rows, Charts: charts(),
		Style: assets.Styles(""), Script: assets.Script(pageJS),
	}
	if live == nil {
		p.Charts = slices.DeleteFunc(p.Charts, run.lacks)
	}
	if run.Rows == nil {
		p.Rows = Rows(run.Phases)
	}
	if run.Rows == nil && live == nil {
		p.Picture = template.HTML(picture(run).String()) // escaped where it is made
	}
	return assets.Write(w, pageHTML, nil, p)
}

// lacks reports whether no phase has anything of a chart.
func (run *Run) lacks(c chart) bool {
	for i := range run.Phases {
		for _, l := range c.Lines {
			if slices.ContainsFunc(run.Phases[i].Samples.column(l.Key), func(v float64) bool { return !math.IsNaN(v) }) {
				return false
			}
		}
	}
	return true
}
