// Package model is the pure core of Weir: the facts that can happen to a
// fleet, the state they fold into, and the laws that decide.
//
// It imports only the standard library and has no clock, goroutine, lock,
// I/O or global dice: now is an argument in integer nanoseconds, and whatever
// is stored, compared or sent is an integer. The controller, the agents and
// the simulator run the same code.
//
// The fold never fails on a fact that is already in the log; refusals are
// values, impossible states panic with "model: BUG:".
package model
