package config

import (
	_ "embed" // of the example
	"io"
	"time"
	_ "time/tzdata" // a reset's time zone must be known on every machine

	"weir/agent"
	"weir/model"
	"weir/sim/strict"
)

// File is a weir.yaml. Controller and agents read the same one.
type File struct {
	// Model is what the fleet consists of; it is published, and holds no
	// secret and no address.
	Model      model.Config
	NATS       NATS
	Controller Controller
	Agent      Agent
	// Upstreams says where calls go, by channel. A channel without base_url
	// has none: it is another machine's.
	Upstreams map[string]agent.Upstream
}

// NATS is the fleet's bus.
type NATS struct {
	// Embedded is set when the controller brings its own server, which
	// listens on Listen and keeps its streams in Store.
	Embedded      bool
	Listen, Store string
	// SyncAlways puts every message on disk before it is acknowledged;
	// otherwise the disk has it after a second.
	SyncAlways bool
	// URL is where agents, and a controller without a server of its own,
	// connect; empty means the embedded server's address.
	URL string
	// Credentials is the folder of who may connect to the embedded server,
	// and of what this machine's processes show there.
	Credentials string
	// CredentialFile is what this process shows; empty means the one in
	// Credentials that fits.
	CredentialFile string
	// TokenEnv names the environment variable with the token that a server of
	// your own wants; empty for none. CredsFile is its credentials file.
	TokenEnv, CredsFile string
	// Replicas is how many servers of your own keep log and state, 1, 3 or 5;
	// 0 leaves it as it is, or 1.
	Replicas int
	// TLS is what the embedded server shows, and whom clients trust.
	TLS TLS
}

// TLS is a certificate and whom to trust; empty means none and the system's.
type TLS struct {
	// CertFile and KeyFile are PEM files, read again when they change.
	CertFile, KeyFile string
	// CAFile holds the authorities that a client of the fleet's NATS trusts.
	CAFile string
}

// Serves reports whether there is a certificate to show.
func (t *TLS) Serves() bool { return t.CertFile != "" }

// Address returns what clients connect to.
func (n *NATS) Address() string {
	if n.URL != "" {
		return n.URL
	}
	if n.TLS.Serves() {
		return "tls://" + n.Listen
	}
	return "nats://" + n.Listen
}

// Controller is the controller's process.
type Controller struct {
	// Listen is host:port of its HTTP server, Store the folder of its state.
	Listen, Store string
	// TokenEnv names the environment variable with the token of its API,
	// TokenFile the file that holds it while that is empty.
	TokenEnv, TokenFile string
	// Keep is how many records the log keeps at least, and up to twice as
	// many; older ones go once the state is stored beside them.
	Keep uint64
	// Hosts are names under which the HTTP server is reached, beside
	// localhost and addresses.
	Hosts []string
	TLS   TLS
	// Notices are told what goes wrong; Page is the address of the page that
	// they point to.
	Notices []Notice
	Page    string
}

// Agent is a sidecar's process.
type Agent struct {
	// Listen is host:port of the sidecar.
	Listen string
	// Queue is how many requests may wait.
	Queue int
	// ClientKeys is the file of the sidecar's clients, see ParseKeys; empty
	// means that whoever reaches it may call.
	ClientKeys string
	// Task bounds what chained calls may spend on failure; Idempotency and
	// Cache bound the answers that are kept.
	Task        agent.TaskConfig
	Idempotency agent.KeepConfig
	Cache       agent.CacheConfig
	Semantic    agent.SemanticConfig
	// Rules are files of the classifier's rules, asked before the shipped
	// ones; Unknown is the file for refusals that no rule knows, empty for
	// none.
	Rules   []string
	Unknown string
	// Budgets are rules on what requests may take, by route.
	Budgets map[string]agent.BudgetConfig
	Tasks   Tasks
	TLS     TLS
	// Traces is the base URL of the OpenTelemetry collector that gets spans,
	// without /v1/traces; empty leaves it to the environment.
	Traces string
}

// Tasks are the asynchronous tasks of the fleet. What they are asked and
// answered is kept in NATS, where it is on disk.
type Tasks struct {
	// Enabled is set when the controller keeps room for them and agents take
	// them in.
	Enabled bool
	// Tenants have a room of their own, which a worker's credential may be
	// bound to.
	Tenants []string
	// Bytes is what all rooms take together, each the same: half for what is
	// asked and half for what is answered.
	Bytes int64
	// Age is how long one may take, and how long its answers are kept.
	Age time.Duration
}

// newFile returns what a file says that says nothing.
func newFile() *File {
	return &File{
		Model: model.Config{
			Fleet: "default",
			Retry: model.RetryConfig{
				MaxAttempts: 3, Base: model.Second, Multiplier: 2 * model.One, Max: 30 * model.Second,
				Jitter: model.One / 5, Budget: model.One / 10, Total: 120 * model.Second,
			},
			Timeouts: model.TimeoutConfig{Connect: 2 * model.Second, FirstToken: 15 * model.Second, Total: 120 * model.Second},
		},
		NATS:       NATS{Embedded: true, Listen: "127.0.0.1:4222", Store: "./weir-data/nats", Credentials: "./weir-data/credentials"},
		Controller: Controller{Listen: "127.0.0.1:8080", Store: "./weir-data/state", TokenEnv: "WEIR_TOKEN", TokenFile: "./weir-data/credentials/token", Keep: 1_000_000},
		Agent:      Agent{Listen: "127.0.0.1:8787", Queue: 1000, Tasks: Tasks{Bytes: 1 << 30, Age: 24 * time.Hour}},
		Upstreams:  map[string]agent.Upstream{},
	}
}

// example is a file to begin with.
//
//go:embed example.yaml
var example string

// Example returns a weir.yaml to begin with: it has every part that a fleet
// needs, and observes.
func Example() string { return example }

// Default returns the settings of a file that sets none. It has no channels.
func Default() *File { return newFile() }

// Parse reads a weir.yaml. name stands for the file in messages; now decides
// the offset of time zones that have summer time. The error is a
// *strict.ParseError with every fault found, or what reading in gave.
func Parse(name string, in io.Reader, now time.Time) (*File, error) {
	doc, body, err := strict.Document(name, in)
	if err != nil {
		return nil, err
	}
	r := &reader{Reader: doc, now: now, file: newFile()}
	r.read(body)
	r.check(body)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return r.file, nil
}
