// Package rig starts an incident's live parts on one machine: its emulated
// providers, and Weir as it ships, an embedded NATS server on loopback TCP, a
// controller with its store, and agents with a sidecar each.
//
// Everything listens on free ports of loopback. Who starts a part closes it;
// Close ends every goroutine that the part started and waits for it.
package rig
