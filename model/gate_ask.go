package model

// Ask is one request of a client.
type Ask struct {
	// Request is the id that all attempts of the request share.
	Request uint64
	// Route is the model name asked for, Tenant who asks.
	Route, Tenant string
	Priority      Priority
	// Core work waits RouteConfig.DegradeCore before it goes to the next
	// tier, other work DegradeOther.
	Core bool
	// Capability is what the request needs of a tier, empty for nothing
	// special. A tier that names another capability is not used.
	Capability string
	// Tokens is the estimate of input and output together.
	Tokens Tokens
	// Deadline is the instant by which the request must have ended; 0 means
	// RetryConfig.Total from now, or ten minutes where that is not set.
	Deadline Nanos
}

// Ticket names a request that waits. The zero Ticket names none.
type Ticket uint64

// Place is a small number that no other request of the gate has while t is
// waiting: for whoever keeps a table of those that wait.
func (t Ticket) Place() int { return int(t & 0xffff_ffff) }

// ReplyKind says what an Ask came to.
type ReplyKind uint8

// The kinds of replies.
const (
	ReplyAdmitted ReplyKind = 1 // send it now; Permit says where
	ReplyQueued   ReplyKind = 2 // it waits; Poll will decide
	ReplyRefused  ReplyKind = 3 // it ends here; Class, Wait and Reason say why
	ReplyRule     ReplyKind = 4 // it ends here with the fixed answer Answer
)

// String returns the kind's name.
func (k ReplyKind) String() string {
	switch k {
	case ReplyAdmitted:
		return "admitted"
	case ReplyQueued:
		return "queued"
	case ReplyRefused:
		return "refused"
	case ReplyRule:
		return "rule"
	}
	return "unknown"
}

// Reply is the gate's decision on one request. Each request gets exactly one
// that is not ReplyQueued, or is left, and after an admission one Next that is
// not NextRetry.
type Reply struct {
	Kind    ReplyKind
	Request uint64
	// Ticket is the request's place in the queue: the one it got (queued), or
	// the one this reply settles (from Poll). 0 when it never waited.
	Ticket Ticket
	// Permit is the admitted attempt.
	Permit Permit
	// Class is the kind of trouble that refused or delays it.
	Class Class
	// Wait is how long it is estimated to wait, or after which another try
	// makes sense; 0 when unknown.
	Wait Nanos
	// Position is the place in the queue, from 1: refused, what it would
	// have been.
	Position int
	// Reason says why in words, Channel which channel is in the way.
	Reason, Channel string
	// Tier is the tier that admitted it or whose fixed answer Answer is.
	Tier   uint8
	Answer string
}

// Permit allows one attempt on one channel. It must be settled by Done, once.
type Permit struct {
	// ID names it; never 0.
	ID uint64
	// Channel is where to send it, Tier the route's tier it belongs to.
	Channel string
	Tier    uint8
	// Try is the attempt's number within the request, from 1.
	Try uint8
	// Epoch is the channel's epoch, Probe the probe lease it uses, 0 for none.
	Epoch, Probe uint64
	// Degraded is set when the tier is not the first that fits the request.
	Degraded bool
	// Observed is set when only observe mode let it pass.
	Observed bool
	// Queued is how long the request waited since it came or since its last
	// attempt ended.
	Queued Nanos
	// Deadline is the instant by which the attempt must have ended.
	Deadline Nanos
}

// Outcome is what became of an attempt.
type Outcome struct {
	Class  Class
	Code   string
	Status uint16
	// Dimension is what the limit that was met counts, DimNone if not stated.
	Dimension Dimension
	// Scope says who else a refusal concerns.
	Scope Scope
	// In, Cached (part of In) and Out are the tokens used; UsageKnown is set
	// when the provider said so. Without it they are an estimate, 0 for none.
	In, Cached, Out Tokens
	UsageKnown      bool
	// RetryAfter is the provider's wait; 0 or less when it gave none.
	RetryAfter Nanos
	// Hints are limits the answer told. The gate keeps the slice.
	Hints []LimitHint
	// Rule is the classifier's rule.
	Rule string
	// Exposed is set when bytes of the answer reached the client: nothing is
	// repeated then.
	Exposed bool
	// Unsent is set when the attempt was never sent: it is undone, and is no
	// attempt. Class is then ignored and the request ends.
	Unsent bool
}

// NextKind says how a request goes on after an attempt.
type NextKind uint8

// The kinds of what comes next.
const (
	NextFinished NextKind = 1 // the outcome is the request's
	NextRetry    NextKind = 2 // it is tried again: Poll will decide on Ticket
	NextGiveUp   NextKind = 3 // the outcome is the request's, though bad
	NextRule     NextKind = 4 // the fixed answer Answer is the request's
)

// String returns the kind's name.
func (k NextKind) String() string {
	switch k {
	case NextFinished:
		return "finished"
	case NextRetry:
		return "retry"
	case NextGiveUp:
		return "give up"
	case NextRule:
		return "rule"
	}
	return "unknown"
}

// Next is what comes after an attempt.
type Next struct {
	Kind NextKind
	// Ticket is the waiting retry, After how long it waits at least;
	// Elsewhere is set when it avoids the channel that failed.
	Ticket    Ticket
	After     Nanos
	Elsewhere bool
	// Class is the outcome's. Wait is after which another try of the client
	// makes sense, 0 when unknown.
	Class Class
	Wait  Nanos
	// Reason says why it is not, or is, tried again.
	Reason string
	Tier   uint8
	Answer string
}
