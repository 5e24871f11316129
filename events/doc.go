// Package events is the wire: the binary codec of facts and outputs, the
// subjects they travel on, journal files, and the contract of the log with
// its implementations.
//
// Kinds and fields may be added by newer versions, never redefined: a reader
// keeps, counts and skips a kind it does not know, and every released
// version's bytes stay readable.
package events
