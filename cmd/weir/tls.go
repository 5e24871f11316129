package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync"

	"weir/cmd/weir/config"
)

// certificate is a certificate in two files, which are read again when they
// change: it is renewed while the process runs.
type certificate struct {
	of config.TLS

	mu        sync.Mutex
	cert, key fileState
	held      *tls.Certificate
}

// certificateOf reads a certificate, and returns what serves it; nil for none.
func certificateOf(t config.TLS) (*tls.Config, error) {
	if !t.Serves() {
		return nil, nil //nolint:nilnil // no certificate is no fault
	}
	c := &certificate{of: t}
	if _, err := c.get(nil); err != nil {
		return nil, badInput(err)
	}
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}, nil
}

// get returns the newest certificate that could be read.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cert, key := stateOf(c.of.CertFile), stateOf(c.of.KeyFile)
	if c.held != nil && cert == c.cert && key == c.key {
		return c.held, nil
	}
	fresh, err := tls.LoadX509KeyPair(c.of.CertFile, c.of.KeyFile)
	switch {
	case err == nil:
		c.held, c.cert, c.key = &fresh, cert, key
	case c.held == nil:
		return nil, fmt.Errorf("certificate %s: %w", c.of.CertFile, err)
	}
	return c.held, nil // half of a renewal: the old one is good still
}

// listenTLS takes an address as listen does, behind a certificate if there is
// one.
func listenTLS(address string, t config.TLS) (net.Listener, string, error) {
	shown, err := certificateOf(t)
	if err != nil {
		return nil, "", err
	}
	l, err := listen(address)
	if err != nil || shown == nil {
		return l, "http://", err
	}
	return tls.NewListener(l, shown), "https://", nil
}
