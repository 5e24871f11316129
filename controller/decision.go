package controller

import (
	"encoding/json"
	"fmt"

	"weir/controller/store"
	"weir/model"
)

// Decision is one decision as it is stored and shown.
type Decision struct {
	// Seq is the record that caused it, At the log time in nanoseconds.
	Seq uint64      `json:"seq"`
	At  model.Nanos `json:"at_ns"`
	// Channel and Agent are whom it concerns.
	Channel string `json:"channel,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Rule    string `json:"rule"`
	// Before and After are the number that changed, if one did.
	Before int64  `json:"before"`
	After  int64  `json:"after"`
	Epoch  uint64 `json:"epoch"`
	Reason string `json:"reason"`
	// Laws and Params identify what decided.
	Laws   uint32 `json:"laws"`
	Params string `json:"params"`
}

// encodeDecisions appends the stored form of decisions to to. Several of one
// record are numbered in their order.
func encodeDecisions(to []store.Decision, ds []model.Decision) []store.Decision {
	for i := range ds {
		d := &ds[i]
		data, err := json.Marshal(Decision{
			Seq: d.Seq, At: d.At, Channel: d.Channel, Agent: d.Agent, Rule: string(d.Rule),
			Before: d.Before, After: d.After, Epoch: d.Epoch, Reason: d.Reason, Laws: d.Laws, Params: d.Params,
		})
		if err != nil {
			panic(fmt.Sprintf("controller: BUG: encode decision: %v", err))
		}
		n := uint32(0)
		if last := len(to) - 1; last >= 0 && to[last].Seq == d.Seq {
			n = to[last].N + 1
		}
		to = append(to, store.Decision{Seq: d.Seq, N: n, Data: data})
	}
	return to
}

// DecisionQuery says which decisions are wanted.
type DecisionQuery struct {
	// From and To bound the record, both included; To 0 means no bound.
	From, To uint64
	// Channel, Agent and Rule restrict, where they are not empty.
	Channel, Agent, Rule string
	// Oldest begins with the oldest instead of the newest.
	Oldest bool
	// Limit is how many at most, up to MaxDecisions; 0 means 100.
	Limit int
}

// MaxDecisions is the most that one query returns.
const MaxDecisions = 1000

// Decisions returns stored decisions. What was decided in the last moments may
// not be among them yet.
func (l *Loop) Decisions(q DecisionQuery) ([]Decision, error) {
	if q.Limit <= 0 {
		q.Limit = 100
	}
	q.Limit = min(q.Limit, MaxDecisions)
	if q.To == 0 {
		q.To = ^uint64(0)
	}
	found := make([]Decision, 0, q.Limit)
	var broken error
	err := l.options.Store.Each(q.From, q.To, !q.Oldest, func(seq uint64, data []byte) bool {
		var d Decision
		if broken = json.Unmarshal(data, &d); broken != nil {
			broken = fmt.Errorf("read decision of record %d: %w", seq, broken)
			return false
		}
		if q.wants(&d) {
			found = append(found, d)
		}
		return len(found) < q.Limit
	})
	if err == nil {
		err = broken
	}
	return found, err
}

func (q *DecisionQuery) wants(d *Decision) bool {
	return (q.Channel == "" || d.Channel == q.Channel) &&
		(q.Agent == "" || d.Agent == q.Agent) &&
		(q.Rule == "" || d.Rule == q.Rule)
}
