// Package compare holds the simulator to what really happens: it plays an
// incident live on this machine and simulates the same script with the same
// compression, and puts what came of both side by side.
//
// Live are an emulated provider of each of the incident's on loopback HTTP,
// the applications' load with their own timeouts and habits, and for Weir NATS
// on loopback TCP, a controller with its store on disk and a sidecar for each
// agent. Arrivals, sizes and the luck with service times are the same in
// both; only the machine's own time is not. What cannot be played live, such as
// a bus that loses messages, is refused before anything starts.
//
// Run starts all of it, ends all of it before it returns, and leaves nothing.
package compare
