// Package probe finds out what a provider lets through: how many calls at
// once, how many requests and how many tokens a minute.
//
// It asks politely. Calls rise in steps, each kind of limit is pressed only
// until it refuses, every wait that an answer names is kept, and Bounds say how
// many calls, tokens, refusals and how much time the whole may cost. What a
// header tells is not tried out.
//
// Plan is the pure part: it says when the next call is due and hears how calls
// ended. It knows no clock and no network; instants are times since the start.
// Run gives it both, with a goroutine for each call in flight; all have ended
// when Run returns. Neither the key nor an answer's text is kept.
//
// A limit is given as an interval: Low was let through, High was refused. A
// limit that did not refuse within the bounds has no High, and a reason why.
// What is proposed is three quarters of Low. Whatever else draws on the same
// account meanwhile lowers what is found.
package probe
