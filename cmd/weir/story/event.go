package story

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"weir/model"
)

// Part is what of a channel an event concerns.
type Part string

// The parts.
const (
	PartWindow  Part = "window"
	PartWeight  Part = "weight"
	PartBreaker Part = "breaker"
	PartWait    Part = "wait"   // holds and pauses: nothing starts
	PartBudget  Part = "budget" // limits a minute
	PartMode    Part = "mode"
	PartRoute   Part = "route" // calls that went to a lesser tier
	PartFleet   Part = "fleet" // what concerns no single channel
)

// Instant is a record's time in Unix nanoseconds, in JSON RFC 3339.
type Instant model.Nanos

// String formats the instant in UTC with milliseconds.
func (i Instant) String() string {
	return time.Unix(0, int64(i)).UTC().Format("2006-01-02T15:04:05.000Z")
}

// MarshalJSON implements json.Marshaler.
func (i Instant) MarshalJSON() ([]byte, error) { return json.Marshal(i.String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (i *Instant) UnmarshalJSON(data []byte) error {
	var t time.Time
	if err := json.Unmarshal(data, &t); err != nil {
		return fmt.Errorf("read instant: %w", err)
	}
	*i = Instant(t.UnixNano())
	return nil
}

// Event is one thing that happened, and its cause.
type Event struct {
	// Seq is the record that caused it, Time that record's.
	Seq     uint64  `json:"seq"`
	Time    Instant `json:"time"`
	Channel string  `json:"channel,omitempty"`
	Agent   string  `json:"agent,omitempty"`
	// Rule is the law that decided, or route.degraded.
	Rule  string `json:"rule"`
	Parts []Part `json:"parts"`
	// Before and After are milli-slots for a window, ppm for a weight.
	Before int64  `json:"before"`
	After  int64  `json:"after"`
	Epoch  uint64 `json:"epoch"`
	Reason string `json:"reason"`
	// Cause says what the record was and, of a report, what it held for the
	// channel.
	Cause string `json:"cause"`
	// Text is all of it in one sentence.
	Text string `json:"text"`
}

// RuleDegraded marks an event that no law decided: calls of a route went to a
// lesser tier.
const RuleDegraded = "route.degraded"

// parts returns what a decision concerns; fact is the record's.
func parts(d *model.Decision, fact model.Fact) []Part {
	switch d.Rule {
	case model.RuleWindowCut, model.RuleWindowStale, model.RuleLatencyCut, model.RuleLatencyRebase, model.RuleLatencyRaise:
		return []Part{PartWindow}
	case model.RuleWeight:
		return []Part{PartWeight}
	case model.RuleBreakerOpen, model.RuleBreakerClose:
		return []Part{PartBreaker, PartWindow} // both set the window too
	case model.RuleBreakerHalf, model.RuleProbe:
		return []Part{PartBreaker}
	case model.RuleHold, model.RuleDay:
		return []Part{PartWait, PartBudget}
	case model.RuleCommand:
		if c, ok := fact.(*model.Command); ok {
			return commandParts(c.Command, d)
		}
	case model.RuleMember, model.RuleConfig, model.RuleParams, model.RuleTerm, model.RuleRebase, model.RuleTenant:
	}
	return []Part{PartFleet}
}

func commandParts(k model.CommandKind, d *model.Decision) []Part {
	if d.Channel == "" && k != model.CommandSetMode {
		return []Part{PartFleet}
	}
	switch k {
	case model.CommandPause, model.CommandRelease:
		return []Part{PartWait}
	case model.CommandResume:
		if strings.Contains(d.Reason, "ramps up") {
			return []Part{PartWait, PartBreaker, PartWindow}
		}
		return []Part{PartWait}
	case model.CommandForceBreaker:
		return []Part{PartBreaker, PartWindow}
	case model.CommandSetWeight:
		return []Part{PartWeight}
	case model.CommandSetLimit:
		return []Part{PartWindow}
	case model.CommandSetMode:
		if d.Channel == "" {
			return []Part{PartMode, PartFleet}
		}
		return []Part{PartMode}
	case model.CommandForget:
	}
	return []Part{PartFleet}
}

// sentence says a decision with its numbers.
func sentence(d *model.Decision) string {
	moved := func(what, from, to string) string {
		return fmt.Sprintf("%s %s -> %s: %s", what, from, to, d.Reason)
	}
	switch d.Rule {
	case model.RuleWindowCut:
		return moved("window cut", Slots(d.Before), Slots(d.After))
	case model.RuleLatencyCut:
		return moved("window cut for latency", Slots(d.Before), Slots(d.After))
	case model.RuleLatencyRaise:
		return moved("window raised to test its latency", Slots(d.Before), Slots(d.After))
	case model.RuleLatencyRebase:
		return "latency's baseline taken anew: " + d.Reason
	case model.RuleWindowStale:
		return "refusal ignored: " + d.Reason
	case model.RuleWeight:
		return moved("weight lowered", Share(d.Before), Share(d.After))
	case model.RuleBreakerOpen:
		return fmt.Sprintf("breaker opened, window %s -> %s: %s", Slots(d.Before), Slots(d.After), d.Reason)
	case model.RuleBreakerHalf:
		return "breaker half open: " + d.Reason
	case model.RuleBreakerClose:
		return "breaker closed: " + d.Reason
	case model.RuleProbe:
		return fmt.Sprintf("probe leased to %s, which %s", d.Agent, d.Reason)
	case model.RuleHold:
		return "held: " + d.Reason
	case model.RuleDay:
		return "the day's limit: " + d.Reason
	case model.RuleTenant:
		return "a tenant's day: " + d.Reason
	case model.RuleMember:
		return fmt.Sprintf("agent %s: %s", d.Agent, d.Reason)
	case model.RuleCommand:
		return "an operator's order: " + d.Reason
	case model.RuleConfig, model.RuleParams, model.RuleTerm, model.RuleRebase:
	}
	return string(d.Rule) + ": " + d.Reason
}

// Slots formats milli-slots.
func Slots(milli int64) string { return fmt.Sprintf("%.1f", float64(milli)/1000) }

// Share formats parts per million as a number from 0 to 1.
func Share(ppm int64) string { return fmt.Sprintf("%.2f", float64(ppm)/float64(model.One)) }
