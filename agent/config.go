package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/VictoriaMetrics/metrics"
	oteltrace "go.opentelemetry.io/otel/trace"

	"weir/agent/classify"
	"weir/events"
	"weir/model"
)

// Config is what a Client is made from.
type Config struct {
	// Agent is the process's id in the fleet, unique and kept over restarts;
	// see events.CheckAgent.
	Agent string
	// After is the boot number of the process that spoke last under this id,
	// 0 where that is not known. This one's is higher: a clock that was set
	// back does not make it an older process, which nobody would hear.
	After uint64
	// Version is the software version, told to the controller.
	Version string
	// Mode is the agent's own mode: ModeObserve overrides what the fleet says.
	Mode model.Mode
	// Fleet is the configuration of the agent's own file. It serves until the
	// log brings a newer one.
	Fleet *model.Config
	// Upstreams says per channel where calls go. With any, a channel without
	// one is never used, since nothing else may say where a key is sent.
	Upstreams map[string]Upstream
	// Writer takes reports, Inbox brings leases and limits. Without them the
	// agent works alone, within what each channel sets for that.
	Writer events.Writer
	Inbox  events.Inbox
	// Classifier judges answers; nil means the shipped rules.
	Classifier *classify.Classifier
	// Queue bounds the requests that wait; 0 means 1000.
	Queue int
	// Spool bounds the reports that wait to be sent, in bytes; 0 means 8 MiB.
	// Beyond it they are summed up.
	Spool int
	// MaxBody bounds a request's body in bytes; 0 means 32 MiB.
	MaxBody int64
	// Output is the tokens expected of an answer whose request sets no
	// bound; 0 means 512.
	Output model.Tokens
	// Budgets are rules on what requests may take, by route.
	Budgets map[string]BudgetConfig
	// Task bounds the retries and the time of chained calls.
	Task TaskConfig
	// Idempotency bounds the answers kept for calls that carry an
	// Idempotency-Key: by default 32 MiB for 10 minutes.
	Idempotency KeepConfig
	// Cache bounds the answers kept for calls that ask the same: by default
	// none.
	Cache CacheConfig
	// Semantic is the cache of answers to requests that mean nearly the same:
	// by default none; with a route 64 MiB for 5 minutes.
	Semantic SemanticConfig
	// Unknown is the file for refusals that no rule knows, redacted; empty
	// keeps none.
	Unknown string
	// Params are the constants of the gate's local reaction; the zero value
	// means model.DefaultParams.
	Params model.Params
	// Traces makes a span of each request of Do and of a Transport, with its
	// attempts as events; nil makes none. Package agent/trace says what it
	// holds, and has a provider of its own.
	Traces oteltrace.TracerProvider
	// Metrics takes the agent's metrics; nil drops them.
	Metrics *metrics.Set
	// Log takes trouble with the bus; nil drops it.
	Log *slog.Logger
}

// usualTotal bounds an attempt where the fleet says nothing: longer than nearly
// every answer, and soon enough that a slot is not lost to a dead connection.
const usualTotal = 2 * model.Minute

// withDefaults returns the configuration with every zero replaced.
func (c Config) withDefaults() (Config, error) {
	if c.Queue == 0 {
		c.Queue = 1000
	}
	if c.Spool == 0 {
		c.Spool = 8 << 20
	}
	if c.MaxBody == 0 {
		c.MaxBody = 32 << 20
	}
	if c.Output == 0 {
		c.Output = 512
	}
	if c.Idempotency.Bytes == 0 {
		c.Idempotency.Bytes = 32 << 20
	}
	if c.Idempotency.For <= 0 {
		c.Idempotency.For = 10 * time.Minute
	}
	if c.Cache.For <= 0 {
		c.Cache.For = 5 * time.Minute
	}
	c.Semantic = c.Semantic.withDefaults()
	if c.Metrics == nil {
		c.Metrics = metrics.NewSet()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Fleet == nil {
		c.Fleet = &model.Config{}
	}
	if c.Classifier != nil {
		return c, nil
	}
	var err error
	if c.Classifier, err = classify.New(); err != nil {
		return c, fmt.Errorf("load the classifier's rules: %w", err)
	}
	return c, nil
}

func (c Config) check() error {
	var faults []error
	if err := events.CheckAgent(c.Agent); err != nil {
		faults = append(faults, err)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"queue", int64(c.Queue)}, {"spool", int64(c.Spool)}, {"max body", c.MaxBody}, {"output", int64(c.Output)}} {
		if n.value < 0 {
			faults = append(faults, fmt.Errorf("%s is %d, want 0 or more", n.name, n.value))
		}
	}
	return errors.Join(faults...)
}

func (c Config) gate(boot uint64) model.GateConfig {
	return model.GateConfig{
		Agent: c.Agent, Boot: boot, Version: c.Version, Mode: c.Mode, QueueLimit: c.Queue, Params: c.Params,
		Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
}

// reachable returns a copy of a fleet's configuration in its normal form, and
// without the channels that the agent has no upstream for.
func (c Config) reachable(fleet *model.Config) *model.Config {
	out := *fleet
	if out.Timeouts.Total <= 0 {
		out.Timeouts.Total = usualTotal
	}
	out.Groups, out.Tenants = slices.Clone(fleet.Groups), slices.Clone(fleet.Tenants)
	out.Channels = nil
	for _, ch := range fleet.Channels {
		if c.reaches(ch.Name) {
			ch.Groups = slices.Clone(ch.Groups)
			out.Channels = append(out.Channels, ch)
		}
	}
	out.Routes = slices.Clone(fleet.Routes)
	for i := range out.Routes {
		r := &out.Routes[i]
		r.Tiers = slices.Clone(r.Tiers)
		for j := range r.Tiers {
			t := &r.Tiers[j]
			t.Channels = slices.DeleteFunc(slices.Clone(t.Channels), func(w model.WeightedChannel) bool { return !c.reaches(w.Channel) })
		}
	}
	out.Normalize()
	return &out
}

func (c Config) reaches(channel string) bool {
	_, ok := c.Upstreams[channel]
	return ok || len(c.Upstreams) == 0
}
