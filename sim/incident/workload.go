package incident

import "time"

// Workload is one stream of requests: when they come, how large they are, and
// what the application does by itself when a call fails.
type Workload struct {
	Name   string
	Route  string // a Route's name
	Tenant string
	// Priority is a name such as "batch"; default PriorityNormal.
	Priority Priority
	Arrivals Arrivals
	// Agents are the agents beside which the application runs; empty means all.
	Agents []int
	// Start and Stop bound the arrivals; Stop is the incident's Duration when
	// the file says nothing.
	Start, Stop  time.Duration
	InputTokens  Size
	OutputTokens Size
	// MaxTokens is the max_tokens a call asks for; 0 means the most the output
	// size can be.
	MaxTokens int64
	// Deadline is how long after it was wanted an answer is still of use; 0
	// means for ever.
	Deadline time.Duration
	Client   Client
}

// Priority names who goes first.
type Priority string

// The priorities, first to last.
const (
	PriorityInteractive Priority = "interactive"
	PriorityNormal      Priority = "normal"
	PriorityBatch       Priority = "batch"
)

// ArrivalKind names a law of arrivals.
type ArrivalKind string

// The laws of arrivals.
const (
	// ArrivePoisson is independent arrivals at Rate over the whole fleet.
	ArrivePoisson ArrivalKind = "poisson"
	// ArriveClosed is Users over the whole fleet who each wait for an answer,
	// think, and ask again.
	ArriveClosed ArrivalKind = "closed"
	// ArriveBatch is, on every agent and every Every, a batch of Size calls in
	// groups of Parallel, the groups Every apart. Batches overlap: a batch of
	// 10 in groups of 5 every 200 ms is 50 calls/s per agent.
	ArriveBatch ArrivalKind = "batch"
	// ArriveTrace is recorded arrivals over the whole fleet.
	ArriveTrace ArrivalKind = "trace"
)

// Arrivals says when requests are wanted.
type Arrivals struct {
	Kind ArrivalKind
	// Rate is requests per second times PPM, for poisson.
	Rate int64
	// Users and Think are for closed; Think is the mean of an exponential time.
	Users int64
	Think time.Duration
	// Walk, if not nil, lets each agent's part of Users change; for closed.
	Walk *Walk
	// Steps makes what a user asks for a task of so many calls, each wanted
	// when the one before was answered; for closed, 1 by default. A task with a
	// call that failed for good begins again, at most Restarts times.
	Steps, Restarts int64
	// Size, Parallel and Every are for batch. 1 <= Parallel <= Size.
	Size, Parallel int64
	Every          time.Duration
	// File and Scale (ppm, default PPM) are for trace. Who runs the incident
	// reads the file; a scale thins the arrivals out or adds clients to them,
	// and never divides the gaps.
	File  string
	Scale int64
}

// MaxWalk bounds the agents whose demand walks and the users each of them has.
const MaxWalk = 1<<13 - 1

// Walk is a random walk of how many users an agent has. At first all have as
// many; after each Every the number is multiplied by 1+Swing*u with u uniform
// in [-1, 1], which leaves its mean where it is.
type Walk struct {
	Swing int64 // ppm, at most PPM
	Every time.Duration
	// Jumps are single steps of one agent, in order of At.
	Jumps []Jump
}

// Jump adds By users at an agent.
type Jump struct {
	At    time.Duration
	Agent int
	By    int64
}

// SizeKind names a law of sizes.
type SizeKind string

// The laws of sizes.
const (
	SizeFixed     SizeKind = "fixed"
	SizeUniform   SizeKind = "uniform"
	SizeChoice    SizeKind = "choice"
	SizeLognormal SizeKind = "lognormal"
	SizeTrace     SizeKind = "trace" // the recorded size; only with trace arrivals
)

// Size is a law for a number of tokens.
type Size struct {
	Kind     SizeKind
	Value    int64   // fixed
	Min, Max int64   // uniform, both included
	Values   []int64 // choice
	Weights  []int64 // choice, ppm, one for each value
	Mean     int64   // lognormal
	CV       int64   // lognormal, ppm
}

// Client is what the application did before there was Weir.
type Client struct {
	// Timeout is how long it waits for one answer; 0 means for ever.
	Timeout time.Duration
	// Pool is how many calls one agent has outstanding; more wait in the
	// application. A call that failed frees its place at once, whenever its
	// request comes back. Unlimited when the file says nothing.
	Pool  int64
	Retry Retry
	// Stream asks for streamed answers: only then does an agent see the first
	// token of a call before its end.
	Stream bool
}

// RetryKind names a retry habit.
type RetryKind string

// The retry habits.
const (
	RetryNone RetryKind = "none"
	// RetryRequeue puts a failed request back at the end of the application's
	// queue after After, until its deadline.
	RetryRequeue RetryKind = "requeue"
	// RetryBackoff waits After, then Multiplier times longer each time up to
	// Max, with +-Jitter, for Attempts tries in all.
	RetryBackoff RetryKind = "backoff"
)

// Retry is a retry habit.
type Retry struct {
	Kind       RetryKind
	After      time.Duration
	Multiplier int64 // ppm, default 2 * PPM
	Max        time.Duration
	Jitter     int64 // ppm
	Attempts   int64 // tries in all, default 3
}
