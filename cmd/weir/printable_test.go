package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/controller"
	"weir/model"
)

// escapes are words that take over a terminal: a title, a cleared screen, a
// second line, one byte that stands for two, and the end of all.
const escapes = "\x1b]0;mine\a\x1b[2J\r\nfleet is well\b\t\u009b2J\x7f\u2028end"

// TestPrintable holds that texts lose what a terminal would obey, and nothing
// else.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		escapes:                "?]0;mine??[2J??fleet is well???2J??end",
		`a "quoted\path" <b>&`: `a "quoted\path" <b>&`,
		"汉字 é 😀 \\u001b":       "汉字 é 😀 \\u001b",
	} {
		data, err := json.Marshal(map[string]string{"text": in})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(printable(data), &got); err != nil || got["text"] != want {
			t.Errorf("%q becomes %q, %v", in, got["text"], err)
		}
	}
}

// TestStatusObeysNobody asks about a fleet whose agent and provider say what a
// terminal would obey.
func TestStatusObeysNobody(t *testing.T) {
	fleet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var said any
		switch r.URL.Path {
		case "/api/v1/status":
			said = map[string]any{"fleet": "f", "leader": escapes, "version": escapes, "log_faults": []map[string]string{{"Kind": escapes, "Text": escapes}}}
		case "/api/v1/channels":
			said = map[string]any{"channels": []model.FleetChannel{{Name: "a", Reason: "refused (code " + escapes + ")"}}}
		case "/api/v1/agents":
			said = map[string]any{"agents": []model.FleetAgent{{Agent: "a", Version: escapes}}}
		case "/api/v1/decisions":
			said = map[string]any{"decisions": []controller.Decision{{Seq: 1, Reason: escapes, Rule: "params", Params: "p"}}}
		default:
			w.WriteHeader(http.StatusForbidden)
			said = map[string]any{"error": escapes}
		}
		_ = json.NewEncoder(w).Encode(said)
	}))
	defer fleet.Close()
	t.Setenv("WEIR_TOKEN", "t")
	for _, args := range [][]string{{"status"}, {"params", "history"}, {"channel", "pause", "a", "--why", "x"}} {
		got := weir(t, "", append(args, "--url", fleet.URL)...)
		text := got.stdout + got.stderr
		if !strings.Contains(text, "mine") || strings.ContainsFunc(text, func(c rune) bool { return c != '\n' && !printableRune(c) }) {
			t.Errorf("%v prints %q", args, text)
		}
	}
}
