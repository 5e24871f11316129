// Package calibrate estimates a world from what was recorded of one: a journal
// or a request log becomes an incident that the simulator can live through.
//
// A log's outcomes hold under the behaviour that made it and under no other, so
// only what does not depend on that behaviour is taken as it is: when requests
// were wanted and how large they were. Limits and latency are estimated as laws
// of the provider, from which a simulation derives outcomes anew. A call that
// was accepted bounds a limit from below at that instant, one that was refused
// from above; what nothing bounds is said to be open. Estimates are intervals.
//
// Before a world is used for a what-if, Check lives it through under the policy
// that made the log and compares what comes out with what was recorded.
//
// Times are nanoseconds; no clock, no files, no goroutine. Memory is bounded by
// MaxCalls; of a longer log the beginning is taken, and that is said.
package calibrate
