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
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader(body))
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
		h.status.Store(int64(resp.StatusCode))
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			h.lines.Add(1)
			h.last.Store(lines.Text())
		}
	}()
	return h
}

// heard is what a caller got of its answer so far.
type heard struct {
	status, lines atomic.Int64 // 0 for none
	last          atomic.Value // the last line
}

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
