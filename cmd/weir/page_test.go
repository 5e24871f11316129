package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

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
		t.Skip("left out under -short, to keep the race detector within its time; a whole run has it")
	}
	t.Parallel()
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
}
