// Package demo shows on one machine, without set-up, what Weir is for: the
// 2064 incident played twice against an emulated provider, first as it was,
// then with Weir between the applications and the provider.
//
// Both phases run the same script in half of the demo's time, with the same
// seed and so the same requests, and the same applications with their own
// habits; only the URL they call differs. In the second phase that is a
// sidecar each: four agents with listeners of their own, an embedded NATS
// server on loopback TCP, a controller with its store. Service times, refusal
// delays, timeouts, pools and parameters are the real ones; only the script's
// instants are closer together. Every figure is counted during the run: at
// the provider by its own books, at the applications by theirs, from the fifth
// second of each phase on.
//
// Run starts all of it on free ports of loopback, stops all of it before it
// returns, and leaves report.html, summary.svg, summary.json and the second
// phase's event journal in a folder.
package demo
