package natslog_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"weir/events/natslog"
	"weir/events/natslog/natstest"
)

// TestKeyIsLookedForAgain has a key that is not there at first, then is, then is
// another, while calls are made on the connection all the time.
func TestKeyIsLookedForAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key.nk")
	var allowed string
	key := func() []byte {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		seed, err := pair.Seed()
		if err != nil {
			t.Fatal(err)
		}
		if allowed, err = pair.PublicKey(); err != nil {
			t.Fatal(err)
		}
		return seed
	}
	write := func(seed []byte) {
		if err := os.WriteFile(file, seed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := key()
	srv := natstest.Start(t, func(o *server.Options) {
		natstest.Listen(o)
		o.Nkeys = []*server.NkeyUser{{Nkey: allowed}}
	})
	nc, err := natslog.Connect(srv.URL(), natslog.Options{
		Seed: func() string {
			if _, err := os.Stat(file); err != nil {
				return ""
			}
			return file
		},
		Extra: []nats.Option{nats.IgnoreAuthErrorAbort()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	await := func(what string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			err := nc.Publish("subject", nil)
			if err == nil && nc.FlushTimeout(time.Second) == nil {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v", what, nc.LastError())
			}
		}
	}
	for end := time.Now().Add(20 * time.Second); !errors.Is(nc.LastError(), nats.ErrAuthorization); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("without a key: %v, want it refused", nc.LastError())
		}
	}
	write(first)
	await("with a key")
	write([]byte("half written"))
	second := key()
	srv.Restart(t)
	for end := time.Now().Add(20 * time.Second); nc.LastError() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a file without a key opens the door")
		}
	}
	write(second)
	await("with another key")
}
