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
	fx.Config, fx.Now = true, true
	for _, ch := range f.channels {
		f.announce(ch, fx)
	}
	f.decide(fx, Decision{Rule: RuleConfig, Reason: fmt.Sprintf("%d channels, %d groups, %d routes", len(c.Channels), len(c.Groups), len(c.Routes))})
}

func (f *Fleet) applyParams(s *ParamSet, fx *Effects) {
	if err := s.Params.Check(); err != nil {
		f.decide(fx, Decision{Rule: RuleParams, Reason: "refused: " + err.Error()})
		return
	}
	before := f.hash
	f.params, f.paramsSeq = *s, f.seq
	f.hash = s.Params.Hash()
	f.setPools()
	for _, p := range f.pools {
		f.wantPool(p)
	}
	f.alarm = 0
	f.decide(fx, Decision{Rule: RuleParams, Reason: fmt.Sprintf("%s (%s) replaces %s%s", s.Name, f.hash, before, by(s.By, s.Why))})
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
	fx.Term, fx.Now = true, true
	reason := fmt.Sprintf("term %d begins, led by %s", l.Term, l.Controller)
	if l.Laws != f.laws {
		reason += fmt.Sprintf("; laws %d replace %d, no claim rises for %s", l.Laws, f.laws, f.par().LeaseDuration)
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
	anchored, err := DecodeFleet(b.Snapshot)
	if err != nil || anchored.Digest() != b.Digest {
		f.counters.BadRebases++
		f.decide(fx, Decision{Rule: RuleRebase, Reason: "refused: the snapshot does not match its digest"})
		return
	}
	anchored.step(r)
	anchored.counters.Rebases++
	anchored.dirty.all()
	anchored.dirty.goneFrom(f, anchored)
	*f = *anchored
	f.freeze()
	for _, c := range f.channels {
		f.announce(c, fx)
	}
	fx.Config, fx.Now = true, true
	f.decide(fx, Decision{Rule: RuleRebase, Reason: fmt.Sprintf("%s; anchored anew at record %d, no claim rises for %s", b.Reason, r.Seq, f.par().LeaseDuration)})
}

// applyCommand does what an operator wants.
func (f *Fleet) applyCommand(cmd *Command, fx *Effects) {
	var until Nanos = forever
	if cmd.For > 0 {
		until = f.now + cmd.For
	}
	switch cmd.Command {
	case CommandForget:
		if f.member(cmd.Agent) != nil {
			f.dropMember(cmd.Agent)
			f.wantAll()
			f.decide(fx, Decision{Agent: cmd.Agent, Rule: RuleCommand, Reason: "forgotten" + by(cmd.By, cmd.Why)})
		}
		return
	case CommandSetMode:
		if cmd.Channel == "" {
			f.config.Mode = Mode(cmd.Value)
			fx.Config = true
			f.dirty.mark("config")
			for _, c := range f.channels {
				f.announce(c, fx)
			}
			f.decide(fx, Decision{Rule: RuleCommand, Reason: "the fleet's mode is " + Mode(cmd.Value).String() + by(cmd.By, cmd.Why)})
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
	f.commandChannel(c, cmd, until, fx)
	c.wants, c.urgent = true, true
	f.want(c)
	fx.Now = true
}

func (f *Fleet) commandChannel(c *channel, cmd *Command, until Nanos, fx *Effects) {
	var what string
	switch cmd.Command {
	case CommandPause:
		c.pause = until
		what = "paused"
	case CommandResume:
		c.pause, c.hold = 0, 0
		what = "resumed"
		if c.breaker.State != BreakerClosed {
			what += "; " + c.reopen(f.par(), f.now)
		}
	case CommandForceBreaker:
		if cmd.Value == 0 {
			what = "breaker closed; " + c.reopen(f.par(), f.now)
			break
		}
		f.openBreaker(c, max(until-f.now, 1), "forced by an operator", fx)
		c.breaker.Forced = until == forever
		what = "breaker opened"
	case CommandSetWeight:
		c.weight.Forced = max(min(PPM(cmd.Value), One), -1)
		what = fmt.Sprintf("weight set to %d ppm", c.weight.Forced)
	case CommandSetLimit:
		c.forced = max(cmd.Value, -1)
		what = fmt.Sprintf("limit set to %d slots", c.forced)
	case CommandRelease:
		c.hold = 0
		what = "hold released"
	case CommandSetMode:
		c.mode, c.hasMode = Mode(cmd.Value), cmd.Value >= 0
		what = "mode set"
	case CommandForget:
	}
	f.decide(fx, Decision{Channel: c.name, Rule: RuleCommand, Reason: what + by(cmd.By, cmd.Why)})
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
