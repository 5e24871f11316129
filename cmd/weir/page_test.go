package main

import (
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// browser is a headless Chromium, where there is one.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium here")
	return ""
}

// seen is the document a browser made of a URL, and what it complained of.
func seen(t *testing.T, chromium, url string, width string) (document, complaints string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+filepath.Join(t.TempDir(), "browser"),
		"--enable-logging=stderr", "--virtual-time-budget=8000", "--window-size="+width, "--dump-dom", url)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, "CONSOLE") {
			complaints += line
		}
	}
	return out.String(), complaints
}

// TestPage opens the page of a running fleet, before and after a channel was
// stopped by an order.
func TestPage(t *testing.T) {
	chromium := browser(t)
	f := newFleet(t)
	url := "http://" + f.http + "/"
	before, complaints := seen(t, chromium, url+"#main", "1280,1600")
	if complaints != "" {
		t.Errorf("the page complains:\n%s", complaints)
	}
	for _, want := range []string{"All channels take calls.", `class="state ok">takes calls`, "sidecar", "default, hash", "u-over"} {
		if !strings.Contains(before, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	f.weir("channel", "pause", "main", "--for", "10m", "--why", "<b>maintenance</b>")
	after, complaints := seen(t, chromium, url+"#main", "375,800")
	if complaints != "" {
		t.Errorf("the page complains:\n%s", complaints)
	}
	for _, want := range []string{"verdict bad", "main held for", "&lt;b&gt;maintenance&lt;/b&gt;"} {
		if !strings.Contains(after, want) {
			t.Errorf("after the pause the page does not show %q", want)
		}
	}
	if strings.Contains(after, "<b>maintenance</b>") {
		t.Error("what an operator writes is taken as part of the page")
	}
}

// TestPageIsClosedToOthers holds what a browser is told to refuse.
func TestPageIsClosedToOthers(t *testing.T) {
	f := newFleet(t)
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + f.http + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} {
		if got := resp.Header.Get("Content-Security-Policy"); !strings.Contains(got, want) {
			t.Errorf("policy %q lacks %q", got, want)
		}
	}
	if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("other pages may read it: %q", got)
	}
}
