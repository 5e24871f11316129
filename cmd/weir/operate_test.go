package main

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/controller/web"
	"weir/events"
	"weir/events/natslog"
	"weir/model"
)

// TestOperate gives a controller in this process each order and looks what
// came of it.
func TestOperate(t *testing.T) {
	k := newKeeper(t, t.TempDir(), 0)
	defer k.stop()
	server := httptest.NewServer(web.Handler(web.Options{Controller: k.loop, Token: "operator-token"}))
	defer server.Close()
	t.Setenv("WEIR_URL", server.URL)
	run := func(args ...string) string {
		t.Helper()
		got := weir(t, "", args...)
		if got.code != exitOK {
			t.Fatalf("%v: exit code %d: %s", args, got.code, got.stderr)
		}
		return got.stdout
	}
	main := func() model.FleetChannel {
		t.Helper()
		v, err := k.loop.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return v.Channels[0]
	}
	report := func(attempts ...model.Attempt) {
		t.Helper()
		w, err := natslog.NewWriter(k.nc, "test", "gone")
		if err != nil {
			t.Fatal(err)
		}
		data := events.Encode(nil, &model.Attempts{Source: model.Source{Agent: "gone", Boot: 1, Seq: 1, Span: 1}, Channels: []model.ChannelReport{{Channel: "main"}}, Attempts: attempts})
		if err := w.Write(t.Context(), data); err != nil {
			t.Fatal(err)
		}
		info, err := k.log.Info(t.Context())
		if err == nil {
			err = k.loop.Wait(t.Context(), info.Last)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	if text := run("mode", "observe", "--why", "first week"); !strings.HasPrefix(text, "set_mode observe is in force") || main().Mode != "observe" {
		t.Errorf("%s, mode %s", text, main().Mode)
	}
	run("channel", "set", "main", "--mode", "enforce")
	if main().Mode != "enforce" {
		t.Error("the channel has no mode of its own")
	}
	if run("channel", "set", "main", "--mode", "auto"); main().Mode != "observe" {
		t.Error("the channel's mode is not taken back")
	}

	report(model.Attempt{Class: model.ClassRateLimited, Status: 429, RetryAfter: model.Minute})
	if main().Wait <= 0 {
		t.Fatal("there is no hold to release")
	}
	if run("channel", "release", "main"); main().Wait != 0 {
		t.Error("the hold is not released")
	}
	if text := run("channel", "forget", "gone"); !strings.HasPrefix(text, "forget gone is in force") {
		t.Error(text)
	}
	v, err := k.loop.View(t.Context())
	if err != nil || len(v.Agents) != 0 {
		t.Errorf("agents %v, %v", v.Agents, err)
	}
	weir(t, "", "channel", "forget", "nobody").wantFaults(t, `there is no agent "nobody"`)

	calm := file(t, "calm.yaml", "name: calm\nparams: {plateau: 12s, breaker_volume: 40}\n")
	if text := run("params", "diff", calm); !strings.Contains(text, "12s") || strings.Count(text, "\n") != 3 {
		t.Errorf("difference:\n%s", text)
	}
	run("params", "push", calm, "--by", "ann", "--why", "flapped")
	if text := run("params", "diff", calm); !strings.HasPrefix(text, "no difference") {
		t.Errorf("difference:\n%s", text)
	}
	if text := run("params", "diff", calm, "--default", "--json"); !strings.HasPrefix(text, `[{"name":"plateau","unit":"ns","from":`) || !strings.HasSuffix(text, `,"to":40}]`+"\n") {
		t.Errorf("difference: %s", text)
	}
	if text := run("params", "diff", calm, calm); !strings.HasPrefix(text, "no difference") {
		t.Errorf("difference:\n%s", text)
	}
	var history []struct{ Reason string }
	for deadline := time.Now().Add(patience); len(history) == 0; time.Sleep(20 * time.Millisecond) {
		if err := json.Unmarshal([]byte(run("params", "history", "--json")), &history); err != nil || time.Now().After(deadline) {
			t.Fatalf("history %v, %v", history, err)
		}
	}
	if text := run("params", "history"); len(history) != 1 || !strings.Contains(text, "calm (") || !strings.Contains(text, "by ann: flapped") {
		t.Errorf("history %v:\n%s", history, text)
	}
	watchedPush(t, run, calm, file(t, "tried.yaml", "name: tried\nparams: {plateau: 9s}\n"))
}

// watchedPush pushes a set under guard, looks at it from everywhere, and ends
// the watch by an ordinary push.
func watchedPush(t *testing.T, run func(args ...string) string, plain, tried string) {
	t.Helper()
	ended := make(chan result)
	go func() {
		ended <- weir(t, "", "params", "push", tried, "--guard", "goodput=-2%,waste=+1%", "--for", "5m", "--wait")
	}()
	for deadline := time.Now().Add(patience); !strings.Contains(run("status"), "watched: params tried"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("status shows no watch")
		}
	}
	if text := run("params", "history"); !strings.HasPrefix(text, "watched: params tried (") || !strings.Contains(text, "too little to judge yet") {
		t.Errorf("history:\n%s", text)
	}
	shown := file(t, "shown.json", run("params", "show"))
	if text := run("params", "diff", shown); !strings.HasPrefix(text, "no difference") {
		t.Errorf("what show prints differs from what is in force:\n%s", text)
	}
	run("params", "push", plain)
	if got := <-ended; got.code != exitFailed || !strings.Contains(got.stderr, "calm (") {
		t.Errorf("a newer push ended the watch: exit code %d, %s%s", got.code, got.stdout, got.stderr)
	}
	if text := run("status"); strings.Contains(text, "watched") {
		t.Errorf("the watch goes on:\n%s", text)
	}
}
