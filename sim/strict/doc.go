// Package strict reads YAML files that people write, and tells them everything
// that is wrong at once, each fault with its line and column.
//
// A caller asks a mapping for each key it knows; Done reports the keys that
// nobody asked for. Numbers have bounds, names have an alphabet, references are
// checked against the names that exist. What was read well is in the caller's
// variables; Err says whether the file as a whole was good.
//
// The package opens no file and trusts none: size, nesting, lengths and the
// number of faults are bounded, and nothing in a file makes it panic.
package strict
