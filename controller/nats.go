package controller

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"weir/controller/credential"
	"weir/events"
	"weir/events/natslog"
)

// NATSOptions size the embedded NATS server.
type NATSOptions struct {
	// Store is the folder of its streams. It is locked: nats-server itself
	// lets two processes write into one folder and lose messages.
	Store string
	// Listen is host:port for agents of other processes, with port 0 for any
	// free one; empty means that only this process connects.
	Listen string
	// Fleet is whose subjects the allowed may use.
	Fleet string
	// Allowed may connect, and nobody else; see Allow. Nil means everybody,
	// and then only a loopback address is listened on.
	Allowed []credential.Credential
	// Tasks lets workers use the subjects of the fleet's tasks, see
	// natslog.TaskRights: of the rooms of Tenants and that of all others, or of
	// the one tenant's that their credential is bound to.
	Tasks   bool
	Tenants []string
	// TLS is what the server shows to other processes; nil means plain text.
	TLS *tls.Config
	// SyncAlways puts every message on disk before it is acknowledged. Without
	// it the disk has everything after a second, which a crash of the process
	// does not notice and a power cut does.
	SyncAlways bool
	// MaxStore bounds the disk it uses, in bytes; 0 means what it uses now
	// and three quarters of what is free. On a full disk JetStream stops.
	MaxStore int64
	// Logger hears of trouble; nil means nobody does.
	Logger *slog.Logger
}

// The bounds of the embedded server.
const (
	// natsMaxPending bounds what waits for one connection: a reader's pull of
	// one megabyte fits many times, a stuck agent holds no more than this.
	natsMaxPending = 16 << 20
	// natsMaxSubs bounds the subscriptions of a connection, which are the
	// server's memory: a worker has a few for each room and one for each task
	// that a client waits for.
	natsMaxSubs = 4096
	// natsStart is how long recovery of the streams may take: about a second
	// per million messages.
	natsStart = 2 * time.Minute
	// natsHandshake is how long a TLS handshake may take.
	natsHandshake = 5 * time.Second
	// natsAuth is how long a client may take after it to say who it is.
	natsAuth = 2 * time.Second
	// natsAnswer is how long an agent may take to answer another.
	natsAnswer = 5 * time.Second
)

// NATS is a NATS server with JetStream in this process. Close frees it.
type NATS struct {
	server *server.Server
	log    *natsLogger
	fleet  string
	rooms  []string      // whose tasks there are, by tenant
	own    nkeys.KeyPair // of this process; nil when everybody may connect
	lock   *pebble.Lock
	door   *door // nil when only this process connects
	tls    bool

	mu      sync.Mutex
	options *server.Options // in force
}

// StartNATS starts a server and waits until it takes connections. Its errors
// are one line: a folder in use, an address in use, a server that cannot start.
func StartNATS(o NATSOptions) (*NATS, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = throttled(o.Logger)
	options, err := o.server()
	if err != nil {
		return nil, err
	}
	n := &NATS{fleet: o.Fleet, options: options}
	if o.Tasks {
		n.rooms = append([]string{""}, o.Tenants...)
	}
	if o.Allowed != nil {
		if n.own, err = nkeys.CreateUser(); err != nil {
			return nil, fmt.Errorf("start nats: %w", err)
		}
		if options.Nkeys, err = n.users(o.Allowed); err != nil {
			return nil, fmt.Errorf("start nats: %w", err)
		}
	}
	if err := os.MkdirAll(o.Store, 0o700); err != nil {
		return nil, fmt.Errorf("make nats store %s: %w", o.Store, err)
	}
	if o.MaxStore <= 0 {
		if options.JetStreamMaxStore, err = room(o.Store); err != nil {
			return nil, fmt.Errorf("measure nats store %s: %w", o.Store, err)
		}
	}
	if n.lock, err = pebble.LockDirectory(o.Store, vfs.Default); err != nil {
		return nil, fmt.Errorf("open nats store %s: it is in use by another process (%w)", o.Store, err)
	}
	if n.server, n.log, err = run(options.Clone(), o.Logger); err != nil {
		return nil, errors.Join(fmt.Errorf("start nats: %w", err), n.lock.Close())
	}
	if o.Listen == "" {
		return n, nil
	}
	n.tls = o.TLS != nil
	if n.door, err = openDoor(o.Listen, o.TLS, n.server.InProcessConn, o.Logger); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Allow changes who may connect, and ends the connections of everybody else.
// It is an error for a server that everybody may connect to.
func (n *NATS) Allow(list []credential.Credential) error {
	if n.own == nil {
		return errors.New("change who may connect to nats: everybody may")
	}
	users, err := n.users(list)
	if err != nil {
		return fmt.Errorf("change who may connect to nats: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.options.Nkeys = users
	if err := n.server.ReloadOptions(n.options.Clone()); err != nil {
		return fmt.Errorf("change who may connect to nats: %w", err)
	}
	return nil
}

// users gives every credential the rights of its role, and this process all.
func (n *NATS) users(list []credential.Credential) ([]*server.NkeyUser, error) {
	own, err := n.own.PublicKey()
	if err != nil {
		return nil, err
	}
	users := []*server.NkeyUser{{Nkey: own}}
	for _, c := range list {
		u := &server.NkeyUser{Nkey: c.Key}
		switch c.Role {
		case credential.Agent:
			u.Permissions = n.rights(c.Name, nil)
		case credential.AnyAgent:
			u.Permissions = n.rights(natslog.AnyAgent, nil)
		case credential.Worker:
			u.Permissions = n.rights(c.Name, n.roomsOf(&c))
		case credential.AnyWorker:
			u.Permissions = n.rights(natslog.AnyAgent, n.roomsOf(&c))
		case credential.Operator: // everything
		default:
			return nil, fmt.Errorf("credential %s: unknown role %q", c.Name, c.Role)
		}
		users = append(users, u)
	}
	return users, nil
}

// roomsOf returns whose tasks a worker may work on. One that is bound to a
// tenant without a room reaches none: those are among all others'.
func (n *NATS) roomsOf(c *credential.Credential) []string {
	if c.Tenant == "" {
		return n.rooms
	}
	if slices.Contains(n.rooms, c.Tenant) {
		return []string{c.Tenant}
	}
	return nil
}

func (n *NATS) rights(agent string, rooms []string) *server.Permissions {
	publish, subscribe := natslog.Rights(n.fleet, agent)
	var answers *server.ResponsePermission
	for _, tenant := range rooms {
		p, s := natslog.TaskRights(n.fleet, agent, tenant)
		publish, subscribe = append(publish, p...), append(subscribe, s...)
		answers = &server.ResponsePermission{MaxMsgs: 1, Expires: natsAnswer}
	}
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish, Deny: []string{events.ControlSubject(n.fleet)}},
		Subscribe: &server.SubjectPermission{Allow: subscribe},
		Response:  answers,
	}
}

// server turns the options into nats-server's.
func (o *NATSOptions) server() (*server.Options, error) {
	s := &server.Options{
		ServerName:         "weir",
		NoSigs:             true, // signals are the process's own
		DontListen:         true, // the door does
		JetStream:          true,
		StoreDir:           filepath.Clean(o.Store),
		JetStreamMaxStore:  o.MaxStore,
		JetStreamMaxMemory: 256 << 20,
		SyncAlways:         o.SyncAlways,
		SyncInterval:       time.Second,
		MaxPayload:         (1 << 20) + (64 << 10), // an entry of the largest size and its headers
		MaxPending:         natsMaxPending,
		MaxSubs:            natsMaxSubs,
		WriteDeadline:      2 * time.Second,
		PingInterval:       20 * time.Second,
		AuthTimeout:        (natsHandshake + natsAuth).Seconds(), // the handshake is the door's
	}
	if o.Listen == "" {
		return s, nil
	}
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("nats listen address %q: want host:port", o.Listen)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return nil, fmt.Errorf("nats listen address %q: port %q is none", o.Listen, port)
	}
	if o.Allowed == nil && !loopback(host) {
		return nil, fmt.Errorf("nats listen address %q is not loopback: say who may connect, or anybody can write into the log", o.Listen)
	}
	return s, nil
}

// room returns what the folder holds and three quarters of what the disk has
// free beside it.
func room(dir string) (int64, error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	if err != nil {
		return 0, err
	}
	held := int64(0)
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			held += info.Size()
		}
		return err
	})
	return held + int64(usage.AvailBytes/4*3), err
}

// loopback reports whether only this machine can reach host.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// run starts the server and waits until it is ready or says why it is not.
func run(o *server.Options, logger *slog.Logger) (*server.Server, *natsLogger, error) {
	s, err := server.NewServer(o)
	if err != nil {
		return nil, nil, err
	}
	log := &natsLogger{to: logger, fatal: make(chan struct{})}
	s.SetLoggerV2(log, false, false, false)
	go s.Start()
	ready := make(chan bool, 1)
	go func() { ready <- s.ReadyForConnections(natsStart) }()
	select {
	case <-log.fatal:
		err = errors.New(log.text)
	case ok := <-ready:
		if ok {
			return s, log, nil
		}
		err = fmt.Errorf("not ready after %s", natsStart)
	}
	s.Shutdown()
	s.WaitForShutdown()
	return nil, nil, err
}

// Address returns host:port that others connect to, empty for none.
func (n *NATS) Address() string {
	if n.door == nil {
		return ""
	}
	return n.door.listener.Addr().String()
}

// URL returns what nats.Connect takes from other processes; empty when the
// server does not listen.
func (n *NATS) URL() string {
	switch a := n.Address(); {
	case a == "":
		return ""
	case n.tls:
		return "tls://" + a
	default:
		return "nats://" + a
	}
}

// Connect returns a connection from this process, as natslog.Connect does.
func (n *NATS) Connect(o natslog.Options) (*nats.Conn, error) {
	o.Extra = append(slices.Clone(o.Extra), nats.InProcessServer(n.server))
	if n.own != nil {
		key, err := n.own.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("connect to NATS: %w", err)
		}
		o.Extra = append(o.Extra, nats.Nkey(key, n.own.Sign))
	}
	return natslog.Connect("", o)
}

// Failed is closed when the server cannot go on, as after a write to a full
// disk: it takes no entry from then on, also when there is room again, until it
// is started anew. Fault then says why.
func (n *NATS) Failed() <-chan struct{} { return n.log.fatal }

// Fault says why the server cannot go on, once Failed is closed.
func (n *NATS) Fault() error {
	return fmt.Errorf("nats store %s takes no more, make room and start again: %s", n.options.StoreDir, n.log.text)
}

// Close stops the server and waits until its streams are on disk: exiting
// before makes the next start read all of them. Connections are closed first
// by whoever opened them.
func (n *NATS) Close() error {
	if n.door != nil {
		n.door.close()
	}
	n.server.Shutdown()
	n.server.WaitForShutdown()
	return n.lock.Close()
}

// natsLogger hands the server's words on. It must exist: a truncated or
// damaged block is told nowhere else.
type natsLogger struct {
	to    *slog.Logger
	once  sync.Once
	fatal chan struct{} // closed at the first fatal error
	text  string

	mu      sync.Mutex
	told    time.Time // when strangers were last told of
	refused int       // strangers since
}

// Noticef implements server.Logger.
func (l *natsLogger) Noticef(format string, v ...any) {
	l.to.Debug("nats", slog.String("text", fmt.Sprintf(format, v...)))
}

// Warnf implements server.Logger.
func (l *natsLogger) Warnf(format string, v ...any) {
	l.to.Warn("nats", slog.String("text", fmt.Sprintf(format, v...)))
}

// Errorf implements server.Logger. That a store takes no more is said only
// here.
func (l *natsLogger) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if strings.Contains(text, server.ErrAuthentication.Error()) {
		l.stranger(text)
		return
	}
	l.to.Error("nats", slog.String("text", text))
	if strings.Contains(text, "ritical write error") || strings.Contains(text, "will be DISABLED") {
		l.fail(text)
	}
}

// strangersEvery is how often it is told that clients were not let in: each
// tries again several times a second.
const strangersEvery = time.Minute

// stranger counts a client that was not let in, and tells of it now and then.
func (l *natsLogger) stranger(text string) {
	l.mu.Lock()
	l.refused++
	refused, now := l.refused, time.Now()
	tell := now.Sub(l.told) >= strangersEvery
	if tell {
		l.told, l.refused = now, 0
	}
	l.mu.Unlock()
	if tell {
		l.to.Warn("a client without a credential of this fleet was not let in; run it where the credentials are, or make one with weir credential add",
			slog.String("last", text), slog.Int("refused", refused))
	}
}

// fail notes the first fault after which the server cannot go on.
func (l *natsLogger) fail(text string) {
	l.once.Do(func() {
		l.text = text
		close(l.fatal)
	})
}

// Fatalf implements server.Logger. The server cannot go on, and says so only
// here.
func (l *natsLogger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.fail(text)
	l.to.Error("nats cannot go on", slog.String("text", text))
}

// Debugf implements server.Logger.
func (l *natsLogger) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (l *natsLogger) Tracef(string, ...any) {}
