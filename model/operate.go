package model

import (
	"fmt"
	"strings"
)

func (f *Fleet) applyConfig(c *Config, fx *Effects) {
	if err := c.Check(); err != nil {
		f.decide(fx, Decision{Rule: RuleConfig, Reason: "refused: " + err.Error()})
		return
	}
	f.configure(c)
	f.configSeq = f.seq
	f.guardConfigured(fx)
	f.rules(fx)
	f.judgeDays(fx)
	fx.Config, fx.Now = true, true
	for _, ch := range f.channels {
		f.announce(ch, fx)
	}
	f.decide(fx, Decision{Rule: RuleConfig, Reason: fmt.Sprintf("%d channels, %d groups, %d routes%s", len(c.Channels), len(c.Groups), len(c.Routes), by(c.By, c.Why))})
}

func (f *Fleet) applyParams(s *ParamSet, fx *Effects) {
	if err := s.Params.Check(); err != nil {
		f.decide(fx, Decision{Rule: RuleParams, Reason: "refused: " + err.Error()})
		return
	}
	if err := f.checkGuard(s); err != nil {
		f.decide(fx, Decision{Rule: RuleParams, Reason: "refused: " + err.Error()})
		return
	}
	prior := f.supersede()
	if s.Guard.For > 0 {
		f.watchPush(s, prior, fx)
		return
	}
	before := f.hash
	f.inForce(&priorSet{*s, f.seq}, fx)
	f.decide(fx, Decision{Rule: RuleParams, Reason: fmt.Sprintf("%s (%s) replaces %s%s", s.Name, f.hash, before, by(s.By, s.Why))})
}

// rules does what follows new parameters or a new configuration: safe shares,
// deadlines and divisions may differ.
func (f *Fleet) rules(fx *Effects) {
	for _, c := range f.channels {
		c.advance(f.now)
		c.secure(f.parOf(c), f.seq, func(agent string) { f.tell(f.member(agent), fx) })
	}
	f.wantAll()
	f.alarm = 0
}

func by(who, why string) string {
	var b strings.Builder
	if who != "" {
		b.WriteString(", by " + who)
	}
	if why != "" {
		b.WriteString(": " + why)
	}
	return b.String()
}

func (f *Fleet) applyLead(l *Lead, fx *Effects) {
	if l.Term <= f.term {
		f.counters.StaleTerm++
		return
	}
	f.term, f.controller = l.Term, l.Controller
	f.hushGuard()
	fx.Term, fx.Now = true, true
	reason := fmt.Sprintf("term %d begins, led by %s", l.Term, l.Controller)
	if l.Laws != f.laws {
		reason += fmt.Sprintf("; laws %d replace %d, no claim rises for %s", l.Laws, f.laws, said(f.par().LeaseDuration))
		f.laws = l.Laws
		f.freeze()
	}
	f.decide(fx, Decision{Rule: RuleTerm, Reason: reason})
}

// freeze keeps every claim from rising for one lease.
func (f *Fleet) freeze() {
	f.noRaise = f.now + f.par().LeaseDuration
	f.setAlarm(f.noRaise)
}

func (f *Fleet) applyRebase(r Record, b *Rebase, fx *Effects) {
	if b.Term < f.term {
		f.counters.StaleTerm++
		return
	}
	anchored, err := DecodeFleet(b.Snapshot)
	if err != nil || anchored.Digest() != b.Digest {
		f.counters.BadRebases++
		f.decide(fx, Decision{Rule: RuleRebase, Reason: "refused: the snapshot does not match its digest"})
		return
	}
	anchored.step(r)
	anchored.term = max(anchored.term, b.Term)
	anchored.counters.Records++
	anchored.counters.Rebases++
	anchored.dirty.all()
	anchored.dirty.goneFrom(f, anchored)
	*f = *anchored
	f.freeze()
	for _, c := range f.channels {
		f.regrantAll(c, fx)
		f.announce(c, fx)
	}
	fx.Config, fx.Now = true, true
	f.decide(fx, Decision{Rule: RuleRebase, Reason: fmt.Sprintf("%s; anchored anew at record %d, no claim rises for %s", b.Reason, r.Seq, said(f.par().LeaseDuration))})
}

// regrantAll grants every lease of c again under this record: agents may obey
// a newer grant than the anchor knows, and drop what is older than that.
func (f *Fleet) regrantAll(c *channel, fx *Effects) {
	for i := range c.leases {
		if l := &c.leases[i]; !l.away {
			c.count(l, -1)
			l.grant(l.slots, l.safe, l.offset, f.seq)
			c.count(l, 1)
			f.tell(f.member(l.agent), fx)
		}
	}
	c.wants = true
	f.want(c)
}

// applyCommand does what an operator wants.
func (f *Fleet) applyCommand(cmd *Command, fx *Effects) {
	switch cmd.Command {
	case CommandForget:
		if m := f.member(cmd.Agent); m != nil {
			f.forget(m)
			f.decide(fx, Decision{Agent: cmd.Agent, Rule: RuleCommand, Reason: "forgotten" + by(cmd.By, cmd.Why)})
		}
		return
	case CommandSetMode:
		if cmd.Channel == "" {
			f.setMode(cmd, fx)
			return
		}
	case CommandPause, CommandResume, CommandForceBreaker, CommandSetWeight, CommandSetLimit, CommandRelease:
	default:
		f.counters.Unknown++
		return
	}
	c := f.channel(cmd.Channel)
	if c == nil {
		f.counters.UnknownChannel++
		f.decide(fx, Decision{Rule: RuleCommand, Reason: fmt.Sprintf("%s: no channel %q", cmd.Command, cmd.Channel)})
		return
	}
	c.advance(f.now)
	what := f.commandChannel(c, cmd, fx)
	f.decide(fx, Decision{Channel: c.name, Rule: RuleCommand, Reason: what + by(cmd.By, cmd.Why)})
	c.wants, c.urgent = true, true
	f.want(c)
	fx.Now = true
}

// setMode sets the fleet's mode.
func (f *Fleet) setMode(cmd *Command, fx *Effects) {
	mode := Mode(cmd.Value)
	if cmd.Value != int64(ModeEnforce) && cmd.Value != int64(ModeObserve) {
		f.decide(fx, Decision{Rule: RuleCommand, Reason: fmt.Sprintf("refused: %d is no mode", cmd.Value)})
		return
	}
	f.config.Mode = mode
	fx.Config, fx.Now = true, true
	f.dirty.mark("config")
	for _, c := range f.channels {
		f.announce(c, fx)
	}
	f.decide(fx, Decision{Rule: RuleCommand, Reason: "the fleet's mode is " + mode.String() + by(cmd.By, cmd.Why)})
}

// maxSlots bounds a limit that an operator sets.
const maxSlots = 1_000_000_000

// commandChannel does what concerns one channel and says what it did.
func (f *Fleet) commandChannel(c *channel, cmd *Command, fx *Effects) string {
	until := forever
	if cmd.For > 0 {
		until = f.now + min(cmd.For, forever-f.now)
	}
	switch cmd.Command {
	case CommandPause:
		c.pause = until
		f.setAlarm(until)
		return "paused"
	case CommandResume:
		c.pause, c.hold = 0, 0
		f.releasePools(c)
		if c.breaker.State != BreakerClosed {
			return "resumed; " + c.reopen(f.parOf(c), f.now)
		}
		return "resumed"
	case CommandForceBreaker:
		switch {
		case cmd.Value != 0:
			f.openBreaker(c, max(until-f.now, 1), "forced by an operator", fx)
			c.breaker.Forced = until == forever
			return "breaker opened"
		case c.breaker.State == BreakerClosed:
			return "breaker is closed"
		}
		return "breaker closed; " + c.reopen(f.parOf(c), f.now)
	case CommandSetWeight:
		c.weight.Forced = PPM(min(max(cmd.Value, -1), int64(One)))
		return fmt.Sprintf("weight set to %d ppm", c.weight.Forced)
	case CommandSetLimit:
		c.forced = min(max(cmd.Value, -1), maxSlots)
		return fmt.Sprintf("limit set to %d slots", c.forced)
	case CommandRelease:
		c.hold = 0
		f.releasePools(c)
		return "hold released"
	case CommandSetMode:
		if cmd.Value > int64(ModeObserve) {
			return fmt.Sprintf("refused: %d is no mode", cmd.Value)
		}
		c.mode, c.hasMode = Mode(max(cmd.Value, 0)), cmd.Value >= 0
		return "mode set"
	case CommandForget:
	}
	panic("model: BUG: command " + cmd.Command.String() + " concerns no channel")
}

func (f *Fleet) wantAll() {
	for _, c := range f.channels {
		c.wants, c.urgent = true, true
		f.want(c)
	}
	for _, p := range f.pools {
		f.wantPool(p)
	}
}
