// Package assets holds what every report page is made of: the charts' library,
// the style, and what the pages' scripts share. README.md says where the library
// comes from.
package assets

import (
	"bufio"
	_ "embed" // the files
	"fmt"
	"html/template"
	"io"
)

// Chart is the charts' library, ChartStyle its style.
var (
	//go:embed uPlot.iife.min.js
	Chart string
	//go:embed uPlot.min.css
	ChartStyle string
)

// Style is the pages' own: colours by name, light and dark, screen and paper.
//
//go:embed page.css
var Style string

//go:embed shared.js
var shared string

// Styles returns the whole style of a page, the last part of it its own. It must
// be a file of ours: nothing in it is escaped.
func Styles(own string) template.CSS { return template.CSS(ChartStyle + Style + own) }

// Script returns the whole script of a page, the last part of it its own. It
// must be a file of ours: nothing in it is escaped.
func Script(own string) template.JS { return template.JS(Chart + "\n" + shared + own) }

// Write fills a page's template.
func Write(w io.Writer, html string, funcs template.FuncMap, page any) error {
	t, err := template.New("report").Funcs(funcs).Parse(html)
	if err != nil {
		return fmt.Errorf("parse report template: %w", err)
	}
	out := bufio.NewWriter(w)
	if err := t.Execute(out, page); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
