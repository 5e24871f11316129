package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// wire is a listener in memory.
type wire struct {
	next chan net.Conn
	over chan struct{}
	once sync.Once
}

func (l *wire) Accept() (net.Conn, error) {
	select {
	case c := <-l.next:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *wire) Close() error   { l.once.Do(func() { close(l.over) }); return nil }
func (l *wire) Addr() net.Addr { return &net.TCPAddr{} }

// TestSlowHeaders lets clients of a sidecar's server dawdle with their header,
// or send none, by a clock that does not wait: the server ends the connection.
// What comes after the header is the proxy's matter.
func TestSlowHeaders(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, tt := range map[string]struct {
		at, slow string // what is sent at once, what byte by byte
		within   time.Duration
	}{
		"header":       {"", request, 11 * time.Second},
		"nothing":      {"", "", 11 * time.Second},
		"nothing more": {request, "", 121 * time.Second},
		"second one":   {request, request, 131 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				l := &wire{next: make(chan net.Conn), over: make(chan struct{})}
				served := make(chan error, 1)
				go func() {
					served <- serve(ctx, l, http.NotFoundHandler(), time.Second, slog.New(slog.DiscardHandler))
				}()
				client, server := net.Pipe()
				l.next <- server
				begin := time.Now()
				var sent sync.WaitGroup
				sent.Go(func() {
					_, err := io.WriteString(client, tt.at)
					for i := 0; i < len(tt.slow) && err == nil; i++ {
						time.Sleep(time.Second)
						_, err = io.WriteString(client, tt.slow[i:i+1])
					}
				})
				if _, err := io.Copy(io.Discard, client); err != nil {
					t.Error(err)
				}
				if took := time.Since(begin); took > tt.within {
					t.Errorf("the connection ends after %s, want %s at most", took, tt.within)
				}
				_ = client.Close()
				sent.Wait()
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
