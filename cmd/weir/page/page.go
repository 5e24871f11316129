// Package page is what a browser shows of a running controller: the fleet at a
// glance, each channel over time, every decision with its reason, and an
// operator's orders. It is static; what it shows it asks the controller's API
// for, and it asks nobody else. It holds no secret.
package page

import (
	"embed"
	"io"
	"net/http"
	"path"
	"strconv"

	"weir/cmd/weir/report/assets"
)

//go:embed assets
var files embed.FS

// policy lets the page load its own files and ask its own server, and nobody
// else show it in a frame. The charts' library sets styles by script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Handler serves the page at / and its files beside it.
func Handler() http.Handler {
	mux := http.NewServeMux()
	serve := func(path, kind, text string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind+"; charset=utf-8")
			w.Header().Set("Content-Security-Policy", policy)
			w.Header().Set("Referrer-Policy", "no-referrer")
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			_, _ = io.WriteString(w, text) // the client went away
		})
	}
	serve("/style.css", "text/css", assets.Style)
	serve("/chart.js", "text/javascript", assets.Chart)
	serve("/chart.css", "text/css", assets.ChartStyle)
	kinds := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
	entries, err := files.ReadDir("assets")
	if err != nil {
		panic("page: BUG: " + err.Error())
	}
	for _, e := range entries {
		text, err := files.ReadFile("assets/" + e.Name())
		if err != nil {
			panic("page: BUG: " + err.Error())
		}
		name := "/" + e.Name()
		if name == "/index.html" {
			name = "/{$}"
		}
		serve(name, kinds[path.Ext(e.Name())], string(text))
	}
	return mux
}
