// Package dialect knows the shapes of the APIs that pass through an agent:
// which path speaks which, where a request names its model and how much
// output it may ask for, how a stream is cut into frames, and how each client
// expects to read an error.
//
// It edits as little as it can: a request's model and its wish for usage are
// replaced in place, everything else stays byte for byte. All input is taken
// for hostile; work is linear in its size and no buffer outgrows MaxFrame.
// Nothing here does I/O, reads a clock or keeps state between requests.
package dialect
