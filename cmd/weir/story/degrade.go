package story

import (
	"fmt"

	"weir/model"
)

// stretch is a time in which calls of a route went to a lesser tier.
type stretch struct {
	first Event
	last  model.Nanos
	calls uint64
	tier  uint8
}

// quiet ends a stretch: so long no call went to a lesser tier.
const quiet = 30 * model.Second

// degrade notes calls that were answered by a lesser tier. An event tells the
// beginning of such a time, another its end.
func (s *Story) degrade(r *model.Record) {
	if a, ok := r.Fact.(*model.Attempts); ok {
		for i := range a.Attempts {
			if at := &a.Attempts[i]; at.Degraded && int(at.Channel) < len(a.Channels) {
				s.lesser(r, a, at)
			}
		}
	}
	if len(s.stretch) == 0 {
		return
	}
	cfg, _ := s.fleet.Config()
	for i := range cfg.Routes {
		if d := s.stretch[cfg.Routes[i].Name]; d != nil && r.Time-d.last > quiet {
			delete(s.stretch, cfg.Routes[i].Name)
			e := d.first
			e.Seq, e.Time, e.Cause = r.Seq, Instant(d.last), "no call did since"
			e.Text = fmt.Sprintf("route %s is back at its main tier: %d calls had gone to a lesser one since record %d", plain(cfg.Routes[i].Name), d.calls, d.first.Seq)
			e.Reason = e.Text
			s.add(e)
		}
	}
}

func (s *Story) lesser(r *model.Record, a *model.Attempts, at *model.Attempt) {
	instead := s.insteadOf(at.Route, at.Tier)
	if instead == nil {
		return // no such route, or not below
	}
	to := a.Channels[at.Channel].Channel
	concerns := s.o.Channel == "" || to == s.o.Channel
	for _, name := range instead {
		concerns = concerns || name == s.o.Channel
	}
	if !concerns {
		return
	}
	d := s.stretch[at.Route]
	if d == nil {
		d = &stretch{tier: at.Tier}
		s.stretch[at.Route] = d
		e := Event{Seq: r.Seq, Time: Instant(r.Time), Channel: instead[0], Rule: RuleDegraded, Parts: []Part{PartRoute}, After: int64(at.Tier), Cause: cause(r.Fact, nil)}
		if s.o.Channel != "" {
			e.Channel = s.o.Channel
		}
		e.Reason = plain(s.unavailable(instead))
		e.Text = plain(fmt.Sprintf("calls of route %s degraded to tier %d, channel %s: %s", at.Route, at.Tier, to, e.Reason))
		d.first = e
		s.add(e)
	}
	d.last = r.Time
	d.calls++
}

// insteadOf lists the channels of a route's tiers above one.
func (s *Story) insteadOf(route string, tier uint8) (names []string) {
	cfg, _ := s.fleet.Config()
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		if r.Name != route || int(tier) >= len(r.Tiers) {
			continue
		}
		for k := range r.Tiers[:tier] {
			for _, c := range r.Tiers[k].Channels {
				names = append(names, c.Channel)
			}
		}
	}
	return names
}

// unavailable says how the channels stand that were not taken.
func (s *Story) unavailable(names []string) string {
	text := ""
	view := s.fleet.View()
	for i := range view.Channels {
		c := &view.Channels[i]
		for _, name := range names {
			if c.Name != name {
				continue
			}
			if text != "" {
				text += "; "
			}
			text += fmt.Sprintf("%s has its breaker %s, a window of %s, %d in flight and %d waiting", name, c.Breaker, Slots(int64(c.Window)), c.InFlight, c.Queued)
			if c.Wait > 0 {
				text += fmt.Sprintf(", and nothing starts for %s", c.Wait-c.Wait%model.Millisecond)
			}
			if c.Reason != "" {
				text += " (" + c.Reason + ")"
			}
		}
	}
	return text
}
