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
	// until is when the leases that were sent have all ended; quoted is the
	// report that the last quotes, 0 before the first, and lasts how long it
	// holds from there.
	until  Nanos
	quoted uint64
	lasts  Nanos
	// told is when its lease was last sent.
	told Nanos
	// left is set by its last report, away while its lease has ended,
	// forgotten once its claims were dropped. A forgotten agent's entry is
	// kept for its report numbers, so that nothing counts twice.
	left, away, forgotten bool
	// ends is when the calls that an away agent had in flight must have
	// ended, 0 once they have.
	ends Nanos
	// returned is set when the boot left or was forgotten and spoke again:
	// what it used meanwhile is not known.
	returned       bool
	lost, repeated uint64
	// warned is when a duplicate id was last shown.
	warned Nanos

	mark dirtyMark // not state
	near int       // place of its lease in the channel looked at last; not state
}

// here reports whether the agent holds leases that it hears about.
func (m *member) here() bool { return !m.left && !m.away && !m.forgotten }

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

// MaxAgents bounds the agents of one fleet. Where there are more, those that
// left or were forgotten make room.
const MaxAgents = 65_536

// maxAgentID bounds an agent's id, in bytes.
const maxAgentID = 64

// keepForgotten is how long the report numbers of a forgotten agent are kept:
// longer than any agent keeps reports to send again.
const keepForgotten = 24 * Hour

// forget drops an agent's claims after long silence or by order.
func (f *Fleet) forget(m *member) {
	m.forgotten, m.away, m.ends = true, false, 0
	f.dirty.member(m)
	f.release(m.agent)
	for _, p := range f.pools {
		p.advance(f.now)
		p.drop(m.agent)
		f.wantPool(p)
	}
}

// evict makes room by dropping the entry of whoever is gone longest, and
// reports whether there was one.
func (f *Fleet) evict() bool {
	var oldest *member
	for _, m := range f.members {
		if (m.left || m.forgotten) && (oldest == nil || m.heard < oldest.heard) {
			oldest = m
		}
	}
	if oldest == nil {
		return false
	}
	f.dropMember(oldest)
	return true
}

func (c *coder) member(m *member) {
	for _, n := range []*uint64{&m.boot, &m.next, &m.base, &m.folded, &m.quoted, &m.lost, &m.repeated} {
		num(c, n)
	}
	c.str(&m.version)
	num(c, &m.mode)
	for _, at := range []*Nanos{&m.heard, &m.until, &m.lasts, &m.told, &m.ends, &m.warned} {
		num(c, at)
	}
	for _, v := range []*bool{&m.left, &m.away, &m.forgotten, &m.returned} {
		c.flag(v)
	}
}
