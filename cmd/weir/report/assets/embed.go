// Package assets holds what every report page is made of: the charts' library
// and the style. README.md says where they come from.
package assets

import _ "embed" // the files

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
