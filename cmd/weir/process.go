package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"weir/cmd/weir/config"
	"weir/events/natslog"
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
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
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

// tokenFrom returns what an environment variable holds. A variable that the
// file names for the bus must be set.
func tokenFrom(n *config.NATS) (string, error) {
	if n.TokenEnv == "" {
		return "", nil
	}
	token := os.Getenv(n.TokenEnv)
	if token == "" {
		return "", badInput(fmt.Errorf("environment variable %s is empty, and nats.token_env names it", n.TokenEnv))
	}
	return token, nil
}

// connectWithin bounds how long a controller waits for NATS, which may start at
// the same time; askWithin how long an operator does.
const (
	connectWithin = 5 * time.Second
	askWithin     = 2 * time.Second
)

// busOptions are how a process connects to NATS. Trouble with it is logged.
func busOptions(n *config.NATS, name, agent string, log *slog.Logger) (natslog.Options, error) {
	token, err := tokenFrom(n)
	if err != nil {
		return natslog.Options{}, err
	}
	trouble := &troubleLog{log: log, told: map[string]bool{}}
	o := natslog.Options{
		Name: name, Agent: agent, OnFault: trouble.tell,
		Extra: []nats.Option{
			nats.ConnectHandler(func(*nats.Conn) { trouble.over("connected to nats") }),
			nats.ReconnectHandler(func(*nats.Conn) { trouble.over("connected to nats again") }),
		},
	}
	if token != "" {
		o.Extra = append(o.Extra, nats.Token(token))
	}
	if n.CredsFile != "" {
		if _, err := os.Stat(n.CredsFile); err != nil {
			return o, badInput(fmt.Errorf("nats.creds_file: %w", err))
		}
		o.Extra = append(o.Extra, nats.UserCredentials(n.CredsFile))
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

func (t *troubleLog) over(message string) {
	t.mu.Lock()
	clear(t.told)
	t.mu.Unlock()
	t.log.Info(message)
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
		return nil, badInput(fmt.Errorf("cannot reach nats at %s: %w; is it running there?", servers(address), err))
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
	if err := nc.LastError(); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "nats: "))
	}
	return fmt.Errorf("no answer within %s", within)
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
