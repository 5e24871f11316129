package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// origin is where the log time of the scripts begins: not at zero, since a
// real log never does.
const origin = 1_700_000_000 * Second

// script plays a log that is written by hand. It stands for agents that hear
// everything at once, unless a line says otherwise.
//
// A line is an instant and a fact. The instant counts from the script's
// begin ("1.2s") or from the record before ("+100ms").
//
//	1s a in=3 q=2 ok*5(took=1s) | n in=1 | pool group/g used=3/900 wait=2/600 | @leaving
//	   agent a reports for channel m (the default), then for n, then a pool
//	1s a1..7 q=1            seven agents, a report each
//	1s tick [elapsed=5s] [term=1]
//	1s lead term=2 [laws=1]
//	1s command pause m [value=1] [for=10s] [agent=a]
//	1s summary a span=3 m=ok:5,transport:2
//	1s unknown 77
//	1s nil
//
// Report options: @boot @seq @base @leaving @observe @version. Channel options:
// in held acc q urgent tokens ack refuse; ack defaults to all that was sent,
// "ack=old" repeats the last one. Attempt options: epoch (default the
// newest) age took first in out after dim limit remaining reset scope code
// probe reserved.
type script struct {
	t      testing.TB
	f      *Fleet
	fx     Effects
	now    Nanos // of the log's clock
	out    strings.Builder
	agents map[string]*speaker
	tap    func(Record) // sees every record before it is folded
}

// speaker is an agent as the script knows it.
type speaker struct {
	boot, seq, base uint64
	ack             map[string]uint64 // by channel: newest revision sent to it
	said            map[string]uint64 // the same as last reported
}

// scriptParams are the parameters that scripts begin with: fixed, so that
// tuning a default does not move every golden file.
const scriptParams = `window_start=5000 window_floor=1000 window_max=4096000 slow_start_gain=1000
	cut_share=700000 pin_floor=400000 plateau=6s climb_double=800ms used_share=875000
	latency_calm=1100000 latency_high=1250000 latency_samples=24 latency_cut_floor=700000
	weight_decay=700000 weight_floor=50000 weight_half_life=30s
	breaker_ratio=500000 breaker_volume=20 breaker_window=10s breaker_consecutive=5
	breaker_wait=5s breaker_wait_max=60s probe_within=60s transport_every=10s hold_default=1s hold_max=1h
	lease_duration=15s safe_share=900000 rotate_every=2s pass_every=20ms forget_after=10m
	budget_margin=1000000 budget_depth=60s pool_float=20000`

func newScript(t testing.TB) *script {
	s := &script{t: t, f: NewFleet(), now: origin, agents: map[string]*speaker{}}
	s.f.params = ParamSet{Name: "script", Params: parseParams(t, scriptParams)}
	s.f.hash = s.f.params.Params.Hash()
	return s
}

func (s *script) speaker(agent string) *speaker {
	a := s.agents[agent]
	if a == nil {
		a = &speaker{boot: 1, ack: map[string]uint64{}, said: map[string]uint64{}}
		s.agents[agent] = a
	}
	return a
}

// fold folds a fact at the script's instant and writes down the effects.
func (s *script) fold(fact Fact) {
	r := Record{Seq: s.f.Seq() + 1, Time: s.now, Fact: fact}
	if s.tap != nil {
		s.tap(r)
	}
	s.fx.Reset()
	s.f.Apply(r, &s.fx)
	s.deliver()
	s.write()
}

// deliver notes what the agents now know.
func (s *script) deliver() {
	for _, name := range s.fx.Limits {
		for agent, a := range s.agents {
			c := s.f.channel(name)
			if c == nil {
				continue
			}
			if _, ok := searchLease(c.leases, agent); ok && len(c.cuts) > 0 {
				a.ack[name] = max(a.ack[name], c.cuts[len(c.cuts)-1].Revision)
			}
		}
	}
	for _, agent := range s.fx.Leases {
		l := s.f.Lease(agent)
		if l == nil {
			continue
		}
		for _, g := range l.Channels {
			s.speaker(agent).ack[g.Channel] = max(s.speaker(agent).ack[g.Channel], g.Revision)
		}
		for _, g := range l.Pools {
			s.speaker(agent).ack[g.Pool] = g.Revision
		}
	}
}

func (s *script) write() {
	if s.fx.Empty() {
		return
	}
	fmt.Fprintf(&s.out, "%d at %s", s.f.Seq(), s.f.Now()-origin)
	if s.fx.Config {
		s.out.WriteString(" config")
	}
	if s.fx.Term {
		s.out.WriteString(" term")
	}
	if len(s.fx.Limits) > 0 {
		s.out.WriteString(" broadcasts " + strings.Join(s.fx.Limits, " "))
	}
	if s.fx.Now {
		s.out.WriteString(" now")
	}
	s.out.WriteByte('\n')
	for i := range s.fx.Decisions {
		s.decision(&s.fx.Decisions[i])
	}
	for _, agent := range s.fx.Leases {
		if l := s.f.Lease(agent); l != nil {
			s.out.WriteString("  lease " + describeLease(l) + "\n")
		}
	}
}

func (s *script) decision(d *Decision) {
	fmt.Fprintf(&s.out, "  %s", d.Rule)
	for _, who := range []string{d.Channel, d.Agent} {
		if who != "" {
			s.out.WriteString(" " + who)
		}
	}
	switch {
	case d.Before == d.After:
	case d.Rule == RuleWeight:
		fmt.Fprintf(&s.out, " %s → %s", percent(PPM(d.Before)), percent(PPM(d.After)))
	default:
		fmt.Fprintf(&s.out, " %s → %s, epoch %d", slots(Milli(d.Before)), slots(Milli(d.After)), d.Epoch)
	}
	s.out.WriteString(": " + d.Reason + "\n")
}

func describeLease(l *Lease) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (report %d, %s):", l.Agent, l.Quotes, l.Duration)
	for _, g := range l.Channels {
		fmt.Fprintf(&b, " %s %d at %d, safe %d, rev %d;", g.Channel, g.Slots, g.Offset, g.Safe, g.Revision)
		if g.Probe != 0 {
			fmt.Fprintf(&b, " probe %d within %s;", g.Probe, g.ProbeWithin)
		}
	}
	for _, g := range l.Pools {
		fmt.Fprintf(&b, " %s", g.Pool)
		if g.Requests >= 0 {
			fmt.Fprintf(&b, " %d requests (safe %s)", g.Requests, slots(g.SafeRequests))
		}
		if g.Tokens >= 0 {
			fmt.Fprintf(&b, " %d tokens (safe %d)", g.Tokens, g.SafeTokens)
		}
		fmt.Fprintf(&b, " rev %d;", g.Revision)
	}
	return strings.TrimSuffix(b.String(), ";")
}

// play runs the lines of one block and returns what happened.
func (s *script) play(lines string) string {
	s.out.Reset()
	for line := range strings.SplitSeq(lines, "\n") {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) != "" {
			s.line(strings.Fields(line))
		}
	}
	return s.out.String()
}

func (s *script) line(words []string) {
	s.at(words[0])
	o := options(words[2:])
	switch words[1] {
	case "tick":
		s.fold(&Tick{Term: uint64(o.num("term", int64(s.f.Term()))), Elapsed: o.time(s.t, "elapsed", s.now-s.f.LastTime())})
	case "lead":
		s.fold(&Lead{Term: uint64(o.num("term", int64(s.f.Term())+1)), Controller: o.text("by", "ctl"), Laws: uint32(o.num("laws", LawVersion))})
	case "command":
		s.command(words[2], words[3:])
	case "summary":
		s.summary(words[2], words[3:])
	case "unknown":
		k, _ := strconv.Atoi(words[2])
		s.fold(&Unknown{K: Kind(k)})
	case "nil":
		s.fold(nil)
	default:
		for _, agent := range expand(words[1]) {
			s.report(agent, words[2:])
		}
	}
}

// at moves the log's clock.
func (s *script) at(word string) {
	rest, relative := strings.CutPrefix(word, "+")
	d, err := time.ParseDuration(rest)
	if err != nil {
		s.t.Fatalf("instant %q: %v", word, err)
	}
	if relative {
		s.now += Nanos(d)
		return
	}
	s.now = origin + Nanos(d)
}

// expand makes a1..7 into a01 … a07.
func expand(word string) []string {
	name, last, ok := strings.Cut(word, "..")
	if !ok {
		return []string{word}
	}
	stem := strings.TrimRight(name, "0123456789")
	from, _ := strconv.Atoi(name[len(stem):])
	to, _ := strconv.Atoi(last)
	var names []string
	for i := from; i <= to; i++ {
		names = append(names, fmt.Sprintf("%s%02d", stem, i))
	}
	return names
}

// opts are words of the form key=value; a bare word has the value "".
type opts map[string]string

func options(words []string) opts {
	o := opts{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		o[k] = v
	}
	return o
}

func (o opts) has(key string) bool { _, ok := o[key]; return ok }

func (o opts) text(key, otherwise string) string {
	if v, ok := o[key]; ok {
		return v
	}
	return otherwise
}

func (o opts) num(key string, otherwise int64) int64 {
	v, ok := o[key]
	if !ok {
		return otherwise
	}
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(v, 10, 64); err == nil {
		return int64(n)
	}
	panic(fmt.Sprintf("%s=%q is no number", key, v))
}

func (o opts) time(t testing.TB, key string, otherwise Nanos) Nanos {
	v, ok := o[key]
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return Nanos(d)
}

func (s *script) command(name string, words []string) {
	c := &Command{By: "op"}
	for k := CommandPause; k <= CommandSetMode; k++ {
		if k.String() == name {
			c.Command = k
		}
	}
	o := options(words)
	if len(words) > 0 && !strings.Contains(words[0], "=") {
		c.Channel = words[0]
	}
	c.Agent, c.Value, c.For, c.Why = o.text("agent", ""), o.num("value", 0), o.time(s.t, "for", 0), o.text("why", "")
	s.fold(c)
}

func (s *script) summary(agent string, words []string) {
	o := options(words)
	a := s.speaker(agent)
	sum := &Summary{Source: s.source(agent, o)}
	sum.Span = uint64(o.num("span", 1))
	for _, w := range words {
		name, counts, _ := strings.Cut(w, "=")
		if !strings.Contains(counts, ":") {
			continue
		}
		for part := range strings.SplitSeq(counts, ",") {
			class, n, _ := strings.Cut(part, ":")
			k, _ := ParseClass(class)
			count, _ := strconv.ParseUint(n, 10, 64)
			sum.Counts = append(sum.Counts, SummaryCount{Channel: name, Class: k, Attempts: count})
			a.base += count
		}
	}
	a.seq = sum.Seq + sum.Span - 1
	s.fold(sum)
}

func (s *script) source(agent string, o opts) Source {
	a := s.speaker(agent)
	if boot := uint64(o.num("@boot", int64(a.boot))); boot > a.boot {
		*a = speaker{boot: boot, ack: map[string]uint64{}, said: map[string]uint64{}}
	}
	src := Source{Agent: agent, Boot: uint64(o.num("@boot", int64(a.boot))), Seq: uint64(o.num("@seq", int64(a.seq)+1)), Span: 1, Base: uint64(o.num("@base", int64(a.base)))}
	return src
}

// report folds one report of an agent.
func (s *script) report(agent string, words []string) {
	r := &Attempts{}
	all := opts{}
	for _, part := range split(words) {
		for _, w := range part {
			if strings.HasPrefix(w, "@") {
				k, v, _ := strings.Cut(w, "=")
				all[k] = v
			}
		}
	}
	r.Source = s.source(agent, all)
	r.Leaving, r.Version = all.has("@leaving"), all.text("@version", "")
	if all.has("@observe") {
		r.Mode = ModeObserve
	}
	for _, part := range split(words) {
		s.part(agent, r, part)
	}
	a := s.speaker(agent)
	if r.Boot == a.boot && r.Seq > a.seq {
		a.seq = r.Seq
		a.base = r.Base + uint64(len(r.Attempts))
	}
	s.fold(r)
}

// split separates a line at its bars.
func split(words []string) [][]string {
	parts := [][]string{nil}
	for _, w := range words {
		if w == "|" {
			parts = append(parts, nil)
			continue
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], w)
	}
	return parts
}

func (s *script) part(agent string, r *Attempts, words []string) {
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.HasPrefix(w, "@") })
	if len(words) == 0 {
		return
	}
	if words[0] == "pool" {
		s.pool(agent, r, words[1], options(words[2:]))
		return
	}
	name := "m"
	if !strings.ContainsAny(words[0], "=*(") {
		if _, isClass := ParseClass(words[0]); !isClass {
			name, words = words[0], words[1:]
		}
	}
	index := uint16(len(r.Channels))
	o := opts{}
	for _, w := range words {
		word, inner, isAttempt := strings.Cut(strings.TrimSuffix(w, ")"), "(")
		class, times, many := strings.Cut(word, "*")
		k, ok := ParseClass(class)
		if !ok {
			key, v, _ := strings.Cut(w, "=")
			o[key] = v
			continue
		}
		n := 1
		if many {
			n, _ = strconv.Atoi(times)
		}
		of := opts{}
		if isAttempt {
			of = options(strings.Split(inner, ","))
		}
		for range n {
			r.Attempts = append(r.Attempts, s.attempt(index, name, k, of))
		}
	}
	r.Channels = append(r.Channels, s.channelReport(agent, name, o))
}

func (s *script) channelReport(agent, name string, o opts) ChannelReport {
	a := s.speaker(agent)
	switch o.text("ack", "") {
	case "":
		a.said[name] = a.ack[name]
	case "old":
	default:
		a.said[name] = uint64(o.num("ack", 0))
	}
	return ChannelReport{
		Channel: name, InFlight: uint32(o.num("in", 0)), Held: uint32(o.num("held", 0)),
		Accepted: uint32(o.num("acc", 0)), Queued: uint32(o.num("q", 0)), Urgent: uint32(o.num("urgent", 0)),
		WaitingTokens: Tokens(o.num("tokens", 0)), Applied: a.said[name], WouldRefuse: uint64(o.num("refuse", 0)),
	}
}

func (s *script) pool(agent string, r *Attempts, name string, o opts) {
	a := s.speaker(agent)
	two := func(key string) (int64, Tokens) {
		x, y, _ := strings.Cut(o.text(key, "0/0"), "/")
		n, _ := strconv.ParseInt(x, 10, 64)
		k, _ := strconv.ParseInt(y, 10, 64)
		return n, Tokens(k)
	}
	p := PoolReport{Pool: name, Applied: a.ack[name]}
	if o.has("ack") {
		p.Applied = uint64(o.num("ack", 0))
	}
	p.UsedRequests, p.UsedTokens = two("used")
	p.WaitingRequests, p.WaitingTokens = two("wait")
	r.Pools = append(r.Pools, p)
}

func (s *script) attempt(index uint16, channel string, class Class, o opts) Attempt {
	var epoch, probe uint64
	if c := s.f.channel(channel); c != nil {
		epoch, probe = c.window.Epoch, c.breaker.Probe.ID
	}
	a := Attempt{
		Channel: index, Class: class, Try: 1, Priority: PriorityNormal,
		Age: o.time(s.t, "age", 0), Took: o.time(s.t, "took", Second), FirstToken: o.time(s.t, "first", 0),
		In: Tokens(o.num("in", 1000)), Out: Tokens(o.num("out", 100)), UsageKnown: true,
		RetryAfter: o.time(s.t, "after", -1), Epoch: uint64(o.num("epoch", int64(epoch))),
		Reserved: Tokens(o.num("reserved", 0)), Code: o.text("code", ""), Tenant: o.text("tenant", ""),
	}
	if o.has("probe") && o["probe"] != "" {
		probe = uint64(o.num("probe", 0))
	}
	if o.has("probe") {
		a.Probe = probe
	}
	if o.text("scope", "") == "group" {
		a.Scope = ScopeGroup
	}
	if dim, ok := ParseDimension(o.text("dim", "")); ok && dim != DimNone {
		a.Hints = append(a.Hints, LimitHint{Dimension: dim, Limit: o.num("limit", -1), Remaining: o.num("remaining", 0), Reset: o.time(s.t, "reset", -1)})
	}
	return a
}

// parseConfig reads lines such as "channel m groups=g,h rpm=60 conc=30".
func parseConfig(t testing.TB, lines string) *Config {
	c := &Config{Fleet: "test"}
	for line := range strings.SplitSeq(lines, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		o := options(words[1:])
		l := Limits{
			RequestsPerMinute: o.num("rpm", 0), TokensPerMinute: Tokens(o.num("tpm", 0)), Concurrency: o.num("conc", 0),
			RequestsPerDay: o.num("rpd", 0), TokensPerDay: Tokens(o.num("tpd", 0)), DayReset: o.time(t, "reset", 0),
		}
		switch words[0] {
		case "channel":
			ch := ChannelConfig{Name: words[1], Provider: "test", Model: words[1], Limits: l}
			if g := o.text("groups", ""); g != "" {
				ch.Groups = strings.Split(g, ",")
			}
			ch.Price = Price{Input: o.num("price", 0), Output: o.num("price", 0)}
			ch.OnLoss = map[string]OnLoss{"zero": OnLossZero, "last": OnLossLast}[o.text("loss", "")]
			if o.has("mode") {
				ch.HasMode, ch.Mode = true, ModeObserve
			}
			c.Channels = append(c.Channels, ch)
		case "group":
			c.Groups = append(c.Groups, GroupConfig{Name: words[1], Limits: l})
		case "tenant":
			c.Tenants = append(c.Tenants, TenantConfig{
				Name: words[1], Share: 1, DayReset: l.DayReset,
				RequestsPerDaySoft: o.num("rsoft", 0), RequestsPerDayHard: o.num("rhard", 0),
				TokensPerDaySoft: Tokens(o.num("tsoft", 0)), TokensPerDayHard: Tokens(o.num("thard", 0)),
				CostPerDaySoft: o.num("csoft", 0), CostPerDayHard: o.num("chard", 0),
			})
		case "timeout":
			c.Timeouts.Total = o.time(t, "total", 0)
		default:
			t.Fatalf("config: %q", line)
		}
	}
	return c
}

// parseParams reads lines such as "plateau=4s" or "window_start=9000" over the
// defaults.
func parseParams(t testing.TB, lines string) Params {
	return setParams(t, DefaultParams(), lines)
}

func setParams(t testing.TB, p Params, lines string) Params {
	o := options(strings.Fields(lines))
	for _, spec := range ParamSpecs() {
		v, ok := o[spec.Name]
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			d, err := time.ParseDuration(v)
			if err != nil {
				t.Fatalf("%s: %v", spec.Name, err)
			}
			n = int64(d)
		}
		*spec.field(&p) = n
		delete(o, spec.Name)
	}
	if len(o) > 0 {
		t.Fatalf("unknown parameters %v", o)
	}
	return p
}

// section returns the part of a description that begins with the given words.
func section(text, head string) string {
	var b strings.Builder
	in := false
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "  ") {
			in = head == "" || strings.HasPrefix(line, head)
		}
		if in {
			b.WriteString(line + "\n")
		}
	}
	return cmp.Or(b.String(), "nothing\n")
}
