package model

// Kind names what a record of the log says. Kinds that this version does not
// know are kept, counted and skipped: new kinds may add meaning, never change
// the meaning of old ones.
type Kind uint8

// The kinds. Their numbers are part of the wire format and never change.
const (
	KindAttempts Kind = 1
	KindSummary  Kind = 2
	KindConfig   Kind = 3
	KindParams   Kind = 4
	KindCommand  Kind = 5
	KindLead     Kind = 6
	KindTick     Kind = 7
	KindRebase   Kind = 8
)

// String returns the kind's name as it stands in journals and metrics.
func (k Kind) String() string {
	switch k {
	case KindAttempts:
		return "attempts"
	case KindSummary:
		return "summary"
	case KindConfig:
		return "config"
	case KindParams:
		return "params"
	case KindCommand:
		return "command"
	case KindLead:
		return "lead"
	case KindTick:
		return "tick"
	case KindRebase:
		return "rebase"
	}
	return "unknown"
}

// Record is one entry of the log: its place, its time and its fact.
type Record struct {
	// Seq is the record's place in the log. Invariant: the previous one's plus 1.
	Seq uint64
	// Time is the log's timestamp in Unix nanoseconds. It may jump either way
	// when the log's clock does; see Fleet.Apply for what the fold makes of it.
	Time Nanos
	// Fact is what happened; nil for a record that could not be read, which
	// is counted and otherwise ignored.
	Fact Fact
}

// Fact is one of *Attempts, *Summary, *Config, *ParamSet, *Command, *Lead,
// *Tick, *Rebase or *Unknown.
type Fact interface{ Kind() Kind }

// Kind implements Fact.
func (*Attempts) Kind() Kind { return KindAttempts }

// Kind implements Fact.
func (*Summary) Kind() Kind { return KindSummary }

// Kind implements Fact.
func (*Config) Kind() Kind { return KindConfig }

// Kind implements Fact.
func (*ParamSet) Kind() Kind { return KindParams }

// Kind implements Fact.
func (*Command) Kind() Kind { return KindCommand }

// Kind implements Fact.
func (*Lead) Kind() Kind { return KindLead }

// Kind implements Fact.
func (*Tick) Kind() Kind { return KindTick }

// Kind implements Fact.
func (*Rebase) Kind() Kind { return KindRebase }

// Kind implements Fact.
func (u *Unknown) Kind() Kind { return u.K }

// Unknown is a fact of a newer version: kept in the log, counted, skipped.
type Unknown struct{ K Kind }

// Source says which process speaks and which of its reports this is.
type Source struct {
	// Agent is the agent's stable id, at most 64 bytes of [A-Za-z0-9_-].
	Agent string
	// Boot numbers the starts of that agent: its start in Unix nanoseconds.
	// A higher boot is a newer process; a lower one that speaks again is a
	// duplicate id and is refused.
	Boot uint64
	// Seq is the number of this report within the boot, from 1.
	Seq uint64
	// Span is how many report numbers it occupies, at least 1. Attempts
	// always occupy one; a Summary as many as the reports it replaces.
	Span uint64
	// Base is how many attempts this boot settled before this report. It
	// makes the number of lost attempts exact.
	Base uint64
}

// Attempts is a report of one agent: the attempts that ended since the last
// one and, per channel and pool, how things stand now. A report without
// attempts is a sign of life.
type Attempts struct {
	Source
	// Version is the agent's software version; only in a boot's first report.
	Version string
	// Mode is the agent's own mode.
	Mode Mode
	// Leaving is set in an agent's last report: its leases end now.
	Leaving bool
	// Channels is the state per channel. Attempts refer to it by index.
	Channels []ChannelReport
	// Pools is the state per budget pool that the agent draws on.
	Pools []PoolReport
	// Attempts are the attempts that ended, in the order they ended.
	Attempts []Attempt
}

// ChannelReport is how one channel stands at one agent when a report is sent.
type ChannelReport struct {
	Channel string
	// InFlight counts attempts sent and not yet ended.
	InFlight uint32
	// Held counts slots kept after a refusal until the backoff passes.
	Held uint32
	// Accepted counts those in flight that the provider surely took: first
	// byte seen, or older than a refusal takes.
	Accepted uint32
	// Queued counts requests that wait for a slot of this channel.
	Queued uint32
	// Urgent counts those of Queued with PriorityInteractive.
	Urgent uint32
	// WaitingTokens is the estimated tokens of Queued.
	WaitingTokens Tokens
	// Applied is the revision of the newest grant or cut the agent obeys.
	Applied uint64
	// WouldRefuse counts, over the boot, what observe mode let pass though
	// enforce mode would have made it wait or refused it.
	WouldRefuse uint64
}

// PoolReport is how one budget pool stands at one agent. Used is cumulative
// over the boot, so a lost or repeated report changes nothing.
type PoolReport struct {
	// Pool is the pool's id, as PoolOfChannel and PoolOfGroup make it.
	Pool string
	// UsedRequests counts attempts started.
	UsedRequests int64
	// UsedTokens is the tokens of settled attempts plus the reservations of
	// those in flight. It falls when a settlement is below its reservation.
	UsedTokens Tokens
	// WaitingRequests and WaitingTokens are what queued requests still need.
	WaitingRequests int64
	WaitingTokens   Tokens
	// Next is what the one of them needs that starts next, 0 when unknown.
	Next Tokens
	// Applied is the revision of the newest pool grant the agent obeys.
	Applied uint64
}

// Attempt is one try of one request on one channel. It never holds a prompt,
// an answer or a key.
type Attempt struct {
	// Channel is an index into Attempts.Channels.
	Channel uint16
	// Route is the model name the client asked for.
	Route string
	// Tier is the route's tier that was used, 0 for the main one.
	Tier uint8
	// Request is the request's id, shared by all its attempts.
	Request uint64
	// Try is the attempt's number within the request, from 1.
	Try uint8
	// Tenant is who asked; empty when unknown.
	Tenant   string
	Priority Priority
	// Age is the time from the attempt's end to the sending of the report,
	// by the agent's monotonic clock.
	Age Nanos
	// Took is the time from sending the attempt to its end.
	Took Nanos
	// Queued is the time the request waited before this attempt.
	Queued Nanos
	// FirstToken is the time from sending to the first token; 0 if there was
	// none or the answer was not streamed.
	FirstToken Nanos
	Class      Class
	// Scope says who else is hit.
	Scope Scope
	// Code is the provider's own code, at most 64 bytes.
	Code string
	// Status is the HTTP status, 0 when there was no answer.
	Status uint16
	// Reserved is what was reserved against token budgets.
	Reserved Tokens
	// In, Cached (part of In) and Out are the tokens used.
	In, Cached, Out Tokens
	// UsageKnown is set when the provider said so, not when estimated.
	UsageKnown bool
	// RetryAfter is the provider's wait; negative when it gave none.
	RetryAfter Nanos
	// Hints are limits the answer told, at most 8.
	Hints []LimitHint
	// Epoch is the channel's epoch the attempt was admitted under.
	Epoch uint64
	// Probe is the id of the probe lease it was sent under, 0 for none.
	Probe uint64
	// Degraded is set when the answer came from another tier than wanted.
	Degraded bool
	// Rule is the classifier's rule and table version that decided the class.
	Rule string
}

// LimitHint is what an answer told about one limit. A negative number means
// "not said".
type LimitHint struct {
	Dimension Dimension
	Limit     int64
	Remaining int64
	// Reset is the time until the limit is whole again.
	Reset Nanos
}

// Summary is what an agent sends instead of attempts that it could not keep.
// It settles budgets and counts, and never cuts.
type Summary struct {
	Source
	Counts []SummaryCount
	Pools  []PoolReport
}

// SummaryCount is how many attempts of one class a Summary stands for.
type SummaryCount struct {
	Channel  string
	Class    Class
	Attempts uint64
	In, Out  Tokens
}

// ParamSet puts a full set of parameters in force.
type ParamSet struct {
	Name string
	// By and Why say who pushed it and the reason.
	By, Why string
	Params  Params
	// Canary is the one channel whose laws use the set while Guard watches;
	// empty means all of the fleet's.
	Canary string
	Guard  Guard
}

// Guard says how long a push is watched and what it may make worse. The zero
// value means that nothing watches it.
type Guard struct {
	// For is the time it is watched, from GuardLeast to GuardMost.
	For Nanos
	// Goodput is the least change that is tolerated of what is answered of a
	// demand, in millionths of what it was: -20,000 tolerates 2 % less.
	Goodput PPM
	// Waste is the most change that is tolerated of the share of attempts
	// that brought no answer: 10,000 tolerates one more in a hundred.
	Waste PPM
}

// CommandKind says what an operator wants.
type CommandKind uint8

// The commands. Their numbers are part of the wire format and never change.
const (
	CommandPause        CommandKind = 1 // stop the channel until Until
	CommandResume       CommandKind = 2 // end a pause, a hold and a forced breaker
	CommandForceBreaker CommandKind = 3 // Value 1 opens, 0 closes
	CommandSetWeight    CommandKind = 4 // Value in PPM; negative gives it back to the law
	CommandSetLimit     CommandKind = 5 // Value slots at most; negative gives it back to the law
	CommandRelease      CommandKind = 6 // end the channel's hold
	CommandForget       CommandKind = 7 // drop Agent and its claims
	CommandSetMode      CommandKind = 8 // Value is a Mode; empty Channel means the fleet
)

// String returns the command's name as it stands in journals.
func (k CommandKind) String() string {
	switch k {
	case CommandPause:
		return "pause"
	case CommandResume:
		return "resume"
	case CommandForceBreaker:
		return "force_breaker"
	case CommandSetWeight:
		return "set_weight"
	case CommandSetLimit:
		return "set_limit"
	case CommandRelease:
		return "release"
	case CommandForget:
		return "forget"
	case CommandSetMode:
		return "set_mode"
	}
	return "unknown"
}

// Command is an operator's order.
type Command struct {
	Command CommandKind
	Channel string
	Agent   string
	Value   int64
	// For is how long it holds, where the command takes a time; 0 means
	// until it is taken back.
	For     Nanos
	By, Why string
}

// Lead begins a controller's term. Only the holder of the highest term writes
// ticks and outputs.
type Lead struct {
	Term uint64
	// Controller is the process's id.
	Controller string
	// Version is its software version; Laws the version of the laws it folds with.
	Version string
	Laws    uint32
}

// Tick says that time passed: a deadline was due and nothing else arrived.
type Tick struct {
	Term uint64
	// Elapsed is the time since the previous record, by the leader's
	// monotonic clock. It bounds what a jump of the log's clock can add.
	Elapsed Nanos
}

// Rebase anchors the fold anew after the log was found shorter, holed or
// rewound: a fold starts at the latest one.
type Rebase struct {
	Term uint64
	// Snapshot is the canonical encoding of the state the fold goes on from.
	Snapshot []byte
	// Digest is the snapshot's digest.
	Digest [32]byte
	// Reason says what was found.
	Reason string
}

func (c *coder) params(s *ParamSet) {
	c.str(&s.Name)
	c.str(&s.By)
	c.str(&s.Why)
	specs := ParamSpecs()
	n := len(specs)
	num(c, &n)
	c.bad = c.bad || n != len(specs)
	if c.bad {
		return
	}
	for _, spec := range specs {
		num(c, spec.field(&s.Params))
	}
}
