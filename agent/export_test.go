package agent

import (
	"context"
	"net"
)

// DialWith makes all connections to upstreams by dial.
func (t *Transport) DialWith(dial func() (net.Conn, error)) {
	for _, p := range t.pools {
		p.DialContext = func(context.Context, string, string) (net.Conn, error) { return dial() }
	}
}
