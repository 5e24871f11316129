// Package simreport shows simulations to people: a table for a terminal, and
// one HTML page with what several seeds of several incidents and policies came
// to, and with two policies of one incident and seed side by side over time.
//
// A Study is plain data. What one seed gave is never shown alone where there
// are more: every figure has its median and range over the seeds, collapse and
// recovery are shares with the interval that so few seeds leave.
//
// The page asks nobody for anything: its script, style and data are in it, and
// its content policy forbids every request. The same study gives the same
// bytes. Text is escaped wherever it comes from. The package starts no
// goroutine and keeps nothing.
package simreport
