package incident

import (
	"time"

	"weir/sim/strict"
)

// PPM is one, in parts per million: ratios are stored as integers of this unit.
const PPM = strict.PPM

// Unlimited is the value of a limit that the file does not set. A limit of 0
// is different: it lets nothing through.
const Unlimited = -1

// Incident is one simulated world. Every reference in it (channel to provider,
// route to channel, workload to route) has been checked by Parse.
type Incident struct {
	// Name identifies the incident: letters, digits, '.', '_' and '-'.
	Name string
	// About is one sentence for people.
	About string
	// Duration is how long the script runs; positive.
	Duration time.Duration
	Fleet    Fleet
	// Groups are the quota groups with limits told to Weir. A channel may name
	// a group that is not listed as long as none is listed.
	Groups    []Group
	Channels  []Channel
	Routes    []Route
	Providers []Provider
	Workloads []Workload
	// Tenants are those of the workloads of which something is told to Weir.
	Tenants []Tenant
}

// Fleet is the set of agents, the bus between them and the controller, and
// what happens to them.
type Fleet struct {
	// Agents is the number at the start, at least 1.
	Agents int
	// Also lists other numbers of agents with which the same incident is worth
	// a run; see Incident.WithAgents.
	Also    []int
	Bus     Bus
	Changes []FleetChange // in order of At
}

// Bus is the message path between agents and controller.
type Bus struct {
	// Delay is the one-way time of a message; Jitter is the most that is added
	// to it at random.
	Delay, Jitter time.Duration
	// Loss is the share of messages that never arrive, in ppm.
	Loss int64
}

// FleetKind names what happens to a fleet.
type FleetKind string

// What can happen to a fleet.
const (
	// ControllerDown stops the controller for a while.
	ControllerDown FleetKind = "controller_down"
	// AgentCount sets the number of agents; those with the highest indexes
	// leave, new ones join.
	AgentCount FleetKind = "agents"
	// Partition cuts the listed agents off from the bus for a while.
	Partition FleetKind = "partition"
	// AgentCrash kills the listed agents without a good-bye; they come back as
	// new boots after For, or never when For is 0.
	AgentCrash FleetKind = "agent_crash"
	// Pause is an operator who stops the applications for For and lets them
	// come back over Over; see Fleet.Share.
	Pause FleetKind = "pause"
)

// FleetChange is one line of the fleet's script.
type FleetChange struct {
	At time.Duration
	// For is how long it lasts; 0 only where the kind allows "for good".
	For time.Duration
	// Over is how long a trickle after a Pause takes to be the full stream.
	Over time.Duration
	// Drop: a Pause gives up what waits in the applications when it begins.
	Drop bool
	Kind FleetKind
	// Count is the new number of agents, at least 1, for AgentCount.
	Count int
	// Agents lists agent indexes from 0, for Partition and AgentCrash.
	Agents []int
}

// MaxAgents is the largest number of agents that ever run at the same time,
// which bounds every agent index in the script.
func (f Fleet) MaxAgents() int {
	most := f.Agents
	for _, c := range f.Changes {
		if c.Kind == AgentCount {
			most = max(most, c.Count)
		}
	}
	return most
}

// Limits are the limits Weir is told about a channel or group. Each is
// Unlimited where the file says nothing: the limit is then hidden, not absent.
type Limits struct {
	RPM, TPM, InputTPM, OutputTPM int64 // per minute
	Concurrency                   int64 // calls at the same time
	RequestsPerDay, TokensPerDay  int64
}

// noLimits is Limits with nothing told.
func noLimits() Limits {
	return Limits{Unlimited, Unlimited, Unlimited, Unlimited, Unlimited, Unlimited, Unlimited}
}

// Group is a quota group: an account limit that several channels draw on.
type Group struct {
	Name   string
	Limits Limits
}

// ControllerLoss names what an agent may use of a channel when its lease ran
// out and the controller is silent.
type ControllerLoss string

// The choices of DESIGN's "alone": the safe share, nothing, or the last grant.
const (
	LossSafe ControllerLoss = "safe"
	LossZero ControllerLoss = "zero"
	LossLast ControllerLoss = "last"
)

// Charge names what a provider counts against a tokens-per-minute limit.
type Charge string

// What a call costs in tokens.
const (
	// ChargeActual counts input plus the output really produced.
	ChargeActual Charge = "actual"
	// ChargeMaxTokens counts input plus the max_tokens the caller asked for.
	ChargeMaxTokens Charge = "max_tokens"
)

// Channel is one place to send calls, and what Weir is told about it.
type Channel struct {
	Name     string
	Provider string // a Provider's name
	Groups   []string
	Limits   Limits
	Charge   Charge         // default ChargeActual
	Price    Price          // what tenants' ceilings of cost go by
	Loss     ControllerLoss // default LossSafe; key on_controller_loss
	Alone    int            // slots for an agent that never met the controller; default 0
}

// Route is what a client asks for by name: tiers in order of preference.
type Route struct {
	Name  string
	Tiers []Tier // at least one
}

// Tier is a weighted set of channels, or a fixed answer.
type Tier = strict.Tier

// Weighted is a channel in a tier.
type Weighted = strict.Weighted

// ProviderByName returns the provider with that name, or nil.
func (i *Incident) ProviderByName(name string) *Provider {
	for k := range i.Providers {
		if i.Providers[k].Name == name {
			return &i.Providers[k]
		}
	}
	return nil
}
