package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/agent"
	"weir/model"
)

// TestIdempotencyKey repeats calls under one key.
func TestIdempotencyKey(t *testing.T) {
	answers := func(n int, w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept-Encoding"), "identity") {
			stream(w, textFrame, finishFrame, doneFrame)
			return
		}
		say(w, 200, strings.Replace(goodAnswer, `"hi"`, fmt.Sprintf(`"answer %d"`, n), 1))
	}

	t.Run("finished", func(t *testing.T) {
		w := newWorld(t, answers)
		for _, body := range []string{plainBody, streamBody} {
			first := w.post("/v1/chat/completions", body, "Idempotency-Key", body[:20])
			again := w.post("/v1/chat/completions", body, "Idempotency-Key", body[:20])
			if first.status != 200 || again.status != 200 || again.body != first.body || first.err != nil || again.err != nil {
				t.Errorf("first %+v, again %+v", first, again)
			}
			if again.header.Get("X-Weir-Cache") != "hit" || again.header.Get("X-Weir-Attempts") != "0" || again.header.Get("X-Weir-Request") != first.header.Get("X-Weir-Request") {
				t.Errorf("again %v", again.header)
			}
		}
		other := w.post("/v1/chat/completions", plainBody, "Idempotency-Key", "another")
		stranger := w.post("/v1/chat/completions", plainBody, "Idempotency-Key", "another", "Authorization", "Bearer someone-else")
		if !strings.Contains(other.body, "answer 3") || !strings.Contains(stranger.body, "answer 4") {
			t.Errorf("another key got %s, another client %s", other.body, stranger.body)
		}
		conflict := w.post("/v1/chat/completions", streamBody, "Idempotency-Key", "another")
		if conflict.status != http.StatusUnprocessableEntity || errorOf(t, conflict).Code != "idempotency_key_reuse" {
			t.Errorf("another request under the key: %d %s", conflict.status, conflict.body)
		}
		if long := w.post("/v1/chat/completions", plainBody, "Idempotency-Key", strings.Repeat("k", 300)); long.status != 400 {
			t.Errorf("a long key: %d", long.status)
		}
		text := w.get("/metrics")
		for _, want := range []string{`weir_cache_total{kind="idempotency",result="hit"} 2`, `weir_cache_total{kind="idempotency",result="conflict"} 1`, `weir_cache_total{kind="idempotency",result="miss"} 4`} {
			if !strings.Contains(text, want) {
				t.Errorf("metrics lack %s", want)
			}
		}
		if n := len(w.attempts()); n != 4 {
			t.Errorf("%d attempts are reported, want 4", n)
		}
	})

	t.Run("failed", func(t *testing.T) {
		w := newWorld(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				say(w, 400, `{"error":{"code":"context_length_exceeded"}}`)
				return
			}
			answers(n, w, r)
		})
		first := w.post("/v1/chat/completions", plainBody, "Idempotency-Key", "k")
		again := w.post("/v1/chat/completions", plainBody, "Idempotency-Key", "k")
		if first.status != 400 || again.status != 200 {
			t.Errorf("status %d, then %d: a failure was kept", first.status, again.status)
		}
	})

	t.Run("observed", func(t *testing.T) {
		w := newWorld(t, answers, func(c *agent.Config) { c.Mode = model.ModeObserve })
		for range 2 {
			w.post("/v1/chat/completions", plainBody, "Idempotency-Key", "k", "X-Weir-Task", "t")
		}
		if n := len(w.got()); n != 2 {
			t.Errorf("%d of 2 calls were made", n)
		}
	})

	t.Run("expired", func(t *testing.T) {
		w := newWorld(t, answers, func(c *agent.Config) { c.Idempotency.For = 50 * time.Millisecond })
		for range 2 {
			w.post("/v1/chat/completions", plainBody, "Idempotency-Key", "k")
			time.Sleep(60 * time.Millisecond)
		}
		if n := len(w.got()); n != 2 {
			t.Errorf("%d of 2 calls were made", n)
		}
	})

	t.Run("in flight", func(t *testing.T) {
		started, release := make(chan struct{}), make(chan struct{})
		w := newWorld(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			stream(w, textFrame)
			close(started) // a second call would panic
			<-release
			more(w, finishFrame, doneFrame)
		})
		const many = 5
		got := make(chan answer, many)
		call := func() { got <- w.post("/v1/chat/completions", streamBody, "Idempotency-Key", "k") }
		go call()
		<-started
		for range many - 1 {
			go call()
		}
		for !strings.Contains(w.get("/metrics"), `weir_cache_total{kind="idempotency",result="joined"} 4`) {
			time.Sleep(time.Millisecond)
		}
		close(release)
		for range many {
			if a := <-got; a.status != 200 || a.body != textFrame+finishFrame+doneFrame || a.err != nil {
				t.Errorf("status %d, %q, %v", a.status, a.body, a.err)
			}
		}
		w.wantClasses(t, model.ClassOK)
	})
}

// TestFollowersLeave holds that a call goes on while anybody follows it, and
// ends when nobody does.
func TestFollowersLeave(t *testing.T) {
	gone, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(n int, w http.ResponseWriter, r *http.Request) {
		stream(w, textFrame)
		select {
		case <-r.Context().Done():
			close(gone)
		case <-release:
			more(w, finishFrame, doneFrame)
		}
	})
	follow := func(ctx context.Context) *http.Response {
		resp, err := w.server.Client().Do(w.request(ctx, "/v1/chat/completions", streamBody, "Idempotency-Key", "k"))
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(io.LimitReader(resp.Body, int64(len(textFrame)))).ReadString('\n'); err != nil || line+"\n" != textFrame {
			t.Fatalf("line %q, %v", line, err)
		}
		return resp
	}
	first, leaveFirst := context.WithCancel(t.Context())
	second, leaveSecond := context.WithCancel(t.Context())
	a, b := follow(first), follow(second)
	defer a.Body.Close()
	leaveFirst()
	if _, err := io.ReadAll(a.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("the first read on: %v", err)
	}
	c := follow(t.Context()) // the call goes on
	leaveSecond()
	b.Body.Close()
	c.Body.Close()
	waitGone(t, gone)
	for !strings.Contains(w.get("/weir/queue"), `"running":0`) {
		time.Sleep(time.Millisecond)
	}
	close(release)
	if got := w.post("/v1/chat/completions", streamBody, "Idempotency-Key", "k"); got.status != 200 || got.body != textFrame+finishFrame+doneFrame {
		t.Errorf("status %d, %q: the call that was given up is kept", got.status, got.body)
	}
	w.wantClasses(t, model.ClassCanceled, model.ClassOK)
}

// TestKeptAnswersAreBounded holds room and time.
func TestKeptAnswersAreBounded(t *testing.T) {
	size := 10_000
	w := newWorld(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		say(w, 200, strings.Replace(goodAnswer, `"hi"`, `"`+strings.Repeat("x", size)+`"`, 1))
	}, func(c *agent.Config) {
		c.Idempotency = agent.KeepConfig{Bytes: 100_000, For: time.Minute}
		c.Fleet.Channels[0].Alone = 1000
	})
	call := func(key string) (hit bool) {
		t.Helper()
		got := w.post("/v1/chat/completions", plainBody, "Idempotency-Key", key)
		if got.status != 200 || got.err != nil || len(got.body) < size {
			t.Fatalf("status %d, %d bytes, %v", got.status, len(got.body), got.err)
		}
		return got.header.Get("X-Weir-Cache") == "hit"
	}
	hits := 0
	for round := range 2 {
		for i := range 40 {
			if call(fmt.Sprint(39*round+i*(1-2*round))) && round == 1 {
				hits++
			}
		}
	}
	if hits < 4 || hits > 10 {
		t.Errorf("%d answers of about 12,000 bytes were kept in 100,000", hits)
	}
	size = 3_000_000 // more than an answer's part: it passes and is not kept
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { call("large") })
	}
	all.Wait()
	if call("large") {
		t.Error("an answer that is too large was kept")
	}
}

// TestExactCache holds that only what asks the same is answered from the cache, that a client can say no, and that a hit spends nothing.
func TestExactCache(t *testing.T) {
	off := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) })
	for range 2 {
		off.post("/v1/chat/completions", plainBody)
	}
	if len(off.got()) != 2 {
		t.Errorf("without a word of it, %d of 2 calls were made", len(off.got()))
	}
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) }, func(c *agent.Config) {
		c.Cache = agent.CacheConfig{KeepConfig: agent.KeepConfig{Bytes: 1 << 20, For: time.Minute}, Ignore: []string{"user"}}
	})
	for _, tt := range []struct {
		name, body string
		header     []string
		hit        bool
	}{
		{"first", plainBody, nil, false},
		{"again", plainBody, nil, true},
		{"other words", streamBody, nil, false},
		{"a blank more", plainBody + " ", nil, true},
		{"another order, a number in other words, and what changes nothing", `{"user":"u-9", "max_tokens":5e1,"messages":[{"content":"hello there","role":"user"}],"model":"route"}`, nil, true},
		{"another number", `{"model":"route","messages":[{"role":"user","content":"hello there"}],"max_tokens":51}`, nil, false},
		{"opted out", plainBody, []string{"X-Weir-Cache", "off"}, false},
		{"opted out by HTTP", plainBody, []string{"Cache-Control", "no-store"}, false},
		{"another client", plainBody, []string{"Authorization", "Bearer other"}, false},
		{"another tenant", plainBody, []string{"X-Weir-Tenant", "content"}, false},
		{"and again", plainBody, nil, true},
	} {
		calls := len(w.got())
		got := w.post("/v1/chat/completions", tt.body, tt.header...)
		if hit := got.header.Get("X-Weir-Cache") == "hit"; hit != tt.hit || hit == (len(w.got()) > calls) {
			t.Errorf("%s: hit %v after %d calls", tt.name, hit, len(w.got())-calls)
		}
	}
	for _, p := range w.lastReport().Pools {
		if p.UsedRequests != int64(len(w.got())) {
			t.Errorf("%d requests are spent for %d calls", p.UsedRequests, len(w.got()))
		}
	}
}

// TestKeyRepeatsNothing holds that a call with an Idempotency-Key, which tells
// net/http that it may send it again by itself, is sent no more often than there
// are attempts, and that the provider gets the key.
func TestKeyRepeatsNothing(t *testing.T) {
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { reset(w) })
	w.earn(4) // so there is a connection that was used before
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if got := w.post("/v1/chat/completions", plainBody, name, "k"); got.status != 503 {
			t.Errorf("status %d: %s", got.status, got.body)
		}
	}
	for i, s := range w.got() {
		if s.header.Get("Idempotency-Key") != "k" && s.header.Get("X-Idempotency-Key") != "k" {
			t.Errorf("call %d lacks its key: %v", i, s.header)
		}
	}
	if calls, attempts := len(w.got()), len(w.attempts()); calls != attempts || attempts < 3 {
		t.Errorf("%d calls for %d attempts", calls, attempts)
	}
}

// TestFollowerEndsInTime holds that who joins a call on its way waits for its
// answer no longer than its own deadline, and is told so; the call goes on.
func TestFollowerEndsInTime(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-release
		good(w)
	})
	first := make(chan answer, 1)
	go func() { first <- w.post("/v1/chat/completions", plainBody, "Idempotency-Key", "k") }()
	<-begun
	late := w.post("/v1/chat/completions", plainBody, "Idempotency-Key", "k", "X-Weir-Deadline-Ms", "50")
	if e := errorOf(t, late); late.status != 503 || e.Code != "deadline_exceeded" || e.Weir.Class != "canceled" || late.header.Get("X-Should-Retry") != "false" {
		t.Errorf("status %d: %s", late.status, late.body)
	}
	close(release)
	if got := <-first; got.status != 200 || got.body != goodAnswer {
		t.Errorf("the call that goes on: status %d: %s", got.status, got.body)
	}
	w.wantClasses(t, model.ClassOK)
}
