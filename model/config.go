package model

import (
	"fmt"
	"slices"
)

// Config is what the fleet consists of. It holds no secret: where a key is
// sent (base URL) and where it comes from an agent takes only from its own
// file. Every list is sorted by Name and free of duplicates; Normalize makes
// it so.
type Config struct {
	// Fleet is the fleet's name, part of every subject.
	Fleet string
	// Mode binds every channel that does not set its own.
	Mode     Mode
	Channels []ChannelConfig
	Groups   []GroupConfig
	Routes   []RouteConfig
	Tenants  []TenantConfig
	Retry    RetryConfig
	Timeouts TimeoutConfig
	// By and Why say who pushed it and the reason. They stay in the log: what
	// is in force does not depend on them, and is told without.
	By, Why string
}

// ChannelConfig is one place to send a call: endpoint, model, credential.
type ChannelConfig struct {
	Name string
	// Provider names a rule set of the classifier.
	Provider string
	// Model is what this channel calls the model.
	Model string
	// Groups are the quota groups it draws on.
	Groups []string
	Limits Limits
	// ChargeMax is set when the provider counts max_tokens, not actual use,
	// against tokens per minute.
	ChargeMax bool
	// Price is per million tokens.
	Price Price
	// OnLoss says what an agent may use when its lease ran out.
	OnLoss OnLoss
	// Alone is the slots of an agent that never met a controller.
	Alone uint32
	// Mode overrides the fleet's mode where HasMode is set.
	Mode    Mode
	HasMode bool
}

// Limits are what a provider told. Zero means "not told".
type Limits struct {
	RequestsPerMinute     int64
	TokensPerMinute       Tokens
	InputTokensPerMinute  Tokens
	OutputTokensPerMinute Tokens
	ImagesPerMinute       int64
	RequestsPerDay        int64
	TokensPerDay          Tokens
	// Concurrency is attempts at the same time.
	Concurrency int64
	// DayReset is when a day's quota starts anew, as offset from midnight
	// UTC, 0 ≤ DayReset < 24 h.
	DayReset Nanos
}

// Price is what tokens cost, in millionths of the currency unit per million tokens.
type Price struct{ Input, Cached, Output int64 }

// OnLoss says what an agent may use of a channel when its lease ran out and
// the controller is silent.
type OnLoss uint8

// The answers. Their numbers are part of the wire format and never change.
const (
	OnLossSafe OnLoss = 0 // the safe share of the last grant
	OnLossZero OnLoss = 1 // nothing
	OnLossLast OnLoss = 2 // the last grant
)

// String returns the name as it stands in configuration.
func (o OnLoss) String() string {
	switch o {
	case OnLossSafe:
		return "safe"
	case OnLossZero:
		return "zero"
	case OnLossLast:
		return "last"
	}
	return "unknown"
}

// GroupConfig is an account limit that several channels draw on.
type GroupConfig struct {
	Name   string
	Limits Limits
}

// RouteConfig is a model name that clients ask for.
type RouteConfig struct {
	Name string
	// Tiers are tried in order: L0 main, L1 spare, L2 light, L3 rule.
	Tiers []TierConfig
	// DegradeCore and DegradeOther are how long core and other work waits
	// before it goes to the next tier; negative means never.
	DegradeCore, DegradeOther Nanos
}

// TierConfig is a weighted set of channels, or a fixed answer.
type TierConfig struct {
	Channels []WeightedChannel
	// Capability is what the tier can do, empty for everything.
	Capability string
	// Rule is the fixed answer of a tier without channels.
	Rule string
}

// WeightedChannel is a channel's part in a tier. Weight ≥ 1.
type WeightedChannel struct {
	Channel string
	Weight  uint32
}

// TenantConfig is who asks, with what rights.
type TenantConfig struct {
	Name     string
	Priority Priority
	// Share weighs the tenant against others, at least 1.
	Share uint32
	// Soft limits warn, hard limits refuse; 0 means none. Cost is in
	// millionths of the currency unit.
	TokensPerDaySoft, TokensPerDayHard     Tokens
	CostPerDaySoft, CostPerDayHard         int64
	RequestsPerDaySoft, RequestsPerDayHard int64
	// DayReset is when its day begins, as Limits.DayReset.
	DayReset Nanos
}

// RetryConfig is how an agent repeats.
type RetryConfig struct {
	// MaxAttempts per request, first one included.
	MaxAttempts uint8
	// Base is the first backoff, multiplied by Multiplier (in PPM) each
	// time up to Max; Jitter is its random part.
	Base, Max  Nanos
	Multiplier PPM
	Jitter     PPM
	// Budget is the retries earned per first attempt.
	Budget PPM
	// Total bounds a request, attempts and waits together.
	Total Nanos
}

// TimeoutConfig bounds one attempt.
type TimeoutConfig struct{ Connect, FirstToken, Total Nanos }

// PoolOfChannel returns the id of a channel's own budget pool.
func PoolOfChannel(channel string) string { return "channel/" + channel }

// PoolOfGroup returns the id of a quota group's budget pool.
func PoolOfGroup(group string) string { return "group/" + group }

// clone returns a copy that Normalize and the fold may change.
func (c *Config) clone() *Config {
	d := *c
	d.Channels = slices.Clone(c.Channels)
	for i := range d.Channels {
		d.Channels[i].Groups = slices.Clone(d.Channels[i].Groups)
	}
	d.Groups, d.Routes, d.Tenants = slices.Clone(c.Groups), slices.Clone(c.Routes), slices.Clone(c.Tenants)
	return &d
}

// Normalize sorts every list by name, so that equal configurations are equal.
// Duplicate names are for Check to find.
func (c *Config) Normalize() {
	slices.SortFunc(c.Channels, func(a, b ChannelConfig) int { return compare(a.Name, b.Name) })
	slices.SortFunc(c.Groups, func(a, b GroupConfig) int { return compare(a.Name, b.Name) })
	slices.SortFunc(c.Routes, func(a, b RouteConfig) int { return compare(a.Name, b.Name) })
	slices.SortFunc(c.Tenants, func(a, b TenantConfig) int { return compare(a.Name, b.Name) })
	for i := range c.Channels {
		slices.Sort(c.Channels[i].Groups)
	}
}

// Check returns an error that names the first fault that would make the
// configuration ambiguous: an empty or duplicate name, a reference to nothing,
// a negative number.
func (c *Config) Check() error {
	channels := map[string]bool{}
	groups := map[string]bool{}
	for _, g := range c.Groups {
		if g.Name == "" || groups[g.Name] {
			return fmt.Errorf("group %q: empty or duplicate name", g.Name)
		}
		if g.Limits.negative() {
			return fmt.Errorf("group %q: negative limit", g.Name)
		}
		groups[g.Name] = true
	}
	for _, ch := range c.Channels {
		if ch.Name == "" || channels[ch.Name] {
			return fmt.Errorf("channel %q: empty or duplicate name", ch.Name)
		}
		if ch.Limits.negative() {
			return fmt.Errorf("channel %q: negative limit", ch.Name)
		}
		for _, g := range ch.Groups {
			if !groups[g] {
				return fmt.Errorf("channel %q: unknown group %q", ch.Name, g)
			}
		}
		channels[ch.Name] = true
	}
	routes := map[string]bool{}
	for _, r := range c.Routes {
		if r.Name == "" || routes[r.Name] {
			return fmt.Errorf("route %q: empty or duplicate name", r.Name)
		}
		routes[r.Name] = true
		for _, t := range r.Tiers {
			for _, w := range t.Channels {
				if !channels[w.Channel] {
					return fmt.Errorf("route %q: unknown channel %q", r.Name, w.Channel)
				}
			}
		}
	}
	tenants := map[string]bool{}
	for _, t := range c.Tenants {
		if t.Name == "" || tenants[t.Name] {
			return fmt.Errorf("tenant %q: empty or duplicate name", t.Name)
		}
		if t.negative() {
			return fmt.Errorf("tenant %q: negative limit", t.Name)
		}
		tenants[t.Name] = true
	}
	return nil
}

func (l *Limits) negative() bool {
	return l.RequestsPerMinute < 0 || l.TokensPerMinute < 0 || l.InputTokensPerMinute < 0 ||
		l.OutputTokensPerMinute < 0 || l.ImagesPerMinute < 0 || l.RequestsPerDay < 0 ||
		l.TokensPerDay < 0 || l.Concurrency < 0 || l.DayReset < 0 || l.DayReset >= wholeDay
}

func (t *TenantConfig) negative() bool {
	return t.TokensPerDaySoft < 0 || t.TokensPerDayHard < 0 || t.CostPerDaySoft < 0 || t.CostPerDayHard < 0 ||
		t.RequestsPerDaySoft < 0 || t.RequestsPerDayHard < 0 || t.DayReset < 0 || t.DayReset >= wholeDay
}
