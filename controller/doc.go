// Package controller is the live shell around model.Fleet: it reads the log,
// folds it, stores the state and tells the fleet what the fold decided.
//
// One goroutine, Loop.Run's own, owns the fold. Others only wait for the log,
// the disk and the bus on its behalf, one of each at a time, and hand results
// back; none of them can block it. Every entry of the log is folded once, in
// order. What came of it is told without waiting for the disk, because it is a
// function of the acknowledged log: a crash folds the same entries again. Parts
// of the state that changed are committed together with the position in the
// log, a few times in a tenth of a second, and synced a few times a second.
//
// A Loop leads: once it has folded what the log held at its start it appends
// the next term and acts when it reads that back. Only then does it tell the
// fleet anything, append ticks, or mend the log. A Loop that reads of another
// leader's higher term folds on and is silent.
//
// The log can lie. Before the fold and every few seconds after, the log's
// entry at the fold's position is compared with what was folded, and each
// entry's number with the one before. A log that came back shorter, with
// other entries or with holes is counted (weir_log_faults_total), logged,
// and anchored anew by a rebase with the whole state. The committed state is
// never given up for it.
//
// Policy of failure: the loop stops when it cannot commit, since a state that
// cannot be stored must not go on; the agents then live on their safe shares.
// An entry that cannot be read is counted and skipped. A log or a bus that
// cannot be reached is asked again, for ever.
package controller
