// Package incident describes simulated worlds: a fleet, what it wants to send,
// the providers it sends to, and what goes wrong with them and when.
//
// An incident is read from a strict YAML file. Unknown keys, numbers out of
// range, names used twice and names that point nowhere are all reported at
// once, each with file, line and column. What is parsed is plain data with
// integers only (nanoseconds, tokens, parts per million), so that whatever is
// computed from it gives the same result on every machine. The package reads
// no clock and opens no file but those built into the binary.
package incident
