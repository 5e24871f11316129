package main

import (
	"context"
	"encoding/json"
	"fmt"
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
	if testing.Short() {
		t.Skip("one process at a time: nothing here is shared but what other tests share too")
	}
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

// TestPageOfAMomentThatIsOver asks for the fleet as it was while a channel was
// paused, after it was resumed.
func TestPageOfAMomentThatIsOver(t *testing.T) {
	if testing.Short() {
		t.Skip("one process at a time: nothing here is shared but what other tests share too")
	}
	f := newFleet(t)
	f.weir("channel", "pause", "main", "--for", "10m", "--why", "for a moment")
	time.Sleep(1100 * time.Millisecond) // the moment is named in whole seconds
	then := time.Now().Unix()
	time.Sleep(1100 * time.Millisecond)
	f.weir("channel", "resume", "main", "--why", "over")

	var was struct {
		Channels []struct {
			Name string
			Wait int64 `json:"wait_ns"`
		}
		Decisions []struct{ Reason string }
	}
	ask := func(query string) int {
		resp, err := http.Get("http://" + f.http + "/api/v1/at" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if err := json.NewDecoder(resp.Body).Decode(&was); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	if code := ask(fmt.Sprint("?time=", then)); code != http.StatusOK || len(was.Channels) != 1 || was.Channels[0].Wait < int64(9*time.Minute) || !strings.Contains(fmt.Sprint(was.Decisions), "for a moment") || strings.Contains(fmt.Sprint(was.Decisions), "over") {
		t.Errorf("status %d: %+v", code, was)
	}
	for query, want := range map[string]int{"": 400, "?time=x": 400, "?time=-1": 400, "?time=1000": 404} {
		if code := ask(query); code != want {
			t.Errorf("%q: status %d, want %d", query, code, want)
		}
	}
	if code := ask(fmt.Sprint("?time=", time.Now().Unix()+5)); code != http.StatusOK || was.Channels[0].Wait > 0 {
		t.Errorf("now: status %d: %+v", code, was)
	}

	chromium := browser(t)
	shown, complaints := seen(t, chromium, fmt.Sprintf("http://%s/?at=%d#main", f.http, then), "1280,1600")
	if complaints != "" {
		t.Errorf("the page complains:\n%s", complaints)
	}
	for _, want := range []string{"as it was at", "main held for", "for a moment", "back to now"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if strings.Contains(shown, ">over<") || strings.Contains(shown, "takes calls</span>") {
		t.Error("the page shows what came later")
	}
}
