package emulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestRefusals shows the answer for each shape and reason. Each reason is
// brought about for real, by a provider that refuses for it.
func TestRefusals(t *testing.T) {
	laws := map[string]string{
		"concurrency": "concurrency: 0",
		"requests":    "rpm: {limit: 60, burst: 0}",
		"tokens":      "tpm: {limit: 60, burst: 0}",
		"too_large":   "tpm: {limit: 60, burst: 1}",
		"day":         "requests_per_day: {limit: 1, used: 1}",
	}
	datadriven.RunTest(t, "testdata/refusals.txt", func(t *testing.T, d *datadriven.TestData) string {
		var reason string
		d.ScanArgs(t, "for", &reason)
		s := start(t, laws[reason]+"\nrefusal: {"+strings.TrimSpace(d.Input)+"}")
		defer s.Close()
		if d.Cmd != "refuse" {
			t.Fatalf("unknown command %s", d.Cmd)
		}
		w := ask(t.Context(), s, 5, 0, "")
		var out strings.Builder
		fmt.Fprintf(&out, "%d %s\n", w.Code, http.StatusText(w.Code))
		for _, h := range []string{"Retry-After", "Retry-After-Ms", "X-Ratelimit-Limit-Requests", "Anthropic-Ratelimit-Requests-Limit"} {
			if v := w.Header().Get(h); v != "" {
				fmt.Fprintf(&out, "%s: %s\n", h, v)
			}
		}
		return out.String() + indent(t, w)
	})
}

func indent(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	data, err := json.MarshalIndent(field(t, w), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data) + "\n"
}

func TestRequestKey(t *testing.T) {
	if got := RequestKey("4711"); got != 4711 {
		t.Errorf("a number became %d", got)
	}
	a, b := RequestKey("a"), RequestKey("b")
	if a == b || a != RequestKey("a") || RequestKey("0") == 0 || RequestKey("-1") == RequestKey("1") {
		t.Errorf("names became %d and %d", a, b)
	}
}
