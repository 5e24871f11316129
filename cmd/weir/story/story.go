package story

import (
	"fmt"
	"strings"

	"weir/model"
)

// Options say what a story is of.
type Options struct {
	// Channel restricts it to what concerns one channel; empty is the fleet.
	Channel string
	// Keep is how many events are kept, the newest; at least 1.
	Keep int
	// Members tells of agents that come and go, too.
	Members bool
}

// Story is a fold and what it brought about. It belongs to one goroutine.
type Story struct {
	o     Options
	fleet *model.Fleet
	fx    model.Effects
	time  model.Nanos // of the newest record

	events  []Event // a ring once it is full
	next    int
	omitted uint64

	names   map[string]bool   // of the channels
	last    map[aspect]Event  // the newest event of each part of a channel
	since   map[aspect]*tally // what came of the calls after it
	minutes map[string]*minute
	stretch map[string]*stretch // by route
}

// aspect is one part of one channel.
type aspect struct {
	channel string
	part    Part
}

// New begins a story with the state before its first record; the fleet is the
// story's from then on.
func New(fleet *model.Fleet, o Options) *Story {
	o.Keep = max(o.Keep, 1)
	s := &Story{
		names: map[string]bool{}, o: o, fleet: fleet, time: fleet.LastTime(), last: map[aspect]Event{}, since: map[aspect]*tally{},
		minutes: map[string]*minute{}, stretch: map[string]*stretch{},
	}
	s.name()
	return s
}

// Fleet returns the state behind the newest record.
func (s *Story) Fleet() *model.Fleet { return s.fleet }

// Time returns the newest record's time, in Unix nanoseconds.
func (s *Story) Time() Instant { return Instant(s.time) }

// Omitted returns how many events there were beyond those kept.
func (s *Story) Omitted() uint64 { return s.omitted }

// Events returns the events that are kept, oldest first.
func (s *Story) Events() []Event {
	return append(append(make([]Event, 0, len(s.events)), s.events[s.next:]...), s.events[:s.next]...)
}

// Fold folds one record.
func (s *Story) Fold(r model.Record) {
	s.time = max(s.time, r.Time)
	calls := s.count(&r)
	s.fx.Reset()
	s.fleet.Apply(r, &s.fx)
	for i := range s.fx.Decisions {
		s.decision(&s.fx.Decisions[i], &r, calls)
	}
	s.forget(&r)
	s.degrade(&r)
}

// count tells the calls of a report by channel; nil for other records.
func (s *Story) count(r *model.Record) map[string]*tally {
	a, ok := r.Fact.(*model.Attempts)
	if !ok || len(a.Attempts) == 0 {
		return nil
	}
	calls := map[string]*tally{}
	for i := range a.Attempts {
		at := &a.Attempts[i]
		if int(at.Channel) >= len(a.Channels) {
			continue
		}
		name := a.Channels[at.Channel].Channel
		t := calls[name]
		if t == nil {
			t = &tally{}
			calls[name] = t
		}
		t.add(at)
	}
	for name, t := range calls {
		if !s.concerns(name) || !s.known(name) {
			continue
		}
		m := s.minutes[name]
		if m == nil {
			m = &minute{}
			s.minutes[name] = m
		}
		m.add(r.Time, t)
		for _, p := range []Part{PartWindow, PartWeight, PartBreaker} {
			key := aspect{name, p}
			if s.since[key] == nil {
				s.since[key] = &tally{}
			}
			s.since[key].merge(t)
		}
	}
	return calls
}

func (s *Story) concerns(channel string) bool { return s.o.Channel == "" || channel == s.o.Channel }

// known reports whether the fleet has the channel: what reports name is not
// bounded, what is configured is.
func (s *Story) known(channel string) bool { return s.names[channel] }

// name notes the channels of the configuration in force.
func (s *Story) name() {
	clear(s.names)
	c, _ := s.fleet.Config()
	for i := range c.Channels {
		s.names[c.Channels[i].Name] = true
	}
}

func (s *Story) decision(d *model.Decision, r *model.Record, calls map[string]*tally) {
	switch {
	case d.Channel != "" && !s.concerns(d.Channel):
		return
	case d.Rule == model.RuleMember && !s.o.Members:
		return
	}
	e := Event{
		Seq: d.Seq, Time: Instant(r.Time), Channel: d.Channel, Agent: d.Agent, Rule: string(d.Rule), Parts: parts(d, r.Fact),
		Before: d.Before, After: d.After, Epoch: d.Epoch, Reason: plain(d.Reason), Cause: cause(r.Fact, calls[d.Channel]),
	}
	e.Text = plain(sentence(d))
	s.add(e)
}

// add keeps an event.
func (s *Story) add(e Event) {
	for _, p := range e.Parts {
		key := aspect{e.Channel, p}
		s.last[key] = e
		delete(s.since, key)
	}
	if len(s.events) < s.o.Keep {
		s.events = append(s.events, e)
		return
	}
	s.events[s.next] = e
	s.next = (s.next + 1) % len(s.events)
	s.omitted++
}

// forget drops what is kept of channels that a configuration dropped.
func (s *Story) forget(r *model.Record) {
	switch r.Fact.(type) {
	case *model.Config, *model.Rebase:
	default:
		return
	}
	s.name()
	for route := range s.stretch {
		if s.insteadOf(route, s.stretch[route].tier) == nil {
			delete(s.stretch, route)
		}
	}
	for key := range s.last {
		if key.channel != "" && !s.known(key.channel) {
			delete(s.last, key)
		}
	}
	for key := range s.since {
		if !s.known(key.channel) {
			delete(s.since, key)
		}
	}
	for name := range s.minutes {
		if !s.known(name) {
			delete(s.minutes, name)
		}
	}
}

// cause says what a record was. t is what a report held for the channel, nil
// for nothing.
func cause(f model.Fact, t *tally) string {
	var b strings.Builder
	switch f := f.(type) {
	case *model.Attempts:
		fmt.Fprintf(&b, "report %d of agent %s", f.Seq, f.Agent)
		if t != nil {
			fmt.Fprintf(&b, " with %s", t)
		}
	case *model.Summary:
		fmt.Fprintf(&b, "summary of agent %s", f.Agent)
	case *model.Config:
		b.WriteString("a configuration")
	case *model.ParamSet:
		fmt.Fprintf(&b, "the parameter set %q", f.Name)
	case *model.Command:
		fmt.Fprintf(&b, "the order %s", f.Command)
		if f.By != "" {
			fmt.Fprintf(&b, " of %s", f.By)
		}
		if f.For > 0 {
			fmt.Fprintf(&b, " for %s", f.For)
		}
		if f.Why != "" {
			fmt.Fprintf(&b, " (%s)", f.Why)
		}
	case *model.Lead:
		fmt.Fprintf(&b, "controller %s began term %d", f.Controller, f.Term)
	case *model.Tick:
		b.WriteString("time: a deadline was due")
	case *model.Rebase:
		b.WriteString("the log was anchored anew")
	default:
		b.WriteString("a record that this version cannot read")
	}
	return plain(b.String())
}
