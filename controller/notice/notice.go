// Package notice tells people by webhook what they would otherwise have to look
// for: a channel that stopped, a key that is refused, a day's limit that is spent,
// a route that is degraded, parameters that were taken back, agents that are not
// heard, a log that lost something.
//
// A Watch is told each second what is wrong and says what is news: each trouble
// once when it begins and once when it is over, seldom again however often it
// comes and goes. A Hook carries news to one address, one at a time, from a
// bounded queue, with a few tries. A Teller joins both to a controller; only one
// that leads tells. None of them decides anything or changes the fold. Addresses
// are secrets: they are in no log line, error or metric.
package notice

import "time"

// State is whether a trouble begins or ends.
type State string

// The states.
const (
	Firing   State = "firing"
	Resolved State = "resolved"
)

// Kind is what is wrong.
type Kind string

// The kinds, as weir.yaml names them.
const (
	KindBreaker    Kind = "breaker"    // a channel takes no calls
	KindCredential Kind = "credential" // a provider refuses a channel's key
	KindQuota      Kind = "quota"      // a day's limit is spent
	KindRoute      Kind = "route"      // a route is served by a lesser tier, or by none
	KindGuard      Kind = "guard"      // a push of parameters was taken back
	KindAgents     Kind = "agents"     // agents are not heard
	KindLog        Kind = "log"        // the event log lost entries
	KindBus        Kind = "bus"        // the fleet cannot be told
	KindMore       Kind = "more"       // there was more news than is sent
)

// Kinds lists those that a hook can be restricted to.
func Kinds() []Kind {
	return []Kind{KindBreaker, KindCredential, KindQuota, KindRoute, KindGuard, KindAgents, KindLog, KindBus}
}

// Condition is one thing that is wrong now.
type Condition struct {
	Kind Kind
	// Subject is the channel, route or day it concerns, empty for the fleet. Kind and
	// Subject together say whether two are the same.
	Subject string
	// Text says it in a sentence, with the reason.
	Text string
}

// Notice is one piece of news.
type Notice struct {
	Fleet   string    `json:"fleet"`
	State   State     `json:"state"`
	Kind    Kind      `json:"kind"`
	Subject string    `json:"subject,omitempty"`
	Text    string    `json:"text"`
	At      time.Time `json:"at"`
	// Since is when the trouble began.
	Since time.Time `json:"since"`
	// Again is how often it came and went since the last notice of it.
	Again int `json:"again,omitempty"`
	// Link is the controller's page, if it has a name.
	Link string `json:"link,omitempty"`
}
