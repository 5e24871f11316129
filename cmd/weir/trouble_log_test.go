package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"weir/events/natslog"
)

// TestTroubleLog holds that trouble with the bus is told once per kind until a
// connection stands again.
func TestTroubleLog(t *testing.T) {
	var out lockedBuffer
	l := &troubleLog{log: slog.New(slog.NewTextHandler(&out, nil)), told: map[string]bool{}}
	for range 3 {
		l.tell(natslog.FaultServer, nats.ErrAuthorization)
		l.tell(natslog.FaultDisconnected, errors.New("EOF"))
	}
	l.tell(natslog.FaultServer, errors.New("something else"))
	if n := strings.Count(out.String(), "trouble with nats"); n != 3 {
		t.Errorf("told %d times, want each kind once:\n%s", n, out.String())
	}
	l.over(true)
	l.tell(natslog.FaultServer, nats.ErrAuthorization)
	if n := strings.Count(out.String(), "authorization violation"); n != 2 {
		t.Errorf("told %d times, want once more:\n%s", n, out.String())
	}
}
