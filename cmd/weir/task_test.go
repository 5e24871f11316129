package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// taskFleet is a controller and two agents with tasks, as processes that can be
// killed, and a provider in the test that counts calls.
type taskFleet struct {
	t      *testing.T
	dir    string
	http   string // the controller's address
	up     *httptest.Server
	agents [2]struct {
		listen  string
		process *process
	}
	controller *process

	mu    sync.Mutex
	calls map[string]int // by prompt
	most  int            // calls at the same time
	now   int
}

func newTaskFleet(t *testing.T) *taskFleet {
	t.Helper()
	f := &taskFleet{t: t, dir: t.TempDir(), calls: map[string]int{}}
	f.up = httptest.NewServer(http.HandlerFunc(f.provide))
	t.Cleanup(f.up.Close)
	f.http = freeAddress(t)
	text := fmt.Sprintf(`
fleet: test
nats: {listen: %q}
controller: {listen: %q}
agent: {tasks: {enabled: true, bytes: 100000000, age: 1h}}
channels:
  - {name: main, provider: openai, base_url: "%s/v1", model: m, api_key_env: WEIR_TEST_KEY, limits: {concurrency: 1}}
routes:
  - {name: default, tiers: [[main]]}
tenants: [{name: small, tokens_per_day: {hard: 5}}]
`, freeAddress(t), f.http, f.up.URL)
	if err := os.WriteFile(filepath.Join(f.dir, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f.startController()
	f.controller.said("controller runs")
	for i := range f.agents {
		f.agents[i].listen = freeAddress(t)
		f.startAgent(i)
		f.agents[i].process.said("connected to nats")
	}
	return f
}

func (f *taskFleet) startController() { f.controller = start(f.t, f.dir, "controller") }

func (f *taskFleet) startAgent(i int) {
	f.agents[i].process = start(f.t, f.dir, "agent", "--id", fmt.Sprint("agent-", i), "--listen", f.agents[i].listen)
}

// provide answers after some time. What it was asked it has done, whoever
// waits for it.
func (f *taskFleet) provide(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
	}
	if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &asked) != nil || len(asked.Messages) != 1 {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.calls[asked.Messages[0].Content]++
	f.now++
	f.most = max(f.most, f.now)
	f.mu.Unlock()
	time.Sleep(time.Duration(20+rand.IntN(60)) * time.Millisecond)
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`, "re: "+asked.Messages[0].Content)
	f.mu.Lock()
	f.now--
	f.mu.Unlock()
}

// ask asks any agent, again and again until one answers with that status.
func (f *taskFleet) ask(ctx context.Context, want int, method, path, body, key string, header ...string) (string, error) {
	var last string
	for try := 0; ; try++ {
		r, err := http.NewRequestWithContext(ctx, method, "http://"+f.agents[try%2].listen+path, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		r.Header.Set("Content-Type", "application/json")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if resp, err := http.DefaultClient.Do(r); err != nil {
			last = err.Error()
		} else {
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err == nil && resp.StatusCode == want {
				return string(text), nil
			}
			last = fmt.Sprint(resp.StatusCode, string(text), err)
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%s %s: %s: %w", method, path, last, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// post leaves a task under a key, which may be asked for again.
func (f *taskFleet) post(ctx context.Context, key string, prompts []string) (id string, err error) {
	var items []string
	for _, p := range prompts {
		items = append(items, fmt.Sprintf(`{"id":%q,"path":"/v1/chat/completions","request":{"model":"default","messages":[{"role":"user","content":%q}]}}`, p, p))
	}
	text, err := f.ask(ctx, http.StatusAccepted, "POST", "/weir/tasks", `{"items":[`+strings.Join(items, ",")+`]}`, key)
	if err != nil {
		return "", err
	}
	var task struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(text), &task); err != nil || task.ID == "" {
		return "", fmt.Errorf("posted: %s: %w", text, err)
	}
	return task.ID, nil
}

// TestTasksWaitForAHeldChannel leaves a task while its channel is paused for
// long: it waits, and is done when the channel takes calls again.
func TestTasksWaitForAHeldChannel(t *testing.T) {
	t.Parallel()
	f := newTaskFleet(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Minute, errors.New("out of patience"))
	defer cancel()
	if got := weir(t, "", "channel", "pause", "main", "--url", "http://"+f.http, "--for", "30m", "--why", "test"); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	for _, a := range f.agents {
		a.process.until("hear of the pause", func() bool {
			text, err := f.ask(ctx, http.StatusOK, "GET", "/weir/queue", "", "")
			return err == nil && strings.Contains(text, `"wait_s":1`)
		})
	}
	id, err := f.post(ctx, "held", []string{"held"})
	if err != nil {
		t.Fatal(err)
	}
	for state := ""; state != "waiting"; {
		text, err := f.ask(ctx, http.StatusOK, "GET", "/weir/tasks/"+id, "", "")
		if err != nil {
			t.Fatal(err)
		}
		var task struct {
			State string `json:"state"`
		}
		if err := json.Unmarshal([]byte(text), &task); err != nil || task.State == "failed" || task.State == "completed" {
			t.Fatalf("%s %v", text, err)
		}
		state = task.State
	}
	if got := weir(t, "", "channel", "resume", "main", "--url", "http://"+f.http, "--why", "test"); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	f.finished(ctx, id, []string{"held"})
}

// TestTasksWaitForADay leaves tasks for a tenant whose day is spent by the
// first of them: the next one waits for another day.
func TestTasksWaitForADay(t *testing.T) {
	t.Parallel()
	f := newTaskFleet(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errors.New("out of patience"))
	defer cancel()
	states := map[string]bool{}
	for n := 0; !states["waiting"]; n++ {
		body := fmt.Sprintf(`{"id":"t%d","path":"/v1/chat/completions","request":{"model":"default","messages":[{"role":"user","content":"n%d"}]}}`, n, n)
		if _, err := f.ask(ctx, http.StatusAccepted, "POST", "/weir/tasks", body, "", "X-Weir-Tenant", "small"); err != nil {
			t.Fatal(err)
		}
		for state := "queued"; state == "queued" || state == "running"; {
			text, err := f.ask(ctx, http.StatusOK, "GET", fmt.Sprintf("/weir/tasks/t%d?wait=200ms", n), "", "", "X-Weir-Tenant", "small")
			if err != nil {
				t.Fatal(err)
			}
			var task struct {
				State string `json:"state"`
				Class string `json:"class"`
			}
			if err := json.Unmarshal([]byte(text), &task); err != nil {
				t.Fatal(err)
			}
			state = task.State
			if states[state] = true; state == "failed" || state == "waiting" && task.Class != "quota_exhausted" {
				t.Fatal(text)
			}
		}
	}
	if !states["completed"] {
		t.Errorf("states %v", states)
	}
}

// TestTasksOutliveKills kills agents and the controller with its NATS, as kill
// -9 does, while tasks are left and worked on. Every item ends with one
// answer, and a call is made again only for a kill that hit it, and counted.
func TestTasksOutliveKills(t *testing.T) {
	t.Parallel()
	kills, patience := 5, 4*time.Minute
	if testing.Short() {
		kills = 1
	}
	if os.Getenv("WEIR_LONG") == "1" {
		kills, patience = 50, 15*time.Minute
	}
	f := newTaskFleet(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("out of patience"))
	defer cancel()
	var prompts []string
	for i := range 30 {
		prompts = append(prompts, fmt.Sprint("first-", i))
	}
	ids := map[string][]string{}
	id, err := f.post(ctx, "first", prompts)
	if err != nil {
		t.Fatal(err)
	}
	ids[id] = prompts

	// A client goes on leaving tasks meanwhile, each until it hears of it.
	over := make(chan struct{})
	var client sync.WaitGroup
	client.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-time.After(200 * time.Millisecond):
			}
			two := []string{fmt.Sprintf("more-%d-a", i), fmt.Sprintf("more-%d-b", i)}
			id, err := f.post(ctx, fmt.Sprint("more-", i), two)
			if err != nil {
				t.Error(err)
				return
			}
			ids[id] = two
		}
	})
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for range kills {
		time.Sleep(time.Duration(200+rng.IntN(1500)) * time.Millisecond)
		which := rng.IntN(4)
		if which >= 2 { // the controller, alone or with an agent
			f.controller.kill()
		}
		if which != 2 {
			f.agents[which%2].process.kill()
			f.startAgent(which % 2)
		}
		if which >= 2 {
			f.startController()
		}
	}
	close(over)
	client.Wait()

	total, repeated := 0, 0
	for id, prompts := range ids {
		total += len(prompts)
		repeated += f.finished(ctx, id, prompts)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	again := 0
	for prompt, n := range f.calls {
		again += n - 1
		if n > 2 {
			t.Logf("%s was asked for %d times", prompt, n)
		}
	}
	if again > kills || again > repeated {
		t.Errorf("%d calls were made again after %d kills, %d are counted", again, kills, repeated)
	}
	if len(f.calls) != total {
		t.Errorf("%d items, %d of them were called", total, len(f.calls))
	}
	t.Logf("%d kills, %d items in %d tasks, %d calls again, %d counted, %d at once", kills, total, len(ids), again, repeated, f.most)
}

// finished waits until a task has ended and checks that each item has its one
// answer. It returns how many calls the items count as repeated.
func (f *taskFleet) finished(ctx context.Context, id string, prompts []string) (repeated int) {
	f.t.Helper()
	var task struct {
		State string `json:"state"`
		Items []struct {
			State    string `json:"state"`
			Repeated int    `json:"repeated"`
		} `json:"items"`
	}
	for task.State != "completed" {
		text, err := f.ask(ctx, http.StatusOK, "GET", "/weir/tasks/"+id+"?wait=10s", "", "")
		if err != nil {
			f.t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(text), &task); err != nil {
			f.t.Fatal(err)
		}
		switch task.State {
		case "failed", "canceled", "expired":
			f.t.Fatalf("task %s: %s", id, text)
		}
		if ctx.Err() != nil {
			f.t.Fatalf("task %s does not end: %s", id, text)
		}
	}
	for _, it := range task.Items {
		repeated += it.Repeated
	}
	text, err := f.ask(ctx, http.StatusOK, "GET", "/weir/tasks/"+id+"/results", "", "")
	if err != nil {
		f.t.Fatal(err)
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	n := 0
	for ; lines.Scan(); n++ {
		var line struct {
			CustomID string `json:"custom_id"`
			Response struct {
				Status int             `json:"status_code"`
				Body   json.RawMessage `json:"body"`
			} `json:"response"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			f.t.Fatal(err)
		}
		if n >= len(prompts) || line.CustomID != prompts[n] || line.Response.Status != 200 || !strings.Contains(string(line.Response.Body), `"re: `+prompts[n]+`"`) {
			f.t.Errorf("answer %d of %s: %s", n, id, lines.Text())
		}
	}
	if n != len(prompts) {
		f.t.Errorf("task %s has %d answers, want %d", id, n, len(prompts))
	}
	return repeated
}
