// Package workload turns the workloads of an incident into requests: which
// agent's application wants what, when.
//
// A Generator is pure: it takes instants in nanoseconds since the start of the
// incident and gives requests in order of time. A request's number, size and
// luck are keyed by its workload, agent and place in the stream, so that every
// policy meets the same demand. Who runs a workload keeps the application's
// backlog: Client.Pool says how many calls of an agent may be outstanding, and
// what is wanted beyond that waits there.
package workload
