package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/events"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
	"weir/model"
)

// TestAgentKilled kills a sidecar in the middle of its streams: its clients
// see the connection end, the other sidecar's see nothing, never are more
// calls at the provider than it takes, and a new process under the same id is
// served at once. Lost is what the dead one had not reported.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	var now, most, begun atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun.Add(1)
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 10 {
			_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"yes"}}]}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
		_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":10,"total_tokens":15}}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(provider.Close)
	bus := natstest.Start(t, natstest.Listen)
	f := newTrio(t, bus.URL(), provider.URL)
	f.led(-1)
	doomed, other := f.stream(0, 8), f.stream(1, 8)
	time.Sleep(2 * time.Second)
	f.agents[0].kill()
	time.Sleep(500 * time.Millisecond)
	close(doomed.stop)
	doomed.wait.Wait()
	if len(doomed.troubles) == 0 {
		t.Error("nobody noticed that the sidecar was killed")
	}
	f.agent(0)
	again := f.stream(0, 8)
	for again.done.Load() < 20 && len(again.troubles) == 0 {
		time.Sleep(20 * time.Millisecond)
	}
	again.end(t)
	other.end(t)
	if n := most.Load(); n > stationTakes {
		t.Errorf("%d calls at once at the provider, it takes %d", n, stationTakes)
	}
	done := other.done.Load() + again.done.Load()
	f.controllers[0].until("count what came to an end", func() bool {
		s, ok := f.status(f.http[0])
		return ok && s.Counters.Attempts >= done
	})
	if s, _ := f.status(f.http[0]); s.Counters.Attempts > begun.Load() {
		t.Errorf("%d attempts counted, %d were made", s.Counters.Attempts, begun.Load())
	}
}

// stream has n callers read streams through one sidecar.
func (f *trio) stream(sidecar, n int) *callers {
	c := &callers{stop: make(chan struct{})}
	url := "http://" + f.sidecars[sidecar] + "/v1/chat/completions"
	for range n {
		c.wait.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				default:
					c.oneStream(url)
				}
			}
		})
	}
	return c
}

func (c *callers) oneStream(url string) {
	body := `{"model":"default","stream":true,"messages":[{"role":"user","content":"hello"}],"max_tokens":10}`
	answer, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		c.trouble(err.Error())
		time.Sleep(100 * time.Millisecond)
		return
	}
	data, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || !strings.Contains(string(data), "[DONE]") {
		c.trouble("a stream was cut off")
		return
	}
	c.done.Add(1)
}

// TestAgentWithAWrongClock starts a sidecar whose clock is behind that of the
// process that spoke before under its id: it is heard all the same.
func TestAgentWithAWrongClock(t *testing.T) {
	t.Parallel()
	bus, provider := natstest.Start(t, natstest.Listen), newStation(t)
	f := newTrio(t, bus.URL(), provider.URL)
	f.led(-1)
	f.agents[0].stop()
	nc, err := natslog.Connect(bus.URL(), natslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	w, err := natslog.NewWriter(nc, "test", "sidecar-0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ahead := uint64(time.Now().AddDate(10, 0, 0).UnixNano())
	if err := w.Write(ctx, events.Encode(nil, &model.Attempts{Source: model.Source{Agent: "sidecar-0", Boot: ahead, Seq: 1, Span: 1}})); err != nil {
		t.Fatal(err)
	}
	f.agent(0)
	calls := f.call(8)
	time.Sleep(2 * time.Second)
	calls.end(t)
	f.wantCounted(provider.served.Load())
}
