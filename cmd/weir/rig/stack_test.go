package rig

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/model"
	"weir/sim/incident"
)

// TestStack starts all parts, sends one call through a sidecar to the
// emulated provider, and looks for it in the controller.
func TestStack(t *testing.T) {
	inc, err := incident.Builtin("2064-cascade")
	if err != nil {
		t.Fatal(err)
	}
	inc = inc.Compress(30 * time.Second)
	p, err := StartProviders(inc, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{Dir: t.TempDir(), Config: inc.Told("test"), Agents: 2, Upstreams: p.Upstreams(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	url, err := s.Web(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if got := post(t, s.Sidecars[1]+"/v1/chat/completions"); !strings.Contains(got, `"choices"`) {
		t.Errorf("answer through the sidecar: %.200s", got)
	}
	if n := p.Reports()[0].Books.Served; n != 1 {
		t.Errorf("the provider served %d, want 1", n)
	}
	for seen := uint64(0); seen == 0; time.Sleep(10 * time.Millisecond) {
		var v model.FleetView
		if v, err = s.Loop.View(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen = v.Channels[0].Attempts["ok"]
	}
	if text := get(t, url+"/metrics"); !strings.Contains(text, `weir_window_slots{channel="m2.7"}`) {
		t.Errorf("metrics without the window:\n%.500s", text)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func post(t *testing.T, url string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"model": "default", "max_tokens": 10, "messages": []any{map[string]string{"role": "user", "content": "hello"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return read(t)(http.Post(url, "application/json", bytes.NewReader(body)))
}

func get(t *testing.T, url string) string {
	t.Helper()
	return read(t)(http.Get(url))
}

func read(t *testing.T) func(*http.Response, error) string {
	return func(resp *http.Response, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}
