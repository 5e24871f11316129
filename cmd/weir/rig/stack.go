package rig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/nats-io/nats.go"

	"weir/agent"
	"weir/agent/proxy"
	"weir/cmd/weir/page"
	"weir/controller"
	"weir/controller/credential"
	"weir/controller/history"
	"weir/controller/store"
	"weir/controller/web"
	"weir/events"
	"weir/events/natslog"
	"weir/model"
)

// Stack is Weir as it runs on one machine: NATS, a controller, agents.
// Parts are closed in the opposite order of their start.
type Stack struct {
	Log  *natslog.Log
	Loop *controller.Loop
	// Sidecars are the agents' base URLs.
	Sidecars []string
	// Failed hears of the controller's end before its time.
	Failed <-chan error

	server  *controller.NATS
	stopBus func() error
	bus     bus
	token   string
	fleet   string
	metrics *metrics.Set // the controller's
	past    *history.Recorder
	rewind  *history.Rewind
	closers []func(ctx context.Context) error
	failed  chan error
}

// Options say what to start. Dir, Config, Agents and Upstreams are required.
type Options struct {
	// Dir is where the stores go.
	Dir string
	// Config is the fleet's configuration.
	Config *model.Config
	// Agents is how many agents to start.
	Agents int
	// Upstreams has each channel's base URL.
	Upstreams map[string]string
	// Params are the parameters in force from the start; nil means the
	// defaults.
	Params *model.Params
	// Version is this software's version, for people.
	Version string
	// Queue is how many requests may wait at each agent; 0 means its default.
	Queue int
	// Through is what the controller sees the log through; nil means as it is.
	Through func(events.Log) events.Log
	// Token is what an order through Web must show; without one it takes none.
	Token string
	// Logger hears of trouble inside; nil means nobody does.
	Logger *slog.Logger
}

// startLimit bounds the start of the parts, stopLimit their end.
const (
	startLimit = 30 * time.Second
	stopLimit  = 10 * time.Second
)

// Start starts everything and waits until the controller leads.
func Start(ctx context.Context, o Options) (*Stack, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Stack{failed: make(chan error, 1), metrics: metrics.NewSet(), token: o.Token, fleet: o.Config.Fleet}
	s.Failed = s.failed
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	err := s.startController(ctx, &o)
	if err == nil && o.Params != nil {
		err = s.push(ctx, o.Params)
	}
	for i := 0; err == nil && i < o.Agents; i++ {
		err = s.startAgent(i, &o)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// push puts parameters in force.
func (s *Stack) push(ctx context.Context, p *model.Params) error {
	seq, err := s.Log.Append(ctx, events.Encode(nil, &model.ParamSet{Name: "given", Params: *p}))
	if err != nil {
		return fmt.Errorf("push parameters: %w", err)
	}
	if err := s.Loop.Wait(ctx, seq); err != nil {
		return fmt.Errorf("push parameters: %w", err)
	}
	return nil
}

// bus is the way into the embedded server, with what agents show there.
type bus struct{ url, credential string }

func (s *Stack) startController(ctx context.Context, o *Options) error {
	book, err := credential.Open(filepath.Join(o.Dir, "credentials"))
	if err != nil {
		return err
	}
	if s.bus.credential, err = book.Add("agents", credential.AnyAgent, ""); err != nil {
		return err
	}
	allowed, err := book.List()
	if err != nil {
		return err
	}
	server, err := controller.StartNATS(controller.NATSOptions{
		Store: filepath.Join(o.Dir, "nats"), Listen: "127.0.0.1:0", Fleet: o.Config.Fleet, Allowed: allowed, MaxStore: 1 << 30, Logger: o.Logger,
	})
	if err != nil {
		return fmt.Errorf("start bus: %w", err)
	}
	s.stopBus = sync.OnceValue(server.Close)
	s.onClose(func(context.Context) error { return s.stopBus() })
	s.server, s.bus.url = server, server.URL()
	nc, err := server.Connect(natslog.Options{Name: "controller"})
	if err != nil {
		return err
	}
	s.onClose(func(context.Context) error { nc.Close(); return nil })
	if s.Log, err = natslog.OpenLog(ctx, nc, o.Config.Fleet, natslog.LogOptions{}); err != nil {
		return err
	}
	outbox, err := natslog.OpenOutbox(ctx, nc, o.Config.Fleet, 1)
	if err != nil {
		return err
	}
	state, err := store.Open(filepath.Join(o.Dir, "state"), store.Options{Logger: o.Logger})
	if err != nil {
		return err
	}
	s.onClose(func(context.Context) error { return state.Close() })
	log := events.Log(s.Log)
	if o.Through != nil {
		log = o.Through(log)
	}
	s.Loop, err = controller.New(controller.Options{
		Fleet: o.Config.Fleet, Log: log, Outbox: outbox, Store: state, Version: o.Version, Config: o.Config, Logger: o.Logger,
		Metrics: s.metrics,
	})
	if err != nil {
		return fmt.Errorf("make controller: %w", err)
	}
	s.past = history.New(state, s.Loop.View, o.Logger)
	s.rewind = history.NewRewind(state, s.Log, s.Loop.Snapshot, o.Logger)
	s.run()
	return s.ready(ctx)
}

// run runs the loop until Close.
func (s *Stack) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go s.past.Run(ctx)
	go s.rewind.Run(ctx)
	go func() {
		err := s.Loop.Run(ctx)
		if ctx.Err() == nil {
			s.failed <- fmt.Errorf("controller ended: %w", err)
		}
		ended <- err
	}()
	s.onClose(func(context.Context) error {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("stop controller: %w", err)
		}
		return nil
	})
}

// ready waits until the controller leads and has told its configuration.
func (s *Stack) ready(ctx context.Context) error {
	for {
		view, err := s.Loop.View(ctx)
		if err != nil {
			return fmt.Errorf("wait for the controller: %w", err)
		}
		if status, err := s.Loop.Status(ctx); err == nil && status.Leads && len(view.Channels) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the controller: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Web serves the controller over HTTP until Close and returns its URL.
func (s *Stack) Web(logger *slog.Logger) (url string, err error) {
	url, stop, err := serve(web.Handler(web.Options{Controller: s.Loop, Past: s.past, Rewind: s.rewind, Page: page.Handler(), Metrics: s.metrics.WritePrometheus, Token: s.token, Logger: logger}))
	if err != nil {
		return "", fmt.Errorf("serve the controller: %w", err)
	}
	s.onClose(stop)
	return url, nil
}

// Writers returns what agents of those names would write their reports with,
// all over one connection that ends with the Stack: so a test or a benchmark
// can speak for many.
func (s *Stack) Writers(agents []string) ([]events.Writer, error) {
	nc, err := s.connect("writers")
	if err != nil {
		return nil, err
	}
	s.onClose(func(context.Context) error { nc.Close(); return nil })
	all := make([]events.Writer, len(agents))
	for i, name := range agents {
		if all[i], err = natslog.NewWriter(nc, s.fleet, name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// connect takes a connection as any agent may.
func (s *Stack) connect(name string) (*nats.Conn, error) {
	key, err := nats.NkeyOptionFromSeed(s.bus.credential)
	if err != nil {
		return nil, fmt.Errorf("read credential: %w", err)
	}
	return natslog.Connect(s.bus.url, natslog.Options{Name: name, Agent: name, Extra: []nats.Option{key}})
}

func (s *Stack) startAgent(i int, o *Options) error {
	name := "agent-" + strconv.Itoa(i)
	nc, err := s.connect(name)
	if err != nil {
		return err
	}
	s.onClose(func(context.Context) error { nc.Close(); return nil })
	writer, err := natslog.NewWriter(nc, o.Config.Fleet, name)
	if err != nil {
		return err
	}
	inbox, err := natslog.NewInbox(nc, o.Config.Fleet, natslog.Options{})
	if err != nil {
		return err
	}
	upstreams := map[string]agent.Upstream{}
	for channel, url := range o.Upstreams {
		upstreams[channel] = agent.Upstream{BaseURL: url}
	}
	set := metrics.NewSet()
	params := model.Params{}
	if o.Params != nil {
		params = *o.Params
	}
	client, err := agent.New(agent.Config{
		Agent: name, Params: params, Version: o.Version, Fleet: o.Config, Upstreams: upstreams, Writer: writer, Inbox: inbox, Metrics: set, Log: o.Logger, Queue: o.Queue,
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	s.onClose(client.Close)
	url, stop, err := serve(proxy.New(client, set))
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	s.onClose(stop)
	s.Sidecars = append(s.Sidecars, url)
	return nil
}

// serve serves a handler on a free port of loopback.
func serve(h http.Handler) (url string, stop func(context.Context) error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	stop = func(context.Context) error {
		err := server.Close()
		if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		return err
	}
	return "http://" + l.Addr().String(), stop, nil
}

func (s *Stack) onClose(f func(ctx context.Context) error) { s.closers = append(s.closers, f) }

// Close ends everything that was started.
func (s *Stack) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	var faults []error
	for _, stop := range slices.Backward(s.closers) {
		faults = append(faults, stop(ctx))
	}
	s.closers = nil
	return errors.Join(faults...)
}
