package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"

	"weir/controller"
	"weir/controller/store"
	"weir/model"
)

// stored is what a controller that does not run has in its store.
type stored struct {
	// seq is the record at which the state stands, digest the state's.
	seq    uint64
	digest [32]byte
	// snapshot is the kept state from which the log, which was trimmed, goes
	// on; nil for a log from its first record.
	snapshot []byte
	// decisions are those that are kept, in order.
	decisions []controller.Decision
}

// loadStored reads the state beside the log, if it is there. first is the
// log's first record.
func (l *openLog) loadStored(dir string, first uint64) (err error) {
	path := filepath.Join(dir, "state")
	if dir == "" || !isDir(path) {
		return nil
	}
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return badInput(hint(err))
	}
	var c closers
	c.add(s.Close)
	defer c.close(&err)
	l.stored, err = readStored(s, first)
	return badInput(err)
}

// readStored returns nil for a store that never held a state.
func readStored(s *store.Store, first uint64) (*stored, error) {
	p, found, err := s.Load()
	if err != nil || !found {
		return nil, err
	}
	var scan error
	fleet, err := model.FleetFromParts(s.Parts(&scan))
	if scan != nil {
		err = scan
	}
	if err != nil {
		return nil, fmt.Errorf("read the stored state at record %d: %w", p.Seq, err)
	}
	r := &stored{seq: p.Seq, digest: fleet.Digest()}
	if first > 1 {
		if r.snapshot, err = snapshotFor(s, first); err != nil {
			return nil, err
		}
	}
	var broken error
	err = s.Each(0, p.Seq, false, func(_ uint64, data []byte) bool {
		var d controller.Decision
		if broken = json.Unmarshal(data, &d); broken != nil {
			return false
		}
		r.decisions = append(r.decisions, d)
		return true
	})
	if err == nil && broken != nil {
		err = fmt.Errorf("read stored decisions: %w", broken)
	}
	return r, err
}

// snapshotFor returns the oldest kept state that a log from the record first
// goes on from, or nil.
func snapshotFor(s *store.Store, first uint64) ([]byte, error) {
	all, err := s.Snapshots()
	if err != nil {
		return nil, err
	}
	for _, seq := range all {
		if seq+1 >= first {
			_, data, _, err := s.Snapshot(seq)
			return data, err
		}
	}
	return nil, nil
}

// comparison compares a fold with what is stored, on the way.
type comparison struct {
	*stored
	begun    bool
	reached  bool   // the fold came by the stored state's record
	same     bool   // and had that state there
	compared int    // decisions that were the same
	fault    string // the first difference
}

// compare begins a comparison; nil without a store.
func (s *stored) compare() *comparison {
	if s == nil {
		return nil
	}
	return &comparison{stored: s}
}

// take compares the state behind a record and the decisions it brought.
func (c *comparison) take(fleet *model.Fleet, decisions []model.Decision) {
	seq := fleet.Seq()
	if seq == c.seq {
		c.reached, c.same = true, fleet.Digest() == c.digest
	}
	if !c.begun {
		c.begin(seq)
	}
	if seq > c.seq || seq < c.from() || c.fault != "" {
		return // not stored any more, or not yet
	}
	for i := range decisions {
		c.decision(&decisions[i])
	}
}

// begin leaves out what was decided before the first record that is folded,
// and the oldest record's, of which a part may not be kept any more.
func (c *comparison) begin(seq uint64) {
	c.begun = true
	if len(c.decisions) == 0 {
		return
	}
	for oldest := c.decisions[0].Seq; len(c.decisions) > 0 && (c.decisions[0].Seq == oldest || c.decisions[0].Seq < seq); {
		c.decisions = c.decisions[1:]
	}
}

// from is the first record whose decisions are compared.
func (c *comparison) from() uint64 {
	if c.compared > 0 {
		return 0
	}
	if len(c.decisions) == 0 {
		return ^uint64(0)
	}
	return c.decisions[0].Seq
}

func (c *comparison) decision(d *model.Decision) {
	got := controller.Decision{
		Seq: d.Seq, At: d.At, Channel: d.Channel, Agent: d.Agent, Rule: string(d.Rule), Before: d.Before, After: d.After,
		Epoch: d.Epoch, Reason: d.Reason, Laws: d.Laws, Params: d.Params,
	}
	if len(c.decisions) == 0 || c.decisions[0] != got {
		c.fault = cmp.Or(c.fault, fmt.Sprintf("a decision of record %d differs from the controller's", d.Seq))
		return
	}
	c.decisions = c.decisions[1:]
	c.compared++
}

// judge puts the outcome into a verdict.
func (c *comparison) judge(v *verdict) {
	if c == nil {
		return
	}
	v.Stored, v.StoredDecisions = c.seq, c.compared
	switch {
	case !c.reached && v.Base == c.seq:
		v.Stored = 0 // the log ends where its snapshot stands
	case !c.reached:
		v.Stored, v.Fault = 0, fmt.Sprintf("the controller's state stands at record %d, which the log does not hold", c.seq)
	case !c.same:
		v.Fault = fmt.Sprintf("the state at record %d differs from the controller's", c.seq)
	case c.fault != "":
		v.Fault = c.fault
	case len(c.decisions) > 0:
		v.Fault = fmt.Sprintf("the controller decided something at record %d and the fold did not", c.decisions[0].Seq)
	}
}
