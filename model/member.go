package model

// member is what the fold knows of one agent.
type member struct {
	agent string
	boot  uint64
	// next is the report number expected, base the attempts settled before it.
	next, base uint64
	version    string
	mode       Mode
	// heard is when its newest report was folded, folded that report's number.
	heard  Nanos
	folded uint64
	// until is when the lease that was last sent ends: LeaseDuration after
	// the report it quotes was folded. told is when it was sent.
	until, told Nanos
	// left is set by its last report, away while its lease has ended.
	left, away bool
	// ended is set once the calls that an away agent had in flight must have
	// ended.
	ended    bool
	lost     uint64
	repeated uint64
}

// Counters are what the fold counts besides channels. They only grow.
type Counters struct {
	// Records is every record folded.
	Records uint64
	// Attempts is every attempt folded, summaries included.
	Attempts uint64
	// Repeated is reports that came again and were ignored.
	Repeated uint64
	// Lost is attempts that never came, by the gap in an agent's numbers.
	Lost uint64
	// Unreadable is records without a readable fact, Unknown those of a kind
	// this version does not know.
	Unreadable, Unknown uint64
	// UnknownChannel is what was said of channels that are not configured.
	UnknownChannel uint64
	// DuplicateAgents is reports of an older boot of an agent.
	DuplicateAgents uint64
	// TooManyAgents is reports refused because MaxAgents are known.
	TooManyAgents uint64
	// StaleTerm is records of a leader that was replaced.
	StaleTerm uint64
	// StaleRefusals is refusals that cut nothing, being news of before a cut.
	StaleRefusals uint64
	// Forgotten is agents whose claims were dropped after long silence.
	Forgotten uint64
	// Rebases is re-anchorings.
	Rebases uint64
	// BadRebases is re-anchorings whose snapshot could not be used.
	BadRebases uint64
}

// MaxAgents bounds the agents of one fleet.
const MaxAgents = 65_536
