package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/nats-io/nats.go"

	"weir/agent"
	"weir/agent/proxy"
	"weir/controller"
	"weir/controller/store"
	"weir/controller/web"
	"weir/events/natslog"
	"weir/model"
)

// stack is Weir as it runs on one machine: NATS, a controller, agents.
// Parts are closed in the opposite order of their start.
type stack struct {
	bus     bus
	log     *natslog.Log
	loop    *controller.Loop
	metrics *metrics.Set // the controller's
	sidecar []string     // base URLs, one an agent
	closers []func(ctx context.Context) error
	failed  chan error // the controller's end before its time
}

// startLimit bounds the start of the parts, stopLimit their end.
const (
	startLimit = 30 * time.Second
	stopLimit  = 10 * time.Second
)

// startStack starts everything with its stores under dir. providerURL is
// where each channel's calls go.
func startStack(ctx context.Context, dir string, config *model.Config, agents int, providerURL, version string, logger *slog.Logger) (*stack, error) {
	s := &stack{failed: make(chan error, 1), metrics: metrics.NewSet()}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	err := s.startController(ctx, dir, config, version, logger)
	for i := 0; err == nil && i < agents; i++ {
		err = s.startAgent(i, config, providerURL, version, logger)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// bus is the way into the embedded server.
type bus struct{ url, token string }

func (s *stack) startController(ctx context.Context, dir string, config *model.Config, version string, logger *slog.Logger) error {
	s.bus.token = rand.Text()
	server, err := controller.StartNATS(controller.NATSOptions{
		Store: filepath.Join(dir, "nats"), Listen: "127.0.0.1:0", Token: s.bus.token, MaxStore: 1 << 30, Logger: logger,
	})
	if err != nil {
		return fmt.Errorf("start bus: %w", err)
	}
	s.onClose(func(context.Context) error { return server.Close() })
	s.bus.url = server.URL()
	nc, err := server.Connect(natslog.Options{Name: "controller"})
	if err != nil {
		return err
	}
	s.onClose(func(context.Context) error { nc.Close(); return nil })
	if s.log, err = natslog.OpenLog(ctx, nc, config.Fleet, natslog.LogOptions{}); err != nil {
		return err
	}
	outbox, err := natslog.OpenOutbox(ctx, nc, config.Fleet, 1)
	if err != nil {
		return err
	}
	state, err := store.Open(filepath.Join(dir, "state"), store.Options{Logger: logger})
	if err != nil {
		return err
	}
	s.onClose(func(context.Context) error { return state.Close() })
	s.loop, err = controller.New(controller.Options{
		Fleet: config.Fleet, Log: s.log, Outbox: outbox, Store: state, Version: version, Config: config, Logger: logger,
		Metrics: s.metrics,
	})
	if err != nil {
		return fmt.Errorf("make controller: %w", err)
	}
	s.run()
	return s.ready(ctx)
}

// run runs the loop until close.
func (s *stack) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := s.loop.Run(ctx)
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
func (s *stack) ready(ctx context.Context) error {
	for {
		view, err := s.loop.View(ctx)
		if err != nil {
			return fmt.Errorf("wait for the controller: %w", err)
		}
		if status, err := s.loop.Status(ctx); err == nil && status.Leads && len(view.Channels) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the controller: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// web serves the controller over HTTP and returns its URL. Nobody can change
// anything: there is no token.
func (s *stack) web(logger *slog.Logger) (url string, err error) {
	url, stop, err := serve(web.Handler(web.Options{Controller: s.loop, Metrics: s.metrics.WritePrometheus, Logger: logger}))
	if err != nil {
		return "", fmt.Errorf("serve the controller: %w", err)
	}
	s.onClose(stop)
	return url, nil
}

func (s *stack) startAgent(i int, config *model.Config, providerURL, version string, logger *slog.Logger) error {
	name := "agent-" + strconv.Itoa(i)
	nc, err := natslog.Connect(s.bus.url, natslog.Options{Name: name, Agent: name, Extra: []nats.Option{nats.Token(s.bus.token)}})
	if err != nil {
		return err
	}
	s.onClose(func(context.Context) error { nc.Close(); return nil })
	writer, err := natslog.NewWriter(nc, config.Fleet, name)
	if err != nil {
		return err
	}
	inbox, err := natslog.NewInbox(nc, config.Fleet, natslog.Options{})
	if err != nil {
		return err
	}
	upstreams := map[string]agent.Upstream{}
	for _, ch := range config.Channels {
		upstreams[ch.Name] = agent.Upstream{BaseURL: providerURL}
	}
	set := metrics.NewSet()
	client, err := agent.New(agent.Config{
		Agent: name, Version: version, Fleet: config, Upstreams: upstreams, Writer: writer, Inbox: inbox, Metrics: set, Log: logger,
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
	s.sidecar = append(s.sidecar, url)
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

func (s *stack) onClose(f func(ctx context.Context) error) { s.closers = append(s.closers, f) }

// close ends everything that was started.
func (s *stack) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	var faults []error
	for _, stop := range slices.Backward(s.closers) {
		faults = append(faults, stop(ctx))
	}
	s.closers = nil
	return errors.Join(faults...)
}
