package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/nats-io/nats.go"

	"weir/agent"
	"weir/agent/proxy"
	"weir/agent/task"
	"weir/agent/trace"
	"weir/cmd/weir/config"
	"weir/controller/credential"
	"weir/events"
	"weir/events/natslog"
	"weir/model"
)

// agentCommand is weir agent.
type agentCommand struct {
	configFlag
	Listen string `placeholder:"HOST:PORT" help:"Address of the sidecar; 127.0.0.1:8787 if the file names none."`
	NATS   string `name:"nats" placeholder:"URL" help:"The fleet's NATS; the one in the file if none is named."`
	ID     string `name:"id" env:"WEIR_AGENT" placeholder:"NAME" help:"This agent in the fleet, unique and kept over restarts; host name and port if none is named."`
}

// Help is shown by --help.
func (*agentCommand) Help() string {
	return `An application changes its base URL to the sidecar's, and nothing else: the model it names is a route of the file. The sidecar starts and goes on without NATS and without a controller, within what each channel allows for that. Beyond loopback it listens only with agent.client_keys.

With agent.tasks.enabled in the file of controller and agents it takes tasks too: POST /weir/tasks with {"path": ..., "request": {...}}, {"items": [...]} or lines of an OpenAI batch file (Content-Type application/jsonl) answers 202 with an id; GET /weir/tasks/ID?wait=30s, GET .../results, POST .../repeat and .../cancel.

Examples:

  weir agent
  weir agent -c weir.yaml --listen 127.0.0.1:8787 --nats nats://10.0.0.5:4222 --id web-1
  curl http://127.0.0.1:8787/weir/tasks -H 'Content-Type: application/jsonl' --data-binary @batch.jsonl
  OPENAI_BASE_URL=http://127.0.0.1:8787/v1 python application.py`
}

// Run runs the sidecar until it is stopped.
func (c *agentCommand) Run(e *env) (err error) {
	f, err := c.file()
	if err != nil {
		return err
	}
	p := &agentProcess{env: e, file: f}
	defer p.closers.close(&err)
	if err := p.start(c.ID); err != nil {
		return err
	}
	return p.run()
}

// file reads the file and lays the flags over it.
func (c *agentCommand) file() (*config.File, error) {
	f, err := c.need()
	if err != nil {
		return nil, err
	}
	if len(f.Upstreams) == 0 {
		return nil, badFile(fmt.Errorf("%s:1:1: no channel has a base_url, so this agent could call nobody", c.path()))
	}
	if len(f.Model.Routes) == 0 {
		return nil, badFile(fmt.Errorf("%s:1:1: routes: there is none, so no model could be asked for", c.path()))
	}
	if c.Listen != "" {
		f.Agent.Listen = c.Listen
	}
	if c.NATS != "" {
		f.NATS.URL = c.NATS
	}
	if f.Agent.ClientKeys == "" && !loopback(f.Agent.Listen) {
		return nil, badInput(fmt.Errorf("%s is not on loopback: whoever reaches it could spend the account; set agent.client_keys in %s, or listen on 127.0.0.1", f.Agent.Listen, c.path()))
	}
	return f, nil
}

// agentProcess is what belongs to a running sidecar.
type agentProcess struct {
	*env
	file    *config.File
	closers closers
	http    net.Listener
	scheme  string
	nc      *nats.Conn
	client  *agent.Client
	proxy   *proxy.Proxy
	desk    *task.Desk      // nil where there are no tasks
	spans   *trace.Exporter // nil where none are made
	keys    keyFile
}

// The grace of a stopped sidecar: calls in flight may end within drain, and
// the last reports are sent within that too.
const drain = 10 * time.Second

func (p *agentProcess) start(id string) error {
	var err error
	if p.http, p.scheme, err = listenTLS(p.file.Agent.Listen, p.file.Agent.TLS); err != nil {
		return err
	}
	p.closers.add(func() error { _ = p.http.Close(); return nil }) // closed by its server, if that came to be
	if id, _, err = agentCredential(&p.file.NATS, id, p.http.Addr()); err != nil {
		return badInput(err)
	}
	p.keys = keyFile{path: p.file.Agent.ClientKeys}
	keys, err := p.keys.read()
	if err != nil {
		return err
	}
	for _, ch := range p.file.Model.Channels {
		if _, ok := p.file.Upstreams[ch.Name]; !ok {
			p.log.Warn("channel has no base_url and is not used here", slog.String("channel", ch.Name))
		}
	}
	set := metrics.NewSet()
	if err := p.join(id, set); err != nil {
		return err
	}
	p.proxy = proxy.New(p.client, set)
	p.proxy.SetKeys(keys)
	return p.openTasks(id, set)
}

// openTasks makes the desk where tasks are left and worked on, where the file
// switches them on.
func (p *agentProcess) openTasks(id string, set *metrics.Set) error {
	if !p.file.Agent.Tasks.Enabled {
		return nil
	}
	tenants, err := p.taskTenants(id)
	if err != nil {
		return badInput(err)
	}
	var keep []*natslog.Tasks
	for _, tenant := range tenants {
		k, err := natslog.NewTasks(p.nc, p.file.Model.Fleet, id, tenant)
		if err != nil {
			return badInput(err)
		}
		keep = append(keep, k)
	}
	p.desk = task.New(task.Options{
		Keep: keep, Client: p.client, Calls: p.proxy.Calls(), Age: p.file.Agent.Tasks.Age, Metrics: set, Log: p.log,
	})
	p.proxy.SetTasks(p.desk)
	return nil
}

// taskTenants returns whose tasks are worked on: the one tenant's that the
// credential is bound to, or everybody's.
func (p *agentProcess) taskTenants(id string) ([]string, error) {
	all := p.file.Agent.Tasks.Tenants
	_, file, err := agentCredential(&p.file.NATS, id, p.http.Addr())
	if file == "" || err != nil {
		return append([]string{""}, all...), err
	}
	switch holder, err := credential.Holds(file); {
	case err != nil:
		return nil, err
	case holder.Tenant == "":
		return append([]string{""}, all...), nil
	case !slices.Contains(all, holder.Tenant):
		return nil, fmt.Errorf("credential %s is for the tasks of tenant %s, which agent.tasks.tenants does not name", file, holder.Tenant)
	default:
		return []string{holder.Tenant}, nil
	}
}

// join makes the client, with its bus. A bus that is not there is no fault:
// the agent works alone until it is.
func (p *agentProcess) join(id string, set *metrics.Set) error {
	if err := events.CheckAgent(id); err != nil {
		return badInput(fmt.Errorf("--id: %w", err))
	}
	o, err := busOptions(&p.file.NATS, id, id, p.seed(id), p.log)
	if err != nil {
		return err
	}
	o.Extra = append(o.Extra, nats.IgnoreAuthErrorAbort())
	fleet := p.file.Model.Fleet
	if p.nc, err = natslog.Connect(p.file.NATS.Address(), o); err != nil {
		return badInput(err)
	}
	p.closers.add(func() error { p.nc.Close(); return nil })
	writer, err := natslog.NewWriter(p.nc, fleet, id)
	if err != nil {
		return badInput(err)
	}
	inbox, err := natslog.NewInbox(p.nc, fleet, o)
	if err != nil {
		return badInput(err)
	}
	rules, err := tables(p.file.Agent.Rules)
	if err != nil {
		return err
	}
	p.client, err = agent.New(agent.Config{
		Agent: id, After: p.before(fleet, id), Version: version(), Fleet: &p.file.Model, Upstreams: p.file.Upstreams, Queue: p.file.Agent.Queue,
		Task: p.file.Agent.Task, Idempotency: p.file.Agent.Idempotency, Cache: p.file.Agent.Cache, Semantic: p.file.Agent.Semantic, Budgets: p.file.Agent.Budgets,
		Classifier: rules, Unknown: p.file.Agent.Unknown, Writer: writer, Inbox: inbox, Traces: p.traces(id, set), Metrics: set, Log: p.log,
	})
	if err != nil {
		return badInput(err)
	}
	p.log.Info("agent runs", slog.String("agent", id), slog.String("fleet", fleet), slog.String("http", p.scheme+p.http.Addr().String()+"/v1"),
		slog.String("nats", servers(p.file.NATS.Address())), slog.String("version", version()))
	return nil
}

// seed finds the file of what the agent shows to NATS. It is looked for again
// whenever NATS is tried: the first controller makes the credentials, and may
// start in the same moment.
func (p *agentProcess) seed(id string) func() string {
	return func() string {
		_, file, err := agentCredential(&p.file.NATS, id, p.http.Addr())
		if err != nil {
			p.log.Debug("the credential is not taken", slog.Any("error", err))
			return ""
		}
		return file
	}
}

// beforeWithin bounds the question who spoke before: calls wait for it.
const beforeWithin = time.Second

// before returns the boot number of the process that spoke last under the id,
// 0 when that cannot be told: then the clock alone says who is newer.
func (p *agentProcess) before(fleet, id string) uint64 {
	if connected(p.ctx, p.nc, beforeWithin) != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(p.ctx, beforeWithin)
	defer cancel()
	boot, err := natslog.LastBoot(ctx, p.nc, fleet, id)
	if err != nil {
		p.log.Debug("who spoke before under this id is not known", slog.Any("error", err))
	}
	return boot
}

// run serves until the process is stopped, then lets calls in flight end and
// says goodbye to the fleet.
func (p *agentProcess) run() error {
	go p.watch()
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		if p.desk != nil {
			p.desk.Run(ctx)
		}
	}()
	served := make(chan error, 1)
	go func() {
		served <- serve(ctx, p.http, p.proxy, drain, p.log)
		cancel() // also when it could not serve
	}()
	<-ctx.Done()
	wait, done := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer done()
	defer func() { <-worked }()
	go p.giveUp(wait, done)
	if left := p.client.Close(wait); left != nil {
		p.log.Warn("stopped before everything was done", slog.Any("error", left))
	}
	if p.spans != nil {
		p.lastSpans()
	}
	return <-served
}

// giveUp ends the wait for the last reports when there is no bus to take them
// and no call any more that could add to them.
func (p *agentProcess) giveUp(ctx context.Context, done context.CancelFunc) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var v model.GateView
	for idle := 0; idle < 10; idle++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if p.client.View(&v); v.Running > 0 || p.nc.IsConnected() {
			idle = -1
		}
	}
	done()
}

// watchEvery is how often the clients' file is looked at.
const watchEvery = 2 * time.Second

// watch says when the bus is not there, and takes new client keys.
func (p *agentProcess) watch() {
	if err := connected(p.ctx, p.nc, connectWithin/2); err != nil && p.ctx.Err() == nil {
		p.log.Warn("cannot reach nats: the agent works alone until it can", slog.String("nats", servers(p.file.NATS.Address())), slog.Any("error", err))
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		if !p.keys.changed() {
			continue
		}
		keys, err := p.keys.read()
		if err != nil {
			p.log.Error("the clients' file is not taken, the old keys stay", slog.Any("error", err))
			continue
		}
		p.proxy.SetKeys(keys)
		p.log.Info("client keys are taken", slog.Int("clients", len(keys)))
	}
}

// keyFile is the file of the sidecar's clients; its path may be empty.
type keyFile struct {
	path string
	seen fileState
}

// fileState tells one content of a file from another.
type fileState struct {
	at   time.Time
	size int64
}

func stateOf(path string) (s fileState) {
	if info, err := os.Stat(path); err == nil {
		s = fileState{info.ModTime(), info.Size()}
	}
	return s
}

func (k *keyFile) changed() bool { return k.path != "" && stateOf(k.path) != k.seen }

// read returns the keys; nil, which lets everybody in, only without a file.
func (k *keyFile) read() (proxy.Keys, error) {
	if k.path == "" {
		return nil, nil
	}
	k.seen = stateOf(k.path)
	return read(k.path, config.ParseKeys)
}

// agentName makes an agent's name of this machine's and the port it serves.
func agentName(at net.Addr) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "agent"
	}
	clean := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' {
			return c
		}
		return '-'
	}, host)
	port := ""
	if tcp, ok := at.(*net.TCPAddr); ok {
		port = fmt.Sprintf("-%d", tcp.Port)
	}
	return clean[:min(len(clean), events.MaxName-len(port))] + port
}
