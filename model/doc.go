// Package model is the pure core of Weir: the facts that can happen to a
// fleet, the state they fold into, and the laws that decide.
//
// It imports only the standard library and has no clock, goroutine, lock, I/O
// or global dice: now is an argument in integer nanoseconds, and whatever is
// stored, compared or sent is an integer. The controller, the agents and the
// simulator run the same code.
//
// Fleet is the controller's half, a fold of the log; Gate the agent's, which
// decides about calls. The fold never fails on a fact that is already in the
// log; refusals are values, impossible states panic with "model: BUG:". Both
// belong to one goroutine at a time.
//
// # Classes
//
// What became of an attempt is heard by exactly one of the loops that decide
// how much a channel gets; the weight only says where to go first:
//
//	ok               the window grows if it is in use, the breaker counts it
//	rate_limited     requests or tokens: the budget, which holds and learns;
//	                 concurrency: the window, at its floor the breaker;
//	                 nothing said: the budget if a wait is named, else whom the
//	                 evidence points to
//	overloaded       the window, at its floor the breaker; the weight once per
//	                 epoch; a hold if a wait is named; where no status says
//	                 so, the budget if the evidence points to it
//	                 (a server error that names no cause: nobody while such
//	                 are under a percent of what was sent)
//	transport        the breaker by its ratio; the weight once per 10 s
//	quota_exhausted  the breaker opens at once until the reset
//	auth             the breaker opens at once until an operator acts
//	invalid          nobody: it is the caller's
//	canceled         nobody; both free a probe
//
// The token budgets settle every attempt by what it used: by what it reserved
// where that is not known or a refusal may be charged, by nothing where the
// provider did no work.
package model
