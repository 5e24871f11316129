package natslog

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// keyring shows NATS the key that a file holds now, not the one it held when
// the process began: a credential may be made later, or made anew.
type keyring struct {
	seed func() string
	conn atomic.Pointer[nats.Conn]
}

// options show the key, and look for it again before each further try.
func (k *keyring) options() ([]nats.Option, error) {
	again := nats.ReconnectToServer(func([]nats.Server, nats.ServerInfo) (*nats.Server, time.Duration) {
		k.renew()
		return nil, 0 // the client's own choice
	})
	file := k.seed()
	if file == "" {
		return []nats.Option{again}, nil
	}
	key, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		return nil, fmt.Errorf("credential %s: %w", file, err)
	}
	return []nats.Option{again, key}, nil
}

// renew takes the key anew; while the file cannot be read there is no way in. The
// client asks which server to try with its lock held, and reads the key under
// the same lock: nowhere else may it change.
func (k *keyring) renew() {
	nc, file := k.conn.Load(), k.seed()
	if nc == nil || file == "" {
		return
	}
	key, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		return
	}
	_ = key(&nc.Opts) // fails only for a key without a signer
}
