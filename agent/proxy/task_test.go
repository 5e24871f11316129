package proxy

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/agent"
	"weir/model"
)

// TestTask makes an application of thirty chained steps that repeats each
// failed step twice, against a provider of which every third answer is one,
// and counts what reaches the provider.
func TestTask(t *testing.T) {
	const steps, repeats, retries = 30, 2, 4
	busy := func(_ int, w http.ResponseWriter, _ *http.Request) { say(w, 503, `{"error":{"message":"overloaded"}}`) }
	chain := func(w *world, header ...string) (calls, refused int) {
		for range steps {
			for range 1 + repeats {
				got := w.post("/v1/chat/completions", plainBody, header...)
				if got.status == 200 {
					break
				}
				if errorOf(t, got).Code == "task_retries_exhausted" {
					refused++
					if got.header.Get("X-Should-Retry") != "false" {
						t.Error("the SDK will repeat it")
					}
				}
			}
		}
		return len(w.got()), refused
	}
	bound := func(c *agent.Config) {
		c.Task = agent.TaskConfig{Retries: retries}
		c.Fleet.Retry.Base, c.Fleet.Retry.Max = model.Millisecond, model.Millisecond
		c.Fleet.Channels[0].Alone = 1000
	}

	without := newWorld(t, busy, bound)
	without.earn(32)
	calls, _ := chain(without)
	if calls < steps*(1+repeats)+20 {
		t.Fatalf("%d calls without a task: nothing multiplies", calls)
	}
	t.Logf("%d calls without a task", calls)

	w := newWorld(t, busy, bound)
	w.earn(32)
	if calls, refused := chain(w, "X-Weir-Task", "report-7"); calls != 1+retries || refused != steps*(1+repeats)-len(requests(w.attempts())) {
		t.Errorf("%d calls for a task of %d retries, %d refused", calls, retries, refused)
	}

	w = newWorld(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n%3 == 0 {
			busy(n, w, r)
			return
		}
		good(w)
	}, bound)
	w.earn(32)
	if calls, refused := chain(w, "X-Weir-Task", "report-8"); calls > steps+retries+1 || refused == 0 {
		t.Errorf("%d calls for %d steps with %d retries, %d refused", calls, steps, retries, refused)
	}
	if got := w.post("/v1/chat/completions", plainBody, "X-Weir-Task", "another"); got.status != 200 && len(w.got())%3 != 0 {
		t.Errorf("another task pays: %s", got.body)
	}
	if got := w.post("/v1/chat/completions", plainBody, "X-Weir-Task", strings.Repeat("x", 200)); got.status != 400 {
		t.Errorf("a long name: %d", got.status)
	}
}

// requests counts attempts by request.
func requests(all []model.Attempt) map[uint64]int {
	m := map[uint64]int{}
	for _, a := range all {
		m[a.Request]++
	}
	return m
}

// TestTaskParallel holds that no more of a task's calls are on their way than it
// may have, that the others wait and are made, and that one whose time is over
// meanwhile is told so.
func TestTaskParallel(t *testing.T) {
	var now, most atomic.Int32
	release := make(chan struct{})
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-release
		now.Add(-1)
		good(w)
	}, func(c *agent.Config) { c.Task = agent.TaskConfig{Parallel: 2} })
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if got := w.post("/v1/chat/completions", plainBody, "X-Weir-Task", "wide"); got.status != 200 {
				t.Errorf("status %d: %s", got.status, got.body)
			}
		})
	}
	for now.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	late := w.post("/v1/chat/completions", plainBody, "X-Weir-Task", "wide", "X-Weir-Deadline-Ms", "50")
	if e := errorOf(t, late); late.status != 503 || e.Code != "task_parallel_exceeded" || late.header.Get("X-Should-Retry") != "false" {
		t.Errorf("status %d, %+v", late.status, e)
	}
	other := make(chan answer, 1)
	all.Go(func() { other <- w.post("/v1/chat/completions", plainBody, "X-Weir-Task", "other") })
	for now.Load() < 3 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	all.Wait()
	if got := <-other; got.status != 200 || most.Load() != 3 || len(w.got()) != 7 {
		t.Errorf("status %d, %d at most at the same time, %d calls", got.status, most.Load(), len(w.got()))
	}
}

// TestTaskTime holds that a task's calls end with its time, whatever each is
// allowed.
func TestTaskTime(t *testing.T) {
	w := newWorld(t, func(_ int, w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(c *agent.Config) {
		c.Task = agent.TaskConfig{Total: 100 * time.Millisecond}
	})
	first := w.post("/v1/chat/completions", plainBody, "X-Weir-Task", "t", "X-Weir-Deadline-Ms", "60000")
	if e := errorOf(t, first); first.status != 503 || e.Weir.Class != "canceled" {
		t.Errorf("status %d, %+v", first.status, e)
	}
	second := w.post("/v1/chat/completions", plainBody, "X-Weir-Task", "t")
	if e := errorOf(t, second); second.status != 503 || e.Code != "task_time_exceeded" {
		t.Errorf("status %d, %+v", second.status, e)
	}
	w.wantClasses(t, model.ClassCanceled)
}
