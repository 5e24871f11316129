package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/nats-io/nats.go"

	"weir/cmd/weir/config"
	"weir/cmd/weir/page"
	"weir/controller"
	"weir/controller/history"
	"weir/controller/notice"
	"weir/controller/store"
	"weir/controller/web"
	"weir/events"
	"weir/events/natslog"
)

// controllerCommand is weir controller.
type controllerCommand struct {
	configFlag
	NATS   string `name:"nats" placeholder:"URL" help:"A NATS cluster of your own instead of the embedded server."`
	Listen string `placeholder:"HOST:PORT" help:"HTTP address; 127.0.0.1:8080 if the file names none."`
	Store  string `placeholder:"DIR" help:"Folder of all state; ./weir-data if the file names none."`
	ID     string `name:"id" default:"controller" placeholder:"NAME" help:"This process in the log and in status."`
}

// Help is shown by --help.
func (*controllerCommand) Help() string {
	return `The controller reads the fleet's log from NATS, keeps its state in a local store, and tells the sidecars what they may use. It brings its own NATS server unless the file or --nats names another. What changes state over HTTP needs a token: the one in WEIR_TOKEN (controller.token_env), else the one it made at its first start in weir-data/credentials.

With a NATS server of your own several controllers may run, each with a store of its own: one is elected and leads, the others fold the same log and one of them takes over within about two seconds of the leader's end.

Examples:

  weir controller
  weir controller -c weir.yaml --listen 127.0.0.1:8080 --store ./weir-data
  WEIR_TOKEN=secret weir controller --nats nats://nats.example:4222`
}

// Run runs the controller until it is stopped.
func (c *controllerCommand) Run(e *env) (err error) {
	f, err := c.file()
	if err != nil {
		return err
	}
	p := &controllerProcess{env: e, file: f}
	defer p.closers.close(&err)
	if err := p.start(c.ID); err != nil {
		return err
	}
	return p.run()
}

// file reads the file and lays the flags over it.
func (c *controllerCommand) file() (*config.File, error) {
	f, err := c.need()
	if err != nil {
		return nil, err
	}
	if c.Listen != "" {
		f.Controller.Listen = c.Listen
	}
	if c.Store != "" {
		f.Controller.Store, f.NATS.Store = filepath.Join(c.Store, "state"), filepath.Join(c.Store, "nats")
		f.NATS.Credentials = filepath.Join(c.Store, "credentials")
		f.Controller.TokenFile = filepath.Join(f.NATS.Credentials, tokenFile)
	}
	if c.NATS != "" {
		f.NATS.Embedded, f.NATS.URL = false, c.NATS
	}
	return f, nil
}

// controllerProcess is what belongs to a running controller.
type controllerProcess struct {
	*env
	file    *config.File
	closers closers
	bus     *controller.NATS // nil with a server of another process
	state   *store.Store
	events  *natslog.Log
	loop    *controller.Loop
	metrics *metrics.Set
	http    net.Listener
	scheme  string
	// turned is set once the loop runs on a state that was read.
	turned atomic.Bool
}

// start takes address, store and bus, in the order in which a fault is found
// soonest.
func (p *controllerProcess) start(id string) error {
	var err error
	if p.http, p.scheme, err = listenTLS(p.file.Controller.Listen, p.file.Controller.TLS); err != nil {
		return err
	}
	p.closers.add(func() error { _ = p.http.Close(); return nil }) // closed by its server, if that came to be
	if p.state, err = store.Open(p.file.Controller.Store, store.Options{Logger: p.log}); err != nil {
		return badInput(hint(err))
	}
	p.closers.add(p.state.Close)
	nc, err := p.connect(id)
	if err != nil {
		return err
	}
	p.closers.add(func() error { nc.Close(); return nil })
	ctx, cancel := context.WithTimeout(p.ctx, connectWithin)
	defer cancel()
	log, err := natslog.OpenLog(ctx, nc, p.file.Model.Fleet, natslog.LogOptions{Replicas: p.file.NATS.Replicas})
	if err != nil {
		return badInput(fmt.Errorf("nats at %s: %w", p.where(), err))
	}
	outbox, err := natslog.OpenOutbox(ctx, nc, p.file.Model.Fleet, p.file.NATS.Replicas)
	if err != nil {
		return badInput(fmt.Errorf("nats at %s: %w", p.where(), err))
	}
	election, err := p.election(ctx, nc, id)
	if err != nil {
		return badInput(fmt.Errorf("nats at %s: %w", p.where(), err))
	}
	if err := p.openTasks(ctx, nc); err != nil {
		return badInput(fmt.Errorf("nats at %s: agent.tasks: %w", p.where(), err))
	}
	p.events, p.metrics = log, metrics.NewSet()
	p.loop, err = controller.New(controller.Options{
		Fleet: p.file.Model.Fleet, Log: log, Outbox: outbox, Store: p.state, Controller: id, Version: version(), Election: election,
		Config: &p.file.Model, Keep: p.file.Controller.Keep, Logger: p.log, Metrics: p.metrics,
	})
	return badInput(err)
}

// openTasks makes room for tasks where the file switches them on.
func (p *controllerProcess) openTasks(ctx context.Context, nc *nats.Conn) error {
	tasks := p.file.Agent.Tasks
	if !tasks.Enabled {
		return nil
	}
	limits := natslog.TaskLimits{Tenants: tasks.Tenants, Bytes: tasks.Bytes, Age: tasks.Age, Replicas: p.file.NATS.Replicas}
	return natslog.OpenTasks(ctx, nc, p.file.Model.Fleet, limits)
}

// election returns how this controller comes to lead. With a server in its own
// process it is the only one there can be.
func (p *controllerProcess) election(ctx context.Context, nc *nats.Conn, id string) (events.Election, error) {
	if p.bus != nil {
		return nil, nil
	}
	return natslog.OpenElection(ctx, nc, p.file.Model.Fleet, id, p.file.NATS.Replicas)
}

// hint says what to do about a store that cannot be opened.
func hint(err error) error {
	switch {
	case errors.Is(err, store.ErrLocked):
		return fmt.Errorf("%w; stop the other one, or choose another folder with --store (a second controller that stands by needs a NATS server outside both, see --nats)", err)
	case errors.Is(err, store.ErrNewer):
		return fmt.Errorf("%w; run the newer version, or choose another folder with --store", err)
	case errors.Is(err, store.ErrUnreadable):
		return fmt.Errorf("%w; move it away: the state is in the log and comes back", err)
	}
	return err
}

// connect starts the embedded server and connects to it, or to another one.
func (p *controllerProcess) connect(id string) (*nats.Conn, error) {
	n := &p.file.NATS
	if !n.Embedded {
		o, err := busOptions(n, id, "", func() string { return n.CredentialFile }, p.log)
		if err != nil {
			return nil, err
		}
		return connect(p.ctx, n.Address(), o, connectWithin)
	}
	book, allowed, err := openBook(n, p.log)
	if err != nil {
		return nil, badInput(err)
	}
	shown, err := certificateOf(n.TLS)
	if err != nil {
		return nil, err
	}
	p.bus, err = controller.StartNATS(controller.NATSOptions{
		Store: n.Store, Listen: n.Listen, TLS: shown, Fleet: p.file.Model.Fleet, Allowed: allowed, Tasks: p.file.Agent.Tasks.Enabled, Tenants: p.file.Agent.Tasks.Tenants,
		SyncAlways: n.SyncAlways, Logger: p.log,
	})
	if err != nil {
		return nil, badInput(err)
	}
	p.closers.add(p.bus.Close)
	go watchBook(p.ctx, book, p.bus, p.log)
	o, err := busOptions(&config.NATS{}, id, "", nil, p.log)
	if err != nil {
		return nil, err
	}
	o.Extra = nil // that it connected goes without saying
	nc, err := p.bus.Connect(o)
	return nc, badInput(err)
}

// where is the bus for people.
func (p *controllerProcess) where() string {
	if p.bus != nil {
		return p.bus.URL()
	}
	return servers(p.file.NATS.Address())
}

// run turns the loop and serves HTTP until either ends or the process is
// stopped.
func (p *controllerProcess) run() error {
	token, err := controllerToken(&p.file.Controller, p.log)
	if err != nil {
		return badInput(err)
	}
	teller, err := p.teller()
	if err != nil {
		return badInput(err)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	go teller.Run(ctx)
	ended := make(chan error, 2)
	past := history.New(p.state, p.loop.View, p.log)
	go past.Run(ctx)
	rewind := history.NewRewind(p.state, p.events, p.loop.Snapshot, p.log)
	go rewind.Run(ctx)
	go func() { ended <- p.turn(ctx) }()
	go func() {
		ended <- web.Serve(ctx, p.http, web.Handler(web.Options{
			Controller: p.loop, Past: past, Rewind: rewind, Page: page.Handler(), Token: token, Hosts: p.file.Controller.Hosts, Logger: p.log,
			Metrics: func(w io.Writer) {
				p.metrics.WritePrometheus(w)
				metrics.WriteProcessMetrics(w)
			},
		}), p.log)
	}()
	go p.announce(ctx)
	select {
	case err = <-ended:
		cancel()
	case <-p.busFailed():
		cancel()
		err = errors.Join(p.bus.Fault(), <-ended)
	}
	return errors.Join(err, <-ended)
}

// busFailed is closed when the server in this process cannot go on; nil where
// there is none.
func (p *controllerProcess) busFailed() <-chan struct{} {
	if p.bus == nil {
		return nil
	}
	return p.bus.Failed()
}

// teller returns who tells people what goes wrong.
func (p *controllerProcess) teller() (*notice.Teller, error) {
	c := &p.file.Controller
	t := &notice.Teller{Source: p.loop, Link: c.Page}
	for i := range c.Notices {
		n := &c.Notices[i]
		address := os.Getenv(n.URLEnv)
		if n.URLFile != "" {
			var err error
			if address, err = readToken(n.URLFile); err != nil {
				return nil, fmt.Errorf("controller.notices[%d]: %w", i, err)
			}
		}
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, fmt.Errorf("controller.notices[%d]: %s holds no http address", i, n.Name())
		}
		t.Hooks = append(t.Hooks, notice.NewHook(notice.HookOptions{Name: n.Name(), URL: address, Shape: n.Shape, Only: n.Only}, p.metrics, p.log))
	}
	return t, nil
}

// turn runs the loop. A state that cannot be read is bad input.
func (p *controllerProcess) turn(ctx context.Context) error {
	err := p.loop.Run(ctx)
	if !p.turned.Load() {
		return badInput(err)
	}
	return err
}

// announce logs when the loop turns and where it is reached.
func (p *controllerProcess) announce(ctx context.Context) {
	for !p.loop.Alive(ctx, time.Second) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	p.turned.Store(true)
	p.log.Info("controller runs", slog.String("fleet", p.file.Model.Fleet), slog.String("http", p.scheme+p.http.Addr().String()),
		slog.String("nats", p.where()), slog.String("store", p.file.Controller.Store), slog.String("version", version()))
}
