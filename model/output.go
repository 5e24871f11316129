package model

// The outputs: what the controller tells the fleet. Each carries the term of
// the leader that sent it and a revision, the sequence of the record that
// caused it; an agent drops what is older than what it has.

// LimitSet is one broadcast with all channels that changed.
type LimitSet struct {
	Term uint64
	// Seq is the newest record folded when it was made.
	Seq      uint64
	Channels []ChannelLimit
	// Quotas are the days that changed.
	Quotas []Quota
}

// Quota is how the day of a channel, a quota group or a tenant stands.
type Quota struct {
	// Name is as PoolOfChannel, PoolOfGroup and DayOfTenant make it.
	Name  string
	Stage Stage
	// Reset is how long the day lasts from the moment the message was made.
	Reset Nanos
	// Used is what settled, Soft and Hard the limits, 0 for none: requests,
	// tokens and cost.
	Used, Soft, Hard [NumDaily]int64
	// Reason says in words why the stage is not free.
	Reason string
}

// BreakerState is the state of a channel's breaker.
type BreakerState uint8

// The states. Their numbers are part of the wire format and never change.
const (
	BreakerClosed        BreakerState = 0
	BreakerOpen          BreakerState = 1
	BreakerHalfOpen      BreakerState = 2
	BreakerMisconfigured BreakerState = 3 // open until an operator acts: the credential is refused
)

// String returns the state's name as it stands in metrics and JSON.
func (s BreakerState) String() string {
	switch s {
	case BreakerClosed:
		return "closed"
	case BreakerOpen:
		return "open"
	case BreakerHalfOpen:
		return "half_open"
	case BreakerMisconfigured:
		return "misconfigured"
	}
	return "unknown"
}

// ChannelLimit is the fleet's view of one channel.
type ChannelLimit struct {
	Channel string
	// Revision is the record that last changed it.
	Revision uint64
	// Window is what the whole fleet may have in flight, in milli-slots.
	Window Milli
	// Epoch is the number of the last cut.
	Epoch uint64
	// Weight is the channel's share among its tier, 0 < Weight ≤ One unless
	// an operator set 0.
	Weight  PPM
	Breaker BreakerState
	// Wait is how long, from the moment the message was made, nothing may
	// start: hold, pause or open breaker; 0 for none.
	Wait Nanos
	// Spent is set while a day's budget of the channel or its groups is used up.
	Spent bool
	// Mode is what binds on this channel.
	Mode Mode
	// Cuts are the last cuts, newest last, at most MaxCuts. They scale every
	// lease that is older.
	Cuts []Cut
	// Reason says in words why the channel stands where it stands.
	Reason string
}

// MaxCuts is how many cuts a broadcast repeats, so that one missed is not lost.
const MaxCuts = 8

// Cut scales every lease of a channel that is older than Revision: a lease of
// l slots at rank offset c keeps ⌊(c+l)·Num/Den⌋ − ⌊c·Num/Den⌋.
// Invariant: 0 ≤ Num ≤ Den, Den > 0.
type Cut struct {
	Revision uint64
	Num, Den int64
}

// Apply returns what a lease of slots at rank offset keeps, and its new offset.
func (c Cut) Apply(slots, offset int64) (newSlots, newOffset int64) {
	lo := mulDiv(offset, c.Num, c.Den)
	hi := mulDiv(offset+slots, c.Num, c.Den)
	return hi - lo, lo
}

// Lease is everything one agent may use, in one message.
type Lease struct {
	Agent string
	// Boot is the boot it is for; another boot ignores it.
	Boot uint64
	Term uint64
	// Seq is the newest record folded when it was made.
	Seq uint64
	// Quotes is the newest report of the agent that was folded. The agent
	// counts Duration from before it sent that report.
	Quotes uint64
	// Duration is how long the grants hold.
	Duration Nanos
	Channels []ChannelGrant
	Pools    []PoolGrant
}

// ChannelGrant is an agent's part of a channel's window.
type ChannelGrant struct {
	Channel  string
	Revision uint64
	// Slots is how many attempts may be in flight or held.
	Slots int64
	// Safe is what may go on when the lease ran out, Safe ≤ Slots.
	Safe int64
	// Offset is the lease's rank offset, for cuts.
	Offset int64
	// Epoch is the channel's epoch; attempts started under the grant carry it.
	Epoch uint64
	// Probe is the id of a probe the agent may send through a half-open
	// breaker, 0 for none; ProbeWithin is the time it has to end.
	Probe       uint64
	ProbeWithin Nanos
}

// PoolGrant is an agent's part of a budget. The numbers are cumulative over
// the boot: the agent may start while its own cumulative use stays within.
type PoolGrant struct {
	Pool     string
	Revision uint64
	// Requests and Tokens are granted in all; negative means the dimension
	// has no limit.
	Requests int64
	Tokens   Tokens
	// SafeRequests and SafeTokens are per minute, for an agent whose lease
	// ran out.
	SafeRequests Milli
	SafeTokens   Tokens
	// Scarce is set while the fleet has less left of tokens than of requests:
	// calls that need few may go before those that need many.
	Scarce bool
}

// TermNotice announces a new leader.
type TermNotice struct {
	Term       uint64
	Seq        uint64
	Controller string
}
