// Package load is the applications of an incident as live HTTP traffic: who
// wants what and when as the file says, each agent's application with its own
// pool, timeout, retry habit and deadline, and nothing cleverer than that.
//
// Beside every agent index runs one application per workload. A request that
// finds no room in the pool waits in the application, first come first
// served. A try that fails frees its place and follows the habit: a requeue
// waits and then queues like any other. A try is good when it has a 2xx
// status, no error envelope in it and a complete answer; a request is
// completed when a try was good before its deadline.
//
// Prompts are a few words; what a call stands for travels in the emulator's
// size headers and in max_tokens. Real providers ignore the headers.
//
// One goroutine owns all state; each call in flight has one more. Memory is
// bounded: by calls in flight, by requests held (the rest is counted as
// dropped), and by histograms and a timeline of fixed size. When the run ends,
// calls in flight are given up and count as unfinished.
package load
