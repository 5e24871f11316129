// Package config reads the files people write for Weir: weir.yaml, the clients
// of a sidecar, and parameter sets.
//
// Reading is strict: unknown keys, numbers out of range, names used twice and
// names that point nowhere are all reported at once, each with file, line and
// column. Secrets do not belong in these files and are refused, and a message
// never repeats what may be one: a key is named by an environment variable or
// a file of its own. Defaults stand in one place, newFile.
//
// The package opens no file. It needs a clock only for a daily reset in a time
// zone with summer time, and takes the instant as an argument.
package config
