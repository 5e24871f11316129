package agent

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"weir/agent/trace"
	"weir/events"
	"weir/model"
)

// Client admits calls for one process. It is safe for concurrent use.
type Client struct {
	cfg     Config
	targets map[string]*target
	// start is the origin of the gate's clock, a second before the first
	// reading, so that no instant is 0.
	start     time.Time
	fleet     atomic.Pointer[fleet]
	estimates estimates
	outputs   outputs
	minutes   minutes
	stopping  atomic.Bool // what is refused now may be asked for again, elsewhere or soon
	spool     *spool
	unknown   *unknowns
	tracer    *trace.Tracer

	mu      sync.Mutex
	gate    *model.Gate
	meter   *meter
	waiting map[model.Ticket]chan model.Reply
	replies []model.Reply
	armed   model.Nanos // when the loop wakes by itself
	pace    model.Nanos // no report is built before

	// The loop's own: the newest report, and when it was built.
	report model.Attempts
	built  model.Nanos

	wake chan struct{} // armed moved forward
	left chan struct{} // the last report was built
	stop context.CancelFunc
	done sync.WaitGroup
}

// fleet is a configuration of the log.
type fleet struct {
	seq      uint64
	config   *model.Config
	channels map[string]*model.ChannelConfig
	routes   map[string]*model.RouteConfig
	tenants  map[string]*model.TenantConfig
}

func newFleet(seq uint64, c *model.Config) *fleet {
	f := &fleet{
		seq: seq, config: c, channels: map[string]*model.ChannelConfig{},
		routes: map[string]*model.RouteConfig{}, tenants: map[string]*model.TenantConfig{},
	}
	for i := range c.Channels {
		f.channels[c.Channels[i].Name] = &c.Channels[i]
	}
	for i := range c.Routes {
		f.routes[c.Routes[i].Name] = &c.Routes[i]
	}
	for i := range c.Tenants {
		f.tenants[c.Tenants[i].Name] = &c.Tenants[i]
	}
	return f
}

// New starts a client.
func New(cfg Config) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("check agent config: %w", err)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, targets: make(map[string]*target, len(cfg.Upstreams)),
		start:   time.Now().Add(-time.Second),
		waiting: map[model.Ticket]chan model.Reply{},
		wake:    make(chan struct{}, 1), left: make(chan struct{}),
	}
	for name, u := range cfg.Upstreams {
		if c.targets[name], err = newTarget(u); err != nil {
			return nil, fmt.Errorf("channel %s: %w", name, err)
		}
	}
	c.gate = model.NewGate(cfg.gate(max(uint64(c.start.UnixNano()), cfg.After+1)))
	c.spool = newSpool(cfg.Spool, c.summarize)
	c.meter = newMeter()
	c.tracer = trace.New(cfg.Traces)
	c.unknown = newUnknowns(cfg.Unknown, cfg.Classifier, cfg.Log)
	c.setConfig(0, cfg.Fleet)
	cfg.Metrics.RegisterMetricsWriter(c.writeMetrics)
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.done.Go(func() { c.turn(ctx) })
	if cfg.Writer != nil {
		c.done.Go(func() { c.send(ctx) })
	}
	if cfg.Inbox != nil {
		c.done.Go(func() { c.listen(ctx) })
	}
	if c.unknown != nil {
		c.done.Go(func() { c.unknown.keep(ctx) })
	}
	return c, nil
}

// farewell is how long Close goes on after its context ended, to tell the fleet
// at least that this process leaves.
const farewell = time.Second

// Close refuses what waits, lets the attempts in flight end, sends what there
// is to report and says goodbye. When ctx ends first, it settles what is in
// flight as given up, says goodbye within a second more, and returns ctx's
// error.
func (c *Client) Close(ctx context.Context) error {
	c.stopping.Store(true)
	now := c.now()
	c.mu.Lock()
	c.gate.Stop(now)
	c.after(now)
	c.mu.Unlock()
	defer c.done.Wait()
	defer c.stop()
	select {
	case <-c.left:
		if err := c.drain(ctx); err != nil {
			return fmt.Errorf("send the last reports: %w", err)
		}
		return nil
	case <-ctx.Done():
	}
	c.hear(c.gate.Abandon)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	select {
	case <-c.left:
		_ = c.drain(last) // what is told is ctx's end
	case <-last.Done():
	}
	return fmt.Errorf("wait for attempts in flight: %w", ctx.Err())
}

// drain waits until all reports were sent.
func (c *Client) drain(ctx context.Context) error {
	if c.cfg.Writer == nil {
		return nil
	}
	select {
	case <-c.spool.drained():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SetMode switches the agent's own mode.
func (c *Client) SetMode(m model.Mode) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate.SetMode(now, m)
	c.after(now)
}

// View copies how the agent stands into v, whose memory is used again.
func (c *Client) View(v *model.GateView) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate.View(c.now(), v)
}

// Warning says in words that a tenant used more of its day than the limit that
// warns, "" where it did not.
func (c *Client) Warning(tenant string) string {
	if tenant == "" {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gate.Warning(c.now(), tenant)
}

// Mode returns what binds here: ModeObserve where no channel holds anything
// back, whoever said so.
func (c *Client) Mode() model.Mode {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gate.ObservesAll() {
		return model.ModeObserve
	}
	return model.ModeEnforce
}

// Fleet returns the configuration in force, which must not be changed.
func (c *Client) Fleet() *model.Config { return c.fleet.Load().config }

// now is the gate's clock.
func (c *Client) now() model.Nanos { return model.Nanos(time.Since(c.start)) }

// instant converts an instant of the gate's clock, and nanos back.
func (c *Client) instant(n model.Nanos) time.Time { return c.start.Add(n.Duration()) }

func (c *Client) nanos(t time.Time) model.Nanos { return model.Nanos(t.Sub(c.start)) }

// after hands out what the gate decided and sees that the loop wakes in time.
// c.mu is held.
func (c *Client) after(now model.Nanos) {
	c.deliver(now)
	c.alarm()
}

// deliver hands out what the gate decided for those that wait. c.mu is held.
func (c *Client) deliver(now model.Nanos) {
	c.replies = c.gate.Poll(now, c.replies[:0])
	for i := range c.replies {
		r := &c.replies[i]
		if ch, ok := c.waiting[r.Ticket]; ok {
			delete(c.waiting, r.Ticket)
			if r.Kind == model.ReplyAdmitted {
				c.meter.waits.add(r.Permit.Queued)
			}
			ch <- *r // it has room for the one reply of its ticket
		}
	}
}

// alarm wakes the loop if it would sleep too long. c.mu is held.
func (c *Client) alarm() {
	if c.next() >= c.armed {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// setConfig takes a fleet's configuration; older ones than that in force are
// dropped.
func (c *Client) setConfig(seq uint64, cfg *model.Config) {
	now := c.now()
	f := newFleet(seq, c.cfg.reachable(cfg))
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.fleet.Load(); old != nil && old.seq >= seq {
		return
	}
	c.fleet.Store(f)
	c.meter.keep(f.routes)
	c.estimates.keep(f.channels)
	c.minutes.keep(f.channels)
	c.gate.SetConfig(now, seq, f.config)
	c.after(now)
}

// listen hears the controller until ctx ends. Trouble is told once, until
// something was heard again.
func (c *Client) listen(ctx context.Context) {
	var told atomic.Bool
	hear := func(set func(now model.Nanos)) {
		told.Store(false)
		c.hear(set)
	}
	h := events.Handler{
		Term:   func(n *model.TermNotice) { hear(func(now model.Nanos) { c.gate.SetTerm(now, n) }) },
		Limits: func(l *model.LimitSet) { hear(func(now model.Nanos) { c.gate.SetLimits(now, l) }) },
		Lease:  func(l *model.Lease) { hear(func(now model.Nanos) { c.gate.SetLease(now, l) }) },
		Config: c.setConfig,
	}
	for ctx.Err() == nil {
		err := c.cfg.Inbox.Listen(ctx, c.cfg.Agent, h)
		if ctx.Err() == nil {
			if told.CompareAndSwap(false, true) {
				c.cfg.Log.Warn("listening to the controller ended, will repeat", "err", err)
			}
			pause(ctx, time.Second)
		}
	}
}

func (c *Client) hear(set func(now model.Nanos)) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	set(now)
	c.after(now)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
