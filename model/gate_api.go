package model

// Gate decides for one agent process. See gate.go.
type Gate struct{ cfg GateConfig }

// NewGate returns a gate that has heard nothing yet.
func NewGate(c GateConfig) *Gate { return &Gate{cfg: c} }

// SetConfig takes the fleet's configuration of record seq; older ones are
// dropped. The agent's own file comes as seq 0. The gate keeps c.
func (g *Gate) SetConfig(now Nanos, seq uint64, c *Config) {}

// SetTerm takes the announcement of a leader.
func (g *Gate) SetTerm(now Nanos, n *TermNotice) {}

// SetLimits takes a broadcast. The gate does not keep l.
func (g *Gate) SetLimits(now Nanos, l *LimitSet) {}

// SetLease takes a lease. The gate does not keep l.
func (g *Gate) SetLease(now Nanos, l *Lease) {}

// SetMode switches the agent's own mode.
func (g *Gate) SetMode(now Nanos, m Mode) {}

// Ask decides on a request.
func (g *Gate) Ask(now Nanos, a Ask) Reply { return Reply{} }

// Leave takes a waiting request back: the client gave up. Nothing happens
// when the ticket was settled.
func (g *Gate) Leave(now Nanos, t Ticket) {}

// Accepted notes that the first byte of the answer was seen.
func (g *Gate) Accepted(now Nanos, permit uint64) {}

// FirstToken notes the first token of a streamed answer.
func (g *Gate) FirstToken(now Nanos, permit uint64) {}

// Done settles an attempt. A permit that was settled before changes nothing.
func (g *Gate) Done(now Nanos, permit uint64, o Outcome) Next { return Next{} }

// Poll appends what time and news decided for those that wait to out. Call it
// after every Done, Leave and Set, and at NextWake.
func (g *Gate) Poll(now Nanos, out []Reply) []Reply { return out }

// NextWake returns when Poll should be called if nothing else happens;
// an instant in the past means now.
func (g *Gate) NextWake() Nanos { return 0 }

// ReportDue returns when Report should be called.
func (g *Gate) ReportDue() Nanos { return 0 }

// Report builds the next report into r, whose memory is used again. It gets
// the next number; the shell keeps it until it is acknowledged.
func (g *Gate) Report(now Nanos, r *Attempts) {}

// Summarize turns reports that were built and never sent, in order and
// without a gap, into one Summary that takes their numbers.
func (g *Gate) Summarize(reports []*Attempts, s *Summary) {}

// Stop refuses what waits; the report that carries the last attempt says that
// the agent leaves.
func (g *Gate) Stop(now Nanos) {}

// View copies how the gate stands into v, whose memory is used again.
func (g *Gate) View(now Nanos, v *GateView) {}
