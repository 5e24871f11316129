package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// The picture's measures, in its own units (pixels at natural size).
const (
	svgWidth  = 1200.0
	svgMargin = 28.0
	svgGap    = 44.0
	svgAxis   = 36.0 // room for the numbers left of a strip
	svgHead   = 168.0
)

// strips are the heights of the charts that the picture shows: the first
// ones of the page.
var strips = [...]float64{170, 84, 130}

const svgStyle = `
.paper{fill:#fafaf8}.ink{fill:#1b1f23}.muted{fill:#5d656d}.rule{stroke:#e3e4e0}.shade{fill:#1b1f23;fill-opacity:.05}
.good{--c:#087f5b}.bad{--c:#c2371f}.bound{--c:#6b7280}.plain{--c:#2563a8}.weir{--c:#8338c7}.quiet{--c:#a9afb6}
@media(prefers-color-scheme:dark){
.paper{fill:#131619}.ink{fill:#e7e9eb}.muted{fill:#98a1aa}.rule{stroke:#2a3036}.shade{fill:#e7e9eb;fill-opacity:.06}
.good{--c:#3fc094}.bad{--c:#f2725c}.bound{--c:#8d97a2}.plain{--c:#6caeee}.weir{--c:#bd90ea}.quiet{--c:#59626b}}
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif;font-size:12px}
.title{font-size:21px;font-weight:600}.name{font-size:16px;font-weight:600}.big{font-size:25px;font-weight:600}.small{font-size:11px}
.line{fill:none;stroke:var(--c);stroke-width:1.7;stroke-linejoin:round}.thin{stroke-width:1}.dash{stroke-dasharray:5 4}
.area{fill:var(--c);fill-opacity:.14}.key{fill:var(--c)}.mark{stroke-dasharray:2 4}`

// WriteSVG writes a picture of the run: the phases beside each other, on the
// same scales.
func WriteSVG(w io.Writer, run *Run) error {
	if _, err := io.WriteString(w, picture(run).String()); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

// canvas collects the elements of a picture.
type canvas struct{ strings.Builder }

func (c *canvas) add(format string, args ...any) {
	fmt.Fprintf(&c.Builder, format+"\n", args...)
}

// text writes at x, y; s is escaped here.
func (c *canvas) text(x, y float64, class, anchor, s string) {
	c.add(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(s))
}

// picture draws a run.
func picture(run *Run) *canvas {
	c := &canvas{}
	height := svgHead + 22
	for _, h := range strips {
		height += h + 42
	}
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, svgWidth, height, html.EscapeString(run.Title+": "+run.Verdict))
	c.add("<style>%s</style>", svgStyle)
	c.add(`<rect class="paper" width="%.0f" height="%.0f" rx="8"/>`, svgWidth, height)
	c.text(svgMargin, 38, "ink title", "start", run.Title)
	c.text(svgMargin, 60, "muted", "start", run.Verdict)
	n := float64(max(1, len(run.Phases)))
	wide := (svgWidth - 2*svgMargin - (n-1)*svgGap) / n
	for i := range run.Phases {
		x := svgMargin + float64(i)*(wide+svgGap)
		panel(c, run, i, x, wide)
	}
	c.add("</svg>")
	return c
}

// panel draws one phase.
func panel(c *canvas, run *Run, i int, x, wide float64) {
	p := &run.Phases[i]
	c.text(x, 96, "ink name", "start", p.Name)
	step := wide / 4
	k := 0
	for _, row := range Rows(run.Phases) {
		if !row.Main {
			continue
		}
		c.text(x+float64(k)*step, 126, "ink big", "start", row.Values[i])
		c.text(x+float64(k)*step, 143, "muted small", "start", short(row.Label))
		k++
	}
	y := svgHead
	for k, chart := range charts()[:len(strips)] {
		strip(c, run, p, chart, x, y, wide, strips[k], k == len(strips)-1)
		y += strips[k] + 42
	}
}

// short fits a row's label under its number.
func short(label string) string {
	if label == "share of what could have been served" {
		return "of what was possible"
	}
	return label
}

// strip draws one chart of one phase.
func strip(c *canvas, run *Run, p *Phase, ch chart, x, y, wide, high float64, last bool) {
	f := frame{x: x + svgAxis, y: y + 20, wide: wide - svgAxis, high: high, right: longest(run.Phases), top: ceiling(run.Phases, ch)}
	c.add(`<rect class="shade" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, f.x, f.y, f.px(run.CountedFrom)-f.x, f.high)
	step := tick(f.top, 4)
	for v := 0.0; v <= f.top; v += step {
		c.add(`<line class="rule" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, f.x, f.x+f.wide, f.py(v), f.py(v))
		c.text(f.x-6, f.py(v)+4, "muted small", "end", decimal(v, decimals(step)))
	}
	for _, m := range p.Marks {
		c.add(`<line class="rule mark" style="stroke:#8d97a2" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, f.px(m.At), f.px(m.At), f.y, f.y+f.high)
	}
	legend(c, p, ch, x, y+8)
	for _, l := range ch.Lines {
		f.draw(c, p.Samples.T, p.Samples.column(l.Key), l)
	}
	if !last {
		return
	}
	step = tick(f.right, 6)
	for v := 0.0; v <= f.right; v += step {
		c.text(f.px(v), f.y+f.high+16, "muted small", "middle", decimal(v, decimals(step))+" s")
	}
}

// legend names the lines that hold anything.
func legend(c *canvas, p *Phase, ch chart, x, y float64) {
	c.text(x, y, "ink", "start", ch.Title)
	x += 14 + 6.1*float64(len(ch.Title))
	for _, l := range ch.Lines {
		if p.Samples.column(l.Key).empty() {
			continue
		}
		c.add(`<rect class="key %s" x="%.1f" y="%.1f" width="12" height="3" rx="1.5"/>`, l.Tone, x, y-5.5)
		c.text(x+16, y, "muted small", "start", l.Label)
		x += 30 + 5.5*float64(len(l.Label))
	}
}

// frame maps seconds and values to a place in the picture.
type frame struct{ x, y, wide, high, right, top float64 }

func (f *frame) px(t float64) float64 { return f.x + f.wide*min(max(t/f.right, 0), 1) }
func (f *frame) py(v float64) float64 { return f.y + f.high*(1-min(max(v/f.top, 0), 1)) }

// draw draws a column, in pieces where it has gaps.
func (f *frame) draw(c *canvas, t, v Column, l line) {
	class := "line " + l.Tone
	if l.Dash {
		class += " dash"
	}
	if l.Tone == "quiet" {
		class += " thin"
	}
	for from := 0; from < min(len(t), len(v)); {
		if math.IsNaN(v[from]) {
			from++
			continue
		}
		to := from
		var path strings.Builder
		for to < min(len(t), len(v)) && !math.IsNaN(v[to]) {
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(to-from, 1)], f.px(t[to]), f.py(v[to]))
			to++
		}
		if l.Fill {
			c.add(`<path class="area %s" d="%sL%.1f %.1fL%.1f %.1fZ"/>`, l.Tone, path.String(), f.px(t[to-1]), f.py(0), f.px(t[from]), f.py(0))
		}
		c.add(`<path class="%s" d="%s"/>`, class, path.String())
		from = to
	}
}

// longest is the right end of every phase's scale.
func longest(phases []Phase) float64 {
	s := 1.0
	for i := range phases {
		s = max(s, phases[i].Seconds)
	}
	return s
}

// ceiling is the upper end of a chart's scale, the same for all phases.
func ceiling(phases []Phase, ch chart) float64 {
	top := ch.Top
	for i := range phases {
		for _, l := range ch.Lines {
			if l.Free {
				continue
			}
			for _, v := range phases[i].Samples.column(l.Key) {
				if v > top {
					top = v * 1.06
				}
			}
		}
	}
	return top
}

// tick is a round step that divides a scale into at most n parts.
func tick(top float64, n int) float64 {
	raw := top / float64(n)
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= raw {
			return m * unit
		}
	}
	return 10 * unit
}

func decimals(step float64) int { return max(0, int(math.Ceil(-math.Log10(step)))) }

// column returns a column by its name in JSON, or nil.
func (s *Samples) column(key string) Column {
	switch key {
	case "offered":
		return s.Offered
	case "sent":
		return s.Sent
	case "completed":
		return s.Completed
	case "refused":
		return s.Refused
	case "could_have_served":
		return s.Could
	case "in_flight":
		return s.InFlight
	case "capacity":
		return s.Capacity
	case "best":
		return s.Best
	case "window":
		return s.Window
	case "call_p50_s":
		return s.P50
	case "call_p99_s":
		return s.P99
	case "weight":
		return s.Weight
	case "breaker":
		return s.Breaker
	}
	return nil
}

// empty reports whether a column holds no number.
func (c Column) empty() bool {
	for _, v := range c {
		if !math.IsNaN(v) {
			return false
		}
	}
	return true
}
