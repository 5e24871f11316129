package model

import (
	"fmt"
	"strconv"
	"strings"
)

// Describe returns the state as text for people: goldens, explain, bug
// reports. It is sorted and leaves out what stands at its start value.
// Instants are written relative to now, so that the text does not depend on
// where log time began. It is not the state: AppendBinary is.
func (f *Fleet) Describe() string {
	d := describer{now: f.now}
	d.line("seq %d, term %d%s", f.seq, f.term, prefix(", led by ", f.controller))
	d.option(", no claim rises until ", d.instant(f.noRaise), f.noRaise > 0)
	d.counters(&f.counters)
	if f.guard != nil {
		d.line("%s", f.guard.String(f.now))
	}
	for _, m := range f.members {
		d.member(m)
	}
	for _, c := range f.channels {
		d.channel(f, c)
	}
	for _, p := range f.pools {
		d.pool(f.parPool(p), p)
	}
	for _, day := range f.days {
		d.day(f, day)
	}
	return d.b.String()
}

// describer writes lines; options are appended to the line before.
type describer struct {
	b   strings.Builder
	now Nanos
}

func (d *describer) line(format string, args ...any) {
	if d.b.Len() > 0 {
		d.b.WriteByte('\n')
	}
	fmt.Fprintf(&d.b, format, args...)
}

// option appends label and value to the line when show is set.
func (d *describer) option(label, value string, show bool) {
	if show {
		d.b.WriteString(label + value)
	}
}

func (d *describer) count(label string, n int64) {
	d.option(label, strconv.FormatInt(n, 10), n != 0)
}

// instant writes at relative to now.
func (d *describer) instant(at Nanos) string {
	switch {
	case at == forever:
		return "forever"
	case at == 0:
		return "never"
	case at >= d.now:
		return "+" + (at - d.now).String()
	}
	return (at - d.now).String()
}

func prefix(label, s string) string {
	if s == "" {
		return ""
	}
	return label + s
}

// slots writes milli-slots as slots.
func slots(m Milli) string {
	return fmt.Sprintf("%d.%03d", m/1000, m%1000)
}

func percent(p PPM) string {
	return strconv.FormatFloat(float64(p)/10_000, 'f', -1, 64) + "%"
}

func (d *describer) counters(c *Counters) {
	d.line("counted: %d records, %d attempts", c.Records, c.Attempts)
	for _, n := range []struct {
		what string
		n    uint64
	}{
		{"repeated", c.Repeated},
		{"lost", c.Lost},
		{"unreadable", c.Unreadable},
		{"unknown", c.Unknown},
		{"unknown channel", c.UnknownChannel},
		{"duplicate agents", c.DuplicateAgents},
		{"too many agents", c.TooManyAgents},
		{"stale term", c.StaleTerm},
		{"stale refusals", c.StaleRefusals},
		{"forgotten", c.Forgotten},
		{"rebases", c.Rebases},
		{"bad rebases", c.BadRebases},
	} {
		if n.n > 0 {
			fmt.Fprintf(&d.b, ", %d %s", n.n, n.what)
		}
	}
}

func (d *describer) member(m *member) {
	d.line("agent %s boot %d: %s, next report %d, heard %s", m.agent, m.boot, m.state(), m.next, d.instant(m.heard))
	d.option(", lease ends ", d.instant(m.until), m.until > 0 && m.state() == "here")
	d.option(", ", m.mode.String(), m.mode != ModeEnforce)
	d.option(", version ", m.version, m.version != "")
	d.count(", lost ", int64(m.lost))
	d.count(", repeated ", int64(m.repeated))
}

func (d *describer) channel(f *Fleet, c *channel) {
	p := f.parOf(c)
	d.line("channel %s: window %s", c.name, slots(f.channelLimit(c, nil).Window))
	for _, flag := range []struct {
		name string
		set  bool
	}{{"slow start", c.window.Slow}, {"used", c.window.Used}, {"not calm", !c.window.Calm}, {"draining", !c.window.Drained}, {"by latency", c.window.ByLatency}} {
		d.option(", ", flag.name, flag.set)
	}
	d.count(", epoch ", int64(c.window.Epoch))
	d.option(", weight ", percent(c.weight.value(p, d.now)), c.weight.value(p, d.now) != One)
	d.option(", hold ", d.instant(c.hold), c.hold > d.now)
	d.option(", paused ", d.instant(c.pause), c.pause > d.now)
	d.option(", limited to ", strconv.FormatInt(c.forced, 10), c.forced >= 0)
	d.option(", ", c.modeOr(f.config.Mode).String(), c.modeOr(f.config.Mode) != ModeEnforce)
	d.line("  in flight %d", c.inflight)
	d.count(", held ", c.held)
	d.count(", accepted ", c.accepted)
	d.count(", queued ", c.queued)
	for _, class := range Classes {
		d.count(", "+class.String()+" ", int64(c.counts[class]))
	}
	d.latency(&c.latency)
	d.breaker(&c.breaker)
	for i := range c.leases {
		d.lease(&c.leases[i])
	}
}

func (d *describer) latency(l *latency) {
	if len(l.Cells) == 0 {
		return
	}
	d.line("  latency %s of the baseline, %d samples, %d cells", percent(l.ratio()), l.Samples, len(l.Cells))
	d.option(", a cut from ", slots(l.TrialWindow)+" on trial", l.TrialWindow > 0)
}

func (d *describer) breaker(b *breaker) {
	if b.State == BreakerClosed && b.Consecutive == 0 {
		return
	}
	d.line("  breaker %s", b.State)
	d.option(" until ", d.instant(b.Until), b.State == BreakerOpen)
	d.option(", opened for ", b.Wait.String(), b.Wait > 0)
	d.option(", forced", "", b.Forced)
	d.count(", failures in a row ", b.Consecutive)
	if b.Probe.ID != 0 {
		fmt.Fprintf(&d.b, ", probe %d of %s until %s", b.Probe.ID, b.Probe.Agent, d.instant(b.Probe.Deadline))
	}
}

func (d *describer) lease(l *lease) {
	d.line("  %s: %d slots at %d, rev %d, claim %d", l.agent, l.slots, l.offset, l.rev, l.claim(d.now))
	d.option(", away", "", l.away)
	d.count(", in flight ", l.inflight)
	d.count(", held ", l.held)
	d.count(", queued ", l.queued)
	d.count(", urgent ", l.urgent)
	for i := range l.marks {
		fmt.Fprintf(&d.b, " [%d: %d]", l.marks[i].rev, l.marks[i].slots)
	}
}

func (d *describer) pool(par *Params, p *pool) {
	d.line("pool %s:", p.name)
	for _, b := range []struct {
		name string
		b    *limit
	}{{"requests", &p.requests}, {"tokens", &p.tokens}} {
		if b.b.limited() {
			fmt.Fprintf(&d.b, " %s %d of %d a minute (%s),", b.name, b.b.Level, b.b.Rate, b.b.source(par))
		}
	}
	fmt.Fprintf(&d.b, " a request takes %d tokens", p.typical)
	d.option(", hold ", d.instant(p.hold.until), p.hold.until > d.now)
	d.count(", in a series of ", p.hold.series)
	for i := range p.grants {
		d.grant(p, &p.grants[i])
	}
}

func (d *describer) day(f *Fleet, day *day) {
	if !day.limited() {
		return
	}
	stage, _ := day.now()
	d.line("day %s: %s, ends in %s", day.name, stage, day.ends-f.clock())
	for n, used := range day.used {
		if day.soft[n] > 0 || day.hard[n] > 0 {
			fmt.Fprintf(&d.b, ", %s %d of %d", Daily(n), used, day.hard[n])
			d.count(", warned from ", day.soft[n])
		}
	}
}

func (d *describer) grant(p *pool, g *poolGrant) {
	d.line("  %s:", g.agent)
	if p.requests.limited() {
		fmt.Fprintf(&d.b, " used %d of %d requests,", g.usedRequests, g.requests)
		d.count(" waiting ", g.waitingRequests)
		d.option(" instead of ", strconv.FormatInt(g.heldRequests, 10), g.pending)
	}
	if p.tokens.limited() {
		fmt.Fprintf(&d.b, " used %d of %d tokens,", g.usedTokens, g.tokens)
		d.count(" waiting ", g.waitingTokens)
		d.option(" instead of ", strconv.FormatInt(g.heldTokens, 10), g.pending)
	}
	fmt.Fprintf(&d.b, " rev %d", g.rev)
	d.option(", safe ", fmt.Sprintf("%s requests and %d tokens a minute", slots(Milli(g.safeRequests)), g.safeTokens), g.away > 0)
	d.option(", away since ", d.instant(g.away), g.away > 0)
}
