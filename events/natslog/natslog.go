// Package natslog is a fleet's bus on NATS JetStream.
//
// A fleet has two streams. WEIR_<fleet>_LOG is the log: one message per
// report, kept until it is trimmed, refused rather than dropped when it is
// full, without deletes or limits per subject, so that every sequence exists
// and a gap means loss. WEIR_<fleet>_OUT holds the latest of every output, one
// message a subject, and repeats each on weir.<fleet>.live.> once it is
// stored; agents hear that and never see an output that was refused. The last
// full set of limits and the changes since have a subject each, so that both
// together are everything (events.Board). Every output carries the sequence of
// the term's announcement as expected, so a leader that is one no more is
// refused by the server. A lease is forgotten ten minutes after its end.
//
// JetStream may lose acknowledged messages in a crash, and then reuses their
// sequences and says nothing; the controller checks with Info and At. Nothing
// here hides a gap.
//
// Reports are acknowledged, one at a time on each agent's own subject and only
// behind the one before, so one that is sent again is stored once
// (events.NewWriter). An agent needs the rights that Rights lists and none of
// the JetStream API beyond them.
package natslog

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/events"
)

// Fault names a trouble of the bus that is nobody's return value.
type Fault string

// The faults.
const (
	FaultDisconnected Fault = "disconnected"  // the connection broke; it is sought again for ever
	FaultSlow         Fault = "slow_consumer" // messages were dropped since they were not taken
	FaultRefused      Fault = "refused"       // the server denies a right: publishing then looks like a timeout
	FaultOutput       Fault = "output"        // an output could not be read
	FaultRefresh      Fault = "refresh"       // the latest outputs could not be got; it is tried again
	FaultServer       Fault = "server"        // anything else
)

// Options says how to connect.
type Options struct {
	// Name is the connection's name in the server's monitoring.
	Name string
	// Agent is set for an agent, which then gets its answers on subjects that
	// only it may hear.
	Agent string
	// OnFault is called for every fault, from any goroutine; it logs and
	// counts. Nil ignores them.
	OnFault func(f Fault, err error)
	// Seed names the file of the nkey to show, empty for none. It is asked
	// before every try to connect, so that a key may come or change later. Nil
	// shows none.
	Seed func() string
	// Extra are further options: other proofs, TLS, an in-process server.
	Extra []nats.Option
}

func (o Options) fault(f Fault, err error) {
	if o.OnFault != nil && err != nil {
		o.OnFault(f, err)
	}
}

// Connect connects to NATS, and goes on trying for ever when it cannot at
// first or not any more. A publish while there is no connection fails at once:
// the caller's spool is the only queue.
func Connect(url string, o Options) (*nats.Conn, error) {
	opts := []nats.Option{
		nats.Name(o.Name),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(150*time.Millisecond, 400*time.Millisecond),
		nats.ReconnectBufSize(-1), // a report that was kept and sent later would come twice
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { o.fault(faultOf(err), err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { o.fault(FaultDisconnected, err) }),
	}
	if o.Agent != "" {
		if err := events.CheckAgent(o.Agent); err != nil {
			return nil, fmt.Errorf("connect to NATS: %w", err)
		}
		opts = append(opts, nats.CustomInboxPrefix(inboxPrefix(o.Agent)))
	}
	keys := keyring{seed: o.Seed}
	if o.Seed != nil {
		more, err := keys.options()
		if err != nil {
			return nil, fmt.Errorf("connect to NATS: %w", err)
		}
		opts = append(opts, more...)
	}
	nc, err := nats.Connect(url, append(opts, o.Extra...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	keys.conn.Store(nc)
	return nc, nil
}

func faultOf(err error) Fault {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		return FaultSlow
	case errors.Is(err, nats.ErrPermissionViolation):
		return FaultRefused
	}
	return FaultServer
}

func inboxPrefix(agent string) string { return "_INBOX_AGENT." + agent }

// AnyAgent stands for every agent in Rights.
const AnyAgent = "*"

// Rights lists the subjects an agent may publish to and subscribe to, no more
// than it needs: an account rule for credentials. For AnyAgent the control
// subject must be denied beside.
func Rights(fleet, agent string) (publish, subscribe []string) {
	publish = []string{
		events.LogSubject(fleet, agent),
		directGet(logStream(fleet), events.LogSubject(fleet, agent)),
	}
	for _, out := range outputs(fleet, agent) {
		publish = append(publish, directGet(outStream(fleet), out))
		subscribe = append(subscribe, events.LiveSubject(fleet, out))
	}
	return publish, append(subscribe, inboxPrefix(agent)+".>")
}

func logStream(fleet string) string { return "WEIR_" + fleet + "_LOG" }

func outStream(fleet string) string { return "WEIR_" + fleet + "_OUT" }

// outputs lists the subjects of the outputs that concern an agent, in the
// order a late joiner gets them.
func outputs(fleet, agent string) []string {
	return []string{
		events.TermSubject(fleet),
		events.ConfigSubject(fleet),
		events.LimitsSubject(fleet),
		events.ChangesSubject(fleet),
		events.LeaseSubject(fleet, agent),
	}
}

// directGet is the request subject for the last message of a subject.
func directGet(stream, subject string) string { return "$JS.API.DIRECT.GET." + stream + "." + subject }

// ackWithin is how long a call without a deadline waits for its answer: behind
// a slow disk an acknowledgement takes as long as the queue in front of it.
const ackWithin = 10 * time.Second

func open(nc *nats.Conn) (jetstream.JetStream, error) {
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(ackWithin))
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	return js, nil
}

// errorOf adds what events calls an error of JetStream.
func errorOf(err error) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", events.ErrTooLarge, err)
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("%w: %w", events.ErrClosed, err)
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return fmt.Errorf("%w: %w", events.ErrNotFound, err)
	case !errors.As(err, &api):
		return err
	}
	switch code := api.ErrorCode; {
	case code == jetstream.JSErrCodeStreamWrongLastSequence || code == jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return fmt.Errorf("%w: %w", events.ErrConflict, err)
	case code == jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return fmt.Errorf("%w: %w", events.ErrTooLarge, err)
	case code == jetstream.JSErrCodeMessageNotFound:
		return fmt.Errorf("%w: %w", events.ErrNotFound, err)
	case code == errCodeStorageExceeded || code == errCodeStoreFailed && strings.Contains(api.Description, "exceeded"):
		return fmt.Errorf("%w: %w", events.ErrFull, err)
	}
	return err
}

// Error codes of the server that the client does not name.
const (
	errCodeStorageExceeded jetstream.ErrorCode = 10047
	errCodeStoreFailed     jetstream.ErrorCode = 10077
)
