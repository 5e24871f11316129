package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"weir/cmd/weir/config"
	"weir/events/natslog"
)

// connectWithin bounds how long a controller waits for NATS, which may start at
// the same time; askWithin how long an operator does.
const (
	connectWithin = 5 * time.Second
	askWithin     = 2 * time.Second
)

// busOptions are how a process connects to NATS, with what it shows there: the
// file that seed names (natslog.Options.Seed), or another proof of the
// configuration's. Trouble with it is logged.
func busOptions(n *config.NATS, name, agent string, seed func() string, log *slog.Logger) (natslog.Options, error) {
	trouble := &troubleLog{log: log, told: map[string]bool{}}
	o := natslog.Options{
		Name: name, Agent: agent, OnFault: trouble.tell,
		Extra: []nats.Option{
			nats.ConnectHandler(func(*nats.Conn) { trouble.over(false) }),
			nats.ReconnectHandler(func(*nats.Conn) { trouble.over(true) }),
		},
	}
	if n.TLS.CAFile != "" {
		if _, err := os.Stat(n.TLS.CAFile); err != nil {
			return o, badInput(fmt.Errorf("nats.tls.ca_file: %w", err))
		}
		o.Extra = append(o.Extra, nats.RootCAs(n.TLS.CAFile))
	}
	switch {
	case n.CredentialFile != "":
		o.Seed = seed
	case n.TokenEnv != "":
		token := os.Getenv(n.TokenEnv)
		if token == "" {
			return o, badInput(fmt.Errorf("environment variable %s is empty, and nats.token_env names it", n.TokenEnv))
		}
		o.Extra = append(o.Extra, nats.Token(token))
	case n.CredsFile != "":
		if _, err := os.Stat(n.CredsFile); err != nil {
			return o, badInput(fmt.Errorf("nats.creds_file: %w", err))
		}
		o.Extra = append(o.Extra, nats.UserCredentials(n.CredsFile))
	default:
		o.Seed = seed
	}
	return o, nil
}

// troubleLog tells each kind of trouble once, until a connection stands again.
type troubleLog struct {
	log  *slog.Logger
	mu   sync.Mutex
	told map[string]bool
}

func (t *troubleLog) tell(f natslog.Fault, err error) {
	kind := string(f)
	for _, refused := range [...]error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked} {
		if errors.Is(err, refused) {
			kind = refused.Error()
		}
	}
	t.mu.Lock()
	again := t.told[kind]
	t.told[kind] = true
	t.mu.Unlock()
	if !again {
		t.log.Warn("trouble with nats; it is told once", slog.String("kind", string(f)), slog.Any("error", err))
	}
}

// over says that a connection stands, again if there was one before.
func (t *troubleLog) over(again bool) {
	t.mu.Lock()
	clear(t.told)
	t.mu.Unlock()
	if again {
		t.log.Info("connected to nats again")
		return
	}
	t.log.Info("connected to nats")
}

// connect connects to NATS and waits until it is there. One that is not is bad
// input.
func connect(ctx context.Context, address string, o natslog.Options, within time.Duration) (*nats.Conn, error) {
	nc, err := natslog.Connect(address, o)
	if err != nil {
		return nil, badInput(err)
	}
	if err := connected(ctx, nc, within); err != nil {
		nc.Close()
		return nil, badInput(fmt.Errorf("cannot reach nats at %s: %w", servers(address), err))
	}
	return nc, nil
}

// connected waits until a connection stands.
func connected(ctx context.Context, nc *nats.Conn, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	status := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(status)
	if nc.IsConnected() {
		return nil
	}
	select {
	case <-status:
		return nil
	case <-ctx.Done():
	}
	switch err := nc.LastError(); {
	case errors.Is(err, nats.ErrAuthorization):
		return errors.New("it does not let this process in; run it where the credentials are, or name one with nats.credential_file (weir credential add makes it)")
	case err != nil:
		return fmt.Errorf("%s; is it running there?", strings.TrimPrefix(err.Error(), "nats: "))
	}
	return fmt.Errorf("no answer within %s; is it running there?", within)
}

// servers is a NATS URL without secrets, for people.
func servers(address string) string {
	var shown []string
	for one := range strings.SplitSeq(address, ",") {
		scheme, rest, ok := strings.Cut(strings.TrimSpace(one), "://")
		if !ok {
			scheme, rest = "nats", scheme
		}
		shown = append(shown, scheme+"://"+rest[strings.LastIndex(rest, "@")+1:])
	}
	return strings.Join(shown, ",")
}
