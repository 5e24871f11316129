package model

// GateView is a copy of how a gate stands, for pages and metrics. Lists are
// sorted by name.
type GateView struct {
	// Alone is set while the controller is silent: no lease is in force.
	// Met is set once one was heard.
	Alone, Met bool
	// LeaseLeft is how long the lease still holds, Term and Seq what it said.
	LeaseLeft Nanos
	Term, Seq uint64
	// ConfigSeq is the configuration in force.
	ConfigSeq uint64
	Mode      Mode
	// Waiting counts the requests in the queue, Backoff those that wait to
	// be repeated, Running the attempts in flight.
	Waiting, Backoff, Running int
	// Pending counts attempts not yet reported, Lost those that were dropped.
	Pending int
	Lost    uint64
	// Retries is the retries that may be made now, in PPM of one.
	Retries PPM
	// Counters over the boot.
	Admitted, Refused, Retried, Degraded, Ruled, Leaked uint64

	Channels []ChannelView
	Pools    []PoolView
	Queues   []QueueView
}

// ChannelView is how one channel stands at the gate.
type ChannelView struct {
	Channel string
	Mode    Mode
	Breaker BreakerState
	// Share is what may be in flight now; Granted the lease after cuts.
	Share, Granted int64
	InFlight, Held int64
	Accepted       int64
	// Queued is the requests that wait for it, as they are reported.
	Queued int64
	Weight PPM
	Epoch  uint64
	// Wait is how long nothing may start, 0 for none.
	Wait Nanos
	// Reason says why, in the controller's words or the gate's.
	Reason      string
	WouldRefuse uint64
	Retries     uint64
	Attempts    [NumClasses]uint64
}

// PoolView is how one budget stands at the gate. Left is what may still be
// started, negative where there is no limit.
type PoolView struct {
	Pool         string
	UsedRequests int64
	UsedTokens   Tokens
	LeftRequests int64
	LeftTokens   Tokens
}

// QueueView is how many requests of one route wait.
type QueueView struct {
	Route   string
	Waiting [NumPriorities]int
	// Pace is the estimated time per position, 0 when unknown.
	Pace Nanos
	// Degraded counts attempts admitted below the first tier, by tier.
	Degraded []uint64
}
