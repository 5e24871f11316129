// Package story tells what the log of a fleet brought about: each decision
// with the record that caused it, and why a channel's window, weight, breaker
// and budgets stand where they stand.
//
// It folds records in their order, as a controller does, and decides nothing
// itself: numbers and reasons are those of the fold's decisions. What it adds
// is derived from the same records: what a report held that caused a decision,
// what came of the calls since, and the times in which calls of a route went to
// a lesser tier. It reads no file and no clock, owns no goroutine, and keeps at
// most as many events as it is told to.
package story
