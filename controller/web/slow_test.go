package web_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/controller"
	"weir/controller/web"
	"weir/model"
)

// steady is a controller to which nothing happens.
type steady struct{}

func (steady) Status(context.Context) (s controller.Status, err error) { return s, nil }
func (steady) View(context.Context) (v model.FleetView, err error)     { return v, nil }
func (steady) Append(context.Context, model.Fact) (uint64, error)      { return 1, nil }
func (steady) Wait(context.Context, uint64) error                      { return nil }
func (steady) Alive(context.Context, time.Duration) bool               { return true }
func (steady) Decisions(controller.DecisionQuery) ([]controller.Decision, error) {
	return nil, nil
}

func (steady) Params(context.Context) (p model.ParamSet, seq uint64, err error) { return p, 1, nil }

func (steady) Snapshot(context.Context) (data []byte, digest [32]byte, seq uint64, err error) {
	return nil, digest, 1, nil
}

// wire is a listener in memory, whose connections tell when they end.
type wire struct {
	next chan net.Conn
	over chan struct{}
}

func newWire() *wire { return &wire{make(chan net.Conn), make(chan struct{})} }

func (l *wire) Accept() (net.Conn, error) {
	select {
	case c := <-l.next:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *wire) Close() error {
	select {
	case <-l.over:
	default:
		close(l.over)
	}
	return nil
}

func (l *wire) Addr() net.Addr { return &net.TCPAddr{} }

type ended struct {
	net.Conn
	at chan struct{}
}

func (c *ended) Close() error {
	err := c.Conn.Close()
	select {
	case <-c.at:
	default:
		close(c.at)
	}
	return err
}

// dial returns a client's end, and what is closed when the server ends its own.
func (l *wire) dial() (net.Conn, <-chan struct{}) {
	client, server := net.Pipe()
	c := &ended{server, make(chan struct{})}
	l.next <- c
	return client, c.at
}

// TestSlowClients lets clients send their header, or a body, byte by byte, or
// never read, by a clock that does not wait: the server ends each connection by
// its own limits, and others are served meanwhile.
func TestSlowClients(t *testing.T) {
	const head = " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + "\r\n"
	for name, tt := range map[string]struct {
		at, slow string // what is sent at once, what byte by byte
		reads    bool
		within   time.Duration
	}{
		"header":               {"", "GET /api/v1/status" + head + "\r\n", true, 10 * time.Second},
		"body":                 {"POST /api/v1/config" + head + "Content-Length: 1000\r\n\r\n", "weir and more of it", true, 15 * time.Second},
		"chunks":               {"POST /api/v1/config" + head + "Transfer-Encoding: chunked\r\n\r\n", "1\r\nw\r\n1\r\ne\r\n1\r\ni\r\n", true, 15 * time.Second},
		"body that none wants": {"GET /api/v1/status" + head + "Content-Length: 1000\r\n\r\n", "", true, 15 * time.Second},
		"no reader":            {"GET /api/v1/params" + head + "\r\n", "", false, 35 * time.Second},
		"page without reader":  {"GET /api/v1/live" + head + "\r\n", "", false, 35 * time.Second},
		"page and body":        {"GET /api/v1/live" + head + "Content-Length: 1000\r\n\r\n", "", false, 35 * time.Second},
		"nothing":              {"", "", true, 70 * time.Second},
		"nothing more":         {"GET /healthz" + head + "\r\n", "", true, 70 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				l := newWire()
				served := make(chan error, 1)
				go func() {
					served <- web.Serve(ctx, l, web.Handler(web.Options{Controller: steady{}, Token: token}), slog.New(slog.DiscardHandler))
				}()
				slow, end := l.dial()
				if tt.reads {
					go func() { _, _ = io.Copy(io.Discard, slow) }()
				}
				var sent sync.WaitGroup
				sent.Go(func() { dawdle(slow, tt.at, tt.slow) })
				begin := time.Now()
				time.Sleep(time.Second)
				serves(t, l)
				select {
				case <-end:
				case <-time.After(time.Hour):
					t.Error("the connection stays for ever")
				}
				if took := time.Since(begin); took > tt.within {
					t.Errorf("it ends after %s, want %s at most", took, tt.within)
				}
				_ = slow.Close()
				sent.Wait()
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// dawdle sends the one at once, the other a byte a second.
func dawdle(c net.Conn, at, slow string) {
	_, err := io.WriteString(c, at)
	for i := 0; i < len(slow) && err == nil; i++ {
		time.Sleep(time.Second)
		_, err = io.WriteString(c, slow[i:i+1])
	}
}

// serves wants another client to be served.
func serves(t *testing.T, l *wire) {
	t.Helper()
	c, _ := l.dial()
	defer func() { _ = c.Close() }()
	go func() {
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	}()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		err = errors.Join(err, resp.Body.Close())
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("another client is not served: %+v, %v", resp, err)
	}
}
