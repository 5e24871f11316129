// Package peer holds what people use today to keep clients within a
// provider's limits, each from its published rule with its default constants.
// The documentation of each type states the rule and its source.
//
// A limiter here is one process's view of one channel: it sees what that
// process sent and what came back, and never another process. It is a pure
// state machine on integers: time is an argument in nanoseconds, dice are
// keyed draws, and the same calls in the same order always give the same
// answers. Instants must not go backwards.
//
// What a refusal is, a peer learns from the class of the answer, so that all
// of them understand a refusal in an HTTP 200 as well as Weir does. Where a
// published rule speaks of throttling errors only, random 5xx are none.
package peer
