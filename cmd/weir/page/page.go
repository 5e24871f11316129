// Package page is what a browser shows of a running controller: the fleet at a
// glance, each channel over time, every decision with its reason, and an
// operator's orders. It is static; what it shows it asks the controller's API
// for, and it asks nobody else. It holds no secret.
package page

import (
	_ "embed" // the page
	"net/http"
	"strconv"

	"weir/cmd/weir/report/assets"
)

//go:embed assets/index.html
var index string

//go:embed assets/live.css
var style string

//go:embed assets/live.js
var script string

// policy lets the page load its own files and ask its own server, and nobody
// else show it in a frame. The charts' library sets styles by script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Handler serves the page at / and its files beside it.
func Handler() http.Handler {
	mux := http.NewServeMux()
	for path, file := range map[string]struct{ kind, text string }{
		"/{$}":       {"text/html; charset=utf-8", index},
		"/live.js":   {"text/javascript; charset=utf-8", script},
		"/live.css":  {"text/css; charset=utf-8", style},
		"/style.css": {"text/css; charset=utf-8", assets.Style},
		"/chart.js":  {"text/javascript; charset=utf-8", assets.Chart},
		"/chart.css": {"text/css; charset=utf-8", assets.ChartStyle},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.kind)
			w.Header().Set("Content-Security-Policy", policy)
			w.Header().Set("Referrer-Policy", "no-referrer")
			w.Header().Set("Content-Length", strconv.Itoa(len(file.text)))
			_, _ = w.Write([]byte(file.text)) // the client went away
		})
	}
	return mux
}
