// Package agent puts one process's calls under the fleet's control: it admits
// them, judges their answers, reports every attempt, and goes on alone when
// nobody answers.
//
// A Client wraps model.Gate, which decides, with one lock, a clock and a wire.
// Admitting a call takes the lock once and never waits for the network: what
// the controller sends arrives beside the calls, what is reported leaves
// beside them. Without a controller or a bus nothing changes but the share.
//
// Three goroutines belong to a Client until Close: one turns the gate when
// time passes and builds its reports, one sends them, one listens. Calls run
// on their callers' goroutines.
//
// Transport does whole HTTP calls in the shapes of the OpenAI and Anthropic
// APIs; package agent/proxy serves it to other processes. No key, prompt or
// answer leaves the call it belongs to.
package agent
