package agent

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"weir/model"
)

const (
	// idleConns is how many idle connections to one upstream are kept. A
	// channel's window is rarely larger, and dialling anew costs a round trip
	// or three.
	idleConns = 256
	// idleTimeout is below what common load balancers keep.
	idleTimeout = 55 * time.Second
	// connectTimeout bounds a dial where the fleet sets nothing.
	connectTimeout = 5 * time.Second
	tlsTimeout     = 5 * time.Second
	// maxAnswerHeader bounds an answer's header in bytes.
	maxAnswerHeader = 256 << 10
)

// pool is the connections of one channel. Each channel has its own, so that
// none can use up another's.
type pool struct {
	*http.Transport
	open atomic.Int64
}

// newPool returns a pool without connections. Redirects are not followed: an
// http.Transport never does.
func (c *Client) newPool() *pool {
	p := &pool{}
	p.Transport = &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return p.dial(ctx, network, addr, c.Fleet().Timeouts.Connect.Duration())
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    tlsTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    idleConns,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxAnswerHeader,
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
	}
	return p
}

func (p *pool) dial(ctx context.Context, network, addr string, timeout time.Duration) (net.Conn, error) {
	if timeout <= 0 {
		timeout = connectTimeout
	}
	d := net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	p.open.Add(1)
	return &counted{Conn: conn, pool: p}, nil
}

// counted is a connection that its pool counts.
type counted struct {
	net.Conn
	pool *pool
	once sync.Once
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(func() { c.pool.open.Add(-1) })
	return c.Conn.Close()
}

// writeMetrics writes how many connections are in use and how many wait.
func (t *Transport) writeMetrics(w io.Writer) {
	var v model.GateView
	t.client.View(&v)
	for i := range v.Channels {
		ch := &v.Channels[i]
		if p := t.pools[ch.Channel]; p != nil {
			open := p.open.Load()
			active := min(ch.InFlight, open)
			gauge(w, fmt.Sprintf(`weir_pool_connections{channel=%q,state="active"}`, ch.Channel), active)
			gauge(w, fmt.Sprintf(`weir_pool_connections{channel=%q,state="idle"}`, ch.Channel), open-active)
		}
	}
	bound(w, "bodies", float64(t.bodies.used.Load())/float64(t.bodies.limit))
	bound(w, "chains", float64(t.tasks.known())/maxTasks)
	for name, s := range map[string]*shelf{"idempotency": t.replays, "exact_cache": t.cache, "semantic_cache": t.semantic} {
		if s.enabled() {
			bound(w, name, s.full())
		}
	}
}
