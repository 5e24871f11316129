package task_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"weir/events/natslog/natstest"
)

// TestTasksOnCluster leaves a job on three NATS servers that keep everything
// three times, and stops and starts each of them in turn while it is worked on:
// each item is answered once, and what one server lost the others have.
func TestTasksOnCluster(t *testing.T) {
	if os.Getenv("WEIR_LONG") != "1" {
		t.Skip("waits for elections of servers, for the most part; WEIR_LONG=1 runs it")
	}
	servers := natstest.Cluster(t, 3)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	h := &house{t: t, url: strings.Join(urls, ",")}
	l := room
	l.Replicas = 3
	h.open(l)
	h.script(func(_ int, prompt string, w http.ResponseWriter, _ *http.Request) {
		time.Sleep(300 * time.Millisecond)
		good(w, "re: "+prompt)
	})
	a, b := h.sidecar("a", false), h.sidecar("b", false)
	const items = 400
	var text strings.Builder
	for i := range items {
		fmt.Fprintf(&text, `{"custom_id":"i-%d","method":"POST","url":"/v1/chat/completions","body":%s}`+"\n", i, chat(fmt.Sprint("p-", i)))
	}
	posted := a.ask("POST", "/weir/tasks", text.String(), "Content-Type", "application/jsonl")
	if posted.code != http.StatusAccepted {
		t.Fatalf("%d %s", posted.code, posted.body)
	}
	for _, s := range servers {
		s.Stop()
		time.Sleep(4 * time.Second)
		s.Restart(t)
		time.Sleep(4 * time.Second) // it catches up
	}
	end := time.Now().Add(3 * time.Minute)
	got := b.ask("GET", "/weir/tasks/"+posted.task.ID+"?wait=5s", "")
	for ; got.task.State != "completed"; got = b.ask("GET", "/weir/tasks/"+posted.task.ID+"?wait=5s", "") {
		if time.Now().After(end) {
			t.Fatalf("it does not end: %s", got.body)
		}
	}
	results := a.ask("GET", "/weir/tasks/"+posted.task.ID+"/results", "")
	if n := strings.Count(results.body, "\n"); n != items {
		t.Errorf("%d results of %d items", n, items)
	}
	again := 0
	for i := range items {
		if n := h.called(fmt.Sprint("p-", i)); n != 1 {
			again += n - 1
		}
		if want := fmt.Sprintf("re: p-%d\"", i); strings.Count(results.body, strings.ReplaceAll(want, `"`, `\"`))+strings.Count(results.body, want) < 1 {
			t.Errorf("no result of item %d", i)
		}
	}
	if again != 0 { // no agent ended
		t.Errorf("%d calls were made again", again)
	}
}
