package controller

import (
	"log/slog"
	"time"

	"weir/controller/store"
	"weir/events"
)

// fault is what was found wrong with the log.
type fault string

// The faults, as weir_log_faults_total names them.
const (
	faultNone fault = ""
	// faultShortened: the log ends before what was folded.
	faultShortened fault = "shortened"
	// faultRewound: the log holds another entry where the fold stands.
	faultRewound fault = "rewound"
	// faultReplaced: the same, and it was made at another time.
	faultReplaced fault = "replaced"
	// faultHoled: entries are missing.
	faultHoled fault = "holed"
	// faultUnanchored: the log begins right after the fold, so that nothing
	// in it says what it goes on from.
	faultUnanchored fault = "unanchored"
)

// allFaults lists every fault.
func allFaults() []fault {
	return []fault{faultShortened, faultRewound, faultReplaced, faultHoled, faultUnanchored}
}

// sight is what a look at the log saw.
type sight struct {
	info events.Info
	// entry is the log's entry at the fold's position, if found.
	entry events.Entry
	found bool
}

// judge compares a sight of the log with what was folded.
func judge(p store.Position, s sight) fault {
	switch {
	case p.Seq == 0:
		return faultNone
	case s.info.Last < p.Seq:
		return faultShortened
	case s.found && s.entry.Time == p.Time && store.Checksum(s.entry.Data) == p.CRC:
		return faultNone // wherever this log comes from, it has the same past
	case s.found && s.info.Created != p.Created:
		return faultReplaced
	case s.found:
		return faultRewound
	case s.info.First <= p.Seq:
		return faultHoled
	case s.info.First == p.Seq+1:
		return faultUnanchored
	}
	return faultNone // it begins later: the first entry shows the hole
}

// Fault is one thing that was found wrong with the log, for people.
type Fault struct {
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	// Seq is where the fold stood.
	Seq  uint64 `json:"seq"`
	Text string `json:"text"`
}

// faults are the last faults found by this process.
type faults []Fault

// maxFaults bounds what is shown; every one is counted and logged.
const maxFaults = 32

// add counts, logs and keeps a fault, and makes the log owe a rebase.
func (f *faults) add(l *Loop, kind fault, text string) {
	l.meters.faults[kind].Inc()
	l.log.Error("the log lost what was folded or missed", slog.String("kind", string(kind)),
		slog.Uint64("seq", l.position.Seq), slog.String("text", text))
	if len(*f) == maxFaults {
		*f = append((*f)[:0], (*f)[1:]...)
	}
	*f = append(*f, Fault{Kind: string(kind), At: time.Now(), Seq: l.position.Seq, Text: text})
	l.owe("%s: %s", kind, text)
}
