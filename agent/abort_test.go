package agent_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/agent"
	"weir/agent/classify"
	"weir/agent/proxy"
	"weir/model"
)

// pipes is a listener whose connections are in memory, so that a test's clock
// may stand still while they wait.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (p *pipes) dial() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// sidecar is a client, a proxy and a provider in memory.
type sidecar struct {
	t      *testing.T
	client *agent.Client
	caller *http.Client
	calls  atomic.Int64 // that the provider got
	gone   atomic.Int64 // of those whose caller it saw leave
}

// shipped returns the shipped rules, which take a while to read.
func shipped(t *testing.T) *classify.Classifier {
	t.Helper()
	c, err := classify.New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newSidecar starts a proxy before a provider that answers with answer until it
// returns or the call's context ends. No time limit is shorter than an hour.
func newSidecar(t *testing.T, rules *classify.Classifier, slots uint32, answer func(n int64, w http.ResponseWriter, r *http.Request)) *sidecar {
	s := &sidecar{t: t}
	var err error
	s.client, err = agent.New(agent.Config{
		Agent: "agent-1", Classifier: rules,
		Upstreams: map[string]agent.Upstream{"main": {BaseURL: "http://provider.invalid/v1"}},
		Fleet: &model.Config{
			Fleet:    "test",
			Channels: []model.ChannelConfig{{Name: "main", Model: "m", Alone: slots}},
			Routes:   []model.RouteConfig{{Name: "route", Tiers: []model.TierConfig{{Channels: []model.WeightedChannel{{Channel: "main", Weight: 1}}}}}},
			Retry:    model.RetryConfig{MaxAttempts: 3, Base: model.Minute, Max: model.Minute, Multiplier: model.One, Budget: model.One, Total: 2 * model.Hour},
			Timeouts: model.TimeoutConfig{Connect: model.Hour, FirstToken: model.Hour, Total: model.Hour},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	door, provider := newPipes(), newPipes()
	p := proxy.New(s.client, nil)
	calls := p.Calls().(*agent.Transport)
	calls.DialWith(provider.dial)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees a caller leave
		answer(n, w, r)
		if r.Context().Err() != nil {
			s.gone.Add(1)
		}
	})
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	servers := []*http.Server{{Handler: p, ErrorLog: quiet}, {Handler: handler, ErrorLog: quiet}}
	go func() { _ = servers[0].Serve(door) }()
	go func() { _ = servers[1].Serve(provider) }()
	way := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return door.dial() }}
	s.caller = &http.Client{Transport: way}
	t.Cleanup(func() {
		way.CloseIdleConnections()
		calls.CloseIdleConnections()
		for _, server := range servers {
			_ = server.Close()
		}
		_ = s.client.Close(context.Background())
	})
	return s
}

// call makes a call on its own; its answer's body is read to its end.
func (s *sidecar) call(ctx context.Context, stream bool, header ...string) *heard {
	body := `{"model":"route","messages":[{"role":"user","content":"hello"}]}`
	if stream {
		body = strings.Replace(body, "{", `{"stream":true,`, 1)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sidecar.invalid/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	h := &heard{}
	go func() {
		resp, err := s.caller.Do(r)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			h.lines.Add(1)
		}
	}()
	return h
}

// heard is what a caller got of its answer.
type heard struct{ lines atomic.Int64 }

// queue returns how many calls are in flight and wait.
func (s *sidecar) queue() (flight, waiting int64) {
	var v model.GateView
	s.client.View(&v)
	for i := range v.Channels {
		flight += v.Channels[i].InFlight
	}
	return flight, int64(v.Waiting + v.Backoff)
}

const wholeAnswer = `{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`

const contentEvent = `data: {"id":"1","choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\n"

func say(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, text)
	w.(http.Flusher).Flush()
}

// TestAbortsPropagate holds that a provider hears at once of a caller that
// left: the clock stands still from the moment at which the caller leaves until
// nothing moves any more, and by then the provider has seen it and the slot is
// free. So no timer of whatever length is on that way.
func TestAbortsPropagate(t *testing.T) {
	rules := shipped(t)
	hang := func(_ int64, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, tt := range []struct {
		name   string
		stream bool
		header []string
		answer func(n int64, w http.ResponseWriter, r *http.Request)
		heard  int64 // lines of the answer at least
	}{
		{"plain", false, nil, hang, 0},
		{"plain, head sent", false, nil, func(n int64, w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			hang(n, w, r)
		}, 0},
		{"plain under a key", false, []string{"Idempotency-Key", "k"}, hang, 0},
		{"stream before its head", true, nil, hang, 0},
		{"stream before its first content", true, nil, func(n int64, w http.ResponseWriter, r *http.Request) {
			say(w, ": wait\n\n")
			hang(n, w, r)
		}, 0},
		{"stream half-way", true, nil, func(n int64, w http.ResponseWriter, r *http.Request) {
			say(w, contentEvent)
			hang(n, w, r)
		}, 2},
		{"stream half-way under a key", true, []string{"Idempotency-Key", "k"}, func(n int64, w http.ResponseWriter, r *http.Request) {
			say(w, contentEvent)
			hang(n, w, r)
		}, 2},
		{"stream that goes on", true, nil, func(_ int64, w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				say(w, contentEvent)
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		}, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSidecar(t, rules, 8, tt.answer)
				ctx, leave := context.WithCancel(t.Context())
				h := s.call(ctx, tt.stream, tt.header...)
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if flight, _ := s.queue(); s.calls.Load() != 1 || flight != 1 || s.gone.Load() != 0 || h.lines.Load() < tt.heard {
					t.Fatalf("before: %d calls, %d in flight, %d gone, %d lines", s.calls.Load(), flight, s.gone.Load(), h.lines.Load())
				}
				leave()
				synctest.Wait()
				if flight, _ := s.queue(); s.gone.Load() != 1 || flight != 0 {
					t.Errorf("after: %d callers gone for the provider, %d in flight", s.gone.Load(), flight)
				}
			})
		})
	}
}

// TestAbortsWhileWaiting holds the same for callers whose call waits: in the
// queue, and for the next try. None is sent.
func TestAbortsWhileWaiting(t *testing.T) {
	rules := shipped(t)
	t.Run("queue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSidecar(t, rules, 1, func(_ int64, _ http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(30 * time.Second):
				case <-r.Context().Done():
				}
			})
			s.call(t.Context(), false)
			synctest.Wait()
			ctx, leave := context.WithCancel(t.Context())
			s.call(ctx, false)
			s.call(ctx, true)
			s.call(ctx, false, "Idempotency-Key", "k")
			synctest.Wait()
			if flight, waiting := s.queue(); flight != 1 || waiting != 3 {
				t.Fatalf("%d in flight, %d wait", flight, waiting)
			}
			leave()
			synctest.Wait()
			if flight, waiting := s.queue(); flight != 1 || waiting != 0 {
				t.Errorf("after: %d in flight, %d wait", flight, waiting)
			}
			time.Sleep(5 * time.Minute)
			if n := s.calls.Load(); n != 1 {
				t.Errorf("%d calls, want that of the caller who stayed", n)
			}
		})
	})

	t.Run("next try", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSidecar(t, rules, 8, func(n int64, w http.ResponseWriter, _ *http.Request) {
				if n > 4 {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				_, _ = io.WriteString(w, wholeAnswer)
			})
			for range 4 { // earn retries
				s.call(t.Context(), false)
				synctest.Wait()
			}
			ctx, leave := context.WithCancel(t.Context())
			s.call(ctx, false)
			synctest.Wait()
			if _, waiting := s.queue(); waiting != 1 || s.calls.Load() != 5 {
				t.Fatalf("%d wait after %d calls", waiting, s.calls.Load())
			}
			leave()
			synctest.Wait()
			if _, waiting := s.queue(); waiting != 0 {
				t.Errorf("after: %d wait", waiting)
			}
			time.Sleep(5 * time.Minute)
			if n := s.calls.Load(); n != 5 {
				t.Errorf("%d calls, want no further try", n)
			}
		})
	})
}
