package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"
)

// closers ends the parts of a process in the opposite order of their start.
type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

// close ends every part and joins what went wrong to err.
func (c closers) close(err *error) {
	for _, stop := range slices.Backward(c) {
		*err = errors.Join(*err, stop())
	}
}

// listen takes a TCP address. One that is taken is bad input.
func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, badInput(fmt.Errorf("cannot listen on %s: %w; choose another address with --listen", address, cause(err)))
	}
	return l, nil
}

// cause returns the system's own word for a failed network operation.
func cause(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Err
	}
	return err
}

// loopback reports whether only this machine reaches an address host:port.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// serve serves h until ctx ends, then lets running requests end for grace.
func serve(ctx context.Context, l net.Listener, h http.Handler, grace time.Duration, log *slog.Logger) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 512 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := s.Shutdown(wait); err != nil {
		return s.Close() // the grace is over
	}
	return nil
}
