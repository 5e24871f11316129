//go:build !invariants

package model

// invariants is set when Apply checks itself after every record.
const invariants = false
